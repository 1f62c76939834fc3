"""Packs a store into a new ASDF file: a tree that the asdf library reads, and a block for each file of numbers.

Whole properties become nodes.  Everything else is kept as files, so that unpacking restores every byte (docs/daf.md).
Bytes do not pass through Python: the kernel copies or shares them.  A store in which a property is not whole is
refused, unless the caller asks to keep such files.  For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

from asdffs.errors import InvalidStoreError
from asdffs.features.daf.descriptors import build_descriptor, build_scalar, build_version
from asdffs.features.daf.eltypes import STRING
from asdffs.features.daf.files import Files, OnDisk, empty_directories, read_directory
from asdffs.features.daf.nodes import (
    Writer,
    encoded_path,
    inline_lines,
    inline_text,
    keys_of,
    list_node,
    put,
    render,
    version_node,
)
from asdffs.features.daf.places import DAF, JSON, SECTIONS, SENTINEL, Key, is_axis_directory, place_of
from asdffs.features.daf.properties import ArrayProperty, Properties, find_properties, part_type
from asdffs.format.block_form import RULES_1
from asdffs.format.block_header import new_header
from asdffs.format.padding import Padding
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.sharing import Stretch
from asdffs.workflows.assembling import Assembly, Part, RoomPolicy

#: Header and first lines of a new file.
HEAD: Final = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


#: Alignment of large contents, in bytes.  The kernel copies aligned data by whole folios of pages, nearly twice as
#: fast, and can share it on file systems with reflinks.
_ALIGNMENT: Final = 1 << 16
_LARGE: Final = 1 << 20


class Packing:
    """A store to be packed.  ``blocks``: paths of the files that get a block, in order; ``found``: its properties."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.found = find_properties(files)
        self.blocks = [path for path in _in_order(files, self.found) if needs_block(files, self.found, path)]

    @property
    def size(self) -> int:
        """Number of bytes that go into blocks."""
        return sum(self.files.contents[path].size for path in self.blocks)

    @property
    def paths(self) -> Iterator[str]:
        """The paths of the files on the disk."""
        return (content.path for content in self.files.contents.values() if isinstance(content, OnDisk))

    def check(self, *, keep: bool) -> None:
        """Raise ``InvalidStoreError`` if this is not a store; without ``keep``, also if a property is not whole."""
        if self.found.version is None:
            sentence = next((fault.sentence for fault in self.found.faults if fault.path == SENTINEL), "is missing")
            raise InvalidStoreError(f"{sentence}; nothing was written", path=self.files.shown(SENTINEL))
        faults = [fault for fault in self.found.faults if not fault.kept]
        if faults and not keep:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            sentence = f"{faults[0].sentence}{more}; repair it, or keep such files as they are with --keep"
            raise InvalidStoreError(sentence, path=self.files.shown(faults[0].path))

    def text(self) -> bytes:
        """Return the header and the tree of the new file."""
        numbers = {path: number for number, path in enumerate(self.blocks)}

        def number_of(path: str) -> int:
            if path not in numbers:
                sentence = "changed while it was read; nothing was written: try again"
                raise InvalidStoreError(sentence, path=self.files.shown(path))
            return numbers[path]

        tree = {DAF: store_node(self.files, self.found, Writer(self.files, number_of))}
        return (HEAD + "".join(render(tree)) + "...\n").encode()

    def write(self, folder: Folder, store: Backend, padding: Padding, step: Callable[[int], object]) -> None:
        """Write the whole file into the empty ``store`` of ``folder``.  Raises ``InvalidStoreError``, ``OSError``."""
        new = Assembly(
            folder,
            store,
            self.text(),
            room=RoomPolicy(padding, _ALIGNMENT, _LARGE),
            filler=b" ",
            clones=True,
            indexed=True,
            step=step,
        )
        header = new_header(RULES_1)
        for path in self.blocks:
            content = self.files.contents[path]
            if not isinstance(content, OnDisk):
                raise TypeError("a store is packed from a directory")
            with closing(content.opened()) as opened:
                new.add(Part(header.with_used(content.size), Stretch(opened, 0, content.size)))
        new.finish()
        for content in self.files.contents.values():
            if isinstance(content, OnDisk):
                content.check_same()


def pack(path: str) -> Packing:
    """Return a packing of the store in the directory ``path``.  Raises as ``read_directory``, ``OSError``."""
    return Packing(read_directory(path))


def _in_order(files: Files, found: Properties) -> list[str]:
    """Return the paths of files that may get a block, in order: axes, arrays, kept files."""
    paths = [Key("axis", (), name).path("txt") for name in found.axes]
    paths += [key.path(part) for key, array in found.arrays.items() for part in array.parts]
    return paths + found.unknown + spelled_otherwise(files, found)


def needs_block(files: Files, found: Properties, path: str) -> bool:
    """Return whether the bytes of a file go into a block instead of the tree."""
    if not files.contents[path].size:
        return False
    key_part = _part_of(found, path)
    if path in found.unknown or path.endswith(f".{JSON}"):
        return inline_text(files, path) is None
    if key_part is not None and part_type(*key_part).name != STRING:
        return True
    return inline_lines(files, path) is None


def _part_of(found: Properties, path: str) -> tuple[ArrayProperty, str] | None:
    place = place_of(path)
    array = found.arrays.get(place[0]) if place is not None else None
    return (array, place[1]) if array is not None and place is not None else None


def store_node(files: Files, found: Properties, writer: Writer) -> dict[str, Any]:
    """Return the mapping ``daf`` of the tree."""
    tree: dict[str, Any] = {}
    if found.version is not None:
        tree["version"] = version_node(found.version)
    for section in SECTIONS:
        if section in files.directories:
            tree[section] = {}
    for directory in sorted(path for path in files.directories if is_axis_directory(path)):
        put(tree, tuple(directory.split("/")), {})
    for key, scalar in found.scalars.items():
        put(tree, keys_of(key), writer.scalar(scalar))
    for name, count in found.axes.items():
        key = Key("axis", (), name)
        put(tree, keys_of(key), writer.lines(key.path("txt"), count))
    for key, array in found.arrays.items():
        put(tree, keys_of(key), writer.array(array))
    kept = files_node(files, found, writer)
    if kept:
        tree["files"] = kept
    return tree


def files_node(files: Files, found: Properties, writer: Writer) -> dict[str, Any]:
    """Return the mapping ``files``: unknown files, spellings, empty directories, and missing sections."""
    node: dict[str, Any] = {}
    for name, paths in (("verbatim", found.unknown), ("spelled", spelled_otherwise(files, found))):
        if paths:
            node[name] = {encoded_path(path): writer.kept(path) for path in sorted(paths)}
    empty = [path for path in empty_directories(files) if path not in SECTIONS and not is_axis_directory(path)]
    if empty:
        node["dirs"] = list_node([encoded_path(path) for path in sorted(empty)])
    absent = [section for section in SECTIONS if section not in files.directories]
    if absent:
        node["absent"] = list_node(absent)
    return node


def spelled_otherwise(files: Files, found: Properties) -> list[str]:
    """Return the paths of JSON files that are not written as they would be rendered."""
    version = found.version or (1, 0)
    rendered = {key.path(JSON): build_scalar(scalar) for key, scalar in found.scalars.items()}
    rendered |= {
        key.path(JSON): build_descriptor(array.descriptor, version, counts=array.counts)
        for key, array in found.arrays.items()
    }
    if found.version is not None:
        rendered[SENTINEL] = build_version(version)
    return [path for path, raw in rendered.items() if files.whole(path) != raw]

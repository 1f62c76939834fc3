"""Packs a store into a new ASDF file, and unpacks the store of an ASDF file into a new directory.

The tree is one that the asdf library reads, with a block for each file of numbers.

Whole properties become nodes.  Everything else is kept as files, so that unpacking restores every byte (docs/daf.md).
Bytes do not pass through Python: the kernel copies or shares them.  A store in which a property is not whole is
refused, unless the caller asks to keep such files.  A new directory gets its name when it is complete; a failure
leaves nothing behind.  For one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

from asdffs.document.document import Document, Foreign
from asdffs.errors import (
    InvalidStoreError,
    MissingFileError,
    NameExistsError,
    NotPermittedError,
    Remedy,
    StaleFileError,
)
from asdffs.features.daf.files import Content, Files, OnDisk, pieces, read_directory, sorted_paths
from asdffs.features.daf.format import (
    DAF,
    JSON,
    SENTINEL,
    STRING,
    Key,
    build_descriptor,
    build_scalar,
    build_version,
    place_of,
)
from asdffs.features.daf.node_files import Stored
from asdffs.features.daf.nodes import (
    HEAD,
    Writer,
    encoded_path,
    inline_lines,
    inline_text,
    listed_directories,
    put,
    put_directories,
    put_lists,
    put_properties,
    render,
    version_node,
)
from asdffs.features.daf.properties import ArrayProperty, Properties, find_properties, part_type
from asdffs.features.daf.tree_files import TreeStore
from asdffs.format.block_header import RULES_1, new_header
from asdffs.format.layout import Padding
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.storage.copying import Stretch, transfer
from asdffs.storage.file_backend import FileFolder
from asdffs.workflows.assembling import Assembly, Part, RoomPolicy

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

    def write(self, folder: Folder, store: WriteBackend, padding: Padding, step: Callable[[int], object]) -> None:
        """Write the whole file into the empty ``store`` of ``folder``.  Raises ``InvalidStoreError``, ``OSError``."""
        new = Assembly(
            folder,
            store,
            self.text(),
            room=RoomPolicy(padding, _ALIGNMENT, _LARGE),
            filler=b" ",
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
    put_directories(tree, files.directories)
    put_properties(tree, found, writer, found.axes)
    for name, paths in (("verbatim", found.unknown), ("spelled", spelled_otherwise(files, found))):
        for path in sorted(paths):
            put(tree, ("files", name, encoded_path(path)), writer.kept(path))
    put_lists(tree, *listed_directories(files))
    return tree


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


# -- unpacking --


def check_faultless(store: TreeStore) -> None:
    """Raise ``InvalidStoreError`` if nodes of the tree cannot become files, because unpacking would lose them."""
    if store.faults:
        fault = store.faults[0]
        sentence = f"{fault.path}: {fault.sentence}; repair the tree"
        raise InvalidStoreError(sentence, path=store.files.name, remedy=Remedy.FORCE_WITHOUT)


def unpack(
    document: Document, files: Files, path: str, step: Callable[[int], object], *, mode: int, durable: bool
) -> None:
    """Write the ``files`` of ``document`` into the new directory ``path``.

    ``step`` is called with the number of bytes written.  ``mode``: permissions of the files.  ``durable``: fsync each
    file, each directory, and the parent of ``path``.

    Raises ``NameExistsError`` if ``path`` exists and is not an empty directory.  Raises ``MissingFileError`` if its
    parent does not exist.  Raises ``StaleFileError`` if the ASDF file changed meanwhile.  Raises ``AsdffsError``,
    ``OSError``.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise NameExistsError("already exists; choose another name", path=path)
    above, name = FileFolder(os.path.dirname(target)), os.path.basename(target)
    with _temporary(above, name) as temporary:
        for directory in sorted(files.directories):
            temporary.below(directory, create=True)
        for path in sorted_paths(files.contents):
            inner, leaf = os.path.split(path)
            _write(document, files.contents[path], temporary.below(inner), leaf, step, mode=mode, durable=durable)
        if durable:
            for directory in (*sorted(files.directories, reverse=True), ""):
                temporary.below(directory).sync()
        if document.foreign() is not Foreign.NO:
            raise StaleFileError("changed while it was read; nothing was written", path=document.path)
        with temporary.readable() as fd:
            os.fchmod(fd, 0o700 | mode | (mode & 0o444) >> 2)
        os.rename(os.path.basename(temporary.directory), name, src_dir_fd=above.fileno(), dst_dir_fd=above.fileno())
        if durable:
            above.sync()


@contextlib.contextmanager
def _temporary(above: FileFolder, name: str) -> Iterator[FileFolder]:
    """Create a temporary directory for ``name`` in ``above``; it is removed at the end unless it was renamed.

    Who may write ``above`` may exchange it: then ``NotPermittedError`` is raised, or our own directory goes on.
    """
    own = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        os.mkdir(own, 0o700, dir_fd=above.fileno())
    except FileNotFoundError as err:
        raise MissingFileError("is not a directory; create it first", path=above.directory) from err
    try:
        temporary = above.below(own)
        if os.fstat(temporary.fileno()).st_uid != os.geteuid():
            raise NotPermittedError("was exchanged by another user; choose another directory", path=above.path(own))
        yield temporary
    finally:
        if above.has(own):
            shutil.rmtree(own, dir_fd=above.fileno())


def _write(
    document: Document,
    content: Content,
    folder: FileFolder,
    name: str,
    step: Callable[[int], object],
    *,
    mode: int,
    durable: bool,
) -> None:
    with closing(folder.open(name, writable=True, create=True)) as new:
        new.truncate(content.size)
        stretch = _stretch(document, content)
        if stretch is not None:
            transfer(folder, stretch, new, 0, step)
        else:
            offset = 0
            for piece in pieces(content):
                new.write_at(offset, piece)
                offset += len(piece)
                step(len(piece))
        folder.set_mode(new, mode)
        if durable:
            new.sync()


def _stretch(document: Document, content: Content) -> Stretch | None:
    """Return the range of the file in which the bytes lie unchanged; None for compressed or computed content."""
    window = content.window if isinstance(content, Stored) else None
    if window is None or document.blocks[window[0]].header.compressed:
        return None
    stored = document.contents.stored_stretch(window[0])
    return Stretch(stored.backend, stored.offset + window[1], content.size)

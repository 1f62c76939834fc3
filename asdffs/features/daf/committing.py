"""One commit of a mounted store: whole properties become nodes and blocks of the tree, the rest stays as files.

Order of writes, so that a crash at any point leaves the old or the new tree, with complete blocks and its log:

1. New data goes durably into new or free blocks.
2. The log of the new tree is written beside the old log.
3. The text of the tree is changed, through the document's journal.
4. The new log replaces the old one.
5. Loose files that the tree has now are removed, and blocks that it no longer refers to are emptied.

An entry of the tree that did not change is not rewritten; its comments stay.  The caller holds the main lock and the
store's ``lock``; the main lock is released while this waits for the disk.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, InvalidStoreError, NotSupportedError, Remedy, TreeChangedError
from asdffs.features.daf.files import Files, count_lines
from asdffs.features.daf.format import DAF, JSON, SENTINEL, Key, parse_version, place_of
from asdffs.features.daf.live_file import CurrentContent, LiveFile
from asdffs.features.daf.loose import Loose, LooseFiles
from asdffs.features.daf.node_files import Stored
from asdffs.features.daf.nodes import (
    KEPT,
    Writer,
    encoded_path,
    listed_directories,
    put,
    put_directories,
    put_lists,
    put_properties,
    version_node,
)
from asdffs.features.daf.packing import spelled_otherwise
from asdffs.features.daf.properties import Properties, take_property
from asdffs.features.daf.room import BlockRoom, New
from asdffs.features.daf.splicing import changed
from asdffs.features.daf.tree_files import TreeStore, read_store
from asdffs.format.text import complete_last_line, standard_version

_ASDF: Final = "tag:stsci.edu:asdf/"
#: Placeholder for the number of a block that does not exist yet.
_MARK: Final = re.compile(b"\0([0-9]+)\0")

#: What is committed together: a property, or the path of a file that is not part of one.
Unit = Key | str


def unit_of(path: str) -> Unit:
    """Return the unit with which the file at ``path`` is committed."""
    place = place_of(path)
    return path if place is None else place[0]


class Committed(Protocol):
    """The part of the mounted store that a commit needs; see ``LiveStore``."""

    document: Document
    room: BlockRoom
    spool: LooseFiles
    tree: TreeStore

    @property
    def held_blocks(self) -> set[int]:
        """Numbers of the blocks of open files that have no name."""

    def walk(self) -> tuple[dict[str, LiveFile], set[str]]:
        """Return all files by path, and the paths of all directories."""

    def is_committed(self, path: str, file: LiveFile) -> bool:
        """Return whether the tree has the present content of ``file`` at ``path``."""

    def adopt(self, tree: TreeStore, taken: Mapping[str, tuple[LiveFile, Loose | None]]) -> None:
        """Make ``tree`` the state that the files show."""

    def prepare_log(self, text: bytes, taken: set[str]) -> None:
        """Write the log of the tree ``text``, before that is committed."""


class Commit:
    """One commit of ``store``.

    ``final``: files that are not part of a whole property, or not yet, are committed as files.
    ``anew``: every entry is rewritten.  ``only``: of the loose files, commit only those of these units.
    """

    def __init__(
        self, store: Committed, *, final: bool, anew: bool = False, only: frozenset[Unit] | None = None
    ) -> None:
        self._store = store
        self._document = store.document
        self._final = final
        self._anew = anew
        self._only = only
        self._paths, self._directories = store.walk()
        self._loose = {path: file.loose for path, file in self._paths.items()}
        contents = {path: CurrentContent(file) for path, file in self._paths.items()}
        self._files = Files(store.document.path, dict(contents), self._directories)
        self._units: dict[Unit, list[str]] = {}
        for path in self._paths:
            self._units.setdefault(unit_of(path), []).append(path)
        self._found = Properties()
        self._taken: set[str] = set()
        self._packed: set[str] = set()
        self._new_blocks: dict[LiveFile, tuple[int, New]] = {}

    @property
    def loose_units(self) -> list[Unit]:
        """Units that have loose files, the smallest first."""
        sizes: dict[Unit, int] = {}
        for path, loose in self._loose.items():
            if loose is not None:
                sizes[unit_of(path)] = sizes.get(unit_of(path), 0) + loose.size
        return sorted(sizes, key=lambda unit: sizes[unit])

    def run(self) -> None:
        """Run the commit.  Raises ``KeptEntryError``, ``TreeChangedError``, ``AsdffsError``, ``OSError``."""
        store, room = self._store, self._store.room
        contents = store.tree.files.contents.values()
        before = {content.block for content in contents if isinstance(content, Stored)} - {None}
        old, new = self._old(), self._new()
        if old != new:
            try:
                self._change_tree(old, new)
            except (AsdffsError, OSError):  # free its blocks, or the next try allocates as many again
                with contextlib.suppress(AsdffsError, OSError):
                    room.tidy(store.held_blocks)
                raise
            store.spool.restart()
        tree = read_store(self._document)
        store.adopt(tree, {path: (self._paths[path], self._loose[path]) for path in self._taken})
        for loose in {loose for path in self._taken if (loose := self._loose[path]) is not None}:
            loose.drop()
        room.drop({number for number in before if number is not None} - room.referenced())
        room.tidy(store.held_blocks)

    def _change_tree(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        document = self._document
        text, version = document.tree.text(), document.tree.version
        if version != self._store.tree.generation:
            raise TreeChangedError("the tree was changed meanwhile", path=document.path)
        with document.scheduler.waiting():  # slow for large trees; fails before blocks are written if it must fail
            draft = changed(text, {DAF: old}, {DAF: new})
        numbers = self._store.room.write([new for _, new in self._new_blocks.values()], self._store.held_blocks)
        try:
            draft = _MARK.sub(lambda match: b"%d" % numbers[int(match[1])], draft)
            self._store.prepare_log(complete_last_line(draft), self._taken)
            document.commit_tree(draft, over=version)
        except BaseException:  # nothing refers to the new blocks
            self._store.room.drop(set(numbers))
            raise

    # -- the entries of the tree ------------------------------------------------

    def _old(self) -> dict[str, Any]:
        """Return the present entries of the tree, each as ``KEPT``; lists have their values, to be compared."""
        tree, node = self._store.tree, dict[str, Any]()
        for keys in tree.nodes:
            put(node, keys, KEPT)
        put_directories(node, tree.files.directories)
        for name in tree.kept.values():
            put(node, ("files", "verbatim", name), KEPT)
        for name in tree.spellings:  # includes obsolete ones, so that they are removed
            put(node, ("files", "spelled", name), KEPT)
        put_lists(node, tree.directories, tree.absent)
        return node

    def _new(self) -> dict[str, Any]:
        """Return the entries that the tree is to have."""
        node: dict[str, Any] = {}
        writer = Writer(self._files, self._number, ndarray_tag(self._document))
        self._take_version(node)
        put_directories(node, self._directories)
        self._take_properties(node, writer)
        self._take_spellings(node, writer)
        self._take_files(node, writer)
        put_lists(node, *listed_directories(self._files))
        return node

    def _is_stored(self, path: str) -> bool:
        """Return whether the tree has the present file at this path, unless every entry is rewritten."""
        file = self._paths.get(path)
        return not self._anew and file is not None and self._store.is_committed(path, file)

    def _is_ready(self, path: str) -> bool:
        """Return whether a file can be committed now: it is in a block already, or no handle may write to it."""
        file = self._paths[path]
        if self._loose[path] is None:  # writes go into its block, unless the commit gives it another block
            return not (file.writers and isinstance(file.content, Stored) and file.block is None)
        if self._only is not None and unit_of(path) not in self._only:
            return False
        return self._final or not file.writers

    def _take_version(self, node: dict[str, Any]) -> None:
        """Take ``daf.json``: as the tree has it, or parsed again."""
        tree = self._store.tree
        if self._is_stored(SENTINEL):
            self._found.version = tree.version
            if ("version",) in tree.nodes and SENTINEL not in tree.kept:
                node["version"] = KEPT
        elif SENTINEL in self._paths and self._is_ready(SENTINEL):
            with contextlib.suppress(InvalidStoreError):
                self._found.version = parse_version(self._files.whole(SENTINEL))
                node["version"] = version_node(self._found.version)
                self._taken.add(SENTINEL)

    def _take_properties(self, node: dict[str, Any], writer: Writer) -> None:
        """Take unchanged properties, and changed ones that are whole and not being written."""
        changed_ones: dict[Key, list[str]] = {}
        same: dict[Key, list[str]] = {}
        for unit, paths in self._units.items():
            if not isinstance(unit, Key):
                continue
            if self._is_unchanged(unit, paths):
                same[unit] = paths
            elif all(map(self._is_ready, paths)):
                changed_ones[unit] = paths
        axes = {key.name for key in changed_ones if key.kind == "axis"}
        for unit, paths in same.items():
            if axes.isdisjoint(unit.axes):
                put(node, unit.keys, KEPT)
            else:  # the length of a sparse array is known from its axis only
                changed_ones[unit] = paths
        self._count_axes(changed_ones)
        for key in sorted(changed_ones, key=lambda key: (key.kind != "axis", key)):
            parts = sorted(path.rpartition(".")[2] for path in changed_ones[key])
            take_property(self._found, self._files, key, parts)
            self._taken.update(path for path in changed_ones[key] if path not in self._found.unknown)
        described = {fault.path for fault in self._found.faults if fault.kept and fault.path.endswith(f".{JSON}")}
        whole = [paths for paths in changed_ones.values() if not described.isdisjoint(paths)]
        self._packed = {path for paths in whole for path in paths}
        places = filter(None, map(place_of, sorted(self._taken)))
        names = [key.name for key, _ in places if key.kind == "axis"]
        put_properties(node, self._found, writer, names)

    def _is_unchanged(self, key: Key, paths: list[str]) -> bool:
        """Return whether the tree has this property as it is.

        A sparse descriptor depends on the version of the store, so an array is unchanged only if that is.
        """
        tree = self._store.tree
        same = key.keys in tree.nodes and tree.units.get(key) == set(paths) and all(map(self._is_stored, paths))
        return same and (key.kind in ("scalar", "axis") or tree.version == self._found.version)

    def _count_axes(self, units: dict[Key, list[str]]) -> None:
        """Count the entries of axes that ``units`` refer to and do not contain."""
        for axis in {axis for key in units for axis in key.axes}:
            key = Key("axis", (), axis)
            if key not in units and key.path("txt") in self._files.contents:
                with contextlib.suppress(InvalidStoreError):
                    self._found.axes[axis] = count_lines(self._files.contents[key.path("txt")])

    def _take_spellings(self, node: dict[str, Any], writer: Writer) -> None:
        """Take the spelling of JSON files that are not written as they would be rendered."""
        for path in sorted(spelled_otherwise(self._files, self._found)):
            put(node, ("files", "spelled", encoded_path(path)), writer.kept(path))
        for path, name in self._store.tree.spelled.items():
            if self._is_stored(path) and path not in self._taken and _is_kept(node, path):
                put(node, ("files", "spelled", name), KEPT)

    def _take_files(self, node: dict[str, Any], writer: Writer) -> None:
        """Take files that are not part of a property."""
        kept = self._store.tree.kept
        rest = [path for path in sorted(self._paths) if path not in self._taken and not _is_kept(node, path)]
        waiting = [path for path in rest if not self._is_file(path)]
        for path in rest:
            if self._is_stored(path) and path in kept:
                put(node, ("files", "verbatim", kept[path]), KEPT)
            elif path not in waiting:
                self._take_file(node, writer, path)
        taken = {self._paths[path] for path in self._taken if self._loose[path] is not None}
        for path in waiting:  # hard links to files that this commit takes
            if self._paths[path] in taken:
                self._take_file(node, writer, path)

    def _take_file(self, node: dict[str, Any], writer: Writer, path: str) -> None:
        put(node, ("files", "verbatim", encoded_path(path)), writer.kept(path))
        self._taken.add(path)

    def _is_file(self, path: str) -> bool:
        """Return whether to keep it as a file now.  A loose file may become part of a property when others follow."""
        if self._loose[path] is None:
            return True
        if path in self._packed:  # a packed property is kept as files
            return True
        return self._is_ready(path) and (self._final or (place_of(path) is None and path != SENTINEL))

    def _number(self, path: str) -> str:
        """Return the number of a file's block, or a placeholder if the block does not exist yet."""
        file = self._paths[path]
        number = file.block if file.loose is None else None
        if number is not None:
            return str(number)
        new = New(CurrentContent(file), growing=place_of(path) is None)
        return f"\0{self._new_blocks.setdefault(file, (len(self._new_blocks), new))[0]}\0"


def _is_kept(node: dict[str, Any], path: str) -> bool:
    """Return whether the property to which ``path`` belongs stays as it is written."""
    place = place_of(path)
    keys = ("version",) if path == SENTINEL else place[0].keys if place is not None else ()
    found: Any = node if keys else None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found is KEPT


def ndarray_tag(document: Document) -> str:
    """Return the tag of a new ndarray as the tree writes it.

    It is the tag of the first array, else the one of the file's ASDF Standard, shortened if the tree declares
    ``%TAG !``.  Raises ``NotSupportedError`` for a file of a draft format.
    """
    if document.dialect.upgradable:
        raise NotSupportedError(
            "a file of a draft format cannot take new arrays", path=document.path, remedy=Remedy.UPGRADE
        )
    outline = document.outlines.outline()
    standard = standard_version(document.read_raw(0, document.layout.text_start)) or "1.6.0"
    old = standard in ("1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0", "1.5.0")
    tag = next((branch.tag for branch in outline.arrays), f"{_ASDF}core/ndarray-1.{0 if old else 1}.0")
    if f"%TAG ! {_ASDF}\n" in outline.prefix.replace("\r", ""):
        return "!" + tag.removeprefix(_ASDF)
    return f"!<{tag}>"

"""Reads the store below the key ``daf`` of a tree as files (docs/daf.md, From the tree to files).

Properties are read one by one (``node_files``).  Then files that are kept as files are added, and spellings, which
are used only while they mean the same as the tree.  Nodes that FilesDaf cannot represent are left out, with a fault.

The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, InvalidStoreError, MissingFileError
from asdffs.features.daf.files import Bytes, Content, Files, above, count_lines, pieces
from asdffs.features.daf.format import (
    DAF,
    JSON,
    SECTIONS,
    SENTINEL,
    Key,
    Kind,
    Version,
    build_version,
    parse_descriptor,
    parse_scalar,
    parse_version,
    place_of,
    supported,
)
from asdffs.features.daf.node_files import NodeFiles, child_of, entries_of, items_of, line_of, text_of
from asdffs.features.daf.properties import Fault
from asdffs.scheduling import yielding
from asdffs.tree.values import ValueNode, read_values


class TreeStore:
    """A store as read from a tree.

    * ``files``: its files; ``faults``: nodes that could not become files
    * ``version``: of the store; None if the tree has none
    * ``nodes``: paths of the properties in the tree; ``units``: paths of the files of each property
    * ``kept``: name in the tree of each file that is kept as a file
    * ``spelled``: name in the tree of each spelling that is used; ``spellings``: names of all spellings
    * ``directories``: empty directories that the tree lists; ``absent``: sections that the store does not have
    * ``generation``: of the tree (``TreeEditor.version``)
    """

    def __init__(self, files: Files, generation: int = -1) -> None:
        self.files = files
        self.version: Version | None = None
        self.faults: list[Fault] = []
        self.nodes: set[tuple[str, ...]] = set()
        self.units: dict[Key, set[str]] = {}
        self.kept: dict[str, str] = {}
        self.spelled: dict[str, str] = {}
        self.spellings: set[str] = set()
        self.directories: set[str] = set()
        self.absent: set[str] = set()
        self.generation = generation


def carries_store(document: Document) -> bool:
    """Return whether the tree has a mapping ``daf``.  Cheap if the text does not contain it.  Raises ``OSError``."""
    try:
        return _store_node(document, document.tree.text()) is not None
    except AsdffsError:
        return False


def _store_node(document: Document, text: bytes) -> ValueNode | None:
    """Return the mapping ``daf`` of a tree, None without one.  Releases the main lock while the text is parsed.

    Raises ``InvalidTreeError``.
    """
    if DAF.encode() not in text:
        return None
    with document.scheduler.waiting():
        root = read_values(text, distinguish_quoted=False).value
    node = root.get(DAF) if isinstance(root, dict) else None
    return node if node is not None and isinstance(node.value, dict) else None


def read_store(document: Document) -> TreeStore:
    """Read the store of a document.

    Raises ``MissingFileError`` without one, ``InvalidStoreError`` for a version that is not supported,
    ``InvalidTreeError``, ``OSError``.
    """
    text, generation = document.tree.text(), document.tree.version
    node = _store_node(document, text)
    if node is None:
        raise MissingFileError(f"has no FilesDaf store: the tree has no mapping {DAF!r}", path=document.path)
    try:
        store = _Reader(document, node).read()
    except InvalidStoreError as err:
        err.path = err.path or document.path
        raise
    store.generation = generation
    return store


class _Reader:
    """Reads the mapping ``daf``."""

    def __init__(self, document: Document, node: ValueNode) -> None:
        self._nodes = NodeFiles(document)
        self._scheduler = document.scheduler
        self._node = node
        self._found = TreeStore(Files(document.path))

    def read(self) -> TreeStore:
        found, files = self._found, self._found.files
        self._read_version()
        found.absent = self._listed("absent")
        files.directories |= set(SECTIONS) - found.absent
        for name, node in yielding(self._scheduler, entries_of(self._child("scalars"))):
            self._take(Key("scalar", (), name), node, self._nodes.scalar)
        for name, node in yielding(self._scheduler, entries_of(self._child("axes"))):
            self._take(Key("axis", (), name), node, self._nodes.axis)
        self._read_arrays("vector", entries_of(self._child("vectors")), "vectors", ())
        self._read_arrays("matrix", entries_of(self._child("matrices")), "matrices", ())
        self._read_kept()
        self._read_spelled()
        self._check_shapes()
        found.directories = self._listed("dirs")
        files.directories |= found.directories
        files.directories |= above(files.contents) | above(files.directories)
        for path in sorted(files.directories & files.contents.keys()):
            found.faults.append(Fault(path, "in the tree: it is both a file and a directory"))
            files.directories -= {other for other in files.directories if f"{other}/".startswith(f"{path}/")}
            for other in [other for other in files.contents if other.startswith(f"{path}/")]:
                files.contents.pop(other)
        return found

    def _child(self, name: str) -> ValueNode | None:
        return child_of(self._node, name)

    def _listed(self, name: str) -> set[str]:
        """Return the directories in a list of ``files``."""
        found = set()
        for node in items_of(child_of(self._child("files"), name)):
            try:
                found.add(_decoded(node))
            except InvalidStoreError as err:
                self._found.faults.append(Fault(name, f"in the tree: {err.sentence}"))
        return found

    def _read_version(self) -> None:
        node = self._child("version")
        numbers = [item.value for item in items_of(node)]
        if node is None:
            return
        if len(numbers) != 2 or not all(isinstance(number, int) for number in numbers):
            self._found.faults.append(Fault(SENTINEL, "the tree has a version that is not a pair of integers"))
            return
        self._found.version = self._nodes.version = supported(numbers[0], numbers[1])
        self._found.nodes.add(("version",))
        self._found.files.contents[SENTINEL] = Bytes(build_version(self._found.version))

    def _read_arrays(self, kind: Kind, entries: Any, section: str, axes: tuple[str, ...]) -> None:
        """Read vectors (below one axis) or matrices (below two axes)."""
        depth = 1 if kind == "vector" else 2
        for name, node in yielding(self._scheduler, entries):
            if len(axes) == depth:
                self._take(Key(kind, axes, name), node, self._nodes.array)
            else:
                directory = "/".join((section, *axes, name))
                try:
                    _check_path(directory)
                except InvalidStoreError as err:
                    self._found.faults.append(Fault(section, f"in the tree{line_of(node)}: {err.sentence}"))
                    continue
                self._found.files.directories.add(directory)
                self._read_arrays(kind, entries_of(node), section, (*axes, name))

    def _take(self, key: Key, node: ValueNode, read: Any) -> None:
        """Add the files of one property; a node that is not a valid property is a fault."""
        first = key.path("txt" if key.kind == "axis" else JSON)
        try:
            contents = read(key, node)
            for path in contents:
                _check_path(path)
                if (place_of(path) or (None,))[0] != key:
                    raise InvalidStoreError(f"the name {key.name!r} cannot be a file name")
            self._found.files.contents.update(contents)
            self._found.nodes.add(key.keys)
            self._found.units[key] = set(contents)
        except AsdffsError as err:
            self._found.faults.append(Fault(first, f"in the tree{line_of(node)}: {err.sentence}"))

    def _read_kept(self) -> None:
        """Read files that are kept as files."""
        files = self._found.files
        for path, name, node in self._kept_files("verbatim"):
            if path in files.contents:
                self._found.faults.append(Fault(path, f"in the tree{line_of(node)}: it occurs twice"))
            else:
                with self._faulty(path, node):
                    files.contents[path] = self._nodes.kept(node, ("files", "verbatim", name))
                    self._found.kept[path] = name

    def _read_spelled(self) -> None:
        """Read spellings of JSON files, and use those that mean the same as the tree."""
        files = self._found.files
        for path, name, node in self._kept_files("spelled"):
            self._found.spellings.add(name)
            rendered = path in files.contents and path not in self._found.kept
            with self._faulty(path, node):
                content = self._nodes.kept(node, ("files", "spelled", name)) if rendered else Bytes(b"")
                if rendered and _says_the_same(files, path, content, self._nodes.counts.get(path, {})):
                    files.contents[path] = content
                    self._found.spelled[path] = name

    def _kept_files(self, name: str) -> Iterator[tuple[str, str, ValueNode]]:
        """Yield the path, the name in the tree, and the node of each file in a mapping of ``files``."""
        for key, node in entries_of(child_of(self._child("files"), name)):
            path = unquote_to_bytes(key).decode("utf-8", "surrogateescape")
            with self._faulty(path, node):
                _check_path(path)
                yield path, key, node

    @contextlib.contextmanager
    def _faulty(self, path: str, node: ValueNode) -> Iterator[None]:
        """Turn errors inside the block into a fault of the file ``path``."""
        try:
            yield
        except AsdffsError as err:
            self._found.faults.append(Fault(path, f"in the tree{line_of(node)}: {err.sentence}"))

    def _check_shapes(self) -> None:
        """Check the length of each axis of each array; the size of a file shows only their product."""
        lengths: dict[str, int | None] = {}
        for key, shape in self._nodes.shapes.items():
            for axis in key.axes:
                if axis not in lengths:
                    lengths[axis] = self._length(axis)
            wanted = tuple(lengths[axis] for axis in key.axes)
            if None not in wanted and wanted != shape:
                sentence = f"in the tree: its shape is {list(shape)}, but its axes have {list(wanted)} entries"
                self._found.faults.append(Fault(key.path(JSON), sentence))

    def _length(self, axis: str) -> int | None:
        content = self._found.files.contents.get(Key("axis", (), axis).path("txt"))
        try:
            return None if content is None else count_lines(content)
        except AsdffsError:
            return None


def _says_the_same(files: Files, path: str, content: Content, counts: dict[str, int]) -> bool:
    """Return whether a kept JSON file means the same as the tree now.

    ``counts``: number of elements of each part of a sparse array.
    """
    rendered, kept, place = files.whole(path), b"".join(pieces(content)), place_of(path)
    try:
        if place is None:
            return parse_version(rendered) == parse_version(kept)
        if place[0].kind == "scalar":
            return parse_scalar(rendered) == parse_scalar(kept)
        matrix = place[0].kind == "matrix"
        ours, theirs = parse_descriptor(rendered, matrix=matrix), parse_descriptor(kept, matrix=matrix)
    except InvalidStoreError:
        return False
    same = (ours.format, ours.eltype, ours.indtype) == (theirs.format, theirs.eltype, theirs.indtype)
    valued = theirs.valued is None or theirs.valued == ("nzval" in counts)
    return same and valued and theirs.counts.items() <= counts.items()


def _decoded(node: ValueNode) -> str:
    """Return the path of a directory in a list.  Raises ``InvalidStoreError``."""
    path = unquote_to_bytes(text_of(node)).decode("utf-8", "surrogateescape")
    _check_path(path)
    return path


def _check_path(path: str) -> None:
    """Raise ``InvalidStoreError`` for a path that leads out of the store or is not normalized."""
    if "\0" in path or not all(name not in ("", ".", "..") for name in path.split("/")):
        raise InvalidStoreError(f"{path!r} is not a path in a store")

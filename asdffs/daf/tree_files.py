"""The store that the tree of an ASDF file has below the key ``daf``, as files (docs/daf.md, From the tree to files).

Properties are read one by one (``node_files``); files that are kept as files, and spellings, which count as long as
they say the same, come on top.  What the tree has there and FilesDaf cannot have is left out, with a fault.
The caller holds the main lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from asdffs.daf.descriptors import (
    Version,
    build_version,
    parse_descriptor,
    parse_scalar,
    parse_version,
)
from asdffs.daf.entries import child_of, entries_of, items_of, line_of, text_of
from asdffs.daf.files import Bytes, Content, Files, above, pieces
from asdffs.daf.lines import count_lines
from asdffs.daf.node_files import NodeFiles
from asdffs.daf.nodes import keys_of
from asdffs.daf.places import DAF, JSON, SECTIONS, SENTINEL, Key, Kind, mentions_store, place_of
from asdffs.daf.properties import Fault
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, InvalidStoreError, MissingFileError
from asdffs.scheduling import yielding
from asdffs.tree.values import ValueNode, read_values


@dataclass(slots=True)
class TreeStore:
    """A store of a tree: its ``files``, and what of the tree could not be any.  ``version``: None where it says none.

    ``nodes``: where in the tree the properties are, ``units``: the files of each; ``kept``, ``spelled``: the name in
    the tree of each file that is kept, or of which the spelling counts; ``spellings``: all names of these;
    ``directories``: empty ones that the tree lists, ``absent``: those of every store that are not there;
    ``generation``: of the tree (``TreeEditor.version``).
    """

    files: Files
    version: Version | None = None
    faults: list[Fault] = field(default_factory=list)
    nodes: set[tuple[str, ...]] = field(default_factory=set)
    units: dict[Key, set[str]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    spelled: dict[str, str] = field(default_factory=dict)
    spellings: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    generation: int = -1

    @classmethod
    def empty(cls, document: Document) -> TreeStore:
        """Of a file that carries none."""
        return cls(Files(document.path), generation=document.tree.version)


def carries_store(document: Document) -> bool:
    """Whether the tree has such a key.  Cheap where it has none.  Raises ``OSError``."""
    try:
        return _store_node(document, document.tree.text()) is not None
    except AsdffsError:
        return False


def _store_node(document: Document, text: bytes) -> ValueNode | None:
    """The mapping ``daf`` of a tree; None without one.  Others are served meanwhile.  Raises ``InvalidTreeError``."""
    if not mentions_store(text):
        return None
    with document.scheduler.waiting():
        root = read_values(text, told_apart=False).value
    node = root.get(DAF) if isinstance(root, dict) else None
    return node if node is not None and isinstance(node.value, dict) else None


def read_store(document: Document) -> TreeStore:
    """The store in a document.  Raises ``MissingFileError`` when there is none, ``InvalidTreeError``, ``OSError``."""
    text, generation = document.tree.text(), document.tree.version
    node = _store_node(document, text)
    if node is None:
        raise MissingFileError(f"carries no FilesDaf store: the tree has no mapping {DAF!r}", path=document.path)
    store = _Reader(document, node).read()
    store.generation = generation
    return store


class _Reader:
    """Goes through the mapping ``daf``."""

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
            found.faults.append(Fault(path, "in the tree: it is a file and a directory"))
            files.directories -= {other for other in files.directories if f"{other}/".startswith(f"{path}/")}
            for other in [other for other in files.contents if other.startswith(f"{path}/")]:
                files.contents.pop(other)
        return found

    def _child(self, name: str) -> ValueNode | None:
        return child_of(self._node, name)

    def _listed(self, name: str) -> set[str]:
        """The directories in a list of ``files``."""
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
            self._found.faults.append(Fault(SENTINEL, "the tree has a version that is no pair of integers"))
            return
        self._found.version = self._nodes.version = numbers[0], numbers[1]
        self._found.nodes.add(("version",))
        self._found.files.contents[SENTINEL] = Bytes(build_version(self._found.version))

    def _read_arrays(self, kind: Kind, entries: Any, section: str, axes: tuple[str, ...]) -> None:
        """Vectors below their axis, matrices below two."""
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
        """Take the files of one property; what cannot be one is a fault."""
        first = key.path("txt" if key.kind == "axis" else JSON)
        try:
            contents = read(key, node)
            for path in contents:
                _check_path(path)
                if (place_of(path) or (None,))[0] != key:
                    raise InvalidStoreError(f"the name {key.name!r} cannot be one of a file")
            self._found.files.contents.update(contents)
            self._found.nodes.add(keys_of(key))
            self._found.units[key] = set(contents)
        except AsdffsError as err:
            self._found.faults.append(Fault(first, f"in the tree{line_of(node)}: {err.sentence}"))

    def _read_kept(self) -> None:
        """Files that are kept as files."""
        files = self._found.files
        for path, name, node in self._kept_files("verbatim"):
            if path in files.contents:
                self._found.faults.append(Fault(path, f"in the tree{line_of(node)}: it is there twice"))
            else:
                with self._faulty(path, node):
                    files.contents[path] = self._nodes.kept(node, ("files", "verbatim", name))
                    self._found.kept[path] = name

    def _read_spelled(self) -> None:
        """How JSON files are written that would be rendered otherwise, as long as they say what the tree says."""
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
        """Path, name in the tree, and node of each."""
        for key, node in entries_of(child_of(self._child("files"), name)):
            path = unquote_to_bytes(key).decode("utf-8", "surrogateescape")
            with self._faulty(path, node):
                _check_path(path)
                yield path, key, node

    @contextlib.contextmanager
    def _faulty(self, path: str, node: ValueNode) -> Iterator[None]:
        """What is wrong inside is a fault of the file ``path``."""
        try:
            yield
        except AsdffsError as err:
            self._found.faults.append(Fault(path, f"in the tree{line_of(node)}: {err.sentence}"))

    def _check_shapes(self) -> None:
        """An array is as long as its axes are, one by one; the size of its file tells only their product."""
        lengths: dict[str, int | None] = {}
        for key, shape in self._nodes.shapes.items():
            for axis in key.axes:
                if axis not in lengths:
                    lengths[axis] = self._length(axis)
            wanted = tuple(lengths[axis] for axis in key.axes)
            if None not in wanted and wanted != shape:
                sentence = f"in the tree: its shape is {list(shape)}, and its axes have {list(wanted)} entries"
                self._found.faults.append(Fault(key.path(JSON), sentence))

    def _length(self, axis: str) -> int | None:
        content = self._found.files.contents.get(Key("axis", (), axis).path("txt"))
        try:
            return None if content is None else count_lines(content)
        except AsdffsError:
            return None


def _says_the_same(files: Files, path: str, content: Content, counts: dict[str, int]) -> bool:
    """Whether a kept JSON file means what the tree says now; ``counts``: elements of the parts of a sparse array."""
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
    """A directory that a list names."""
    path = unquote_to_bytes(text_of(node)).decode("utf-8", "surrogateescape")
    _check_path(path)
    return path


def _check_path(path: str) -> None:
    """Raise ``InvalidStoreError`` for what would be a file elsewhere than in the store."""
    if "\0" in path or not all(name not in ("", ".", "..") for name in path.split("/")):
        raise InvalidStoreError(f"{path!r} is no path in a store")

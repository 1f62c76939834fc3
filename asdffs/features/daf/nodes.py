"""Makes the nodes of the tree for properties and files, as YAML text (docs/daf.md, The mapping).

A node is a string (one line in flow style), a dict of nodes (block style), or ``KEPT``.  Numbers of arrays go into
blocks.  Short strings, and short files that are kept as files, are written in the tree.  Pure except for reading
short files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from asdffs.errors import InvalidStoreError
from asdffs.features.daf.files import Files, empty_directories, parse_lines
from asdffs.features.daf.format import (
    JSON,
    SECTIONS,
    STRING,
    DafScalar,
    Eltype,
    Key,
    Version,
    in_int64,
    is_axis_directory,
)
from asdffs.features.daf.properties import ArrayProperty, Properties, expected_length, part_type

#: The largest size of text that is written in the tree, in bytes; longer text goes into a block.
INLINE: Final = 1024
#: Header and first lines of a new file.
HEAD: Final = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
#: Tag of ndarrays in a new tree (ASDF Standard 1.6.0).
NDARRAY: Final = "!core/ndarray-1.1.0"

#: Stands for a node that is in the tree and stays as it is written there.
KEPT: Final = object()

Node = Any

#: Longer keys need a question mark before them (YAML 1.2, section 7.4.2; the same in YAML 1.1).
_LONGEST: Final = 1000
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
#: Words that YAML 1.1 does not read as strings.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_UNPRINTABLE: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]')


class KeptEntryError(Exception):
    """A mapping must be rewritten and has an entry that must stay as it is written."""


def quoted(text: str) -> str:
    """Quote a string, in one line, so that YAML 1.1 and 1.2 read it back as a string."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return '"' + _UNPRINTABLE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04x}"


def encoded_path(path: str) -> str:
    """Encode a path for the tree: bytes that are not UTF-8, unprintable characters and ``%`` become ``%XX``."""
    return "".join(map(_encoded, path))


def _encoded(character: str) -> str:
    if character != "%" and character.isprintable():
        return character
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))


class Writer:
    """Makes nodes for ``files``; ``number(path)`` returns the block number of a file; ``tag``: of ndarrays."""

    def __init__(self, files: Files, number: Callable[[str], int | str], tag: str = NDARRAY) -> None:
        self._files = files
        self._number = number
        self._tag = tag

    def scalar(self, scalar: DafScalar) -> str:
        """Return ``{type: T, value: V}``; a value that a YAML reader could round or refuse becomes a string."""
        value = scalar.value
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = str(value) if scalar.eltype.integer and in_int64(value) else quoted(str(value))
            text = text if scalar.eltype.integer or scalar.eltype.name == STRING else f'"{value}"'
        return f"{{type: {scalar.eltype.name}, value: {text}}}"

    def lines(self, path: str, count: int, shape: tuple[int, ...] | None = None) -> str:
        """Return the node of a file of strings: a list, or its bytes; with ``shape`` for a matrix.

        ``count``: number of lines.
        """
        strings = inline_lines(self._files, path)
        if strings is None:
            text = self.ndarray(path, "uint8", (self._files.contents[path].size,))
            stated = f"shape: {_list(shape)}, " if shape else ""
            return f"{{format: lines, {stated}n: {count}, utf8: {text}}}"
        text = _texts(strings)
        return f"{{format: lines, shape: {_list(shape)}, values: {text}}}" if shape else text

    def array(self, array: ArrayProperty) -> str:
        """Return the node of a vector or matrix.  Raises ``InvalidStoreError`` for a sparse one without indices."""
        if array.descriptor.indtype is None:
            return self._part(array, array.parts[0])
        facts = [f"format: sparse, shape: {_list(array.shape)}, eltype: {array.eltype.name}"]
        facts += [f"{part}: {self._part(array, part)}" for part in array.parts]
        if "colptr" not in array.parts and "nzind" not in array.parts:
            raise InvalidStoreError("a sparse property needs indices", path=array.key.path(JSON))
        return f"{{{', '.join(facts)}}}"

    def _part(self, array: ArrayProperty, part: str) -> str:
        path, eltype = array.key.path(part), part_type(array, part)
        whole = part in ("data", "txt")
        if eltype.name == STRING:
            shape = array.shape if whole and len(array.shape) > 1 else None
            return self.lines(path, expected_length(array, part), shape)
        return self.ndarray(path, eltype.datatype, array.shape if whole else (expected_length(array, part),), eltype)

    def kept(self, path: str) -> str:
        """Return the node of a file that is kept as a file."""
        text = inline_text(self._files, path)
        return quoted(text) if text is not None else self.ndarray(path, "uint8", (self._files.contents[path].size,))

    def ndarray(self, path: str, datatype: str, shape: tuple[int, ...], eltype: Eltype | None = None) -> str:
        """Return an ndarray whose data is the block of a file, columns first as in the file.

        An empty file has no block; its ndarray is inline.
        """
        if not self._files.contents[path].size:
            return f"{self._tag} {{data: [], datatype: {datatype}, shape: {_list(shape)}}}"
        size = eltype.size if eltype is not None else 1
        strides = f", strides: {_list((size, size * shape[0]))}" if len(shape) > 1 else ""
        source = self._number(path)
        facts = f"source: {source}, datatype: {datatype}, byteorder: little, shape: {_list(shape)}{strides}"
        return f"{self._tag} {{{facts}}}"


def inline_lines(files: Files, path: str) -> list[str] | None:
    """Return the strings of a file if it is short enough to be written in the tree; else None."""
    if files.contents[path].size > INLINE:
        return None
    try:
        return parse_lines(files.whole(path))
    except InvalidStoreError:
        return None


def inline_text(files: Files, path: str) -> str | None:
    """Return the text of a file if it is UTF-8 and short enough to be written in the tree; else None."""
    if files.contents[path].size > INLINE:
        return None
    try:
        return files.whole(path).decode()
    except UnicodeDecodeError:
        return None


def version_node(version: Version) -> str:
    """Return the node of a version, such as ``[1, 0]``."""
    return _list(version)


def put_directories(tree: dict[str, Any], directories: set[str]) -> None:
    """Put the sections, and the directories of axes, that are among ``directories``."""
    for section in SECTIONS:
        if section in directories:
            tree.setdefault(section, {})
    for path in sorted(filter(is_axis_directory, directories)):
        inner = tree
        for key in path.split("/"):
            inner = inner.setdefault(key, {})


def put_properties(tree: dict[str, Any], found: Properties, writer: Writer, axes: Iterable[str]) -> None:
    """Put the scalars and arrays of ``found``, and those of its axes that are named."""
    for key, scalar in found.scalars.items():
        put(tree, key.keys, writer.scalar(scalar))
    for name in axes:
        key = Key("axis", (), name)
        put(tree, key.keys, writer.lines(key.path("txt"), found.axes[name]))
    for key, array in found.arrays.items():
        put(tree, key.keys, writer.array(array))


def put_lists(tree: dict[str, Any], directories: set[str], absent: set[str]) -> None:
    """Put the list of empty directories, and that of sections that the store does not have."""
    if directories:
        put(tree, ("files", "dirs"), _texts(encoded_path(path) for path in sorted(directories)))
    if absent:
        put(tree, ("files", "absent"), _texts(section for section in SECTIONS if section in absent))


def listed_directories(files: Files) -> tuple[set[str], set[str]]:
    """Return the empty directories that nothing else tells of, and the sections that the store does not have."""
    empty = {path for path in empty_directories(files) if path not in SECTIONS and not is_axis_directory(path)}
    return empty, {section for section in SECTIONS if section not in files.directories}


def put(tree: dict[str, Any], keys: tuple[str, ...], node: Node) -> None:
    """Put ``node`` at the path ``keys`` of nested dicts."""
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = node


def render(tree: Mapping[str, Node], indent: int = 0) -> Iterator[str]:
    """Yield the lines of a mapping in block style.  Raises ``KeptEntryError`` if it contains ``KEPT``."""
    for key, node in tree.items():
        name = quoted(key)
        head = f"{' ' * indent}{name}:" if len(name) < _LONGEST else f"{' ' * indent}? {name}\n{' ' * indent}:"
        if node is KEPT:
            raise KeptEntryError(key)
        if not isinstance(node, dict):
            yield f"{head} {node}\n"
        elif not node:
            yield f"{head} {{}}\n"
        else:
            yield f"{head}\n"
            yield from render(node, indent + 2)


def _list(numbers: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _texts(texts: Iterable[str]) -> str:
    """Return a list of strings, in flow style."""
    return f"[{', '.join(map(quoted, texts))}]"

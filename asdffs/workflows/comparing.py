"""Compares two files: the trees as text and by value, the blocks by their bytes.

Changes nothing.  For one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from asdffs.arrays.sources import resolve
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.document.report import Progress
from asdffs.errors import AsdffsError, InvalidTreeError
from asdffs.scheduling import CHUNK
from asdffs.tree.values import ValueNode, read_values
from asdffs.workflows.compared_block import Side, size_or_none
from asdffs.workflows.text_difference import lines_of, unified
from asdffs.workflows.value_pairs import Pair, Pairs, is_same

#: Returns some bytes from an offset on.
Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A difference between two trees at ``path``.

    ``a``, ``b``: the values as text; None if the tree has no value at the path.  ``note``: a sentence about the bytes
    of an array.
    """

    path: str
    a: str | None
    b: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class BlockDifference:
    """A difference between the blocks ``number``.

    ``a_size``, ``b_size``: bytes of content; None if there is no such block.  ``first``: the offset in the content of
    the first byte that differs; None if one of the blocks does not exist.
    """

    number: int
    a_size: int | None
    b_size: int | None
    first: int | None


class Comparison:
    """Compares two documents, which stay open meanwhile.  Call ``close`` at the end."""

    def __init__(self, a: Document, b: Document, progress: Progress) -> None:
        self._a, self._b = a, b
        self._progress = progress
        self._known: dict[Any, int | None] = {}
        self._others: dict[str, Document | None] = {}

    def text(self) -> Iterator[str]:
        """Yield the lines of a unified diff of header, comments and tree.  Raises ``OSError``."""
        old, new = (lines_of(document) for document in (self._a, self._b))
        if old != new:
            yield from unified(old, new, self._a.path, self._b.path)

    def values(self) -> Iterator[ValueDifference]:
        """Yield the differences between the values, in the order of the first tree.

        Raises ``InvalidTreeError``, ``OSError``.
        """
        pairs = Pairs(_values(self._a), _values(self._b), self._a.path)
        for pair in pairs:
            sides = self._sides(pair)
            if sides is not None:
                yield from self._source(pair, *sides)
            elif not is_same(pair.a, pair.b):
                yield ValueDifference(pair.name, _shown(pair.a), _shown(pair.b))
            else:
                pairs.descend(pair)

    def _sides(self, pair: Pair) -> tuple[Side, Side] | None:
        """Return the blocks of two sources of arrays; None for other values."""
        if pair.key != "source" or pair.above is None or pair.a is None or pair.b is None:
            return None
        if pair.above.a is None or not self._a.dialect.is_ndarray(pair.above.a.tag):
            return None
        one, other = self._bytes_of(self._a, pair.a.value), self._bytes_of(self._b, pair.b.value)
        return None if one is None or other is None else (one, other)

    def blocks(self) -> Iterator[BlockDifference]:
        """Yield the blocks of the same number with different content.  Raises ``DamagedBlockError``, ``OSError``."""
        for number in range(max(len(self._a.blocks), len(self._b.blocks))):
            a, b = size_or_none(self._a, number), size_or_none(self._b, number)
            blocks = Side(self._a, number), Side(self._b, number)
            first = None if a is None or b is None else self._compare_known(*blocks)
            if a is None or b is None or first is not None:
                yield BlockDifference(number, a, b, first)

    def _source(self, pair: Pair, one: Side, other: Side) -> Iterator[ValueDifference]:
        """Compare the bytes of two sources.  Numbers of blocks and names of files may differ."""
        first = self._compare_known(one, other)
        if first is not None:
            note = f"{self._name_of(one)} and {self._name_of(other)} differ from byte {first} on"
            yield ValueDifference(pair.name, _shown(pair.a), _shown(pair.b), note)

    def _name_of(self, block: Side) -> str:
        return f"block {block.number}" if block.document in (self._a, self._b) else block.document.path

    def _bytes_of(self, document: Document, source: Any) -> Side | None:
        """Return the block of a source; for the URI of a local file, its first block.  None if it cannot be read."""
        count = len(document.blocks)
        if isinstance(source, int):
            return Side(document, source % count) if -count <= source < count else None
        path = resolve(source, document.path) if isinstance(source, str) else None
        if path is None:
            return None
        if path not in self._others:
            self._others[path] = _opened(path)
        other = self._others[path]
        return None if other is None else Side(other, 0)

    def close(self) -> None:
        """Close the files of external arrays."""
        for other in self._others.values():
            if other is not None:
                other.close()

    def _compare_known(self, a: Side, b: Side) -> int | None:
        """Return the offset of the first byte of the content that differs; None if all bytes are equal.

        If one content begins with all of the other, this is the size of the shorter one.
        """
        key = a.key, b.key
        if key not in self._known:
            self._known[key] = self._first_difference(a, b)
        return self._known[key]

    def _first_difference(self, a: Side, b: Side) -> int | None:
        """Do the same as ``_compare_known``.  Blocks with equal stored bytes are not decoded."""
        headers = a.header, b.header
        alike = headers[0].compression == headers[1].compression and headers[0].data_size == headers[1].data_size
        size = headers[0].used_size
        alike = alike and size == headers[1].used_size == a.stored_size == b.stored_size
        if headers[0].compressed and alike and self._compare(a.read_stored, b.read_stored, size, a.number) is None:
            return None
        for block in (a, b):
            block.check_decodable()
        return self._compare(a.read, b.read, max(a.size, b.size), a.number)

    def _compare(self, read_a: Read, read_b: Read, size: int, number: int) -> int | None:
        with self._progress.over("comparing", size, number) as step:
            for place in range(0, size, CHUNK):
                one, other = read_a(place), read_b(place)
                if one != other:
                    same = zip(one, other, strict=False)
                    return place + next((n for n, (x, y) in enumerate(same) if x != y), min(len(one), len(other)))
                step(len(one))
        return None


def _values(document: Document) -> ValueNode:
    try:
        return read_values(document.tree.text())
    except InvalidTreeError as err:
        err.path = document.path
        raise


def _opened(path: str) -> Document | None:
    """Open the file of an external array; return None if it cannot be read or has no block."""
    try:
        other = open_document(path, writable=False)
    except (AsdffsError, OSError):
        return None
    if len(other.blocks):
        return other
    other.close()
    return None


def _shown(node: ValueNode | None) -> str | None:
    if node is None:
        return None
    content = node.value
    text = "a mapping" if isinstance(content, dict) else "a sequence" if isinstance(content, list) else _text(content)
    return f"{node.tag.removeprefix('tag:')} {text}" if node.tag else text


def _text(content: Any) -> str:
    return repr(content) if isinstance(content, str) else str(content)

"""Compares two files: the trees as text and by value, arrays by their elements, the blocks by their bytes.

Changes nothing.  For one thread.
"""

from __future__ import annotations

import difflib
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from asdffs.arrays.sources import resolve
from asdffs.document.block import Block
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.document.report import Progress
from asdffs.errors import AsdffsError, DamagedFileError, InvalidTreeError, Remedy
from asdffs.format.constants import NO_COMPRESSION
from asdffs.printable import printable
from asdffs.scheduling import CHUNK
from asdffs.tree.values import ValueNode, read_values
from asdffs.workflows.comparing_elements import Tolerance, are_comparable, compare_elements

logger = logging.getLogger(__name__)


def lines_of(document: Document) -> list[str]:
    """Return the lines of the committed text."""
    return document.tree.text().decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")


def unified(old: list[str], new: list[str], a: str, b: str) -> Iterator[str]:
    """Yield the lines of a unified diff that patch(1) can read.

    ``old``, ``new``: the lines; ``a``, ``b``: the names of the files, which the lines show printable.
    """
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    begin, after = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    one, other = (lines[begin : len(lines) - after] for lines in (old, new))  # difflib is slow for long texts
    for line in difflib.unified_diff(one, other, printable(a), printable(b), n=_CONTEXT, lineterm=""):
        yield re.sub(r"[-+](\d+)", lambda at: f"{at[0][0]}{int(at[1]) + begin}", line) if line[:2] == "@@" else line


T = TypeVar("T")

#: Equal lines before and after a change.
_CONTEXT: Final = 3
#: The most pairs of collections to visit, for each collection of the trees.  Trees of the same form need one.
_MOST_EACH: Final = 8
#: The limit on pairs is never lower than this.
_MOST_AT_LEAST: Final = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The nodes ``a`` and ``b``, at ``key`` of the pair ``above``; one is None if its tree has no such value."""

    above: Pair | None
    key: str | int
    a: ValueNode | None
    b: ValueNode | None

    @property
    def name(self) -> str:
        """The path as a person reads it: ``roman/data/0``; ``/`` for the root."""
        keys: list[str] = []
        pair = self
        while pair.above is not None:
            keys.append(str(pair.key))
            pair = pair.above
        return "/".join(reversed(keys)) or "/"


def is_same(a: ValueNode | None, b: ValueNode | None) -> bool:
    """Return whether both exist with the same tag and type and, for scalars, value.  NaN equals NaN."""
    if a is None or b is None or a.tag != b.tag or type(a.value) is not type(b.value):
        return False
    x, y = a.value, b.value
    return isinstance(x, (dict, list)) or bool(x == y or (x != x and y != y))


def _keys(a: ValueNode, b: ValueNode) -> Iterable[str | int]:
    """Return the keys or indices of both nodes, those of ``a`` first."""
    if isinstance(a.value, dict):
        return [*a.value, *(key for key in b.value if key not in a.value)]
    return range(max(len(a.value), len(b.value)))


def _child(node: ValueNode, key: str | int) -> ValueNode | None:
    if isinstance(key, str):
        found: ValueNode | None = node.value.get(key)
        return found
    return node.value[key] if key < len(node.value) else None


class Side(NamedTuple):
    """One side of a comparison: block ``number`` of ``document``."""

    document: Document
    number: int

    def ask(self, question: Callable[[Block], T]) -> T:
        """Return what ``question`` returns for the block; an error names the file."""
        try:
            return question(self.document.blocks[self.number])
        except AsdffsError as err:
            err.path = err.path or self.document.path
            raise

    def size(self) -> int | None:
        """Return the size of the content in bytes; None if there is no such block."""
        return self.ask(lambda block: block.size) if self.number < len(self.document.blocks) else None

    def stored(self) -> tuple[bytes, int, int, int]:
        """Return compression, size of the content, stored bytes as the header has them, and those in the file."""
        header = self.ask(lambda block: block.header)
        there = self.ask(lambda block: self.document.contents.stored_stretch(self.number).length)
        return header.compression, header.data_size, header.used_size, there

    def read(self, offset: int) -> bytes:
        """Return up to ``CHUNK`` bytes of the content from ``offset``."""
        return self.ask(lambda block: block.read_at(offset, CHUNK))

    def read_stored(self, offset: int) -> bytes:
        """Return up to ``CHUNK`` stored bytes from ``offset``."""
        return self.ask(lambda block: block.read_stored(offset, CHUNK))

    def check_decodable(self) -> None:
        """Raise ``DamagedFileError`` if the block cannot be decoded here, so that its content is unknown."""
        if self.ask(lambda block: block.obstacle):
            compression = self.document.blocks[self.number].compression
            sentence = f"cannot be compared: the compression {compression!r} is not known here"
            raise DamagedFileError(sentence, path=self.document.path, block=self.number)


EXACT: Final = Tolerance()
#: Returns some bytes from an offset on.
Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """A difference between two trees at ``path``.

    ``a``, ``b``: the values as text; None if the tree has no value at the path.  ``note``: a sentence about an array.
    ``elements``: how the elements of an array differ; None for other values, and where only its bytes are compared.
    """

    path: str
    a: str | None
    b: str | None
    note: str = ""
    elements: dict[str, Any] | None = None


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

    def __init__(self, a: Document, b: Document, progress: Progress, tolerance: Tolerance = EXACT) -> None:
        self._a, self._b = a, b
        self._tolerance = tolerance
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
        root = Pair(None, "", _values(self._a), _values(self._b))
        rest, seen, nodes = [root], set[tuple[int, int]](), set[int]()
        while rest:
            pair = rest.pop()
            a, b, sides = pair.a, pair.b, self._sides(pair)
            if sides is not None:
                yield from self._source(pair, *sides)
            elif not is_same(a, b) and not self._is_close(pair):
                yield ValueDifference(pair.name, _shown(a), _shown(b))
            elif a and b and isinstance(a.value, (dict, list)) and (id(a), id(b)) not in seen:
                seen.add((id(a), id(b)))
                nodes |= {id(a), id(b)}
                self._check_pairs(len(seen), len(nodes))
                rest += reversed([Pair(pair, key, _child(a, key), _child(b, key)) for key in _keys(a, b)])

    def _check_pairs(self, pairs: int, nodes: int) -> None:
        """Raise ``InvalidTreeError`` if there are too many ``pairs`` of collections for that many ``nodes``."""
        if pairs > max(_MOST_AT_LEAST, _MOST_EACH * nodes):
            sentence = "the aliases of the two trees are too different to compare the trees by value"
            raise InvalidTreeError(sentence, path=self._a.path, remedy=Remedy.COMPARE_TEXT)

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
            one, other = Side(self._a, number), Side(self._b, number)
            a, b = one.size(), other.size()
            first = None if a is None or b is None else self._compare_known(one, other)
            if a is None or b is None or first is not None:
                yield BlockDifference(number, a, b, first)

    def _source(self, pair: Pair, one: Side, other: Side) -> Iterator[ValueDifference]:
        """Compare two sources by their bytes, and if these differ, by the elements of the arrays.

        Numbers of blocks and names of files may differ.
        """
        first = self._compare_known(one, other)
        if first is None or pair.above is None:
            return
        a, b = (document.arrays.get(pair.above.name) for document in (self._a, self._b))
        try:
            if a is not None and b is not None and are_comparable(a, b):
                yield from self._elements(pair.above, a, b)
                return
        except AsdffsError as err:
            logger.info("%s: compared by its bytes: %s", pair.above.name, err)
        note = f"{self._name_of(one)} and {self._name_of(other)} differ from byte {first} on"
        yield ValueDifference(pair.name, _shown(pair.a), _shown(pair.b), note)

    def _elements(self, pair: Pair, a: Any, b: Any) -> Iterator[ValueDifference]:
        size = a.dtype.itemsize * math.prod(a.shape)
        with self._progress.over("comparing", size) as step:
            found = compare_elements(a, b, self._tolerance, step)
        if found is not None:
            yield ValueDifference(pair.name, _shown(pair.a), _shown(pair.b), found.sentence(), found._asdict())

    def _is_close(self, pair: Pair) -> bool:
        a, b = pair.a, pair.b
        if a is None or b is None or a.tag != b.tag or not any(self._tolerance):
            return False
        return self._tolerance.allows(a.value, b.value)

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
        key = (a.document.path, a.number), (b.document.path, b.number)
        if key not in self._known:
            self._known[key] = self._first_difference(a, b)
        return self._known[key]

    def _first_difference(self, a: Side, b: Side) -> int | None:
        """Do the same as ``_compare_known``.  Blocks with equal stored bytes are not decoded."""
        stored = a.stored()
        compression, _, size, there = stored
        alike = compression != NO_COMPRESSION and stored == b.stored() and size == there
        if alike and self._compare(a.read_stored, b.read_stored, size, a.number) is None:
            return None
        for side in (a, b):
            side.check_decodable()
        return self._compare(a.read, b.read, max(a.size() or 0, b.size() or 0), a.number)

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

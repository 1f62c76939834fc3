"""What differs between two files: the trees as text and by value, the blocks by their bytes.

User: ``cli/diff``.  One thread.  Changes nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import name_of
from asdffs.document.document import Document
from asdffs.document.flat_tree import Value, flat_tree
from asdffs.document.progress import Progress
from asdffs.document.tree import Path
from asdffs.errors import DamagedFileError, InvalidTreeError
from asdffs.storage.store import read_bytes

_PIECE: Final = 1 << 20
_ABSENT: Final[Value] = ("", None)
#: Some bytes from an offset on.
Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """At ``path`` one has ``a`` and the other ``b``; None for nothing there; ``note``: of an array's bytes."""

    path: str
    a: str | None
    b: str | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class BlockDifference:
    """Block ``number`` differs: sizes in bytes of content (None: no such block); the first byte that differs."""

    number: int
    a_size: int | None
    b_size: int | None
    first: int | None


class Comparison:
    """Of two documents, which stay open meanwhile."""

    def __init__(self, a: Document, b: Document, progress: Progress) -> None:
        self._a, self._b = a, b
        self._progress = progress
        self._known: dict[tuple[int, int], int | None] = {}

    def text(self) -> Iterator[str]:
        """Lines of a unified diff of header, comments and tree.  Raises ``OSError``."""
        old, new = (_lines(document) for document in (self._a, self._b))
        if old != new:
            yield from _unified(old, new, self._a.path, self._b.path)

    def values(self) -> Iterator[ValueDifference]:
        """What differs by value, in the order of the first tree.  Raises ``InvalidTreeError``, ``OSError``."""
        a, b = _flat(self._a), _flat(self._b)
        sources = self._sources()
        for path in [*a, *(path for path in b if path not in a)]:
            if _is_below_a_difference(path, a, b):
                continue
            if path in sources:
                yield from self._source(path, a, b)
            elif not _is_same(a.get(path), b.get(path)):
                yield ValueDifference(_name(path), _shown(a.get(path)), _shown(b.get(path)))

    def blocks(self) -> Iterator[BlockDifference]:
        """Blocks of the same number that decode to other bytes.  Raises ``DamagedBlockError``, ``OSError``."""
        for number in range(max(self._a.block_count, self._b.block_count)):
            a, b = _size(self._a, number), _size(self._b, number)
            first = None if a is None or b is None else self._first_difference(number, number)
            if a is None or b is None or first is not None:
                yield BlockDifference(number, a, b, first)

    def _sources(self) -> set[Path]:
        """Where both trees have the source of an array."""
        a, b = ({array.path for array in document.tree.arrays()} for document in (self._a, self._b))
        return {(*path, "source") for path in a & b}

    def _source(self, path: Path, a: dict[Path, Value], b: dict[Path, Value]) -> Iterator[ValueDifference]:
        """Numbers of blocks do not matter, their bytes do."""
        numbers = [
            _block_of(document, values.get(path, _ABSENT)[1]) for document, values in ((self._a, a), (self._b, b))
        ]
        if numbers[0] is None or numbers[1] is None:
            if a.get(path) != b.get(path):
                yield ValueDifference(_name(path), _shown(a.get(path)), _shown(b.get(path)))
            return
        first = self._first_difference(numbers[0], numbers[1])
        if first is not None:
            note = f"block {numbers[0]} and block {numbers[1]} differ from byte {first} on"
            yield ValueDifference(_name(path), str(numbers[0]), str(numbers[1]), note)

    def _first_difference(self, a: int, b: int) -> int | None:
        """The first byte of the content that differs; the size of the shorter one where all of it is the same."""
        if (a, b) not in self._known:
            self._known[a, b] = self._same_stored(a, b)
        return self._known[a, b]

    def _same_stored(self, a: int, b: int) -> int | None:
        """Where both are stored alike, they need not be decoded."""
        headers = self._a.block_header(a), self._b.block_header(b)
        alike = headers[0].compression == headers[1].compression and headers[0].data_size == headers[1].data_size
        size = headers[0].used_size
        if headers[0].compressed and alike and size == headers[1].used_size:
            stored = (
                lambda at: self._a.read_stored(a, at, _PIECE),
                lambda at: self._b.read_stored(b, at, _PIECE),
            )
            if self._compare(*stored, size, a) is None:
                return None
        for document, number in ((self._a, a), (self._b, b)):
            _check_decodable(document, number)
        size = max(self._a.block_size(a), self._b.block_size(b))
        return self._compare(
            lambda at: read_bytes(self._a.read_block(a, at, _PIECE)),
            lambda at: read_bytes(self._b.read_block(b, at, _PIECE)),
            size,
            a,
        )

    def _compare(self, read_a: Read, read_b: Read, size: int, number: int) -> int | None:
        with self._progress.over("comparing", size, number) as step:
            for place in range(0, size, _PIECE):
                one, other = read_a(place), read_b(place)
                if one != other:
                    same = zip(one, other, strict=False)
                    return place + next((n for n, (x, y) in enumerate(same) if x != y), min(len(one), len(other)))
                step(len(one))
        return None


def _size(document: Document, number: int) -> int | None:
    return document.block_size(number) if number < document.block_count else None


def _is_same(a: Value | None, b: Value | None) -> bool:
    """By type and value; not-a-number is itself."""
    if a is None or b is None:
        return a is b
    (tag, x), (other, y) = a, b
    return tag == other and type(x) is type(y) and (x == y or (x != x and y != y))


def _check_decodable(document: Document, number: int) -> None:
    """Bytes that are stored in an unknown way say nothing of the content."""
    obstacle = document.block_obstacle(number)
    if obstacle:
        compression = name_of(document.block_header(number).compression)
        sentence = f"cannot be compared: the compression {compression!r} is not understood here"
        raise DamagedFileError(sentence, path=document.path, block=number)


def _block_of(document: Document, source: Any) -> int | None:
    count = document.block_count
    return source % count if isinstance(source, int) and -count <= source < count else None


def _is_below_a_difference(path: Path, a: dict[Path, Value], b: dict[Path, Value]) -> bool:
    """What only one has is told once, at its top."""
    return any((path[:n] in a) != (path[:n] in b) for n in range(1, len(path)))


def _flat(document: Document) -> dict[Path, Value]:
    try:
        return flat_tree(document.tree.text().decode("utf-8", "surrogateescape"))
    except InvalidTreeError as err:
        err.path = document.path
        raise


def _lines(document: Document) -> list[str]:
    return document.tree.text().decode("utf-8", "backslashreplace").splitlines()


def _unified(old: list[str], new: list[str], a: str, b: str) -> Iterator[str]:
    """As patch(1) reads it."""
    yield f"--- {a}"
    yield f"+++ {b}"
    matcher: Any = difflib.SequenceMatcher(None, (), ())
    matcher.opcodes = _opcodes(old, new)
    for group in matcher.get_grouped_opcodes(3):
        (_, i, _, j, _), (_, _, i_stop, _, j_stop) = group[0], group[-1]
        yield f"@@ -{_range(i, i_stop)} +{_range(j, j_stop)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
                continue
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


def _opcodes(old: list[str], new: list[str]) -> list[Any]:
    """What is the same at both ends is found at once: difflib takes its time with long texts."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    end = next((n for n in range(least - start) if old[-1 - n] != new[-1 - n]), least - start)
    i, j = len(old) - end, len(new) - end
    middle = difflib.SequenceMatcher(None, old[start:i], new[start:j]).get_opcodes()
    found = [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in middle]
    return [("equal", 0, start, 0, start), *found, ("equal", i, len(old), j, len(new))]


def _range(start: int, stop: int) -> str:
    """Lines are counted from 1; of none, the one before."""
    return f"{start + 1 if stop > start else start},{stop - start}"


def _name(path: Path) -> str:
    return "/".join(map(str, path)) or "/"


def _shown(value: Value | None) -> str | None:
    if value is None:
        return None
    tag, content = value
    text = "a mapping" if content == {} else "a sequence" if content == [] else _text(content)
    return f"{tag.removeprefix('tag:')} {text}" if tag else text


def _text(content: Any) -> str:
    return repr(content) if isinstance(content, str) else str(content)

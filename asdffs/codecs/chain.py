"""Chains of encodings, as ENCODED blocks of the draft of 2015 have them (section Block encoding).

A block begins with a chunk of YAML, a list of the encodings in the order in which they were applied, and the encoded
bytes follow.  Each entry is ``name``, ``[name]`` or ``[name, {arguments}]``.  What is written again is the chunk as
it was, then the content encoded in the same way.  A chain that names an encoding nobody knows is not decoded; one
with ``quantize`` is not written.  Stateless, but for what a chain remembers of its block.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from asdffs.codecs.base import PIECE, Chaining, Encoding, Source, pieces
from asdffs.codecs.quantize import Quantize, quantize_of
from asdffs.codecs.tile import Tile, tile_of
from asdffs.codecs.zlib import PLUGIN as ZLIB
from asdffs.format.constants import CHAIN

#: Bytes of a chunk that is read as YAML, at the most.
_LONGEST: Final = 1 << 14
_END: Final = re.compile(rb"\r?\n\.\.\.(?:\r?\n|\Z)")
#: Encodings of a chain, at the most: each may make its bytes a thousand times as many.
_MOST: Final = 4
#: As much as zlib and quantize together can make of a byte, and no more: a file of some bytes fills no disk.
_RATIO: Final = 1 << 17
_SHOWN: Final = 60
_LOSSY: Final = (
    "the encoding quantize rounds values, so it is read-only; store the block in another compression to change it"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding of a chain, as written."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def argument(self, name: str) -> Any:
        """The argument of that name, None without one."""
        return self.arguments.get(name)


class ChainStep(Protocol):
    """An encoding at work."""

    @property
    def ratio(self) -> int:
        """No encoded byte decodes to more bytes."""

    @property
    def memory(self) -> int:
        """Bytes of memory that it keeps, about."""

    def encoded_size(self, size: int) -> int:
        """The most bytes that ``size`` bytes can have encoded."""

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        """The ``size`` bytes (at the most) that ``encoded`` decodes to, in pieces.  Raises ``ValueError``."""

    def encode(self, content: Source) -> Iterator[bytes]:
        """The encoded bytes.  Raises ``ValueError``."""


@dataclass(frozen=True, slots=True)
class _Zlib:
    ratio = ZLIB.ratio
    memory = 2 * PIECE

    def encoded_size(self, size: int) -> int:
        return size + size // 256 + (1 << 16)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return ZLIB.decode(encoded, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        return ZLIB.encode(content)


@dataclass(frozen=True, slots=True)
class _Tile:
    tile: Tile
    ratio = 1

    @property
    def memory(self) -> int:
        return self.tile.memory

    def encoded_size(self, size: int) -> int:
        if size != self.tile.size:
            raise ValueError(f"its tiles hold just {self.tile.size} bytes, not {size}")
        return self.tile.padded_size

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return self.tile.decode(encoded)

    def encode(self, content: Source) -> Iterator[bytes]:
        return self.tile.encode(content)


@dataclass(frozen=True, slots=True)
class _Quantize:
    quantize: Quantize
    ratio = 64
    memory = 2 * PIECE

    def encoded_size(self, size: int) -> int:
        return self.quantize.largest(size)

    def decode(self, encoded: Source, size: int, order: str) -> Iterator[bytes]:
        return self.quantize.decode(encoded, size, order)

    def encode(self, content: Source) -> Iterator[bytes]:
        raise ValueError(_LOSSY)


#: What makes a step of an entry, and where it may stand: arrays to arrays, to bytes, bytes to bytes.
_STEPS: Final[dict[str, tuple[int, Callable[[Entry], ChainStep]]]] = {
    "tile": (0, lambda entry: _Tile(tile_of(entry.argument))),
    "quantize": (1, lambda entry: _Quantize(quantize_of(entry.argument))),
    "zlib": (2, lambda entry: _Zlib()),
}


@dataclass(frozen=True)
class Chain(Encoding):
    """The chain of one block.  See ``codecs.Encoding``.  ``chunk``: of YAML, its end included.

    ``order()``: the byteorder of what is decoded, where the chain does not keep it; ``problem``: why it cannot be
    used at all, or empty.
    """

    chunk: bytes
    entries: tuple[Entry, ...]
    order: Callable[[], str] = field(default=lambda: "big", compare=False)
    problem: str = ""

    id = CHAIN
    extra = ""

    def available(self) -> bool:
        """Python has all that is needed."""
        return True

    @property
    def name(self) -> str:
        """What users call it: ``tile+zlib``."""
        return "+".join(entry.name for entry in self.entries) or "none"

    @property
    def described(self) -> str:
        """The chain as YAML on a line: ``[[tile, {...}], zlib]``."""
        import yaml

        entries = [[entry.name, entry.arguments] if entry.arguments else entry.name for entry in self.entries]
        return yaml.safe_dump(entries, default_flow_style=True, width=1 << 20).strip()

    @property
    def unknown(self) -> str:
        """The encoding that nobody knows here, or empty."""
        return next((entry.name for entry in self.entries if entry.name not in _STEPS), "")

    @property
    def read_only(self) -> str:
        """Why the block cannot be written; empty when it can."""
        return self.problem or (_LOSSY if self.ordered else "")

    @property
    def ordered(self) -> bool:
        """Whether what is decoded depends on ``order``."""
        return any(entry.name == "quantize" for entry in self.entries)

    @property
    def fixed_size(self) -> int | None:
        """The only size, in bytes, that its content can have; None where it may have any."""
        first = None if self.problem or self.unknown else self._first
        return first.tile.size if isinstance(first, _Tile) else None

    @property
    def ratio(self) -> int:
        """Of all steps; of a chain that cannot be used, anything."""
        try:
            return min(_RATIO, math.prod(step.ratio for step in self._steps))
        except ValueError:
            return _RATIO

    def memory(self, stored: Source) -> int:
        """Of all steps."""
        try:
            return sum(step.memory for step in self._steps)
        except ValueError:
            return 0

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Raises ``ValueError``; ``order`` is asked at once."""
        return self._decoded(stored, size, self.order() if self.ordered else "big")

    def _decoded(self, stored: Source, size: int, order: str) -> Iterator[bytes]:
        steps, sizes = self._steps, [size]
        for step in steps:
            sizes.append(step.encoded_size(sizes[-1]))
        source: Source = Behind(stored, len(self.chunk))
        found: Iterator[bytes] = pieces(source)
        for step, most in reversed(list(zip(steps, sizes[:-1], strict=True))):
            found = step.decode(source, most, order)
            source = Sequential(_limited(found, most), most)
        yield from found

    def encode(self, content: Source) -> Iterator[bytes]:
        """The chunk as it was, and the content encoded.  Raises ``ValueError``."""
        source, size = content, content.size
        found: Iterator[bytes] = pieces(source)
        for step in self._steps:
            found = step.encode(source)
            size = step.encoded_size(size)
            source = Sequential(found, size)
        yield self.chunk
        yield from found

    @property
    def _first(self) -> ChainStep | None:
        try:
            return self._steps[0]
        except ValueError:
            return None

    @functools.cached_property
    def _steps(self) -> tuple[ChainStep, ...]:
        """Raises ``ValueError`` when they cannot be."""
        if self.problem:
            raise ValueError(self.problem)
        if self.unknown:
            raise ValueError(f"the encoding {self.unknown[:_SHOWN]!r} is not known")
        places = [_STEPS[entry.name][0] for entry in self.entries]
        if places != sorted(places) or places.count(1) > 1:
            raise ValueError(f"the encodings {self.name} are not in an order that can be")
        return tuple(_STEPS[entry.name][1](entry) for entry in self.entries)


class Chains(Chaining):
    """Makes the chain of each block.  See ``codecs.Chaining``."""

    id = CHAIN
    extra = ""
    ratio = _RATIO

    def available(self) -> bool:
        """Python has all that is needed."""
        return True

    def memory(self, stored: Source) -> int:
        """As the chain."""
        return self.of(stored).memory(stored)

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """As the chain.  Raises ``ValueError``."""
        return self.of(stored).decode(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """As a chain of nothing but zlib."""
        return self.holding("zlib").encode(content)

    def of(self, stored: Source, order: Callable[[], str] = lambda: "big") -> Chain:
        """The chain that ``stored`` begins with; one with a ``problem`` where it begins with none."""
        head = stored.read_at(0, min(_LONGEST, stored.size))
        end = _END.search(head)
        if end is None or (end.end() == len(head) < stored.size and not head.endswith(b"\n")):
            return Chain(b"", (), problem="its chain of encodings has no end: no line '...' follows")
        chunk = head[: end.end()]
        try:
            entries = _entries_of(chunk)
        except ValueError as err:
            return Chain(chunk, (), problem=str(err))
        return Chain(chunk, entries, order)

    def holding(self, name: str) -> Chain:
        """A chain of the encoding that users call ``name``, which needs no arguments."""
        return Chain(b"---\n[%s]\n...\n" % name.encode(), (Entry(name),))


PLUGIN = Chains()


def _entries_of(chunk: bytes) -> tuple[Entry, ...]:
    """What a chunk says.  Raises ``ValueError`` when it is no chain."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        anchors = any(getattr(event, "anchor", None) for event in yaml.parse(chunk, Loader=loader))
        found = None if anchors else yaml.load(chunk, Loader=loader)  # a safe one
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, LookupError) as err:
        raise ValueError("its chain of encodings is not YAML") from err
    if anchors:
        raise ValueError("its chain of encodings has anchors, by which it might mean any amount")
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST:
        raise ValueError(f"its chain of encodings is no list of 1 to {_MOST} of them")
    return tuple(map(_entry_of, found))


def _entry_of(value: Any) -> Entry:
    name, *rest = value if isinstance(value, list) and value else (value,)
    arguments = rest[0] if rest else {}
    if not isinstance(name, str) or len(rest) > 1 or not isinstance(arguments or {}, dict):
        raise ValueError("an entry of its chain of encodings is no name with arguments")
    if not all(isinstance(key, str) and _is_plain(argument) for key, argument in (arguments or {}).items()):
        raise ValueError("an argument in its chain of encodings is no number, text, or list of numbers")
    return Entry(name, arguments or {})


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, int) and _is_plain(one) for one in value)
    return isinstance(value, (str, float, type(None))) or (isinstance(value, int) and abs(value) < 1 << 63)


@dataclass(frozen=True, slots=True)
class Behind:
    """What follows the first ``start`` bytes of ``source``.  See ``codecs.Source``."""

    source: Source
    start: int

    @property
    def size(self) -> int:
        """In bytes."""
        return max(0, self.source.size - self.start)

    def read_at(self, offset: int, length: int) -> bytes:
        """As ``source`` does."""
        return self.source.read_at(self.start + offset, length)


class Sequential:
    """The bytes of ``parts``, read once from start to end.  See ``codecs.Source``; ``size``: at the most."""

    def __init__(self, parts: Iterator[bytes], size: int) -> None:
        self.size = size
        self._parts = parts
        self._place = 0
        self._held = bytearray()

    def read_at(self, offset: int, length: int) -> bytes:
        """The next bytes: ``offset`` is where the last read ended.  Raises as ``parts`` do."""
        if offset != self._place:
            raise RuntimeError(f"read at {offset}, and {self._place} comes next")
        while len(self._held) < length and (part := next(self._parts, None)) is not None:
            self._held += part
        found = bytes(self._held[:length])
        del self._held[:length]
        self._place += len(found)
        return found


def _limited(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """``parts``, as long as they are no more than ``most`` bytes in all.  Raises ``ValueError`` then."""
    for part in parts:
        most -= len(part)
        if most < 0:
            raise ValueError("an encoding of its chain decodes to more than the next one can have")
        yield part

"""Chains of encodings: the codec of ENCODED blocks in the draft of 2015 (section Block encoding).

A block begins with a chunk of YAML: a list of the encodings in the order in which they were applied.  Each entry is
``name``, ``[name]`` or ``[name, {arguments}]``.  The encoded bytes follow the chunk.

A block is written again as the same chunk, followed by the content encoded in the same way.  A chain with an unknown
encoding is not decoded.  A chain with ``quantize`` is not written.  There is no state except for the description that
a ``Chain`` keeps of its block.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.codecs.base import LARGEST_PART, Chaining, Encoding, Source, part_of, pieces
from asdffs.errors import InvalidTreeError
from asdffs.features.drafts.encodings import LOSSY, STEPS, ChainStep, Quantize, Tile
from asdffs.format.constants import CHAIN

#: Most encodings of a chain, and bytes of memory that they may need together: each keeps some parts.
_MOST: Final = 64
_MOST_MEMORY: Final = 4 * LARGEST_PART
#: Most bytes of a chunk, and of the piece of a block in which its end is looked for first.
_LONGEST: Final = 1 << 20
_USUAL: Final = 1 << 12
_END: Final = re.compile(rb"\r?\n\.\.\.(?:\r?\n|\Z)")
#: Limit of the decoded size per stored byte: enough for zlib with quantize, and a tiny file cannot fill the disk.
_RATIO: Final = 1 << 17
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class _Entry:
    """One encoding of a chain, as the block states it."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chain(Encoding):
    """The chain of one block.  See ``Encoding``.

    ``chunk``: the YAML, including the line that ends it.  ``order()`` returns the byteorder to decode to, ``big`` or
    ``little``; only ``quantize`` needs it.  ``problem``: why the chain cannot be used at all, or empty.
    """

    chunk: bytes
    entries: tuple[_Entry, ...]
    order: Callable[[], str] = field(default=lambda: "big", compare=False)
    problem: str = ""

    id = CHAIN

    @property
    def name(self) -> str:
        """The name that users see, for example ``tile+zlib``."""
        return "+".join(entry.name for entry in self.entries) or "none"

    @property
    def described(self) -> str:
        """The chain as one line of YAML: ``[[tile, {...}], zlib]``."""
        import yaml

        entries = [[entry.name, entry.arguments] if entry.arguments else entry.name for entry in self.entries]
        return yaml.safe_dump(entries, default_flow_style=True, width=1 << 20).strip()

    @property
    def unknown(self) -> str:
        """The name of the first unknown encoding, or empty."""
        return next((entry.name for entry in self.entries if entry.name not in STEPS), "")

    @property
    def read_only(self) -> str:
        """Why the block cannot be written; empty if it can."""
        return self.problem or (LOSSY if self.ordered else "")

    @property
    def ordered(self) -> bool:
        """Whether the decoded bytes depend on ``order``."""
        return any(entry.name == "quantize" for entry in self.entries)

    @property
    def fixed_size(self) -> int | None:
        """The only size in bytes that the content can have; None if any size is possible."""
        try:
            first = next(iter(self._steps), None)
        except ValueError:
            return None
        return first.size if isinstance(first, Tile | Quantize) else None

    @property
    def ratio(self) -> int:  # type: ignore[override]  # a constant elsewhere
        """The product of all steps, at most 2**17; 2**17 for a chain that cannot be used."""
        try:
            return min(_RATIO, math.prod(step.ratio for step in self._steps))
        except ValueError:
            return _RATIO

    def memory(self, stored: Source) -> int:
        """Return the sum of all steps; 0 for a chain that cannot be used."""
        try:
            return sum(step.memory for step in self._steps)
        except ValueError:
            return 0

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``.  Calls ``order`` at once, while the caller still holds the main lock."""
        return self._decoded(stored, size, self.order() if self.ordered else "big")

    def _decoded(self, stored: Source, size: int, order: str) -> Iterator[bytes]:
        steps, sizes = self._steps, [size]
        if self.fixed_size not in (None, size):
            raise ValueError(f"its chain holds exactly {self.fixed_size} bytes, not {size}")
        for step in steps:
            sizes.append(step.encoded_size(sizes[-1]))
        behind = len(self.chunk)
        source: Source = part_of(stored, behind, max(0, stored.size - behind))
        found: Iterator[bytes] = pieces(source)
        for step, most in reversed(list(zip(steps, sizes[:-1], strict=True))):
            found = step.decode(source, most, order)
            source = _Sequential(_limited(found, most), most)
        yield from found

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``: yield the chunk as it was, then the encoded content."""
        source, size = content, content.size
        found: Iterator[bytes] = pieces(source)
        for step in self._steps:
            found = step.encode(source)
            size = step.encoded_size(size)
            source = _Sequential(found, size)
        yield self.chunk
        yield from found

    @functools.cached_property
    def _steps(self) -> tuple[ChainStep, ...]:
        """The steps in the order of the chain.  Raises ``ValueError`` if the chain cannot be used."""
        if self.problem:
            raise ValueError(self.problem)
        if self.unknown:
            raise ValueError(f"the encoding {self.unknown[:_SHOWN]!r} is not known")
        places = [STEPS[entry.name][0] for entry in self.entries]
        if places != sorted(places) or places.count(1) > 1:
            raise ValueError(f"the encodings {self.name} cannot follow each other in this order")
        steps = tuple(STEPS[entry.name][1](entry.arguments) for entry in self.entries)
        if sum(step.memory for step in steps) > _MOST_MEMORY:
            raise ValueError("its encodings need too much memory together")
        return steps


class Chains(Chaining):
    """The codec of all chained blocks: makes the ``Chain`` of each.  See ``Chaining``."""

    id = CHAIN
    ratio = _RATIO

    def memory(self, stored: Source) -> int:
        """See ``Codec``."""
        return self.codec_for(stored).memory(stored)

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""
        return self.codec_for(stored).decode(stored, size)

    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``: encode as a chain of only zlib."""
        return self.holding("zlib").encode(content)

    def codec_for(self, stored: Source, order: Callable[[], str] = lambda: "big") -> Chain:
        """Return the chain at the beginning of ``stored``; a chain with a ``problem`` if there is no valid one."""
        for length in (_USUAL, _LONGEST):
            head = stored.read_at(0, min(length, stored.size))
            end = _END.search(head)
            if end is not None and (end.end() < len(head) or head.endswith(b"\n") or len(head) == stored.size):
                break
        else:
            long = len(head) < stored.size
            reason = "is longer than 1 MiB, and is not read" if long else "has no end: it lacks a line '...'"
            return Chain(b"", (), problem=f"its chain of encodings {reason}")
        chunk = head[: end.end()]
        try:
            entries = _entries_of(chunk)
        except ValueError as err:
            return Chain(chunk, (), problem=str(err))
        return Chain(chunk, entries, order)

    def holding(self, name: str) -> Chain:
        """Return a chain of only the encoding ``name``, which must be one without arguments."""
        return Chain(b"---\n[%s]\n...\n" % name.encode(), (_Entry(name),))


def _entries_of(chunk: bytes) -> tuple[_Entry, ...]:
    """Return the entries of a chunk of YAML.  Raises ``ValueError`` with the reason if it is not a chain."""
    from asdffs.tree.lookups import plain  # few blocks are chains
    from asdffs.tree.tape import StoppedError, Tape
    from asdffs.tree.values import Nodes, fault_at, scalar_rows

    asked = iter((True,))  # the tape asks again after some thousand values
    try:
        tape = Tape(chunk, lambda: next(asked, False))
    except InvalidTreeError as err:
        raise ValueError("its chain of encodings is not YAML") from err
    except StoppedError as err:
        raise ValueError("its chain of encodings has thousands of values") from err
    if any(fault_at(tape, row) for row in scalar_rows(tape)):
        raise ValueError("its chain of encodings is not YAML")
    if tape.anchors:
        raise ValueError("its chain of encodings has anchors, which could expand to any size")
    found = plain(Nodes(tape).root())
    if not isinstance(found, list) or len(found) > _MOST:
        raise ValueError(f"its chain of encodings is not a list of at most {_MOST} encodings")
    return tuple(map(_entry_of, found))


def _entry_of(value: Any) -> _Entry:
    name, *rest = value if isinstance(value, list) and value else (value,)
    arguments = rest[0] if rest else {}
    if not isinstance(name, str) or len(rest) > 1 or not isinstance(arguments or {}, dict):
        raise ValueError("an entry of its chain of encodings is not a name with arguments")
    if not all(isinstance(key, str) and _is_plain(argument) for key, argument in (arguments or {}).items()):
        raise ValueError("an argument in its chain of encodings is not a number, a text or a list of integers")
    return _Entry(name, arguments or {})


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, int) and _is_plain(one) for one in value)
    return isinstance(value, (str, float, type(None))) or (isinstance(value, int) and abs(value) < 1 << 63)


class _Sequential:
    """The bytes of ``parts``, to be read once from start to end.  See ``codecs.base.Source``.

    ``size`` is the most bytes that there can be, not the exact number.
    """

    def __init__(self, parts: Iterator[bytes], size: int) -> None:
        self.size = size
        self._parts = parts
        self._place = 0
        self._held = bytearray()

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the next bytes.  ``offset`` must be where the last read ended.  Raises as ``parts``."""
        if offset != self._place:
            raise RuntimeError(f"read at offset {offset}, but the next offset is {self._place}")
        while len(self._held) < length and (part := next(self._parts, None)) is not None:
            self._held += part
        found = bytes(self._held[:length])
        del self._held[:length]
        self._place += len(found)
        return found


def _limited(parts: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Yield ``parts``.  Raises ``ValueError`` as soon as they have more than ``most`` bytes together."""
    for part in parts:
        most -= len(part)
        if most < 0:
            raise ValueError("an encoding of its chain decodes to more than the next one accepts")
        yield part


PLUGIN = Chains()

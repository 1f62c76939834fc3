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
from typing import Final

from asdffs.codecs.base import Chaining, Encoding, Source, pieces
from asdffs.codecs.chained.entries import Entry, entries_of
from asdffs.codecs.chained.sources import Behind, Sequential, limited
from asdffs.codecs.chained.steps import LOSSY, STEPS, ChainStep, _Tile
from asdffs.format.constants import CHAIN

#: Bytes of a chunk that is read as YAML, at the most.
_LONGEST: Final = 1 << 14
_END: Final = re.compile(rb"\r?\n\.\.\.(?:\r?\n|\Z)")
#: As much as zlib and quantize together can make of a byte, and no more: a file of some bytes fills no disk.
_RATIO: Final = 1 << 17
_SHOWN: Final = 60


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
        return next((entry.name for entry in self.entries if entry.name not in STEPS), "")

    @property
    def read_only(self) -> str:
        """Why the block cannot be written; empty when it can."""
        return self.problem or (LOSSY if self.ordered else "")

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
            source = Sequential(limited(found, most), most)
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
        places = [STEPS[entry.name][0] for entry in self.entries]
        if places != sorted(places) or places.count(1) > 1:
            raise ValueError(f"the encodings {self.name} are not in an order that can be")
        return tuple(STEPS[entry.name][1](entry) for entry in self.entries)


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
            entries = entries_of(chunk)
        except ValueError as err:
            return Chain(chunk, (), problem=str(err))
        return Chain(chunk, entries, order)

    def holding(self, name: str) -> Chain:
        """A chain of the encoding that users call ``name``, which needs no arguments."""
        return Chain(b"---\n[%s]\n...\n" % name.encode(), (Entry(name),))


PLUGIN = Chains()

"""Starts decoders inside a block, and encodes pieces of a block without the others.

A codec may have the method ``seeker(stored, size)``.  It returns a ``Seeker`` for a block with the bytes ``stored``
and ``size`` bytes of content, or None if this block has only one piece.  Blocks of codecs without it are decoded from
their beginning.

A ``Slot`` is a part of the stored bytes that can be encoded again: one piece of a block, or several small ones.  New
content of the same size replaces it.  Where the codec can fill a slot that is too long, the new bytes have the old
length, so nothing behind the slot moves.  If they are longer, they are longer by a multiple of ``grain``, so the file
system can move the rest without a copy.

A seeker belongs to one block and is used by one thread at a time.  It runs without the main lock, as decoders do.
What it remembers is limited, whatever the stored bytes say.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from asdffs.codecs.base import Codec, Source

#: The least distance of two pieces that a seeker remembers, in bytes of content.
_LEAST: Final = 1 << 18
#: The most pieces that are looked for at a time, because each may be a request to a server.
_MOST_STEPS: Final = 4096
#: The most pieces that are guessed at a time.
_AT_ONCE: Final = 16
#: Bytes around a guess that are fetched, in each direction.
_AROUND: Final = 1 << 14
#: The length field of a piece is in its first bytes.  A guess is right if the fetched part has all of them.
_HEAD: Final = 16


class Seeker(Protocol):
    """Starts decoders inside one block."""

    def start_before(self, offset: int) -> int:
        """Return the best place to start a decoder for the content at ``offset``: the last known one before it.

        0 if there is no better one.  Raises ``ValueError`` with the reason if the bytes are damaged too much to tell,
        or as ``Source.read_at``.
        """

    def decode_from(self, start: int) -> Iterator[bytes]:
        """Yield the content from ``start`` on, which ``start_before`` returned.  See ``Codec.decode``.

        It decodes only one piece before it yields.  So a random read decodes no other piece.
        """


@runtime_checkable
class Remembering(Seeker, Protocol):
    """A seeker that finds its places by decoding.  That is slow, so they are saved for the next time."""

    def remembered(self) -> bytes:
        """Return all places, for ``recall`` of another seeker of the same stored bytes.

        Empty if there are none that ``recall`` did not give.
        """

    def recall(self, kept: bytes) -> None:
        """Add the places that ``remembered`` returned.  Ignores damaged bytes, and those of another block size."""


@runtime_checkable
class Countable(Seeker, Protocol):
    """A seeker that can tell how many pieces a block has without decoding it."""

    def count_pieces(self) -> int | None:
        """Return how many pieces can be decoded one by one; small ones count as one.

        None if they are more than is reasonable to look for.  Raises ``ValueError`` if the bytes are damaged.
        """


@runtime_checkable
class Pieced(Seeker, Protocol):
    """A seeker that can tell where all pieces of a block are without decoding it."""

    def pieces(self, size: int) -> Iterator[Slot]:
        """Yield all pieces of ``size`` bytes of content in order, also the smallest.

        Raises ``ValueError`` if the bytes are damaged, or as ``Source.read_at``.
        """


class Slot(NamedTuple):
    """The stored bytes ``[place, place + length)`` of a block, which decode to its content ``[start, stop)``."""

    start: int
    stop: int
    place: int
    length: int


@runtime_checkable
class Rewritable(Seeker, Protocol):
    """The seeker of a block whose slots can be encoded one by one."""

    def slots(self, changed: Iterable[tuple[int, int]]) -> Iterator[Slot]:
        """Yield the slots that have the ranges ``changed`` of the content, in ascending order.

        Raises ``ValueError`` if the stored bytes are damaged, or as ``Source.read_at``.
        """

    def encode_slot(self, content: bytes, length: int, grain: int) -> bytes | None:
        """Return stored bytes of ``content``, ``length`` of them, or more by a multiple of ``grain``.

        None if that is not possible.
        """


class FromStart:
    """The seeker of a block with one piece: ``decode()`` yields its content."""

    def __init__(self, decode: Callable[[], Iterator[bytes]]) -> None:
        self._decode = decode

    def start_before(self, offset: int) -> int:
        """Return 0."""
        return 0

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``."""
        return self._decode()


class Guesses:
    """Guesses where the next pieces of a block begin, to ask the server of a remote file for several at once.

    A piece states its own length only, so without guesses each piece costs a round trip.  Neighbouring pieces have
    nearly the same stored length.  A wrong guess costs bytes: the stated lengths alone decide what is read.
    ``ask(parts)`` asks for parts of the stored bytes: each an offset and a length.
    """

    def __init__(self, ask: Callable[[Sequence[tuple[int, int]]], None]) -> None:
        self._ask = ask
        self._asked: list[tuple[int, int]] = []

    def look_ahead(self, place: int, length: int, count: int) -> None:
        """Ask for the beginnings of the piece at ``place`` and of those after it, ``count`` pieces at most.

        ``length``: the stored bytes of the piece before.
        """
        if count < 2 or length <= 2 * _AROUND or any(start <= place < stop for start, stop in self._asked):
            return
        guessed = [max(0, place + number * length - _AROUND) for number in range(1, min(count, _AT_ONCE))]
        parts = [(place, _AROUND), *((start, 2 * _AROUND) for start in guessed)]
        self._asked = [(start, start + size - _HEAD) for start, size in parts]
        self._ask(parts)


class Chained:
    """The seeker of a block whose pieces each say how long they are.

    ``measure(place)`` returns the bytes of content of the piece at ``place`` of the stored bytes, and where the next
    one begins; None at the end.  It raises ``ValueError`` for a damaged piece: then no later piece is known, and a
    decoder says what is wrong.  ``decode(place)`` yields the content from the piece at ``place`` on.
    ``guesses``: asks the server of a remote file for pieces before they are known; None if that is not worth it.
    """

    def __init__(
        self,
        measure: Callable[[int], tuple[int, int] | None],
        decode: Callable[[int], Iterator[bytes]],
        guesses: Guesses | None = None,
    ) -> None:
        self._measure = measure
        self._decode = decode
        self._guesses = guesses
        self._last = (0, 0)
        self._starts = [0]
        self._places = [0]
        self._next = (0, 0)
        self._complete = False

    def start_before(self, offset: int) -> int:
        """See ``Seeker``.  Reads the lengths of the pieces before ``offset`` that are not known yet."""
        for _ in range(_MOST_STEPS):
            if self._complete or self._next[0] > offset:
                break
            self._guess(offset)
            self._step()
        return self._starts[bisect_right(self._starts, offset) - 1]

    def around(self, offset: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return where the piece with the content at ``offset`` begins and ends.

        Each is a place in the content and one in the stored bytes.  Several small pieces count as one.  Both are the
        end of the last piece that is known if none has ``offset``.
        """
        while not self._complete and self._starts[-1] <= offset:
            self._step()
        after = bisect_right(self._starts, offset)
        last = min(after, len(self._starts) - 1)
        return (self._starts[after - 1], self._places[after - 1]), (self._starts[last], self._places[last])

    def count_pieces(self) -> int | None:
        """See ``Countable``."""
        for _ in range(_MOST_STEPS):
            if self._complete:
                return max(1, len(self._starts) - 1)
            self._step()
        return None

    def pieces(self, size: int) -> Iterator[Slot]:
        """See ``Pieced``."""
        start = place = 0
        while (measured := self._measure(place)) is not None:
            slot = Slot(start, start + measured[0], place, measured[1] - place)
            start, place = slot.stop, measured[1]
            if slot.start < slot.stop:
                yield slot
                if self._guesses is not None:
                    self._guesses.look_ahead(place, slot.length, -(-(size - start) // measured[0]))

    def learn(self, pieces: Sequence[tuple[int, int]]) -> None:
        """Take over where pieces begin, in the content and in the stored bytes, from a table of the block.

        The last one is the end of the content.
        """
        for start, place in pieces:
            if start - self._starts[-1] >= _LEAST or (start, place) == pieces[-1]:
                self._remember(start, place)
        self._complete = bool(pieces)

    def _step(self) -> None:
        start, place = self._next
        try:
            measured = self._measure(place)
        except ValueError:
            measured = None
        self._complete = measured is None
        if self._complete or start - self._starts[-1] >= _LEAST:
            self._remember(start, place)
        if measured is not None:
            self._next = start + measured[0], measured[1]
            self._last = measured[0], measured[1] - place

    def _guess(self, offset: int) -> None:
        """Have the lengths of the pieces from the next one to ``offset`` asked for at the same time."""
        content, stored = self._last
        if self._guesses is not None and content:
            start, place = self._next
            self._guesses.look_ahead(place, stored, (offset - start) // content + 1)

    def _remember(self, start: int, place: int) -> None:
        if start > self._starts[-1]:
            self._starts.append(start)
            self._places.append(place)

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``."""
        return self._decode(self._places[bisect_right(self._starts, start) - 1])


class RewritableChain(Chained):
    """A ``Chained`` that is ``Rewritable``: each piece can be encoded without the others.

    ``size``: bytes of content that the block header states.  ``encode(content, length, grain)``: see
    ``Rewritable.encode_slot``.
    """

    def __init__(
        self,
        measure: Callable[[int], tuple[int, int] | None],
        decode: Callable[[int], Iterator[bytes]],
        size: int,
        encode: Callable[[bytes, int, int], bytes | None],
        guesses: Guesses | None = None,
    ) -> None:
        super().__init__(measure, decode, guesses)
        self._size = size
        self._encode = encode

    def slots(self, changed: Iterable[tuple[int, int]]) -> Iterator[Slot]:
        """See ``Rewritable``."""
        done = 0
        for start, stop in changed:
            place = max(done, start)
            while place < stop:
                slot = self._slot(place)
                yield slot
                place = done = slot.stop

    def _slot(self, offset: int) -> Slot:
        (start, place), (stop, end) = self.around(offset)
        if not start <= offset < stop <= self._size:
            raise ValueError("the lengths of its pieces do not add up to its size")
        return Slot(start, stop, place, end - place)

    def encode_slot(self, content: bytes, length: int, grain: int) -> bytes | None:
        """See ``Rewritable``."""
        return self._encode(content, length, grain)


def seeker_of(codec: Codec, stored: Source, size: int) -> Seeker:
    """Return the seeker of a block that ``codec`` decodes to ``size`` bytes.

    Raises ``ValueError`` if the stored bytes are damaged, or as ``Source.read_at``.
    """
    make = getattr(codec, "seeker", None)
    found: Seeker | None = make(stored, size) if make is not None else None
    return found or FromStart(lambda: codec.decode(stored, size))


def fitting(length: int, least: int, grain: int) -> int:
    """Return the first of ``length``, ``length + grain``, ``length + 2 * grain`` ... that is ``least`` or more."""
    return length + max(0, -(-(least - length) // grain)) * grain


def slots_within(seeker: Rewritable, changed: Iterable[tuple[int, int]], most: int) -> list[Slot]:
    """Return the slots that have the ranges ``changed`` of the content.

    None of them if they have more than ``most`` bytes of content or are stored in more.  Raises as
    ``Rewritable.slots``.
    """
    slots: list[Slot] = []
    content = stored = 0
    for slot in seeker.slots(changed):
        content, stored = content + slot.stop - slot.start, stored + slot.length
        if max(content, stored) > most:
            return []
        slots.append(slot)
    return slots

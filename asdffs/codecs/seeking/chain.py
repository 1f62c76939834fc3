"""The seeker of a block of pieces.  Each piece states its length, and can be encoded without the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from asdffs.codecs.seeking.guesses import Guesses
from asdffs.codecs.seeking.seeker import Chained
from asdffs.codecs.seeking.slots import Slot


class RewritableChain(Chained):
    """See ``Chained`` and ``Rewritable``.

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

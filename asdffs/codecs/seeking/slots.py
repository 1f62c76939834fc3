"""Slots: parts of the stored bytes of a block that can be encoded again without the others.

A slot has one piece of a block, or several small ones.  New content of the same size replaces it.  Where the codec
can fill a slot that is too long, the new bytes have the old length, so nothing behind the slot moves.  If they are
longer, they are longer by a multiple of ``grain``, so the file system can move the rest without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

from asdffs.codecs.seeking.seeker import Seeker


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

"""The decoder of one block, which may be sent to any place of its content.

It starts at the last place before the wanted one that the ``Seeker`` knows.  Damage is remembered for each such
place:  bytes before the damage can still be read, and so can other pieces.  The caller holds the main lock, which is
released while bytes are decoded; only one thread at a time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from asdffs.codecs.seeking import Rewritable, Seeker, Slot, slots_within
from asdffs.document.blocks.spool import Ranges
from asdffs.errors import DamagedBlockError
from asdffs.scheduling import CHUNK, Scheduler

#: Most seconds for which small pieces are gathered before the reader gets them.
_WORTH: Final = 0.004
#: The most places with damage that are remembered.
_MOST_DAMAGES: Final = 1024


class Decoder:
    """The decoder of block ``number``.

    ``open_seeker()`` returns the memory that a decoder of the bytes that are stored now keeps, in bytes, and their
    seeker.  ``position``: the offset in the content of the next byte.  ``rest``: decoded bytes from there on.
    """

    def __init__(self, number: int, open_seeker: Callable[[], tuple[int, Seeker]], scheduler: Scheduler) -> None:
        self._number = number
        self._open_seeker = open_seeker
        self._scheduler = scheduler
        self.opened: Seeker | None = None
        self._memory = 0
        self._pieces: Iterator[bytes] | None = None
        self._trouble: ValueError | MemoryError | None = None
        self._started = 0
        self.position = 0
        self.rest = memoryview(b"")
        self._damages: dict[int, tuple[int, DamagedBlockError]] = {}

    @property
    def memory(self) -> int:
        """About how many bytes of memory the decoder keeps."""
        return self._memory if self._pieces is not None else 0

    def seeker(self) -> Seeker:
        """Return the seeker of the stored bytes as they are now.  Raises as ``next``."""
        if self.opened is None:
            with self._errors_told():
                self._memory, self.opened = self._open_seeker()
        return self.opened

    def slots(self, seeker: Rewritable, changed: Ranges, most: int) -> list[Slot] | None:
        """Return the slots of ``seeker`` that have ``changed`` bytes.  See ``slots_within``."""
        with self._errors_told(), self._scheduler.waiting():
            return slots_within(seeker, changed, most)

    def go_to(self, wanted: int, leaving: Callable[[], None]) -> None:
        """Come to the offset ``wanted`` next or soon; ``leaving()`` is called before what is left of a piece is lost.

        Raises ``DamagedBlockError`` if it is known that the bytes there are damaged, or as ``next``.
        """
        if self._pieces is not None and self.position == wanted:
            return
        seeker = self.seeker()
        with self._errors_told(), self._scheduler.waiting():
            start = seeker.start_before(wanted)
        damaged_from, damage = self._damages.get(start, (0, None))
        if damage is not None and wanted >= damaged_from:
            raise damage
        if self._pieces is None or not start <= self.position <= wanted:
            leaving()
            self.stop()
            self._pieces, self.position, self._started = seeker.decode_from(start), start, start

    def next(self, size: int) -> memoryview | None:
        """Return the next bytes, at most ``CHUNK``, of a content of ``size`` bytes; None at its end.

        The position stays: see ``skip``.  Raises ``DamagedBlockError``, or ``OSError`` for a lack of memory.
        """
        if not self.rest and self._pieces is not None:
            with self._errors_told(), self._scheduler.waiting():
                piece = self._gather(self._pieces)
            if piece is None and self.position < size:
                raise self._damaged(f"it decodes to {self.position} bytes instead of {size}")
            if piece is None:
                return None
            self.rest = memoryview(piece)
        if self.position == size and self.rest:
            raise self._damaged(f"it decodes to more than its data_size of {size} bytes")
        return self.rest[: min(CHUNK, size - self.position)]

    def skip(self, count: int) -> None:
        """Go ``count`` bytes on, which ``next`` returned."""
        self.position += count
        self.rest = self.rest[count:]

    def note_damage(self, err: DamagedBlockError) -> None:
        """Remember what is damaged at this position, and stop."""
        if len(self._damages) >= _MOST_DAMAGES:
            self._damages.clear()
        self._damages[self._started] = self.position, err
        self.stop()

    def forget_damages(self) -> None:
        """Forget all damage: other bytes are stored now, or it is not read any more."""
        self._damages.clear()

    def stop(self) -> None:
        """Close the decoder.

        One that runs now, because of an interrupt, cannot be closed; it is forgotten, and ends by itself.
        """
        close = getattr(self._pieces, "close", None)  # only generators have it
        if close is not None:
            with contextlib.suppress(ValueError):
                close()
        self._pieces, self._trouble, self.rest = None, None, memoryview(b"")

    def _gather(self, pieces: Iterator[bytes]) -> bytes | None:
        """Return several pieces as one, or None at the end: some codecs yield only dozens of bytes at a time.

        If an error follows some pieces, return the pieces now and raise the error at the next call.
        """
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        gathered: list[bytes] = []
        length, until = 0, time.monotonic() + _WORTH
        while length < CHUNK and (not gathered or time.monotonic() < until):
            try:
                piece = next(pieces, None)
            except (ValueError, MemoryError) as err:
                if not gathered:
                    raise
                self._trouble = err
                break
            if piece is None:
                break
            gathered.append(piece)
            length += len(piece)
        if not gathered:
            return None
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    @contextlib.contextmanager
    def _errors_told(self) -> Iterator[None]:
        """Raise errors of a decoder or seeker as ``DamagedBlockError``, or ``OSError`` for a lack of memory."""
        try:
            yield
        except ValueError as err:
            raise self._damaged(f"its compressed bytes are damaged: {err}") from err
        except MemoryError as err:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from err

    def _damaged(self, reason: str) -> DamagedBlockError:
        return DamagedBlockError(reason, block=self._number)

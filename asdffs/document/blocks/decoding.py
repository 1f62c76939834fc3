"""Decoded content of compressed blocks, in unlinked spool files.

A block is decoded only where it is read.  A decoder starts at the last place before the read that its ``Seeker``
knows.  So a sequential reader waits only for the piece that it reads, a read far away decodes the piece that it
needs, and a second pass reads the spool.  Memory use is limited by the size of the pieces.  Disk use is limited by
``SpoolRoom``: whole blocks and parts of blocks that were not used for the longest time are evicted.  What was written
is kept until it is committed; the whole block is, if its codec cannot encode one piece without the others.

The caller holds the main lock.  Only one reader of a block at a time decodes it; the main lock is released meanwhile,
so other requests are served.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

from asdffs.codecs.seeking import Remembering, Rewritable, Seeker, Slot
from asdffs.document.blocks.decoder import Decoder
from asdffs.document.blocks.locks import RetiredError
from asdffs.document.blocks.spool import Spooled, SpoolRoom
from asdffs.document.report import Progress
from asdffs.errors import AbandonedError, AsdffsError, DamagedBlockError
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.file_backend import write_all

#: Bytes before the offset of the reader that a block larger than the room keeps, because requests may arrive out of
#: order.
_BEHIND: Final = 4 << 20
#: The same for a block that is kept in memory because the disk of the spool is full; and the most that it keeps.
_BEHIND_IN_MEMORY: Final = 1 << 20
_MOST_IN_MEMORY: Final = 8 << 20
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
#: Decoding more bytes than this takes long enough to report progress.
_LONG: Final = 8 << 20


def _untold(count: int) -> None:
    """Report no progress: the work is over soon."""


class DecodedBlock:
    """The decoded content of block ``number``, which has ``size`` bytes.

    ``open_seeker()`` returns the memory that a decoder of the bytes that are stored now keeps, in bytes, and their
    seeker.

    ``ended``: a decoder came to the end of the block.  ``exclusive``: the lock for decoding and writing.
    """

    def __init__(
        self,
        number: int,
        size: int,
        open_seeker: Callable[[], tuple[int, Seeker]],
        room: SpoolRoom,
        *,
        scheduler: Scheduler,
        progress: Progress,
    ) -> None:
        self.number = number
        self.size = size
        self.ended = False
        self.exclusive = RankedLock(scheduler, Rank.DECODER)
        self._scheduler = scheduler
        self._progress = progress
        self._decoder = Decoder(number, open_seeker, scheduler)
        self._room = room
        self._content = Spooled(lambda: self._room.create(in_memory=self._in_memory))
        self._last = (0, 0)
        self._invalid = False
        self._in_memory = False
        self._needs_all = False
        self._whole = False

    @property
    def dirty(self) -> bool:
        """Whether the block was written, and the spool has content that the ASDF file has not."""
        return self._whole or self._content.changed.size > 0

    @property
    def kept(self) -> int:
        """Bytes that the block has in the spool."""
        return 0 if self._in_memory else self._content.there.size

    @property
    def held(self) -> int:
        """Bytes in the spool that cannot be freed, because the ASDF file has not got them."""
        return self.kept if self._whole else self._content.changed.size

    @property
    def memory(self) -> int:
        """About how many bytes of memory the decoder keeps."""
        return self._decoder.memory

    @property
    def busy(self) -> bool:
        """Whether a thread is decoding or writing the block now, so it must not be closed."""
        return self.exclusive.taken

    def read(self, offset: int, length: int) -> Extent:
        """Return the place of the decoded bytes ``[offset, offset + length)`` in the spool; fewer bytes at the end.

        Decodes them first if necessary.  Raises ``RetiredError``; ``DamagedBlockError``; ``AbandonedError`` if the
        program that asked has ended; ``OSError``; or as the ``Source`` of the decoder.
        """
        stop = min(offset + length, self.size)
        if not self._has(offset, stop):
            with self.exclusive:
                self._provide(offset, stop)
        self._room.touch(self)
        self._content.use(offset, stop)
        self._last = offset, stop
        return Extent(self._content.file.fileno(), offset, max(0, stop - offset))

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Decodes the pieces that it changes first, if their codec can encode them without the others; else the whole
        block, unless it is dirty.  Raises ``SpoolFullError`` or as ``read``.
        """
        end = offset + len(payload)
        with self.exclusive:
            if self._is_written_in_part(end):
                self._own_part(offset, end)
            else:
                self._own(self.size, max(self.size, end))
            if not self._whole:  # even if the write fails: a part of it may be written
                self._content.changed.add(offset, end)
            try:
                write_all(self._content.file.fileno(), payload, offset)
            except OSError:
                self._content.file.truncate(self.size)  # a part behind the end would show up when the block grows
                raise
            self._content.add(offset, end)
            self.size = max(self.size, end)

    def slots(self, most: int) -> tuple[Rewritable, list[Slot]] | None:
        """Return the seeker of the stored bytes, and the slots that have what was written since the last commit.

        None if the block must be encoded as a whole: its codec has no slots, or they have more than ``most`` bytes of
        content or are stored in more.  Raises as ``read``.
        """
        with self.exclusive:  # a reader uses the same seeker
            seeker = None if self._whole else self._decoder.seeker()
            if not isinstance(seeker, Rewritable) or self._content.changed.size > most:
                return None
            slots = self._decoder.slots(seeker, self._content.changed, most)
        return (seeker, slots) if slots else None

    def remembered(self) -> bytes:
        """Return the places to save for the next time; empty if there are none.  See ``Remembering``."""
        seeker = self._decoder.opened
        return seeker.remembered() if isinstance(seeker, Remembering) and not self.dirty else b""

    def detach(self) -> int:
        """Stop reading the ASDF file, because another program changed it; return how many bytes are lost.

        Lost bytes were neither decoded nor written before.  They read as zeros from now on.
        """
        lost = 0 if self._whole else self.size - self._content.there.size
        self._decoder.stop()
        self._content.truncate(self.size)
        self._whole = True
        return lost

    def give_name(self, path: str) -> int:
        """Give the spool file of a dirty block the name ``path``, durably and without a copy.

        Decodes the rest of a block that was written in part.  Return how many bytes could not be decoded: they are
        zeros in the file.  Raises ``OSError``.
        """
        with self.exclusive:
            if not self._whole:
                with contextlib.suppress(AsdffsError, OSError):  # what was written is worth more than nothing
                    self._decode_all(self.size)
            lost = self.detach()
        self._content.name(path)
        return lost

    def truncate(self, size: int) -> None:
        """Set the size of the content in bytes; added bytes read as zeros.  Raises as ``write``."""
        with self.exclusive:
            self._own(min(size, self.size), size)
            self._content.truncate(size)
            self.size = size

    def saved(self) -> None:
        """Note that the written content is in the ASDF file now."""
        if self._whole:
            self._content.add(0, self.size)
            self.ended = True
        self._whole, self._decoder.opened = False, None
        self._content.changed.clear()
        self._decoder.forget_damages()
        self._decoder.stop()

    def invalidate(self) -> None:
        """Make this object obsolete: the block is stored in another way now.  Its readers get ``RetiredError``."""
        self._invalid, self._whole = True, False
        self.restart()

    def restart(self) -> None:
        """Drop all decoded content.  The next reader decodes the stored bytes again."""
        self._room.forget(self)
        self._decoder.stop()
        self._content.clear()
        self.ended = False

    def free(self, wanted: int) -> int:
        """Free ``wanted`` bytes of the spool, but not what was read last; return how many were freed, maybe fewer.

        What was written stays.
        """
        return 0 if self._whole else self._content.free(wanted, self._last)

    def stop_decoding(self) -> None:
        """Close the decoder, and keep the decoded content."""
        self._decoder.stop()

    def _has(self, offset: int, stop: int) -> bool:
        """Return whether the spool has all of ``[offset, stop)``.

        At the end of the block, a decoder must also have ended, which proves that no more bytes follow.
        """
        return self._whole or (self._content.there.missing(offset, stop) is None and (stop < self.size or self.ended))

    def _own(self, needed: int, size: int) -> None:
        """Make the whole block dirty: from now on the spool has the valid content, not the ASDF file.

        Decodes the first ``needed`` bytes first, and frees room for ``size`` bytes.
        """
        self._room.check_fits(self, max(needed, size))
        if self._in_memory and not self.dirty:
            self._in_memory = False
            self.restart()
        more = size - self.size
        if not self._whole:
            self._decode_all(needed)
            self._decoder.stop()
            if needed == 0:
                self._content.clear()
            self._content.truncate(needed)
            self._whole, more = True, size - needed
            self._decoder.forget_damages()
        self._room.touch(self)
        self._last = 0, size
        self._room.make_room(self, max(0, more))

    def _is_written_in_part(self, end: int) -> bool:
        """Return whether only the pieces before ``end`` that are written must be decoded."""
        if self._whole or self._in_memory or end > self.size:
            return False
        return isinstance(self._decoder.seeker(), Rewritable)

    def _own_part(self, offset: int, end: int) -> None:
        """Have the bytes ``[offset, end)`` in the spool before they are written: their piece must not be damaged."""
        self._room.check_fits(self, self._content.changed.size + end - offset)
        self._needs_all = True  # what was written cannot be in memory
        try:
            self._provide(offset, end)
        finally:
            self._needs_all = False
        self._room.touch(self)

    def _decode_all(self, needed: int) -> None:
        """Have the first ``needed`` bytes in the spool."""
        self._needs_all = True
        try:
            if needed:
                self._provide(0, needed)
        finally:
            self._needs_all = False

    def _provide(self, offset: int, stop: int) -> None:
        """Decode until ``[offset, stop)`` is in the spool.

        Another reader may have decoded it while this one waited for ``exclusive``.
        """
        self._last = max(0, offset - self._behind), stop
        if self._has(offset, stop):
            return
        if self._in_memory and self._room.has_again(self.size):
            self._in_memory = False
            self.restart()
        self._go_to(offset, stop)
        left = stop - self._decoder.position
        with self._progress.over("decoding", left, self.number) if left > _LONG else nullcontext(_untold) as step:
            while not self._has(offset, stop):
                self._go_to(offset, stop)
                self._advance(step)

    @property
    def _behind(self) -> int:
        """Bytes before the offset of the reader that are kept, because requests may arrive out of order."""
        return _BEHIND_IN_MEMORY if self._in_memory else min(_BEHIND, self._room.limit // 4)

    def _go_to(self, offset: int, stop: int) -> None:
        """Have a decoder that comes to the first missing byte of ``[offset, stop)``, next or soon."""
        if self._invalid:
            raise RetiredError
        missing = self._content.there.missing(offset, stop)
        # if nothing is missing, only the end is to be proved
        self._decoder.go_to(self.size if missing is None else missing, self._keep_rest)

    def _keep_rest(self) -> None:
        """Keep the rest of a piece before another one is decoded: a second reader may need it soon."""
        rest = self._decoder.rest[: max(0, self.size - self._decoder.position)]
        if rest and not self._in_memory and len(rest) <= self._room.limit // 4:
            self._make_room(len(rest))
            with contextlib.suppress(OSError):  # it can be decoded again
                self._keep(rest)

    def _advance(self, step: Callable[[int], None]) -> None:
        before = self._decoder.position
        try:
            if not self._scheduler.wanted:
                raise AbandonedError("the program that asked for the block has ended", block=self.number)
            self._decode_piece()
        except DamagedBlockError as err:
            self._decoder.note_damage(err)  # bytes before the damage can still be read, and other pieces
            raise
        except AbandonedError:  # the decoder is intact: the next reader continues
            raise
        except BaseException:  # an iterator that raised cannot continue: the next reader starts a new one
            self._decoder.stop()
            raise
        step(self._decoder.position - before)

    def _decode_piece(self) -> None:
        """Decode a piece, and keep at most ``CHUNK`` bytes of it at a time: a piece may be larger than the room."""
        piece = self._decoder.next(self.size)
        if piece is None:
            self.ended = True
            return
        self._room.touch(self)
        if self._kept_where_there_is_room(piece):
            self._decoder.skip(len(piece))

    def _kept_where_there_is_room(self, piece: memoryview) -> bool:
        """Write ``piece`` to the spool.  Return False if the disk is full and decoding starts again in memory."""
        self._make_room(len(piece))
        try:
            self._keep(piece)
            return True
        except OSError as err:
            if err.errno not in _FULL or self._in_memory:
                raise
        self._room.make_room(self, len(piece), full=True)
        try:
            self._keep(piece)
            return True
        except OSError as err:
            if err.errno not in _FULL or self._needs_all or self.dirty or not hasattr(os, "memfd_create"):
                raise
        self.restart()
        self._in_memory = True
        return False

    def _make_room(self, more: int) -> None:
        """Free room for ``more`` bytes of the spool."""
        if not self._in_memory:
            self._room.make_room(self, more)
        elif self._content.there.size + more > _MOST_IN_MEMORY:
            self.free(more)

    def _keep(self, piece: memoryview) -> None:
        """Write ``piece`` to the spool at the position of the decoder, except for bytes that are there already.

        Some of these may have been written, and are newer.
        """
        start, stop = self._decoder.position, self._decoder.position + len(piece)
        missing = list(self._content.there.gaps(start, stop))
        if not missing:
            return
        spool = self._content.file.fileno()
        with self._scheduler.waiting():
            for low, high in missing:
                write_all(spool, piece[low - start : high - start], low)
        self._content.add(start, stop)

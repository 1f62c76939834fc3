"""Decoded content of compressed blocks, in unlinked spool files.

A block is decoded only as far as it is read.  So a sequential reader waits only for the piece that it reads, and a
second pass reads the spool.  Memory use is limited by the size of the pieces.  Disk use is limited by ``SpoolRoom``,
which evicts the least recently used block.  A block larger than the whole room keeps only the bytes near its reader.
A block that was written is kept whole until it is committed.

The caller holds the main lock.  Only one reader of a block at a time decodes it; the main lock is released meanwhile,
so other requests are served.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import BinaryIO, Final

from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.progress import Progress
from asdffs.errors import AbandonedError, DamagedBlockError
from asdffs.scheduling import CHUNK, Rank, RankedLock, Scheduler
from asdffs.storage.backend import Extent
from asdffs.storage.file_backend import write_all
from asdffs.storage.linux_calls import punch_hole

#: Bytes before the offset of the reader that a block larger than the room keeps, because requests may arrive out of
#: order.
_BEHIND: Final = 4 << 20
#: The same for a block that is kept in memory because the disk of the spool is full; and the most that it keeps.
_BEHIND_IN_MEMORY: Final = 1 << 20
_MOST_IN_MEMORY: Final = 8 << 20
#: Most seconds for which small pieces are gathered before the reader gets them.
_WORTH: Final = 0.004
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
#: Decoding or freeing more bytes than this takes long enough to report progress, or to use a thread.
_LONG: Final = 8 << 20


def _untold(count: int) -> None:
    """Report no progress: the work is over soon."""


class RetiredError(Exception):
    """The block was stored in another way meanwhile, so this object is obsolete; ask the document for the new one."""


class DecodedBlock:
    """The decoded content of block ``number``, which has ``size`` bytes.

    ``decode()`` starts a decoder of the bytes that are stored now.  It returns the memory that the decoder keeps, in
    bytes, and an iterator of the pieces.

    ``dirty``: the block was written, and the spool has content that the ASDF file has not.  ``ended``: the block was
    decoded to its end.  ``reader``: the offset of the last read.  ``exclusive``: the lock for decoding and writing.
    """

    def __init__(
        self,
        number: int,
        size: int,
        decode: Callable[[], tuple[int, Iterator[bytes]]],
        room: SpoolRoom,
        *,
        scheduler: Scheduler,
        progress: Progress,
    ) -> None:
        self.number = number
        self.size = size
        self.dirty = False
        self.ended = False
        self.reader = 0
        self.exclusive = RankedLock(scheduler, Rank.DECODER)
        self._scheduler = scheduler
        self._progress = progress
        self._memory = 0
        self._skipped = 0
        self._decode = decode
        self._room = room
        self._spool: BinaryIO | None = None
        self._pieces: Iterator[bytes] | None = None
        self._rest = memoryview(b"")
        self._trouble: ValueError | MemoryError | None = None
        self._start = 0
        self._done = 0
        self._damage: DamagedBlockError | None = None
        self._retired = False
        self._in_memory = False
        self._needs_all = False

    @property
    def kept(self) -> int:
        """Bytes that the block has in the spool."""
        return 0 if self._in_memory else self._done - self._start

    @property
    def memory(self) -> int:
        """About how many bytes of memory the decoder keeps."""
        return self._memory if self._pieces is not None else 0

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
            with self.exclusive.entered():
                self._provide(offset, stop)
        self._room.use(self)
        self.reader = offset
        return Extent(self._file.fileno(), offset, max(0, stop - offset))

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset`` of the content; a gap before it reads as zeros.

        Decodes the whole block first, unless it is dirty.  Raises ``SpoolFullError`` or as ``read``.
        """
        end = offset + len(payload)
        with self.exclusive.entered():
            self._own(self.size, max(self.size, end))
            try:
                write_all(self._file.fileno(), payload, offset)
            except OSError:
                self._file.truncate(self.size)  # a part written behind the end would show up when the block grows
                raise
            self.size = self._done = max(self.size, end)

    def give_name(self, path: str) -> None:
        """Give the spool file of a dirty block the name ``path``, durably and without a copy.  Raises ``OSError``."""
        self._file.truncate(self.size)
        os.fsync(self._file.fileno())
        descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # only with src_dir_fd Python calls linkat(2), which can follow the link in /proc
            os.link(str(self._file.fileno()), path, src_dir_fd=descriptors, follow_symlinks=True)
        finally:
            os.close(descriptors)

    def truncate(self, size: int) -> None:
        """Set the size of the content in bytes; added bytes read as zeros.  Raises as ``write``."""
        with self.exclusive.entered():
            self._own(min(size, self.size), size)
            self._file.truncate(size)
            self.size = self._done = size

    def saved(self) -> None:
        """Note that the ASDF file has the content of the spool, and the spool has the whole block."""
        self.dirty, self.ended = False, True

    def retire(self) -> None:
        """Make this object obsolete: the block is stored in another way now.  Its readers get ``RetiredError``."""
        self._retired = True
        self.dirty = False
        self.restart()

    def restart(self) -> None:
        """Drop all decoded content.  The next reader decodes the bytes that are stored then."""
        self._room.forget(self)
        self.stop_decoding()
        self._drop_spool()
        self._damage, self.ended = None, False
        self._start = self._done = 0

    def trim(self, keep_from: int) -> int:
        """Free the spool before ``keep_from``, except for a margin; return the number of bytes freed.

        A dirty block frees nothing.
        """
        stop = min(self._done, keep_from - self._behind)
        if self.dirty or stop <= self._start:
            return 0
        punch_hole(self._file.fileno(), self._start, stop - self._start)
        given, self._start = stop - self._start, stop
        return given

    @property
    def _behind(self) -> int:
        """Bytes before the offset of the reader that ``trim`` keeps."""
        return _BEHIND_IN_MEMORY if self._in_memory else min(_BEHIND, self._room.most // 4)

    def _drop_spool(self) -> None:
        """Close the spool file; a large one in another thread, because freeing gigabytes takes a while."""
        spool, self._spool = self._spool, None
        if spool is not None and self.kept > _LONG:
            threading.Thread(target=spool.close, name="freeing", daemon=True).start()
        elif spool is not None:
            spool.close()

    @property
    def _file(self) -> BinaryIO:
        if self._spool is None:
            self._spool = self._room.create(in_memory=self._in_memory)
        return self._spool

    def _has(self, offset: int, stop: int) -> bool:
        """Return whether the spool has all of ``[offset, stop)``.

        At the end of the block, the decoder must also have ended, which proves that no more bytes follow.
        """
        return self.dirty or (self._start <= offset and stop <= self._done and (stop < self.size or self.ended))

    def _own(self, needed: int, size: int) -> None:
        """Make the block dirty: from now on the spool has the valid content, not the ASDF file.

        Decodes the first ``needed`` bytes first, and frees room for ``size`` bytes.
        """
        self._room.check_fits(self, max(needed, size))
        if self._in_memory and not self.dirty:
            self._in_memory = False
            self.restart()
        if not self.dirty:
            if needed or self._start:
                self._needs_all = True
                try:
                    self._provide(0, needed)
                finally:
                    self._needs_all = False
            self.stop_decoding()
            if needed == 0:
                self._drop_spool()
            self._file.truncate(needed)
            self.dirty, self._damage = True, None
            self._done = needed
        self._room.use(self)
        self._room.admit(self, size - self._done, 0)

    def _provide(self, offset: int, stop: int) -> None:
        """Decode until ``[offset, stop)`` is in the spool."""
        if offset < self._start:
            self.restart()
        left = stop - self._done
        with self._progress.over("decoding", left, self.number) if left > _LONG else nullcontext(_untold) as step:
            while not self._has(offset, stop):
                if self._retired:
                    raise RetiredError
                if self._damage is not None:
                    raise self._damage
                self._advance(offset, step)

    def _advance(self, offset: int, step: Callable[[int], None]) -> None:
        before = self._done
        try:
            if not self._scheduler.wanted:
                raise AbandonedError("the program that asked for the block has ended", block=self.number)
            self._decode_piece(offset)
        except DamagedBlockError as err:
            self._damage = err  # bytes before the damage can still be read
            raise
        except AbandonedError:  # the decoder is intact: the next reader continues
            raise
        except BaseException:  # an iterator that raised cannot continue: the next reader starts a new one
            self.stop_decoding()
            raise
        step(self._done - before)

    def _decode_piece(self, offset: int) -> None:
        """Decode a piece, and keep at most ``CHUNK`` bytes of it at a time: a piece may be larger than the room."""
        if self._pieces is None:
            self._memory, self._pieces = self._decode()
            self._skipped = 0
        if not self._rest:
            self._rest = self._without_known(self._next_piece(self._pieces))
        if self._done == self.size and self._rest:
            raise self._damaged(f"it decodes to more than its data_size of {self.size} bytes")
        piece = self._rest[: min(CHUNK, self.size - self._done)]
        self._room.use(self)
        if self._kept_where_there_is_room(piece, offset):
            self._done += len(piece)
            self._rest = self._rest[len(piece) :]

    def _kept_where_there_is_room(self, piece: memoryview, offset: int) -> bool:
        """Write ``piece`` to the spool.  Return False if the disk is full and decoding starts again in memory."""
        self._make_room(len(piece), offset)
        try:
            self._keep(piece)
            return True
        except OSError as err:
            if err.errno not in _FULL or self._in_memory:
                raise
        self._room.shrink()
        self._make_room(len(piece), offset)
        try:
            self._keep(piece)
            return True
        except OSError as err:
            if err.errno not in _FULL or self._needs_all or not hasattr(os, "memfd_create"):
                raise
        self.restart()
        self._in_memory = True
        return False

    def _make_room(self, more: int, offset: int) -> None:
        """Free room for ``more`` bytes of the spool, for a reader at ``offset``."""
        if not self._in_memory:
            self._room.admit(self, more, offset)
        elif self._done - self._start + more > _MOST_IN_MEMORY:
            self.trim(offset)

    def _without_known(self, piece: bytes) -> memoryview:
        """Return ``piece`` without the bytes that an earlier decoder, now stopped, put into the spool."""
        known = min(len(piece), self._done - self._skipped)
        self._skipped += len(piece)
        return memoryview(piece)[known:] if known > 0 else memoryview(piece)

    def _keep(self, piece: memoryview) -> None:
        spool = self._file.fileno()
        with self._scheduler.waiting():
            write_all(spool, piece, self._done)

    def _next_piece(self, pieces: Iterator[bytes]) -> bytes:
        try:
            with self._scheduler.waiting():
                piece = self._gathered(pieces)
        except ValueError as err:
            raise self._damaged(f"its compressed bytes are damaged: {err}") from err
        except MemoryError as err:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from err
        if piece is None:
            if self._done < self.size:
                raise self._damaged(f"it decodes to {self._done} bytes instead of {self.size}")
            self.ended = True
        return piece or b""

    def _gathered(self, pieces: Iterator[bytes]) -> bytes | None:
        """Return several pieces as one, or None at the end.

        Codecs may yield only dozens of bytes at a time, and each call costs a release of the main lock.  If an error
        follows some pieces, return the pieces now and raise the error at the next call.
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

    def stop_decoding(self) -> None:
        """Close the decoder, and keep the decoded content.

        A decoder that runs now, because of an interrupt, cannot be closed; it is forgotten, and ends by itself.
        """
        close = getattr(self._pieces, "close", None)  # only generators have it
        if close is not None:
            with contextlib.suppress(ValueError):
                close()
        self._pieces, self._rest, self._trouble = None, memoryview(b""), None

    def _damaged(self, reason: str) -> DamagedBlockError:
        return DamagedBlockError(reason, block=self.number)

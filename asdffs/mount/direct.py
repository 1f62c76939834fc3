"""Answers reads, writes that concern nobody else, and flushes of what was not written, without libfuse.

And the opens of helper processes, which are about the kernel's pages and no file of ours (``dropper``).

libfuse and the bindings take three quarters of the time of a small read, and a third of that of a small write; and
libfuse 2 cannot answer with an extent.
These requests name an open file, whose number is ours, so nothing that libfuse knows is needed, and all that it would
do is to send the answer: ``struct fuse_out_header`` (16 bytes: 4 length, 4 minus errno, 8 unique) and the bytes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import struct
from typing import Final, Protocol

from asdffs.mount.request import (
    FUSE_FLUSH,
    FUSE_OPEN,
    FUSE_READ,
    FUSE_RELEASE,
    FUSE_WRITE,
    WRITE_CACHE,
    open_flags_of,
    payload_of,
    process_of,
    read_of,
)
from asdffs.storage.backend import Extent, read_bytes

logger = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("=IiQ")
#: What is shorter is copied: to fill a pipe and to empty it are two calls more.
_LEAST_SPLICE: Final = 32 << 10
#: Bytes of a pipe that holds the largest answer, of 1 MiB that is no whole number of pages, where that is allowed.
_PIPE: Final = 1 << 20
_PAGE: Final = 4096
#: The header, and ``struct fuse_write_out``: 4 size, 4 that are not used.
_WRITTEN: Final = struct.Struct("=IiQII")
#: ``struct fuse_open_out``: 8 handle, 4 flags, 4 that are not used.
_OPENED: Final = struct.Struct("=QII")
#: Of linux/fuse.h: without the first the kernel drops its pages; with the second a close is not asked about.
_KEEP_CACHE: Final = 1 << 1
_NO_FLUSH: Final = 1 << 5
#: The handle of every open of a helper.
_HELPERS: Final = (1 << 64) - 1
#: The program was interrupted, or the mount is gone: nobody waits for the answer.
_UNWANTED: Final = (errno.ENOENT, errno.ENODEV)


class OpenFiles(Protocol):
    """Open files by the numbers that the kernel has for them (``operations``)."""

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes | Extent:
        """Bytes, fewer only at the end, or where they are, when nothing moves them meanwhile.  Raises ``OSError``."""

    def overwrite(self, fh: int, offset: int, data: memoryview) -> bool:
        """Write, where that concerns nobody else; False, and nothing is done, where it may.  Raises ``OSError``."""

    def is_clean(self, fh: int) -> bool:
        """Whether nothing was written through it since its last flush."""

    def is_helper(self, pid: int) -> bool:
        """Whether a process only opens files for the kernel's pages of them."""


class Direct:
    """Answers through ``device``, the descriptor of the kernel's queue."""

    def __init__(self, device: int, files: OpenFiles) -> None:
        self._device = device
        self._files = files
        self._pipe: tuple[int, int] | None = None
        self._room = 0

    def answer(self, request: memoryview) -> bool:
        """Answer a request; False when that is libfuse's business."""
        opcode, unique, handle, offset, size, how = read_of(request)
        if opcode == FUSE_READ:
            self._read(unique, handle, offset, size)
            return True
        if opcode == FUSE_WRITE:
            return not how & WRITE_CACHE and self._write(unique, handle, offset, payload_of(request, size))
        if opcode == FUSE_OPEN:
            return self._files.is_helper(process_of(request)) and self._open(unique, open_flags_of(request))
        if (opcode in (FUSE_FLUSH, FUSE_RELEASE) and handle == _HELPERS) or (
            opcode == FUSE_FLUSH and self._files.is_clean(handle)
        ):
            self._send(_HEADER.pack(_HEADER.size, 0, unique))
            return True
        return False

    def _open(self, unique: int, flags: int) -> bool:
        """The kernel keeps its pages of the file for an open with O_NONBLOCK, and drops them for another one."""
        kept = _NO_FLUSH | (_KEEP_CACHE if flags & os.O_NONBLOCK else 0)
        self._send(_HEADER.pack(_HEADER.size + _OPENED.size, 0, unique), _OPENED.pack(_HELPERS, kept, 0))
        return True

    def close(self) -> None:
        """Give the pipe back."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def _read(self, unique: int, handle: int, offset: int, size: int) -> None:
        try:
            found = self._fetched(unique, self._files.read(None, size, offset, handle))
        except OSError as err:
            self._send(_HEADER.pack(_HEADER.size, -(err.errno or errno.EIO), unique))
        except Exception:  # the program must not wait for ever for an answer
            logger.exception("internal error; please report it")
            self._send(_HEADER.pack(_HEADER.size, -errno.EIO, unique))
        else:
            if found is not None:
                self._send(_HEADER.pack(_HEADER.size + len(found), 0, unique), found)

    def _write(self, unique: int, handle: int, offset: int, payload: memoryview) -> bool:
        """Of write(2); a mapped write concerns pages of other views, and goes the long way."""
        try:
            if not self._files.overwrite(handle, offset, payload):
                return False
        except OSError as err:
            self._send(_HEADER.pack(_HEADER.size, -(err.errno or errno.EIO), unique))
        except Exception:  # the program must not wait for ever for an answer
            logger.exception("internal error; please report it")
            self._send(_HEADER.pack(_HEADER.size, -errno.EIO, unique))
        else:
            self._send(_WRITTEN.pack(_WRITTEN.size, 0, unique, len(payload), 0))
        return True

    def _fetched(self, unique: int, found: bytes | Extent) -> bytes | None:
        """The bytes of an answer, or None when it was sent.  Raises ``OSError``."""
        if not isinstance(found, Extent):
            return found
        if found.length < _LEAST_SPLICE:
            piece = os.pread(found.fd, found.length, found.offset)
            return piece if len(piece) == found.length else read_bytes(found)
        return None if self._splice(unique, found) else read_bytes(found)

    def _send(self, *parts: bytes) -> None:
        try:
            os.writev(self._device, parts)
        except OSError as err:
            if err.errno not in _UNWANTED:
                logger.error("an answer could not be sent: %s", err.strerror)

    def _splice(self, unique: int, found: Extent) -> bool:
        """Have the kernel copy from the file to the answer; False when that cannot be: then nothing was sent."""
        try:
            pipe = self._pipe or self._open_pipe()
        except OSError:  # no descriptors are left: it is copied
            return False
        if found.length + 2 * _PAGE > self._room:  # at an odd offset one page more, and one for the header
            return False
        total = _HEADER.size + found.length
        os.write(pipe[1], _HEADER.pack(total, 0, unique))
        try:
            if self._fill(pipe[1], found):
                return os.splice(pipe[0], self._device, total) == total
        except OSError as err:
            if err.errno in _UNWANTED:
                self.close()  # with what is in it
                return True
            logger.info("an answer could not be spliced: %s", err.strerror)
        self.close()
        return False

    def _fill(self, end: int, found: Extent) -> bool:
        """Whether all of it is in the pipe: not when another program cut the file."""
        filled = 0
        while filled < found.length:
            count = os.splice(found.fd, end, found.length - filled, offset_src=found.offset + filled)
            if not count:
                return False
            filled += count
        return True

    def _open_pipe(self) -> tuple[int, int]:
        self._pipe = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # as large as this user may have it
            fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE)
        self._room = fcntl.fcntl(self._pipe[1], fcntl.F_GETPIPE_SZ)
        return self._pipe

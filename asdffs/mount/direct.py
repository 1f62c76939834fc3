"""Answers the most frequent requests without libfuse.

* Reads, and writes that affect no other view or request.
* Flushes of files that did not change.
* Questions for extended attributes outside of the namespace ``user``.  No file has these.
* ioctl(2).  No file supports it.
* Opens by the helper processes of ``dropper``.

libfuse and its bindings take three quarters of the time of a small read, and a third of that of a small write.  And
libfuse 2 cannot answer with an extent.  These requests name an open file by our own number, so we need no state of
libfuse.  An answer is a ``struct fuse_out_header`` (16 bytes: 4 length, 4 minus errno, 8 unique) and the bytes.

Each thread of ``loop`` has one ``Direct``.  The methods take the main lock where they need it (``operations``).
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
    FUSE_GETXATTR,
    FUSE_IOCTL,
    FUSE_OPEN,
    FUSE_READ,
    FUSE_RELEASE,
    FUSE_WRITE,
    WRITE_CACHE,
    asks_for_user_attribute,
    open_flags_of,
    payload_of,
    process_of,
    read_of,
)
from asdffs.storage.backend import Extent, read_bytes

logger = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("=IiQ")
#: A shorter answer is copied, because splicing needs two more system calls, to fill a pipe and to empty it.
_LEAST_SPLICE: Final = 32 << 10
#: Size of the pipe in bytes, if this user may have such a large one.
_PIPE: Final = 1 << 20
_PAGE: Final = 4096
#: The header, and ``struct fuse_write_out``: 4 size, 4 unused.
_WRITTEN: Final = struct.Struct("=IiQII")
#: ``struct fuse_open_out``: 8 handle, 4 flags, 4 unused.
_OPENED: Final = struct.Struct("=QII")
#: Flags of linux/fuse.h.  Without the first, the kernel drops its pages.  With the second, it sends no FUSE_FLUSH.
_KEEP_CACHE: Final = 1 << 1
_NO_FLUSH: Final = 1 << 5
#: The handle of all opens by helpers.
_HELPERS: Final = (1 << 64) - 1
#: Errors that mean: the program was interrupted, or the mount is gone, so the answer is not needed any more.
_UNWANTED: Final = (errno.ENOENT, errno.ENODEV)


class OpenFiles(Protocol):
    """Access to open files by their handles (``operations``)."""

    def read(self, path: str | None, size: int, offset: int, fh: int) -> bytes | Extent:
        """Return bytes, fewer only at the end of the file.

        Returns an extent if nothing can move the bytes before they are sent.  Raises ``OSError``.
        """

    def overwrite(self, fh: int, offset: int, data: memoryview) -> bool:
        """Write if that affects no other view or request, else return False and do nothing.  Raises ``OSError``."""

    def is_clean(self, fh: int) -> bool:
        """Return whether no program wrote through the handle since its last flush."""

    def is_helper(self, pid: int) -> bool:
        """Return whether process ``pid`` is a helper of ``dropper``."""


class Direct:
    """Answers requests through ``device``, the file descriptor of /dev/fuse."""

    def __init__(self, device: int, files: OpenFiles) -> None:
        self._device = device
        self._files = files
        self._pipe: tuple[int, int] | None = None
        self._room = 0

    def answer(self, request: memoryview) -> bool:
        """Answer a request, or return False if libfuse must do it."""
        opcode, unique, handle, offset, size, how = read_of(request)
        if opcode == FUSE_READ:
            self._read(unique, handle, offset, size)
            return True
        if opcode == FUSE_WRITE:
            return not how & WRITE_CACHE and self._write(unique, handle, offset, payload_of(request, size))
        if opcode == FUSE_GETXATTR:  # the kernel asks for security.capability before each write
            return not asks_for_user_attribute(request) and self._reply(unique, errno.ENOTSUP)
        if opcode == FUSE_IOCTL:  # open() of Python asks each file whether it is a terminal
            return self._reply(unique, errno.ENOTTY)
        if opcode == FUSE_OPEN:
            return self._files.is_helper(process_of(request)) and self._open(unique, open_flags_of(request))
        if (opcode in (FUSE_FLUSH, FUSE_RELEASE) and handle == _HELPERS) or (
            opcode == FUSE_FLUSH and self._files.is_clean(handle)
        ):
            return self._reply(unique, 0)
        return False

    def _open(self, unique: int, flags: int) -> bool:
        """Answer an open by a helper: with O_NONBLOCK the kernel keeps its pages of the file, else it drops them."""
        kept = _NO_FLUSH | (_KEEP_CACHE if flags & os.O_NONBLOCK else 0)
        self._send(_HEADER.pack(_HEADER.size + _OPENED.size, 0, unique), _OPENED.pack(_HELPERS, kept, 0))
        return True

    def _reply(self, unique: int, code: int) -> bool:
        """Answer with the errno ``code`` alone; 0 means success."""
        self._send(_HEADER.pack(_HEADER.size, -code, unique))
        return True

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def _read(self, unique: int, handle: int, offset: int, size: int) -> None:
        try:
            found = self._fetched(unique, self._files.read(None, size, offset, handle))
        except OSError as err:
            self._reply(unique, err.errno or errno.EIO)
        except Exception:  # the program must not wait for ever for an answer
            logger.exception("internal error; please report it")
            self._reply(unique, errno.EIO)
        else:
            if found is not None:
                self._send(_HEADER.pack(_HEADER.size + len(found), 0, unique), found)

    def _write(self, unique: int, handle: int, offset: int, payload: memoryview) -> bool:
        """Answer a write(2) if the fast path can, else return False.  Mapped writes never come here."""
        try:
            if not self._files.overwrite(handle, offset, payload):
                return False
        except OSError as err:
            self._reply(unique, err.errno or errno.EIO)
        except Exception:  # the program must not wait for ever for an answer
            logger.exception("internal error; please report it")
            self._reply(unique, errno.EIO)
        else:
            self._send(_WRITTEN.pack(_WRITTEN.size, 0, unique, len(payload), 0))
        return True

    def _fetched(self, unique: int, found: bytes | Extent) -> bytes | None:
        """Return the bytes of an answer, or None if it was already sent.  Raises ``OSError``."""
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
        """Let the kernel copy from the file to the answer; return False if it cannot and nothing was sent."""
        try:
            pipe = self._pipe or self._open_pipe()
        except OSError:  # no file descriptors are left: copy the bytes instead
            return False
        if found.length + 2 * _PAGE > self._room:  # one page more for an unaligned offset, and one for the header
            return False
        total = _HEADER.size + found.length
        os.write(pipe[1], _HEADER.pack(total, 0, unique))
        try:
            if self._fill(pipe[1], found):
                return os.splice(pipe[0], self._device, total) == total
        except OSError as err:
            if err.errno in _UNWANTED:
                self.close()  # and with it the bytes in the pipe
                return True
            logger.info("an answer could not be spliced: %s", err.strerror)
        self.close()
        return False

    def _fill(self, end: int, found: Extent) -> bool:
        """Fill the pipe; return False if the bytes ended early, because another program cut the file."""
        filled = 0
        while filled < found.length:
            count = os.splice(found.fd, end, found.length - filled, offset_src=found.offset + filled)
            if not count:
                return False
            filled += count
        return True

    def _open_pipe(self) -> tuple[int, int]:
        self._pipe = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # without the right to a large pipe, keep the default size
            fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, _PIPE)
        self._room = fcntl.fcntl(self._pipe[1], fcntl.F_GETPIPE_SZ)
        return self._pipe

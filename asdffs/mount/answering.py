"""Answers requests: finds the operation and the place of each, turns errors into errno, and sends the answer.

A request's way: ``session`` reads it, ``TABLE`` names its operation, a method of ``operations`` calls the area, what
other views of the changed bytes show is told to the kernel, and one writev(2) or splice(2) sends the answer.  Each
thread of the loop has one ``Answerer``.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import logging
import os
import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from asdffs.errors import AsdffsError
from asdffs.mount.answers import ANSWER, SILENT, errno_of
from asdffs.mount.loop import FairLock
from asdffs.mount.operations import HELPERS, Operations
from asdffs.mount.protocol import GETATTR_HANDLE, REQUESTS, Header, MalformedError, Opcode
from asdffs.mount.session import UNWANTED, RequestBuffer, Session
from asdffs.storage.backend import Extent, read_bytes
from asdffs.vfs.areas import Area

logger = logging.getLogger(__name__)

#: A shorter answer is copied, because splicing needs two more system calls, to fill a pipe and to empty it.
_LEAST_SPLICE: Final = 32 << 10
#: Size of the pipe in bytes, if this user may have such a large one.
_PIPE: Final = 1 << 20
_PAGE: Final = 4096


class About(enum.Enum):
    """The kinds of subjects that a request may have.

    ``ITEM``: an item.  ``LOOK``: an item, but only what it is, so its document is not opened for it.  ``HANDLE``: an
    open file or directory.  ``NONE``: the mount as a whole.
    """

    ITEM = enum.auto()
    LOOK = enum.auto()
    HANDLE = enum.auto()
    NONE = enum.auto()


class Operation(NamedTuple):
    """An operation of the table: the method that answers, and what the request is about.

    ``seen_by_others``: when the program has its answer, other programs must see the change.  ``locks_pages``: the
    kernel may have locked pages of the file until it has the answer; not with direct I/O.
    """

    method: Callable[[Operations, Any, Header, Any], bytes | Extent | int | None]
    about: About
    seen_by_others: bool = False
    locks_pages: bool = False


TABLE: Final[dict[Opcode, Operation]] = {
    Opcode.LOOKUP: Operation(Operations.lookup, About.ITEM),
    Opcode.FORGET: Operation(Operations.forget, About.NONE),
    Opcode.GETATTR: Operation(Operations.getattr, About.LOOK),
    Opcode.SETATTR: Operation(Operations.setattr, About.ITEM, seen_by_others=True, locks_pages=True),
    Opcode.READLINK: Operation(Operations.readlink, About.LOOK),
    Opcode.SYMLINK: Operation(Operations.symlink, About.ITEM),
    Opcode.MKNOD: Operation(Operations.mknod, About.ITEM),
    Opcode.MKDIR: Operation(Operations.mkdir, About.ITEM),
    Opcode.UNLINK: Operation(Operations.unlink, About.ITEM, seen_by_others=True),
    Opcode.RMDIR: Operation(Operations.rmdir, About.ITEM),
    Opcode.RENAME: Operation(Operations.rename, About.ITEM, seen_by_others=True),
    Opcode.LINK: Operation(Operations.link, About.ITEM),
    Opcode.OPEN: Operation(Operations.open, About.ITEM),
    Opcode.READ: Operation(Operations.read, About.HANDLE),
    Opcode.WRITE: Operation(Operations.write, About.HANDLE, seen_by_others=True, locks_pages=True),
    Opcode.STATFS: Operation(Operations.statfs, About.LOOK),
    Opcode.RELEASE: Operation(Operations.release, About.HANDLE),
    Opcode.FSYNC: Operation(Operations.fsync, About.HANDLE, seen_by_others=True),
    Opcode.SETXATTR: Operation(Operations.setxattr, About.ITEM, seen_by_others=True),
    Opcode.GETXATTR: Operation(Operations.getxattr, About.LOOK),
    Opcode.LISTXATTR: Operation(Operations.listxattr, About.LOOK),
    Opcode.REMOVEXATTR: Operation(Operations.removexattr, About.ITEM),
    Opcode.FLUSH: Operation(Operations.flush, About.HANDLE, seen_by_others=True),
    Opcode.OPENDIR: Operation(Operations.opendir, About.ITEM),
    Opcode.RELEASEDIR: Operation(Operations.releasedir, About.HANDLE),
    Opcode.FSYNCDIR: Operation(Operations.fsyncdir, About.HANDLE),
    Opcode.CREATE: Operation(Operations.create, About.ITEM, seen_by_others=True),
    Opcode.INTERRUPT: Operation(Operations.interrupt, About.NONE),
    Opcode.DESTROY: Operation(Operations.destroy, About.NONE),
    Opcode.IOCTL: Operation(Operations.ioctl, About.NONE),
    Opcode.BATCH_FORGET: Operation(Operations.forget_many, About.NONE),
    Opcode.FALLOCATE: Operation(Operations.fallocate, About.HANDLE, seen_by_others=True),
    Opcode.READDIR: Operation(Operations.readdir, About.HANDLE),
    Opcode.READDIRPLUS: Operation(Operations.readdirplus, About.HANDLE),
    Opcode.RENAME2: Operation(Operations.rename, About.ITEM, seen_by_others=True),
}


_header_of: Final = ANSWER.pack
_ANSWER_SIZE: Final = ANSWER.size
#: As a structure's own class, without a call of Python.
_new: Final[Any] = tuple.__new__


class Answerer:
    """Answers the requests of one thread.

    ``lock``: the main lock.  ``users``: only they may use the mount, and whoever got an open file from them; None:
    all users may.
    """

    def __init__(
        self, session: Session, operations: Operations, lock: FairLock, users: tuple[int, ...] | None = None
    ) -> None:
        self._session = session
        self._operations = operations
        self._areas = operations.areas
        self._handles = operations.areas.handles
        self._counters = operations.counters
        self._requests = operations.counters.requests
        self._lock = lock
        self._users = users
        self._pipe: tuple[int, int] | None = None
        self._pipe_size = 0

    def close(self) -> None:
        """Close the pipe."""
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    def answer(self, request: RequestBuffer) -> None:
        """Answer a request."""
        header, found = request.header, None
        try:
            with self._lock:
                found = self._answer_to(header, request.body)
            if type(found) is Extent:
                short = found.length < _LEAST_SPLICE
                piece = os.pread(found.fd, found.length, found.offset) if short else b""
                found = piece if short and len(piece) == found.length else self._sent(header.unique, found)
        except (MalformedError, struct.error, OSError) as err:
            logger.warning("a request cannot be answered: %s", err)
            found = getattr(err, "errno", None) or errno.EIO
        except Exception:  # the program must not wait for ever for an answer
            logger.exception("internal error; please report it")
            found = errno.EIO
        if type(found) is bytes:
            self._session.send(_header_of(_ANSWER_SIZE + len(found), 0, header.unique), found)
        elif type(found) is int:
            self._session.send(_header_of(_ANSWER_SIZE, -found, header.unique))

    def _answer_to(self, header: Header, body: memoryview) -> bytes | Extent | int | None:
        """Return the answer, or an errno.  Raises ``MalformedError``."""
        operation = TABLE.get(header.opcode)  # type: ignore[call-overload]
        if operation is None:
            return errno.ENOSYS
        self._requests[header.opcode] += 1
        method: Callable[..., bytes | Extent | int | None] = operation.method
        about = operation.about
        layout = REQUESTS[header.opcode]  # type: ignore[index]
        asked = (
            layout.parse(body) if layout.names or layout.rest else _new(layout.kind, layout.numbers.unpack_from(body))
        )
        if about is About.NONE:
            return method(self._operations, None, header, asked)
        if about is About.HANDLE:
            if asked.handle == HELPERS:
                return b""
            place = self._handles.get(asked.handle)
            if place is None:
                return errno.EBADF
        else:
            if self._users is not None and header.user not in self._users and not _has_handle(header, asked):
                return errno.EACCES
            try:
                place = self._areas.enter(header.node, looking=about is About.LOOK)
            except (AsdffsError, OSError) as err:
                return self._refused(self._areas.root, err)
        area = place.area
        try:
            return method(self._operations, place, header, asked)
        except (AsdffsError, OSError) as err:
            return self._refused(area, err)
        finally:
            if place.directory and about is not About.HANDLE:
                self._areas.leave(place)
            free = not operation.locks_pages or (about is About.HANDLE and area.is_direct(asked.handle))
            area.tell_changes(None if free else place.item, wait=operation.seen_by_others)

    def _refused(self, area: Area, error: AsdffsError | OSError) -> int:
        """Return the errno for the program, and note everything but everyday results in the report of ``area``."""
        if not isinstance(error, SILENT):
            self._counters.note_refused(error)
            self._areas.refuse(area, error)
        return errno_of(error) if isinstance(error, AsdffsError) else error.errno or errno.EIO

    # -- sending --------------------------------------------------------------------

    def _sent(self, unique: int, found: Extent) -> bytes | None:
        """Send the bytes of an extent, or return them if they cannot be spliced.  Raises ``OSError``."""
        spliced = found.length >= _LEAST_SPLICE and self._splice(unique, found)
        return None if spliced else read_bytes(found)

    def _splice(self, unique: int, found: Extent) -> bool:
        """Let the kernel copy from the file to the answer; return False if it cannot and nothing was sent."""
        try:
            pipe = self._pipe or self._open_pipe()
        except OSError:  # no file descriptors are left: copy the bytes instead
            return False
        if found.length + 2 * _PAGE > self._pipe_size:  # a page more for an unaligned offset, and one for the header
            return False
        total = _ANSWER_SIZE + found.length
        os.write(pipe[1], ANSWER.pack(total, 0, unique))
        try:
            if self._fill(pipe[1], found):
                return os.splice(pipe[0], self._session.fd, total) == total
        except OSError as err:
            if err.errno in UNWANTED:
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
        self._pipe_size = fcntl.fcntl(self._pipe[1], fcntl.F_GETPIPE_SZ)
        return self._pipe


def _has_handle(header: Header, asked: Any) -> bool:
    """Return whether a request about an item comes through an open file: the kernel asks so before a read."""
    return header.opcode == Opcode.GETATTR and bool(asked.flags & GETATTR_HANDLE)

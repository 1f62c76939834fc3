"""A FUSE session of libfuse 2 or 3: receives requests and answers them.

libfuse's own loop does not let another thread take over (``loop``).  So ``main_of`` replaces the binding's
``fuse_main_real``: it sets up the session with libfuse's documented functions, lets ``Loop`` serve it, and takes it
down.  All functions of libfuse that are used here may be called from any thread.

The daemon must never access its own mount or make the kernel wait for pages or names of it.  A thread that waits for
a lock there keeps even SIGKILL from ending the daemon.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Final, Protocol

logger = logging.getLogger(__name__)

#: Offset that means "only attributes" (fuse_lowlevel.h, fuse_lowlevel_notify_inval_inode).
_NO_PAGES: Final = -1
_FAILED: Final = 1
#: The most pages of a write (FUSE_MAX_MAX_PAGES of fuse_i.h), and the bytes before them (FUSE_BUFFER_HEADER_SIZE).
_PAGES: Final = 256
_HEADER_ROOM: Final = 4096
#: The kernel says EINVAL if the memory is too small for the writes that it agreed upon with libfuse.  At most, those
#: have 65,535 pages (/proc/sys/fs/fuse/max_pages_limit).
_LARGEST: Final = 65_535 * os.sysconf("SC_PAGESIZE")
#: Errors of a read of /dev/fuse if there is no request.  ENOENT: the program withdrew it.
_NOTHING: Final = (errno.EAGAIN, errno.EINTR, errno.ENOENT)
#: The same if the mount is gone.
_GONE: Final = (errno.ENODEV, errno.ECONNABORTED)


class Session(Protocol):
    """The part of libfuse that ``loop`` needs.  ``fd``: the file descriptor of /dev/fuse."""

    fd: int

    def receive(self, buffer: RequestBuffer) -> bool:
        """Take one request into ``buffer``; return False if there was none."""

    def process(self, buffer: RequestBuffer) -> None:
        """Let libfuse run the request's callback and send the answer."""

    def exited(self) -> bool:
        """Return whether the mount is gone."""

    def forget_inode(self, inode: int) -> bool:
        """Make the kernel drop its cached attributes of a file; return whether it knows that number.

        It affects no pages and no names, but waits for a file that the kernel is just forgetting (``notifications``).
        """


class _Buffer(ctypes.Structure):
    """``struct fuse_buf``, with space for fields of later versions."""

    _fields_ = (
        ("size", c_size_t),
        ("flags", c_int),
        ("mem", c_void_p),
        ("fd", c_int),
        ("pos", c_int64),
        ("later", c_uint64 * 5),
    )


class RequestBuffer:
    """The memory for the requests of one thread.

    ``request``: the bytes of the last request, followed by garbage.  Module ``request`` decodes them.  ``fuse``: the
    same as libfuse's ``struct fuse_buf``.  ``since``: when it came, by ``time.monotonic``.
    """

    def __init__(self) -> None:
        self.since = 0.0
        self._hold(_PAGES * os.sysconf("SC_PAGESIZE") + _HEADER_ROOM)

    def _hold(self, size: int) -> None:
        self._memory = bytearray(size)
        self.places = [self._memory]
        self.request = memoryview(self._memory)
        self.fuse = _Buffer(mem=ctypes.addressof(c_char.from_buffer(self._memory)))
        self.reference = byref(self.fuse)

    def grow(self) -> None:
        """Double the memory.  Raises ``OSError`` if that is more than any kernel asks for."""
        if len(self._memory) > _LARGEST:
            raise OSError(errno.EINVAL, "the kernel refuses to send requests")
        self._hold(2 * len(self._memory))


class _Device:
    """Receives the requests from /dev/fuse itself, without a call of libfuse by way of ctypes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._gone = False

    def receive(self, buffer: RequestBuffer) -> bool:
        """See ``Session``."""
        try:
            buffer.fuse.size = os.readv(self.fd, buffer.places)
        except OSError as err:
            if err.errno in _NOTHING:
                return False
            if err.errno == errno.EINVAL:
                buffer.grow()
                return self.receive(buffer)
            if err.errno in _GONE:
                self._gone = True
            else:
                logger.error("a request cannot be received: %s", err.strerror)
            return False
        return True

    def exited(self) -> bool:
        """See ``Session``."""
        return self._gone


class _Arguments(ctypes.Structure):
    """``struct fuse_args``."""

    _fields_ = (("argc", c_int), ("argv", POINTER(c_char_p)), ("allocated", c_int))


Main = Callable[[int, Any, Any, int, Any], int]


def main_of(library_name: str, *, libfuse2: bool, serve: Callable[[Session], None]) -> Main:
    """Return a replacement for ``fuse_main_real``, which sets up a session, calls ``serve``, and takes it down.

    It returns 0, or non-zero if the mount failed.
    """
    library = ctypes.CDLL(library_name)
    return _main2(library, serve) if libfuse2 else _main3(library, serve)


# -- libfuse 3 -----------------------------------------------------------------


class _Session3(_Device):
    def __init__(self, library: ctypes.CDLL, fuse: int) -> None:
        self._session = _declared(library, "fuse_get_session", c_void_p, c_void_p)(fuse)
        super().__init__(_declared(library, "fuse_session_fd", c_int, c_void_p)(self._session))
        self._process = _declared(library, "fuse_session_process_buf", None, c_void_p, POINTER(_Buffer))
        self._exited = _declared(library, "fuse_session_exited", c_int, c_void_p)
        self._invalidate = _declared(
            library, "fuse_lowlevel_notify_inval_inode", c_int, c_void_p, c_uint64, c_int64, c_int64
        )

    def process(self, buffer: RequestBuffer) -> None:
        self._process(self._session, buffer.reference)

    def exited(self) -> bool:
        return super().exited() or bool(self._exited(self._session))

    def forget_inode(self, inode: int) -> bool:
        return bool(self._invalidate(self._session, inode, _NO_PAGES, 0) == 0)


def _main3(library: ctypes.CDLL, serve: Callable[[Session], None]) -> Main:
    name = "fuse_new" if hasattr(library, "fuse_new") else "fuse_new_31"
    new = _declared(library, name, c_void_p, POINTER(_Arguments), c_void_p, c_size_t, c_void_p)
    mount = _declared(library, "fuse_mount", c_int, c_void_p, c_char_p)
    unmount = _declared(library, "fuse_unmount", None, c_void_p)
    destroy = _declared(library, "fuse_destroy", None, c_void_p)

    def main(count: int, values: Any, operations: Any, size: int, data: Any) -> int:
        words = [values[i] for i in range(count)]
        options = [word for word in words[:-1] if word not in (b"-f", b"-s")]
        arguments = _Arguments(len(options), (c_char_p * len(options))(*options), 0)
        fuse = new(byref(arguments), operations, size, data)
        if not fuse:
            return _FAILED
        if mount(fuse, words[-1]) != 0:
            destroy(fuse)
            return _FAILED
        try:
            serve(_Session3(library, fuse))
        finally:
            unmount(fuse)
            destroy(fuse)
        return 0

    return main


# -- libfuse 2 -----------------------------------------------------------------


class _Session2(_Device):
    def __init__(self, library: ctypes.CDLL, fuse: int) -> None:
        self._session = _declared(library, "fuse_get_session", c_void_p, c_void_p)(fuse)
        next_channel = _declared(library, "fuse_session_next_chan", c_void_p, c_void_p, c_void_p)
        self._channel = next_channel(self._session, None)
        super().__init__(_declared(library, "fuse_chan_fd", c_int, c_void_p)(self._channel))
        self._process = _declared(library, "fuse_session_process_buf", None, c_void_p, POINTER(_Buffer), c_void_p)
        self._exited = _declared(library, "fuse_session_exited", c_int, c_void_p)

    def process(self, buffer: RequestBuffer) -> None:
        self._process(self._session, buffer.reference, self._channel)

    def exited(self) -> bool:
        return super().exited() or bool(self._exited(self._session))

    def forget_inode(self, inode: int) -> bool:
        """Do nothing: with libfuse 2 the kernel caches no attributes (``options``)."""
        return True


def _main2(library: ctypes.CDLL, serve: Callable[[Session], None]) -> Main:
    setup = _declared(
        library,
        "fuse_setup",
        c_void_p,
        c_int,
        c_void_p,
        c_void_p,
        c_size_t,
        POINTER(c_void_p),
        POINTER(c_int),
        c_void_p,
    )
    teardown = _declared(library, "fuse_teardown", None, c_void_p, c_void_p)

    def main(count: int, values: Any, operations: Any, size: int, data: Any) -> int:
        mountpoint, threads = c_void_p(), c_int()
        fuse = setup(count, values, operations, size, byref(mountpoint), byref(threads), data)
        if not fuse:
            return _FAILED
        try:
            serve(_Session2(library, fuse))
        finally:
            teardown(fuse, mountpoint)
        return 0

    return main


def _declared(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function

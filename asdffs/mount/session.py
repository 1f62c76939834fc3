"""A FUSE session of libfuse 2 or 3: receives requests and answers them.

libfuse's own loop does not let another thread take over (``loop``).  So ``main_of`` replaces the binding's
``fuse_main_real``: it sets up the session with libfuse's documented functions, lets ``Loop`` serve it, and takes it
down.  All functions of libfuse that are used here may be called from any thread.

The daemon must never access its own mount or make the kernel wait for pages or names of it.  A thread that waits for
a lock there keeps even SIGKILL from ending the daemon.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Final, Protocol

#: Offset that means "only attributes" (fuse_lowlevel.h, fuse_lowlevel_notify_inval_inode).
_NO_PAGES: Final = -1
_FAILED: Final = 1
#: How many bytes of a request are accessible, at least: enough for two names of 4 KiB.  libfuse's buffer is larger.
_WINDOW: Final = 16 << 10

_libc = ctypes.CDLL(None)
_libc.free.argtypes = (c_void_p,)
_libc.free.restype = None


class Session(Protocol):
    """The part of libfuse that ``loop`` needs.  ``fd``: the file descriptor of /dev/fuse."""

    fd: int

    def new_buffer(self) -> Any:
        """Return a buffer for the requests of one thread."""

    def receive(self, buffer: Any) -> bool:
        """Take one request into ``buffer``; return False if there was none."""

    def request(self, buffer: Any) -> memoryview:
        """Return the bytes of the last request, followed by garbage.  Module ``request`` decodes them."""

    def process(self, buffer: Any) -> None:
        """Run the request's callback and send the answer."""

    def exited(self) -> bool:
        """Return whether the mount is gone."""

    def forget_inode(self, inode: int) -> bool:
        """Make the kernel drop its cached attributes of a file; return whether it knows that number.

        Never blocks, because it affects no pages and no names.
        """

    def forget_path(self, path: str) -> None:
        """Do the same for a file that was never open.  It has no pages, so this does not block either."""

    def free(self, buffer: Any) -> None:
        """Free a buffer."""


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


class _Buffer3:
    """A buffer of libfuse 3, which allocates the memory at the first request and reuses it for all others."""

    def __init__(self) -> None:
        self.buffer = _Buffer()
        self.reference = byref(self.buffer)
        self.request: memoryview | None = None
        self._place = 0

    def look(self) -> memoryview:
        """Return a view of this memory: the request, followed by garbage."""
        buffer = self.buffer
        if self.request is None or self._place != buffer.mem or len(self.request) < buffer.size:
            self._place = buffer.mem
            length = max(_WINDOW, buffer.size)  # libfuse always has room for more
            self.request = memoryview((c_char * length).from_address(buffer.mem)).cast("B")
        return self.request


class _Session3:
    def __init__(self, library: ctypes.CDLL, fuse: int) -> None:
        self._fuse = fuse
        self._session = _declared(library, "fuse_get_session", c_void_p, c_void_p)(fuse)
        self._invalidate_path = _declared(library, "fuse_invalidate_path", c_int, c_void_p, c_char_p)
        self._receive = _declared(library, "fuse_session_receive_buf", c_int, c_void_p, POINTER(_Buffer))
        self._process = _declared(library, "fuse_session_process_buf", None, c_void_p, POINTER(_Buffer))
        self._exited = _declared(library, "fuse_session_exited", c_int, c_void_p)
        self._invalidate = _declared(
            library, "fuse_lowlevel_notify_inval_inode", c_int, c_void_p, c_uint64, c_int64, c_int64
        )
        self.fd: int = _declared(library, "fuse_session_fd", c_int, c_void_p)(self._session)

    def new_buffer(self) -> Any:
        return _Buffer3()

    def receive(self, buffer: Any) -> bool:
        return bool(self._receive(self._session, buffer.reference) > 0)

    def request(self, buffer: Any) -> memoryview:
        return buffer.look()  # type: ignore[no-any-return]

    def process(self, buffer: Any) -> None:
        self._process(self._session, buffer.reference)

    def exited(self) -> bool:
        return bool(self._exited(self._session))

    def forget_inode(self, inode: int) -> bool:
        return bool(self._invalidate(self._session, inode, _NO_PAGES, 0) == 0)

    def forget_path(self, path: str) -> None:
        self._invalidate_path(self._fuse, os.fsencode(path))

    def free(self, buffer: Any) -> None:
        buffer.request = None
        _libc.free(buffer.buffer.mem)
        buffer.buffer.mem = None


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


class _Buffer2:
    """A buffer for libfuse 2, which does not allocate the memory itself."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = ctypes.create_string_buffer(size)
        self.request = memoryview(self.memory).cast("B")
        self.buffer = _Buffer()

    def emptied(self) -> Any:
        self.buffer.size, self.buffer.flags, self.buffer.mem = self.size, 0, ctypes.addressof(self.memory)
        return byref(self.buffer)


class _Session2:
    def __init__(self, library: ctypes.CDLL, fuse: int) -> None:
        self._session = _declared(library, "fuse_get_session", c_void_p, c_void_p)(fuse)
        next_channel = _declared(library, "fuse_session_next_chan", c_void_p, c_void_p, c_void_p)
        self._channel = next_channel(self._session, None)
        self._receive = _declared(
            library, "fuse_session_receive_buf", c_int, c_void_p, POINTER(_Buffer), POINTER(c_void_p)
        )
        self._process = _declared(library, "fuse_session_process_buf", None, c_void_p, POINTER(_Buffer), c_void_p)
        self._exited = _declared(library, "fuse_session_exited", c_int, c_void_p)
        self._size: int = _declared(library, "fuse_chan_bufsize", c_size_t, c_void_p)(self._channel)
        self.fd: int = _declared(library, "fuse_chan_fd", c_int, c_void_p)(self._channel)

    def new_buffer(self) -> Any:
        return _Buffer2(self._size)

    def receive(self, buffer: Any) -> bool:
        channel = c_void_p(self._channel)
        return bool(self._receive(self._session, buffer.emptied(), byref(channel)) > 0)

    def request(self, buffer: Any) -> memoryview:
        return buffer.request  # type: ignore[no-any-return]

    def process(self, buffer: Any) -> None:
        self._process(self._session, byref(buffer.buffer), self._channel)

    def exited(self) -> bool:
        return bool(self._exited(self._session))

    def forget_inode(self, inode: int) -> bool:
        """Do nothing: with libfuse 2 the kernel caches no attributes (``options``)."""
        return True

    def forget_path(self, path: str) -> None:
        """Do nothing, as ``forget_inode``."""

    def free(self, buffer: Any) -> None:
        """Do nothing: Python frees the memory."""


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

"""The connection with the kernel: receives requests from /dev/fuse, waits for them, and sends answers.

libfuse mounts and unmounts (``libfuse``), and processes nothing.  The first request is INIT; ``Session`` answers it.
``RequestQueue`` waits for requests.  ``Passthrough`` lets the kernel read some files itself.

The daemon must never access its own mount or make the kernel wait for pages or names of it.  A thread that waits for
a lock there keeps even SIGKILL from ending the daemon.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import select
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from asdffs.errors import MountError
from asdffs.mount.answers import answer, attributes_notice
from asdffs.mount.protocol import HEADER, PASSTHROUGH, REQUESTS, Header, Init, InitFlag, MalformedError, Opcode

logger = logging.getLogger(__name__)

#: The versions of the protocol: the major one, and the oldest and the newest minor one.
_MAJOR: Final = 7
_OLDEST: Final = 26
_NEWEST: Final = 45
_INIT_ANSWER: Final = struct.Struct("=IIIIHHIIH2xII24x")
#: The most bytes of a write, and the bytes before them (FUSE_BUFFER_HEADER_SIZE of libfuse).
MOST_WRITTEN: Final = 1 << 20
_HEADER_ROOM: Final = 4096
#: Errors of a read of /dev/fuse if there is no request.  ENOENT: the program withdrew it.
_NOTHING: Final = (errno.EAGAIN, errno.EINTR, errno.ENOENT)
#: The same if the mount is gone.
_GONE: Final = (errno.ENODEV, errno.ECONNABORTED)
#: Errors that mean: the kernel gave the request up, or the mount is gone, so the answer is not needed any more.
UNWANTED: Final = (errno.ENOENT, errno.ENODEV, errno.ECONNABORTED)


#: As ``Header`` itself, without a call of Python.
_new: Final[Any] = tuple.__new__
_header_of: Final = HEADER.numbers.unpack_from
_HEADER_SIZE: Final = HEADER.numbers.size
#: Number of busy polls for the next request right after an answer, about 50 us in all.  To fall asleep and wake up
#: takes longer than a small read, and more processor time (docs/performance.md).  None on a single processor, where
#: they would delay the program.
_LOOKS: Final = 30 if len(os.sched_getaffinity(0)) > 1 else 0
#: Signals that end a mount.  Only the main thread receives them; the others block them.
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: FUSE_DEV_IOC_BACKING_OPEN and FUSE_DEV_IOC_BACKING_CLOSE: _IOW(229, 1 and 2, of 16 and 4 bytes).
_OPEN: Final = 1 << 30 | 16 << 16 | 229 << 8 | 1
_CLOSE: Final = 1 << 30 | 4 << 16 | 229 << 8 | 2


class RequestBuffer:
    """One request, and the memory for the requests of one thread.

    ``body``: the bytes after the header, valid until the next request.  ``header``: see ``protocol.Header``.
    ``since``: when the request came, by ``time.monotonic``.  ``interrupted``: its program got a signal since.
    """

    __slots__ = ("body", "header", "interrupted", "memory", "places", "since", "view")

    def __init__(self) -> None:
        self.memory = bytearray(MOST_WRITTEN + _HEADER_ROOM)
        self.places = [self.memory]
        self.view = memoryview(self.memory)
        self.body = self.view[:0]
        self.header = Header(0, 0, 0, 0, 0, 0, 0)
        self.since = 0.0
        self.interrupted = False


class Session:
    """The session of one mount.  ``fd``: the file descriptor of /dev/fuse.  All methods are for any thread."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.gone = False  # whether the mount is
        os.set_blocking(fd, False)  # else receive would block if a request is withdrawn after a poll

    def receive(self, buffer: RequestBuffer) -> bool:
        """Take one request into ``buffer``; return False if there was none."""
        try:
            length = os.readv(self.fd, buffer.places)
        except OSError as err:
            if err.errno in _GONE:
                self.gone = True
            elif err.errno not in _NOTHING:
                logger.error("a request cannot be received: %s", err.strerror)
            return False
        buffer.header = _new(Header, _header_of(buffer.memory))
        buffer.body = buffer.view[_HEADER_SIZE:length]
        buffer.interrupted = False
        return length >= _HEADER_SIZE

    def send(self, *parts: bytes) -> bool:
        """Send an answer or a notification; return False if the kernel does not want it."""
        try:
            os.writev(self.fd, parts)
        except OSError as err:
            if err.errno not in UNWANTED:
                logger.error("an answer could not be sent: %s", err.strerror)
            return False
        return True

    def forget_attributes(self, node: int) -> bool:
        """Make the kernel drop its cached attributes of a node; return whether it knows that node.

        It affects no pages and no names, but waits for a file that the kernel is just forgetting (``invalidate``).
        """
        return self.send(attributes_notice(node))

    def begin(self, library: str, *, passthrough: bool = False) -> None:
        """Answer INIT, the first request, which waits since mount(2).  ``library``: what mounted.

        Returns without an answer if the mount is gone.  Raises ``MountError`` if there is no request or another one,
        or the kernel is too old.
        """
        buffer = RequestBuffer()
        received = self.receive(buffer)
        if self.gone:
            return
        if not received or buffer.header.opcode != Opcode.INIT:
            raise MountError(
                f"{library} talks to the kernel while it mounts; use another version of the FUSE library"
            )
        try:
            offered = REQUESTS[Opcode.INIT].parse(buffer.body)
            chosen = negotiate(offered, MOST_WRITTEN, os.sysconf("SC_PAGESIZE"), passthrough=passthrough)
        except MalformedError as err:
            raise MountError(str(err)) from err
        logger.info("the kernel speaks FUSE %d.%d, flags %#x; used: %r", *offered[:2], offered.flags, chosen)
        self.send(answer(buffer.header.unique, _INIT_ANSWER.pack(*chosen)))


class InitAnswer(NamedTuple):
    """The version and the features that are used.  ``most_written`` in bytes; ``time_step`` in ns.

    ``most_stacked``: how many file systems may lie one on the other for ``PASSTHROUGH``, this one not counted.
    """

    major: int
    minor: int
    read_ahead: int
    flags: int
    background: int
    congestion: int
    most_written: int
    time_step: int
    most_pages: int
    upper_flags: int = 0
    most_stacked: int = 0


def negotiate(offered: Init, most_written: int, page: int, *, passthrough: bool = False) -> InitAnswer:
    """Return the answer to INIT.  ``most_written``: the most bytes of a write; ``page``: the size of one.

    ``passthrough``: ask for that feature.  Raises ``MalformedError`` for a kernel that speaks an older or another
    protocol.
    """
    if (offered.major, offered.minor) < (_MAJOR, _OLDEST) or offered.major > _MAJOR:
        raise MalformedError(f"the kernel speaks version {offered.major}.{offered.minor} of FUSE, not 7.26 or newer")
    upper = int.from_bytes(offered.more[:4], sys.byteorder) if offered.flags & InitFlag.INIT_EXT else 0
    upper &= PASSTHROUGH if passthrough else 0
    chosen = offered.flags & int(sum(InitFlag)) & (-1 if upper else ~InitFlag.INIT_EXT)
    return InitAnswer(
        _MAJOR,
        min(offered.minor, _NEWEST),
        offered.read_ahead,
        chosen,
        0,
        0,
        most_written,
        1,
        most_written // page if chosen & InitFlag.MAX_PAGES else 0,
        upper,
        1 if upper else 0,
    )


class RequestQueue:
    """The queue of requests of ``session``.  All threads share it; each has its own ``poller``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Nobody reads this pipe: a thread that emptied it would leave another one asleep for ever.
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def poller(self) -> select.poll:
        """Return a new poller, with which one thread waits."""
        poller = select.poll()
        poller.register(self.session.fd, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        poller.register(self._ended, select.POLLIN)
        return poller

    def take(self, buffer: RequestBuffer, *, busy: bool) -> bool:
        """Take a request into ``buffer``; return False if there is none.

        ``busy``: a request was just answered, so poll a few times: the program may ask again before this thread could
        fall asleep.
        """
        return self.session.receive(buffer) or (busy and any(self.session.receive(buffer) for _ in range(_LOOKS)))

    def wait(self, poller: select.poll) -> bool:
        """Sleep until there is a request, another thread calls ``wake``, or the end.  Return False at the end."""
        ready = [fd for fd, _ in poller.poll()]
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return self._ended not in ready

    def wake(self) -> None:
        """Wake the sleeping thread.  Any thread and signal handlers may call it, even after the end.

        The eventfd is never closed: a late caller, such as the watch, would otherwise write into another file.
        """
        os.eventfd_write(self._wake, 1)

    def end(self) -> None:
        """Wake every sleeping thread, now and from now on.  Any thread and signal handlers may call it."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so there is something to read
            os.write(self._end, b"\0")

    @contextlib.contextmanager
    def ended_by_signals(self, stop: Callable[[], None]) -> Iterator[None]:
        """Make the signals that end a mount call ``stop`` and ``end`` inside the block.  Runs in the main thread.

        Python calls ``stop`` only when the main thread computes.  A signal that comes just before the main thread
        sleeps would wait for its next request, perhaps for ever.  The pipe is written at once.
        """
        handlers = {number: signal.signal(number, lambda *_: stop()) for number in SIGNALS}
        before = signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)


class Passthrough:
    """The files of one mount that the kernel reads itself (``-o passthrough``, Linux 6.9, root).

    While a file is open, all its opens must have the kernel's number of it, or none may: the first one decides.

    ``device()``: the file descriptor of /dev/fuse.  ``facts``: for ``status.json``, with the reason if it is refused.
    """

    def __init__(self, device: Callable[[], int]) -> None:
        self.facts = {"passthrough": "on"}
        self._device = device
        self._opens: Counter[int] = Counter()
        self._given: dict[int, int] = {}

    def opened(self, inode: int, file: int) -> int:
        """Return the kernel's number of the file that the node ``inode`` shows; 0: the kernel asks for each read."""
        if not self._opens[inode]:
            self._given[inode] = self._give(file)
        self._opens[inode] += 1
        return self._given[inode]

    def closed(self, inode: int) -> None:
        """Record that one of these opens ended."""
        self._opens[inode] -= 1
        if self._opens[inode]:
            return
        del self._opens[inode]
        if number := self._given.pop(inode):
            with contextlib.suppress(OSError):  # the mount is gone, and with it the number
                fcntl.ioctl(self._device(), _CLOSE, struct.pack("=I", number))

    def _give(self, file: int) -> int:
        try:
            number: int = fcntl.ioctl(self._device(), _OPEN, bytearray(struct.pack("=iIQ", file, 0, 0)))
        except OSError as err:  # not root, an older kernel, or a file system that is stacked on others
            self.facts["passthrough"] = f"off: {err.strerror}"
            return 0
        self.facts["passthrough"] = "on"
        return number

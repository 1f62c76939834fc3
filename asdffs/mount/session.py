"""The connection with the kernel: receives requests from /dev/fuse, and sends answers.

libfuse mounts and unmounts (``binding``), and processes nothing.  The first request is INIT; ``Session`` answers it.

The daemon must never access its own mount or make the kernel wait for pages or names of it.  A thread that waits for
a lock there keeps even SIGKILL from ending the daemon.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import Any, Final

from asdffs.errors import MountError
from asdffs.mount import protocol
from asdffs.mount.protocol import HEADER, INIT_ANSWER, REQUESTS, MalformedError, Opcode
from asdffs.mount.structures import Header, InodeNotice

logger = logging.getLogger(__name__)

#: The most bytes of a write, and the bytes before them (FUSE_BUFFER_HEADER_SIZE of libfuse).
MOST_WRITTEN: Final = 1 << 20
_HEADER_ROOM: Final = 4096
#: Errors of a read of /dev/fuse if there is no request.  ENOENT: the program withdrew it.
_NOTHING: Final = (errno.EAGAIN, errno.EINTR, errno.ENOENT)
#: The same if the mount is gone.
_GONE: Final = (errno.ENODEV, errno.ECONNABORTED)
#: Errors that mean: the program was interrupted, or the mount is gone, so the answer is not needed any more.
_UNWANTED: Final = (errno.ENOENT, errno.ENODEV, errno.ECONNABORTED)


class RequestBuffer:
    """One request, and the memory for the requests of one thread.

    ``body``: the bytes after the header, valid until the next request.  ``header``: see ``structures.Header``.
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
        self._gone = False
        os.set_blocking(fd, False)  # else receive would block if a request is withdrawn after a poll

    @property
    def gone(self) -> bool:
        """Return whether the mount is gone."""
        return self._gone

    def receive(self, buffer: RequestBuffer) -> bool:
        """Take one request into ``buffer``; return False if there was none."""
        try:
            length = os.readv(self.fd, buffer.places)
        except OSError as err:
            if err.errno in _GONE:
                self._gone = True
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
            if err.errno not in _UNWANTED:
                logger.error("an answer could not be sent: %s", err.strerror)
            return False
        return True

    def forget_attributes(self, node: int) -> bool:
        """Make the kernel drop its cached attributes of a node; return whether it knows that node.

        It affects no pages and no names, but waits for a file that the kernel is just forgetting (``notifications``).
        """
        return self.send(protocol.inode_notice(InodeNotice(node, -1, 0)))

    def begin(self, library: str, *, passthrough: bool = False) -> None:
        """Answer INIT, the first request, which waits since mount(2).  ``library``: what mounted.

        Returns without an answer if the mount is gone.  Raises ``MountError`` if there is no request or another one,
        or the kernel is too old.
        """
        buffer = RequestBuffer()
        received = self.receive(buffer)
        if self._gone:
            return
        if not received or buffer.header.opcode != Opcode.INIT:
            raise MountError(
                f"{library} talks to the kernel while it mounts; use another version of the FUSE library"
            )
        try:
            offered = REQUESTS[Opcode.INIT].parse(buffer.body)
            chosen = protocol.negotiate(offered, MOST_WRITTEN, os.sysconf("SC_PAGESIZE"), passthrough=passthrough)
        except MalformedError as err:
            raise MountError(str(err)) from err
        logger.info("the kernel speaks FUSE %d.%d, flags %#x; used: %r", *offered[:2], offered.flags, chosen)
        self.send(protocol.answer(buffer.header.unique, INIT_ANSWER.pack(chosen)))


#: As ``Header`` itself, without a call of Python.
_new: Final[Any] = tuple.__new__
_header_of: Final = HEADER.numbers.unpack_from
_HEADER_SIZE: Final = HEADER.numbers.size

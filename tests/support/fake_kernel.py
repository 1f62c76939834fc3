"""The kernel's side of a mount, as far as locks go: what it holds while a request waits for its answer.

A real kernel seldom holds a lock in the very instant in which a notification comes; then it hangs.  This one holds
whatever the real one might, and notes at once who would wait for whom.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from asdffs.mount.loop import Loop
from asdffs.mount.request import FUSE_GETATTR, FUSE_OPEN, FUSE_WRITE
from asdffs.mount.session import RequestBuffer
from support.mounts import LIMIT

#: ``struct fuse_in_header``: length, opcode, unique, inode, user, group, process, unused.
_HEADER = struct.Struct("=IIQQIII4x")
#: Opcodes of requests about a name; their inode is that of the directory.
LOOKUP = 1
_ROOT = 1


class _Request(NamedTuple):
    opcode: int
    inode: int
    work: Callable[[], Any]
    outcome: SimpleQueue[tuple[Any, BaseException | None]]


class FakeKernel:
    """A session (``mount/session``) whose requests a test makes, and the shortcut that answers them.

    ``faults``: what a real kernel could have hung at.  ``notified``: the inodes of all notifications.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._requests: SimpleQueue[_Request] = SimpleQueue()
        self._unanswered: dict[int, _Request] = {}
        self._inodes: dict[str, int] = {}
        self.faults: list[str] = []
        self.notified: list[int] = []
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC | os.EFD_SEMAPHORE)

    def inode_of(self, path: str) -> int:
        return self._inodes.setdefault(path, len(self._inodes) + 2)

    def ask(self, opcode: int, path: str, work: Callable[[], Any]) -> Any:
        """Make a request about ``path``, which ``work`` answers in a thread of the loop; return its value."""
        inode = _ROOT if opcode == LOOKUP else self.inode_of(path)
        request = _Request(opcode, inode, work, SimpleQueue())
        self._requests.put(request)
        os.eventfd_write(self.fd, 1)
        value, error = request.outcome.get(timeout=LIMIT)
        if error is not None:
            raise error
        return value

    def serve(self, program: Callable[[], None]) -> None:
        """Serve while ``program`` runs in another thread; raise what it raises."""
        failed: list[BaseException] = []

        def run() -> None:
            try:
                program()
            except BaseException as err:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(err)
            finally:
                self._loop.stop()

        thread = threading.Thread(target=run)
        thread.start()
        self._loop.serve(self, lambda: self)
        thread.join(LIMIT)
        if failed:
            raise failed[0]

    # -- Session -----------------------------------------------------------------------

    def receive(self, buffer: RequestBuffer) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
            request = self._requests.get_nowait()
            self._unanswered[id(request)] = request
            _HEADER.pack_into(buffer.request, 0, 80, request.opcode, id(request), request.inode, 0, 0, os.getpid())
            return True
        return False

    def process(self, buffer: RequestBuffer) -> None:
        raise AssertionError("the shortcut answers everything")

    def exited(self) -> bool:
        return False

    def forget_inode(self, inode: int) -> bool:
        """Note who notifies: the kernel may be forgetting this file, and wait for the last of its pages."""
        self.notified.append(inode)
        if threading.get_ident() in self._loop._answering:
            self.faults.append(f"a thread notifies of inode {inode}, and has a request to answer")
        elif threading.get_ident() == self._loop._leader:
            self.faults.append(f"the leader notifies of inode {inode}")
        return True

    def forget_path(self, path: str) -> None:
        """Drop attributes and pages, as libfuse's function does: that waits for the page that a WRITE holds."""
        if any(one.opcode == FUSE_WRITE and one.inode == self.inode_of(path) for one in self._unanswered.values()):
            self.faults.append(f"pages of {path} are dropped while a WRITE holds them: this hangs for good")

    # -- Shortcut ------------------------------------------------------------------------

    def answer(self, request: memoryview) -> bool:
        unique = _HEADER.unpack_from(request)[2]
        asked = self._unanswered[unique]
        try:
            outcome: tuple[Any, BaseException | None] = asked.work(), None
        except OSError as err:
            outcome = None, err
        del self._unanswered[unique]
        asked.outcome.put(outcome)
        return True

    def close(self) -> None:
        pass


__all__ = ["FUSE_GETATTR", "FUSE_OPEN", "FUSE_WRITE", "LOOKUP", "FakeKernel"]

"""The kernel's side of a mount, as far as locks go: what it holds while a request waits for its answer.

A real kernel seldom holds a lock in the very instant in which a notification comes; then it hangs.  This one holds
whatever the real one might, and notes at once who would wait for whom.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from asdffs.mount.answering import Answerer
from asdffs.mount.answers import ANSWER, ENTRY
from asdffs.mount.loop import Loop
from asdffs.mount.operations import Operations
from asdffs.mount.protocol import Name, Opcode
from asdffs.mount.session import RequestBuffer, Session
from asdffs.vfs.areas import Areas
from asdffs.vfs.inodes import ROOT
from support.mounts import LIMIT
from support.requests import received, request


class FakeKernel(Session):
    """A session whose requests a test makes.

    ``faults``: what a real kernel could have hung at.  ``notified``: the nodes of all notifications.
    """

    def __init__(self, loop: Loop) -> None:
        super().__init__(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC | os.EFD_SEMAPHORE))
        self._loop = loop
        self._requests: SimpleQueue[bytes] = SimpleQueue()
        self._answers: dict[int, SimpleQueue[bytes]] = {}
        self._uniques = itertools.count(1)
        self.faults: list[str] = []
        self.notified: list[int] = []

    def ask(self, opcode: Opcode, node: int, value: Any = None) -> bytes:
        """Make a request, which a thread of the loop answers; return the content.  Raises ``OSError``."""
        raw, unique = bytearray(request(opcode, node, value, process=os.getpid())), next(self._uniques)
        struct.pack_into("=Q", raw, 8, unique)
        waits = self._answers[unique] = SimpleQueue()
        self._requests.put(bytes(raw))
        os.eventfd_write(self.fd, 1)
        found = waits.get(timeout=LIMIT)
        code = ANSWER.unpack_from(found)[1]
        if code:
            raise OSError(-code, os.strerror(-code))
        return found[ANSWER.size :]

    def node(self, path: str) -> int:
        """The number of the node at ``path``."""
        number = ROOT
        for name in filter(None, path.split("/")):
            number = int(ENTRY.unpack_from(self.ask(Opcode.LOOKUP, number, Name(name)))[0])
        return number

    def serve(self, areas: Areas, program: Callable[[], None]) -> None:
        """Serve while ``program`` runs in another thread; raise what it raises."""
        failed: list[BaseException] = []
        operations = Operations(areas, self._loop, lambda pid: False)

        def run() -> None:
            try:
                program()
            except BaseException as err:  # noqa: BLE001 - raised below, in the thread of the test
                failed.append(err)
            finally:
                self._loop.stop()

        thread = threading.Thread(target=run)
        thread.start()
        self._loop.serve(self, lambda: Answerer(self, operations, self._loop.lock))
        thread.join(LIMIT)
        if failed:
            raise failed[0]

    # -- Session -----------------------------------------------------------------------

    def receive(self, buffer: RequestBuffer) -> bool:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)
            received(self._requests.get_nowait(), buffer)
            return True
        return False

    def send(self, *parts: bytes) -> bool:
        found = b"".join(parts)
        self._answers.pop(ANSWER.unpack_from(found)[2]).put(found)
        return True

    def forget_attributes(self, node: int) -> bool:
        """Note who notifies: the kernel may be forgetting this file, and wait for the last of its pages."""
        self.notified.append(node)
        if threading.get_ident() in self._loop._answering:
            self.faults.append(f"a thread notifies of node {node}, and has a request to answer")
        elif threading.get_ident() == self._loop._leader:
            self.faults.append(f"the leader notifies of node {node}")
        return True

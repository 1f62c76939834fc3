"""Has the kernel forget what it knows of nodes that changed through another name: views of the same block.

Attributes are forgotten by a notification that waits for nothing; every read(2) then asks for them, sees another
mtime, and drops its pages.  A map asks nobody, so for files that are open a helper process asks in its place:
it stats the file (libfuse 2: opens it), and the kernel drops the pages on its behalf.

The helper is a process because that may wait for pages that are being read, that is, for this daemon: a thread that
waits there cannot be killed, and would keep the connection, and with it every program in the mount, for good
(decision 15).  It has no descriptor of the mount; when the daemon dies the kernel ends its wait.

User: ``operations``, ``daemon``.  ``tell`` is called with the turn; the helper is fed by a thread of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Final

from asdffs.mount.relief import Loop
from asdffs.vfs.namespace import Node

logger = logging.getLogger(__name__)

#: How long the writer of a byte waits for maps of it, in seconds; after that they follow by themselves.
_PATIENCE: Final = 0.05
#: Beside other writers, whose pages may be what the helper waits for.
_CROWDED: Final = 0.005
#: As long as the helper starts.
_FIRST_PATIENCE: Final = 0.1
#: How long the helper may take to end.
_END: Final = 1.0
#: Reads paths, each ended by NUL; asks the kernel about each; answers with a byte.
_HELPER: Final = """
import os, sys
ask = os.stat if sys.argv[1] == "stat" else lambda path: os.close(os.open(path, os.O_RDONLY))
os.write(1, b".")
rest = b""
while chunk := os.read(0, 65536):
    *paths, rest = (rest + chunk).split(b"\\0")
    for path in paths:
        try:
            ask(path)
        except OSError:
            pass
        os.write(1, b".")
"""


class Invalidator:
    """Tells the kernel about one mount at ``mountpoint``."""

    def __init__(self, loop: Loop, mountpoint: str, *, libfuse2: bool) -> None:
        self._loop = loop
        self._mountpoint = mountpoint
        self._asker = Asker("open" if libfuse2 else "stat")

    def prepare(self) -> None:
        """Two nodes that show the same are open: the helper will be needed."""
        self._asker.start()

    def tell(self, nodes: Iterable[Node], author: Node | None, *, wait: bool) -> None:
        """These nodes changed, through ``author``; with ``wait`` give maps of them a moment to follow."""
        # what waits for the author's own pages, which are locked until it is answered, must not be waited for
        wait = wait and not (author is not None and self._asker.is_asking(self._path(author)))
        ticket = 0
        for node in nodes:
            self._forget(node)
            if node.opens and node.path:
                ticket = max(ticket, self._asker.ask(self._path(node)))
        if wait and ticket:
            with self._loop.waiting(soon=True):
                self._asker.wait(ticket)

    def _path(self, node: Node) -> bytes:
        return os.fsencode(self._mountpoint + node.path)

    def stop(self) -> None:
        """The mount is gone."""
        self._asker.stop()

    def _forget(self, node: Node) -> None:
        if node.inode and self._loop.forget_inode(node.inode):
            return
        node.inode = 0
        if not node.opens and node.path:  # never opened under another number: it has no pages to wait for
            self._loop.forget_path(node.path)


class Asker:
    """The helper process, started at the first need, and the thread that feeds it one path at a time."""

    def __init__(self, manner: str) -> None:
        self._manner = manner
        self._state = threading.Condition(threading.Lock())
        self._queue: dict[bytes, int] = {}
        self._asked = 0
        self._done = 0
        self._waiters = 0
        self._current = b""
        self._ready = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Have the helper run.  Cheap when it does."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._feed, name="invalidate", daemon=True)
            self._thread.start()

    def ask(self, path: bytes) -> int:
        """Have the kernel asked about ``path``, after now; a ticket to wait for."""
        self.start()
        with self._state:
            if path not in self._queue:  # else it will be asked about after now
                self._asked += 1
                self._queue[path] = self._asked
                self._state.notify_all()
            return self._queue[path]

    def is_asking(self, path: bytes) -> bool:
        """Whether the kernel is being asked about ``path``, or will be before what is asked for next."""
        with self._state:
            return path == self._current or path in self._queue

    def wait(self, ticket: int) -> None:
        """Until the kernel was asked, but not long."""
        began = time.monotonic()
        with self._state:
            self._waiters += 1
            self._state.notify_all()
            while self._done < ticket and not self._stopping:
                patience = _CROWDED if self._waiters > 1 else _PATIENCE if self._ready else _FIRST_PATIENCE
                if not self._state.wait(max(0.0, began + patience - time.monotonic())):
                    break
            self._waiters -= 1

    def stop(self) -> None:
        """End the helper; one that waits for the mount ends with that."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._thread is not None:
            self._thread.join(_END)
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)

    def _feed(self) -> None:
        try:
            self._serve(self._start())
        except OSError as err:
            if not self._stopping:
                logger.warning("maps will not follow writes through other views: the helper failed (%s)", err)
        with self._state:
            self._stopping = True
            self._state.notify_all()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", "-c", _HELPER, self._manner]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", bufsize=0)
        return self._process

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        if process.stdin is None or process.stdout is None:
            raise OSError("the helper has no pipes")
        self._ready = bool(process.stdout.read(1))
        while (step := self._next()) is not None:
            path, ticket = step
            process.stdin.write(path + b"\0")
            if not process.stdout.read(1):
                raise OSError("it ended")
            with self._state:
                self._done = max(self._done, ticket)
                self._state.notify_all()

    def _next(self) -> tuple[bytes, int] | None:
        """The path that waits longest; None at the end."""
        with self._state:
            self._current = b""
            self._state.wait_for(lambda: self._queue or self._stopping)
            if self._stopping:
                return None
            path = self._current = next(iter(self._queue))
            return path, self._queue.pop(path)

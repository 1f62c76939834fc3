"""Helper processes that touch files of the mount, so that the kernel does what the daemon must not wait for.

A helper stats a file (libfuse 2: opens and closes it), and the kernel drops stale pages on its behalf; or it has
the kernel write the dirty pages of a map.  Both may wait for pages that are being read, that is, for the daemon: a
thread of the daemon that waits there could not be killed, and would keep the connection, and with it every program
in the mount, for good.  A helper has no descriptor of the mount; when the daemon dies the kernel ends its wait.

There is one helper; while it is stuck at a page that is long in coming, more are started.  Each is fed by a thread
of its own.  User: ``invalidate``.  All methods may be called from any thread.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from typing import Final

logger = logging.getLogger(__name__)

#: How long a caller waits beside other callers, whose pages may be what the helper waits for, in seconds.
_CROWDED: Final = 0.005
#: As long as the first helper starts.
_FIRST_PATIENCE: Final = 1.0
#: A helper that takes longer is stuck: another one is started, up to so many.
_STUCK: Final = 0.02
_MOST: Final = 4
#: A helper that is killed is started anew; one that does nothing, so often.
_RESTARTS: Final = 5
#: How long the helpers may take to end.
_END: Final = 1.0
#: Reads an order and a path, each ended by NUL; does it; answers with a byte.  7: sync_file_range(2), wait for all.
_HELPER: Final = """
import ctypes, os
libc = ctypes.CDLL(None)
def collect(path):
    file = os.open(path, os.O_RDONLY)
    libc.sync_file_range(file, ctypes.c_int64(0), ctypes.c_int64(0), 7)
    os.close(file)
orders = {b"stat": os.stat, b"open": lambda path: os.close(os.open(path, os.O_RDONLY)), b"collect": collect}
os.write(1, b".")
rest = b""
while chunk := os.read(0, 65536):
    *words, rest = (rest + chunk).split(b"\\0")
    for order, path in zip(words[::2], words[1::2]):
        try:
            orders[order](path)
        except OSError:
            pass
        os.write(1, b".")
"""

Request = tuple[bytes, bytes]


class Crowd:
    """How many wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.waiters = 0

    def count(self, change: int) -> None:
        """One more, or less."""
        with self._lock:
            self.waiters += change


class Asker:
    """What helpers are to do, in the order of asking.  ``crowd``: who waits for this one and for others."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._state = threading.Condition(threading.Lock())
        self._queue: dict[Request, int] = {}
        self._current: dict[int, tuple[Request, int, float]] = {}
        self._undone: set[int] = set()
        self._asked = 0
        self._ready = False
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Have a helper run.  Cheap when one does."""
        if not self._threads:
            with self._state:
                self._add_helper()

    def add(self, order: bytes, path: bytes) -> int:
        """Have a helper do ``stat``, ``open`` or ``collect`` with ``path``, after now; a ticket to wait for."""
        self.start()
        request = order, path
        with self._state:
            if request not in self._queue:  # else it will be done after now
                self._asked += 1
                self._queue[request] = self._asked
                self._undone.add(self._asked)
                self._widen()
                self._state.notify_all()
            return self._queue[request]

    def is_asking(self, path: bytes) -> bool:
        """Whether a helper is at ``path``, or will be before what is asked for next."""
        with self._state:
            current = [request for request, _, _ in self._current.values()]
            return any(path == request[1] for request in (*current, *self._queue))

    def is_at(self, path: bytes) -> bool:
        """Whether a helper is at ``path`` now."""
        with self._state:
            return any(path == request[1] for request, _, _ in self._current.values())

    def wait(self, tickets: set[int], patience: float) -> None:
        """Until these are done, but not longer than ``patience`` seconds, and less beside others."""
        began = time.monotonic()
        with self._state:
            self._crowd.count(1)
            while not self._undone.isdisjoint(tickets) and not self._stopping:
                longest = _CROWDED if self._crowd.waiters > 1 else patience if self._ready else _FIRST_PATIENCE
                rest = began + longest - time.monotonic()
                if rest <= 0:
                    break
                self._state.wait(min(rest, _CROWDED))
                self._widen()
            self._crowd.count(-1)

    def stop(self) -> None:
        """End the helpers; one that waits for the mount ends with that."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
        for process in list(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join(_END)

    def _widen(self) -> None:
        """Under the lock: have one more helper when all are stuck."""
        stuck = time.monotonic() - _STUCK
        if not self._queue or not self._ready or len(self._threads) >= _MOST or self._stopping:
            return
        if len(self._current) == len(self._threads) and all(since < stuck for *_, since in self._current.values()):
            self._add_helper()

    def _add_helper(self) -> None:
        number = len(self._threads)
        thread = threading.Thread(target=self._feed, args=(number,), name=f"asker-{number}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _feed(self, number: int) -> None:
        failures = 0
        while failures < _RESTARTS and not self._stopping:
            before = self._asked - len(self._undone)
            try:
                self._serve(number)
            except OSError as err:
                logger.debug("helper %d ended: %s", number, err)
            failures = 0 if self._asked - len(self._undone) > before else failures + 1
        if not self._stopping:
            logger.warning("maps will not follow writes through other views: the helper cannot run")
            self._stopping = True

    def _serve(self, number: int) -> None:
        """Start a helper and feed it until the end, or its own.  Raises ``OSError``."""
        command = [sys.executable, "-I", "-S", "-c", _HELPER]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", bufsize=0) as process:
            self._processes[number] = process
            try:
                self._ready = self._answered(process) or self._ready
                while (step := self._next(number)) is not None:
                    self._order(number, process, *step)
            finally:
                self._put_back(number)
                process.kill()

    def _order(self, number: int, process: subprocess.Popen[bytes], request: Request, ticket: int) -> None:
        if process.stdin is not None:
            process.stdin.write(b"\0".join((*request, b"")))
        if not self._answered(process):
            raise OSError("it was killed")
        with self._state:
            del self._current[number]
            self._undone.discard(ticket)
            self._state.notify_all()

    @staticmethod
    def _answered(process: subprocess.Popen[bytes]) -> bool:
        return bool(process.stdout is not None and process.stdout.read(1))

    def _next(self, number: int) -> tuple[Request, int] | None:
        """What waits longest; None at the end."""
        with self._state:
            self._state.wait_for(lambda: self._queue or self._stopping)
            if self._stopping:
                return None
            request = next(iter(self._queue))
            ticket = self._queue.pop(request)
            self._current[number] = request, ticket, time.monotonic()
            return request, ticket

    def _put_back(self, number: int) -> None:
        """The helper is gone: what it was at is done by the next one."""
        with self._state:
            request, ticket, _ = self._current.pop(number, ((b"", b""), 0, 0.0))
            if ticket and self._queue.setdefault(request, ticket) != ticket:
                self._undone.discard(ticket)  # it was asked for again meanwhile
            self._state.notify_all()

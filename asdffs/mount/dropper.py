"""Helper processes that make the kernel write back and drop its pages of files in the mount.

A helper opens a file.  The kernel then writes back the dirty pages of the file and drops all pages.  That may wait
for pages that are being read or written, that is, for the daemon.  So the daemon must not do it itself: a thread that
waits there cannot be killed, and would block the FUSE connection and every program in the mount forever.  A helper
has no file descriptor of the FUSE connection, so the kernel ends its wait when the daemon dies.  The daemon answers
these opens like any other (``operations``).

For a part of a file that no program maps, a helper drops only that part, which never waits.  It asks mincore(2)
whether pages are left.  An open would wait for a page that is just being filled for the first time; such a page is
locked but not old, and mincore(2) knows that.

Usually there is one helper.  While it is stuck, because a page takes long to come, more are started.  A thread of its
own feeds each helper.  All methods may be called from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import subprocess

logger = logging.getLogger(__name__)

#: How long a change waits for the first helper to start, in seconds.
_START: Final = 1.0
#: A helper that is busy with one order for longer, in seconds, is stuck: another one is started, up to this number.
_STUCK: Final = 0.02
_MOST: Final = 4
#: Interval between checks for stuck helpers, in seconds.
_TICK: Final = 0.005
#: How often a helper is restarted after it ended without having done anything.
_RESTARTS: Final = 5
#: How long the helpers may take to end, in seconds.
_END: Final = 1.0
#: The program of a helper.  It reads orders: path, offset and length, each ended by NUL.  It writes a byte when it is
#: ready, and one after each order.  With O_NONBLOCK its open makes the kernel keep the pages, else drop them all
#: (``operations``).
_HELPER: Final = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64
libc.mincore.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
READ, SHARED, PAGE = 1, 1, 4096
def is_gone(path, start, length):
    length += start % PAGE + -(start + length) % PAGE
    start -= start % PAGE
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.posix_fadvise(file, start, length, os.POSIX_FADV_DONTNEED)
        address = libc.mmap(None, length, READ, SHARED, file, start)
        if address in (None, ctypes.c_void_p(-1).value):
            return False
        pages = ctypes.create_string_buffer(length // PAGE)
        known = libc.mincore(address, length, pages) == 0
        libc.munmap(address, length)
        return known and not any(byte & 1 for byte in pages.raw)
    finally:
        os.close(file)
def drop(path, start, length):
    if not length or not is_gone(path, start, length):
        os.close(os.open(path, os.O_RDONLY))
os.write(1, b".")
rest = b""
while chunk := os.read(0, 65536):
    *words, rest = (rest + chunk).split(b"\\0")
    for path, start, length in zip(words[::3], words[1::3], words[2::3]):
        try:
            drop(path, int(start), int(length))
        except OSError:
            pass
        os.write(1, b".")
"""


class Order(NamedTuple):
    """An order to drop the pages of ``length`` bytes from ``start`` on of the file at ``path``; 0: all its pages."""

    path: bytes
    start: int = 0
    length: int = 0


class PageDropper:
    """The queue of orders for the helpers, first in, first out, and the threads that feed them."""

    def __init__(self) -> None:
        self._state = threading.Condition(threading.Lock())
        self._queue: dict[Order, int] = {}
        self._current: dict[int, tuple[Order, int, float]] = {}
        self._undone: set[int] = set()
        self._asked = 0
        self._ready = False
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._pids: set[int] = set()

    def is_helper(self, pid: int) -> bool:
        """Return whether process ``pid`` is a helper.  Cheap."""
        return pid in self._pids

    def start(self) -> None:
        """Start a helper unless one runs already.  Cheap."""
        if not self._threads:
            with self._state:
                self._add_helper()

    def add(self, order: Order) -> int:
        """Queue an order; return a ticket for ``wait``."""
        self.start()
        with self._state:
            if order not in self._queue:  # else it is queued and not begun: it will drop today's pages as well
                self._asked += 1
                self._queue[order] = self._asked
                self._undone.add(self._asked)
                self._widen()
                self._state.notify_all()
            return self._queue[order]

    def wait(self, tickets: set[int], patience: float) -> set[int]:
        """Wait at most ``patience`` seconds for these tickets; return those whose orders are done."""
        began = time.monotonic()
        with self._state:
            while not self._undone.isdisjoint(tickets) and not self._stopping:
                rest = began + (patience if self._ready else max(patience, _START)) - time.monotonic()
                if rest <= 0:
                    break
                self._state.wait(min(rest, _TICK))
                self._widen()
            return tickets - self._undone if not self._stopping else set()

    def undone(self, tickets: set[int]) -> set[int]:
        """Return those of these tickets whose orders are not done yet."""
        with self._state:
            return tickets & self._undone

    def stop(self) -> None:
        """End the helpers.  One that waits for the mount ends with the mount."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
        for process in list(self._processes.values()):
            process.kill()
        for thread in self._threads:
            thread.join(_END)

    def _widen(self) -> None:
        """Start one more helper if all are stuck.  The caller holds ``_state``."""
        stuck = time.monotonic() - _STUCK
        if not self._queue or not self._ready or len(self._threads) >= _MOST or self._stopping:
            return
        if len(self._current) == len(self._threads) and all(since < stuck for *_, since in self._current.values()):
            self._add_helper()

    def _add_helper(self) -> None:
        number = len(self._threads)
        thread = threading.Thread(target=self._feed, args=(number,), name=f"dropper-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as err:  # the system has no more threads: those that are there have to do
            logger.debug("no more helpers: %s", err)
            return
        self._threads.append(thread)

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
            logger.warning("mmaps may show old data after writes through other views: the helper process cannot run")
            self._stopping = True

    def _serve(self, number: int) -> None:
        """Start a helper and feed it until ``stop`` or until it ends.  Raises ``OSError``."""
        from asdffs.workers.helpers import helper  # most mounts need none

        with helper(_HELPER, flags=["-I", "-S"], cwd="/") as process:
            self._processes[number] = process
            self._pids.add(process.pid)
            try:
                self._ready = self._answered(process) or self._ready
                while (step := self._next(number)) is not None:
                    self._give(number, process, *step)
            finally:
                self._put_back(number)
                self._pids.discard(process.pid)  # before it is reaped: then another process may get its number

    def _give(self, number: int, process: subprocess.Popen[bytes], order: Order, ticket: int) -> None:
        if process.stdin is not None:
            process.stdin.write(b"%b\0%d\0%d\0" % order)
        if not self._answered(process):
            raise OSError("it was killed")
        with self._state:
            del self._current[number]
            self._undone.discard(ticket)
            self._state.notify_all()

    @staticmethod
    def _answered(process: subprocess.Popen[bytes]) -> bool:
        return bool(process.stdout is not None and process.stdout.read(1))

    def _next(self, number: int) -> tuple[Order, int] | None:
        """Wait for and take the oldest order and its ticket; None after ``stop``."""
        with self._state:
            self._state.wait_for(lambda: self._queue or self._stopping)
            if self._stopping:
                return None
            order = next(iter(self._queue))
            ticket = self._queue.pop(order)
            self._current[number] = order, ticket, time.monotonic()
            return order, ticket

    def _put_back(self, number: int) -> None:
        """Queue the unfinished order of an ended helper again for the next one."""
        with self._state:
            order, ticket, _ = self._current.pop(number, (Order(b""), 0, 0.0))
            if ticket and self._queue.setdefault(order, ticket) != ticket:
                self._undone.discard(ticket)  # the same order was queued again meanwhile
            self._state.notify_all()

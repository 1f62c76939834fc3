"""The fair lock that is used as the main lock."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A first-in, first-out lock: no thread starves.  It takes one call in C if no other thread wants it.

    Each waiting thread waits at a lock of its own.  Who leaves the fair lock releases that of the first in the queue.
    Only the thread that holds ``_lock`` takes from the queue.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        if not self._queue and self._lock.acquire(blocking=False):
            return
        mine = threading.Lock()
        mine.acquire()
        self._queue.append(mine)
        self._wake_first()  # nobody may hold it any more, and then nobody else would wake this thread
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        if self._queue:
            self._queue.popleft().release()  # it stays locked, for the next one
            return
        self._lock.release()
        if self._queue:  # a thread came after the question above, and before the release
            self._wake_first()

    def _wake_first(self) -> None:
        """If the lock is free, give it to the first thread of the queue.  If not, its holder does that on leaving."""
        while self._queue and self._lock.acquire(blocking=False):
            if self._queue:
                self._queue.popleft().release()
                return
            self._lock.release()

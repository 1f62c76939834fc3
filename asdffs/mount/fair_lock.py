"""The fair lock that is used as the main lock."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A first-in, first-out lock: no thread starves."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held = False
        self._queue: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if not self._held:
                self._held = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._queue.append(mine)
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            if self._queue:
                self._queue.popleft().release()  # it stays held, by the next one
            else:
                self._held = False

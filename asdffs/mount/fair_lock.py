"""A lock for the main lock: handed over in the order of asking."""

from __future__ import annotations

import threading
from collections import deque


class FairLock:
    """A lock that is handed over in the order of asking, so that nobody starves."""

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

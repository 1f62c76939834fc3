"""Tells the kernel that attributes it has cached are old, from a thread of its own.

The kernel may make a notification wait: for a page that it has locked until a request is answered, or for a file that
it is just forgetting.  So no thread notifies that holds the main lock, leads the loop, or has a request unanswered.
The thread of this module does nothing but notify.  A request waits for it, so that programs see a change at once, but
not for long, and after a moment lets other requests be answered meanwhile (``invalidate``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

logger = logging.getLogger(__name__)

#: How long the end of a mount waits for the thread, in seconds.  Nothing holds it up once the mount is gone.
_END: Final = 10.0


class Notifications:
    """The queue of notifications and their thread.  Any thread may call the methods.

    ``send(inode)`` makes the kernel drop the cached attributes of a file, and may wait for the kernel.
    """

    def __init__(self, send: Callable[[int], object]) -> None:
        self._send = send
        self._state = threading.Condition(threading.Lock())
        self._queue: list[int] = []
        self._asked = 0
        self._sent = 0
        self._since = 0.0
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def since(self) -> float:
        """When the notification under way began (``time.monotonic``); 0 if there is none."""
        return self._since

    def tell(self, inodes: Collection[int]) -> int:
        """Make the kernel drop its attributes of these files; return a ticket for ``wait``."""
        with self._state:
            if not self._stopping and self._has_thread():
                self._queue += inodes
                self._asked += len(inodes)
                self._state.notify_all()
            return self._asked

    def wait(self, ticket: int, patience: float) -> bool:
        """Wait at most ``patience`` seconds for the notifications of ``ticket``; return whether they were sent.

        One that hangs may wait for a request that the caller has to answer.
        """
        with self._state:
            return self._state.wait_for(lambda: self._sent >= ticket or self._stopping, patience)

    def stop(self) -> None:
        """End the thread, because the mount is gone."""
        with self._state:
            self._stopping = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join(_END)

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="notifications", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: attributes are old until the kernel asks again
                logger.warning("cannot start another thread; programs may see old sizes and times for a moment")
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._queue or self._stopping)
                if self._stopping:
                    return
                taken, self._queue = self._queue, []
            for inode in taken:
                self._since = time.monotonic()
                self._send(inode)
            with self._state:
                self._since = 0.0
                self._sent += len(taken)
                self._state.notify_all()

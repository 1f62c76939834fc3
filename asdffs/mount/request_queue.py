"""Takes requests from the kernel's queue, and sleeps while there are none.

Any thread may wake the sleeping one.  This module also handles the signals that end a mount: they only stop the loop.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from asdffs.mount.session import RequestBuffer, Session

#: Number of busy polls for the next request right after an answer, about 50 us in all.  To fall asleep and wake up
#: takes longer than a small read, and more processor time (docs/performance.md).  None on a single processor, where
#: they would delay the program.
_LOOKS: Final = 30 if len(os.sched_getaffinity(0)) > 1 else 0
#: Signals that end a mount.  Only the main thread receives them; the others block them.
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Worker(Protocol):
    """Answers the requests of one thread (``answering``)."""

    def answer(self, request: RequestBuffer) -> None:
        """Answer a request."""

    def close(self) -> None:
        """Free resources, because no more requests come."""


class RequestQueue:
    """The queue of requests of ``session``.  All threads share it; each has its own ``poller``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Nobody reads this pipe: a thread that emptied it would leave another one asleep for ever.
        self._ended, self._end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def poller(self) -> select.poll:
        """Return a new poller, with which one thread waits."""
        poller = select.poll()
        poller.register(self._session.fd, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        poller.register(self._ended, select.POLLIN)
        return poller

    def take(self, buffer: RequestBuffer, *, busy: bool) -> bool:
        """Take a request into ``buffer``; return False if there is none.

        ``busy``: a request was just answered, so poll a few times: the program may ask again before this thread could
        fall asleep.
        """
        return self._session.receive(buffer) or (busy and any(self._session.receive(buffer) for _ in range(_LOOKS)))

    def wait(self, poller: select.poll) -> bool:
        """Sleep until there is a request, another thread calls ``wake``, or the end.  Return False at the end."""
        ready = [fd for fd, _ in poller.poll()]
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
        return self._ended not in ready

    def wake(self) -> None:
        """Wake the sleeping thread.  Any thread and signal handlers may call it, even after the end.

        The eventfd is never closed: a late caller, such as the watch, would otherwise write into another file.
        """
        os.eventfd_write(self._wake, 1)

    def end(self) -> None:
        """Wake every sleeping thread, now and from now on.  Any thread and signal handlers may call it."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so there is something to read
            os.write(self._end, b"\0")

    @contextlib.contextmanager
    def ended_by_signals(self, stop: Callable[[], None]) -> Iterator[None]:
        """Make the signals that end a mount call ``stop`` and ``end`` inside the block.  Runs in the main thread.

        Python calls ``stop`` only when the main thread computes.  A signal that comes just before the main thread
        sleeps would wait for its next request, perhaps for ever.  The pipe is written at once.
        """
        handlers = {number: signal.signal(number, lambda *_: stop()) for number in SIGNALS}
        before = signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)

"""Takes requests from the kernel's queue, and sleeps while there are none.

Any thread may wake the one that sleeps.  Signals that end a mount are handled here as well: they only stop the loop.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from asdffs.mount.session import Session

#: Looks for the next request right after an answer, about 50 us: to fall asleep and to be woken takes longer than a
#: small read, and more of the processor (docs/performance.md).  Not where the program would have to wait for that.
_LOOKS: Final = 30 if len(os.sched_getaffinity(0)) > 1 else 0
#: What ends a mount, for the main thread; others block them.
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Shortcut(Protocol):
    """Answers some requests without libfuse (``direct``), for one thread."""

    def answer(self, request: memoryview) -> bool:
        """Answer a request; False when that is libfuse's business."""

    def close(self) -> None:
        """No more requests come."""


class NoShortcut:
    """All is libfuse's business."""

    def answer(self, request: memoryview) -> bool:
        """See ``Shortcut``."""
        return False

    def close(self) -> None:
        """See ``Shortcut``."""


class RequestQueue:
    """The requests of ``session``, for all threads that take some; each has a ``poller`` of its own."""

    def __init__(self, session: Session) -> None:
        os.set_blocking(session.fd, False)  # a request may be withdrawn between poll and receive
        self._session = session
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def poller(self) -> select.poll:
        """Return what one thread waits with."""
        poller = select.poll()
        poller.register(self._session.fd, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        return poller

    def take(self, buffer: Any, *, busy: bool) -> bool:
        """Take a request into ``buffer``; return False where there is none.

        ``busy``: one was just answered, so look a few times.  The program that had the answer may ask again before
        this thread could sleep.
        """
        return self._session.receive(buffer) or (busy and any(self._session.receive(buffer) for _ in range(_LOOKS)))

    def wait(self, poller: select.poll) -> None:
        """Sleep until there is a request, or somebody wakes this thread."""
        for fd, _ in poller.poll():
            if fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wake)

    def wake(self) -> None:
        """Any thread, and signal handlers; also after the end, so the eventfd is never closed.

        Who is late, such as a watch that begins, must not write into another file.
        """
        os.eventfd_write(self._wake, 1)


@contextlib.contextmanager
def ended_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside, in the main thread, have signals call ``stop``."""
    before = {number: signal.signal(number, lambda *_: stop()) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

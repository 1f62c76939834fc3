"""A lease on the file (fcntl F_SETLEASE): another program's open waits until we are ready for it.

Against programs that take no lock.  The kernel grants an F_WRLCK lease while nobody else has the
file open, holds an open by another program back (at most 45 s) and sends us a signal; we finish
what we are at and give the lease up.  It is taken again when the other program has closed the file.
Nothing in the daemon may open the file a second time: it would wait for itself.

Owns one thread, which waits for the signal, and a duplicate of the file's descriptor: the file's own may be closed,
and its number be another file's, whenever somebody else has the turn.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

#: The signal of a broken lease; blocked in every thread, so that only ours takes it.
SIGNAL: Final = signal.SIGRTMIN + 3
#: How often an idle mount tries to have the lease (again), in seconds.
_AGAIN: Final = 0.5


class Lease:
    """``descriptor`` tells the file's, which changes when it grows; ``finish`` makes the file complete, in time.

    ``post(call)`` has a call run with the turn, soon.  Create it before any other thread runs: threads inherit the
    blocked signal.
    """

    def __init__(
        self,
        descriptor: Callable[[], int],
        finish: Callable[[], None],
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._descriptor = descriptor
        self._finish = finish
        self._post = post
        self._lock = threading.Lock()
        self._own = -1
        self._of: tuple[int, int] | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._wait, name="lease", daemon=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {SIGNAL})

    def start(self) -> None:
        """Begin to hold the lease, as soon as nobody else has the file open."""
        self._thread.start()

    def stop(self) -> None:
        """Give the lease up, and end."""
        self._stopping = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, SIGNAL)
            self._thread.join()
        self._give_up()

    def _wait(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
        while not self._stopping:
            self._post(self._take)
            if signal.sigtimedwait({SIGNAL}, _AGAIN) is not None and not self._stopping:
                logger.info("another program opens the file: it waits until it is finished")
                self._finish()
                self._give_up()

    def _take(self) -> None:
        """With the turn: have the lease on the file that is open now."""
        descriptor = self._descriptor()
        if descriptor < 0 or self._stopping:  # nothing more is written
            return
        with self._lock:
            if self._has_lease_of(descriptor):
                return
            self._let_go()
            self._own, self._of = os.dup(descriptor), _file_of(descriptor)
            try:
                fcntl.fcntl(self._own, fcntl.F_SETSIG, SIGNAL)
                fcntl.fcntl(self._own, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError as err:  # somebody has it open: later
                logger.debug("no lease yet: %s", err.strerror)
                self._let_go()

    def _has_lease_of(self, descriptor: int) -> bool:
        if self._own < 0 or self._of != _file_of(descriptor):
            return False
        return fcntl.fcntl(self._own, fcntl.F_GETLEASE) == fcntl.F_WRLCK

    def _give_up(self) -> None:
        """Any thread."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        """Under the lock.  To close the duplicate does not end the lease: the file's own descriptor keeps it."""
        own, self._own, self._of = self._own, -1, None
        if own < 0:
            return
        try:
            fcntl.fcntl(own, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as err:  # there was none
            logger.debug("there is no lease: %s", err.strerror)
        os.close(own)


def _file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino

"""A lease on the file (fcntl F_SETLEASE): another program's open waits until we are ready for it.

Against programs that take no lock.  The kernel grants an F_WRLCK lease while nobody else has the
file open, holds an open by another program back (at most 45 s) and sends us a signal; we finish
what we are at and give the lease up.  It is taken again when the other program has closed the file.
Nothing in the daemon may open the file a second time: it would wait for itself.

Owns one thread, which only waits for the signal.
"""

from __future__ import annotations

import fcntl
import logging
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

    Create it before any other thread runs: threads inherit the blocked signal.
    """

    def __init__(self, descriptor: Callable[[], int], finish: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._finish = finish
        self._held = -1
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
            self._take()
            if signal.sigtimedwait({SIGNAL}, _AGAIN) is not None and not self._stopping:
                logger.info("another program opens the file: it waits until it is finished")
                self._finish()
                self._give_up()

    def _take(self) -> None:
        descriptor = self._descriptor()
        if descriptor < 0:  # nothing more is written
            return
        if descriptor == self._held and fcntl.fcntl(descriptor, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            return
        try:
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, SIGNAL)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as err:  # somebody has it open: later
            logger.debug("no lease yet: %s", err.strerror)
            return
        self._held = descriptor

    def _give_up(self) -> None:
        held, self._held = self._held, -1
        if held < 0:
            return
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as err:  # the file was replaced by a larger one, and closed: the lease is gone with it
            logger.debug("the lease is gone: %s", err.strerror)

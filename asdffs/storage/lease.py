"""A lease on the file (fcntl F_SETLEASE): another program's open waits until the file is complete.

Protects against programs that take no lock.  The kernel grants an F_WRLCK lease while no other process has the
file open.  When another program opens the file, the kernel delays that open (at most 45 s) and sends a signal.
This module then finishes the file and releases the lease, and takes it again after the other program has closed
the file.  The daemon must not open the file a second time: it would wait for itself.

Owns one thread, which waits for the signal, and a duplicate of the file descriptor.  It cannot use the
original: while another thread holds the main lock, that may be closed and its number reused for another file.
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

#: The signal of a broken lease; blocked in every thread, so that only the lease thread receives it.
SIGNAL: Final = signal.SIGRTMIN + 3
#: Seconds between attempts of an idle mount to take the lease (again).
_AGAIN: Final = 0.5


class Lease:
    """The lease on one file, and the thread that holds it.

    ``descriptor()`` returns the file descriptor, which changes when the file grows.  ``finish()`` makes the
    file complete in time.  ``post(call)`` runs a call soon, with the main lock held.

    Create it before any other thread runs, because threads inherit the blocked signal.
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
        self._own = self._next = -1
        self._of: tuple[int, int] | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._wait, name="lease", daemon=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {SIGNAL})

    def start(self) -> None:
        """Begin to take the lease as soon as no other process has the file open.

        The caller holds the main lock.
        """
        self._follow()
        self._thread.start()

    def stop(self) -> None:
        """Release the lease and end the thread."""
        self._stopping = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, SIGNAL)
            self._thread.join()
        self._close()
        if self._next >= 0:
            os.close(self._next)

    def _wait(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, signal.NSIG))
        while not self._stopping:
            self._post(self._follow)
            self._take()
            if signal.sigtimedwait({SIGNAL}, _AGAIN) is not None and not self._stopping:
                logger.info("another program opens the file; it waits until the file is complete")
                self._finish()
                self._give_up()

    def _follow(self) -> None:
        """Duplicate the file descriptor of the open file for the lease thread.  The caller holds the main lock."""
        descriptor = self._descriptor()
        if descriptor < 0 or self._stopping:  # nothing more is written
            return
        with self._lock:
            try:
                now = _file_of(descriptor)
                if now != self._of:
                    if self._next >= 0:
                        os.close(self._next)
                    self._next, self._of = os.dup(descriptor), now
            except OSError as err:  # too many open files: try again later
                logger.debug("no lease yet: %s", err.strerror)

    def _take(self) -> None:
        """Take the lease, unless another process has the file open.

        A lease that is being broken stays until ``_give_up``.
        """
        with self._lock:
            if self._next >= 0:  # closing a replaced file may take long, so this thread does it
                self._close()
                self._own, self._next = self._next, -1
            own = self._own
        if own < 0 or fcntl.fcntl(own, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            return
        try:
            fcntl.fcntl(own, fcntl.F_SETSIG, SIGNAL)
            fcntl.fcntl(own, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as err:  # another process has it open: try again later
            logger.debug("no lease yet: %s", err.strerror)

    def _give_up(self) -> None:
        if self._own < 0:
            return
        try:
            fcntl.fcntl(self._own, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as err:  # there was none
            logger.debug("there is no lease: %s", err.strerror)

    def _close(self) -> None:
        """Close the duplicate and its lease, because another file is open now, or none."""
        self._give_up()
        own, self._own = self._own, -1
        if own >= 0:
            os.close(own)


def _file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino

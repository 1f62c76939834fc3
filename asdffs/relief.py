"""Relief: how slow code lets others be served while it waits.

One thread at a time touches what a mount shares: whoever holds the turn.  Code that is about
to be slow (decode, fsync, copy, validate) gives the turn up with ``waiting`` and takes it back
for the moments in which it touches something shared with ``resumed``.  The floors below
``mount`` only say where they wait; ``mount/relief`` is what serves others meanwhile,
``Alone`` is for programs with nobody else to serve, ``Turns`` for several threads of one.
Users: ``storage``, ``document``, ``vfs``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Relief(Protocol):
    """Who is served while somebody waits."""

    def waiting(self) -> AbstractContextManager[None]:
        """Give the turn up inside; take it back at the end.  Nothing shared is touched inside."""

    def resumed(self) -> AbstractContextManager[None]:
        """Inside ``waiting``: have the turn for a moment."""

    @property
    def stopping(self) -> bool:
        """Whether slow work should be given up, because nobody is served any more."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for the answer to the request that this thread is at.  Cheap."""


class Alone:
    """No others, and the work is always wanted."""

    stopping = False
    wanted = True

    def waiting(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return contextlib.nullcontext()

    def resumed(self) -> AbstractContextManager[None]:
        """See ``Relief``."""
        return contextlib.nullcontext()


class Turns:
    """Several threads of one program: who is ``entered`` has the turn, and gives it up as for ``Relief``."""

    stopping = False
    wanted = True

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def entered(self) -> AbstractContextManager[Any]:
        """Have the turn inside."""
        return self._lock

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """See ``Relief``."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def resumed(self) -> AbstractContextManager[Any]:
        """See ``Relief``."""
        return self._lock


class Exclusive:
    """One at a time does something that may wait half-way; the others queue.

    Whoever enters holds the turn.  ``wanted`` tells the one inside that somebody queues who is
    to go first: not mere readers.
    """

    def __init__(self, relief: Relief) -> None:
        self._relief = relief
        self._lock = threading.Lock()
        self._queue = 0

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to come in, and wants it soon."""
        return self._queue > 0

    @property
    def taken(self) -> bool:
        """Whether somebody is inside."""
        return self._lock.locked()

    @contextlib.contextmanager
    def entered(self, *, patiently: bool = False) -> Iterator[None]:
        """Be the one inside; ``patiently``: without being ``wanted``."""
        if not self._lock.acquire(blocking=False):
            self._queue += not patiently  # the turn is held here and below: no race
            try:
                with self._relief.waiting():
                    self._lock.acquire()
            finally:
                self._queue -= not patiently
        try:
            yield
        finally:
            self._lock.release()

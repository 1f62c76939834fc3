"""Regular expressions whose search ends, whatever the text: for conditions and ``grep``.

Python's engine tries all ways to match, which may be 2^n ways for n characters.  It looks for signals meanwhile, so
a timer on the processor time of the process ends it.  Only the main thread can have that: in the other threads of a
program, a search takes as long as it takes.
"""

from __future__ import annotations

import re
import signal
from typing import Final

from asdffs.errors import UsageError
from asdffs.limits import SEARCH

#: What is said of a search that took too long.
TOO_SLOW: Final = f"to search this text takes more than {SEARCH:g} s; write a pattern that repeats less"
#: Characters without which a pattern matches in one way only.
_REPEATS: Final = frozenset("*+?{")


class _LateError(Exception):
    """The search took too long."""


def _raise_late(number: int, frame: object) -> None:
    raise _LateError


class Pattern:
    """A regular expression.  Raises ``UsageError`` if ``text`` is none."""

    def __init__(self, text: str, flags: int = 0) -> None:
        try:
            self._compiled = re.compile(text, flags)
        except (re.error, OverflowError, RecursionError) as err:
            raise UsageError(f"{text!r} is not a regular expression: {err}") from err
        self._timed = not _REPEATS.isdisjoint(text)

    def search(self, text: str) -> bool | None:
        """Return whether a part of ``text`` matches; None if that takes more than ``SEARCH`` seconds to find out."""
        if not self._timed:
            return self._compiled.search(text) is not None
        try:
            before = signal.signal(signal.SIGVTALRM, _raise_late)
        except ValueError:  # not the main thread
            return self._compiled.search(text) is not None
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, SEARCH)
                return self._compiled.search(text) is not None
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                signal.signal(signal.SIGVTALRM, before)
        except _LateError:
            return None

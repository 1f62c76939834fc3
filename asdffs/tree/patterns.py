"""Regular expressions, of conditions and of ``grep``, in texts that may be hostile.

A search ends whatever the text: Python's engine may try 2^n ways for n characters, but it looks for signals
meanwhile, so a timer on the processor time of the process ends it.  Only the main thread can have that: in the other
threads of a program, a search takes as long as it takes.

A tree that cannot have a match need not be parsed: ``Pattern.may_be_in`` looks for characters that every match has.
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
#: The pieces of a pattern without groups: an escape, a set, a quantifier, one character.
_PIECES: Final = re.compile(r"(?s)\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<repeat>[*?]|\{[^}]*\}?)|(?P<one>.)")
#: What begins an escape that is longer than one character.
_NUMBERED: Final = frozenset("0123456789xuUN")
#: Characters that a match may have in another form than the text of the tree: spaces may be folded, a quote doubled.
_CHANGED: Final = re.compile(r"[\s']")


def required(pattern: str) -> str:
    """Return characters, one after the other, that every match of the regular expression has; empty if none is known.

    Patterns with alternatives, groups, or characters by their numbers have none.
    """
    found, now = [""], ""
    for piece in _PIECES.finditer(pattern):
        escaped, one = piece["escaped"], piece["one"]
        if one in ("|", "(", "[") or (escaped is not None and escaped in _NUMBERED):
            return ""
        plain = one if one is not None and one not in ".^$+" else None
        if escaped is not None and not escaped.isalnum():
            plain = escaped
        if piece["repeat"]:
            now = now[:-1]  # that character may be missing
        if plain is not None and not _CHANGED.match(plain):
            now += plain
            continue
        found.append(now)
        now = ""
    return max([*found, now], key=len)


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
        self._ignores_case = bool(flags & re.IGNORECASE)
        literal = required(text)
        self._required = (literal.lower() if self._ignores_case else literal).encode("utf-8", "surrogateescape")

    def may_be_in(self, text: bytes) -> bool:
        """Return False if no key and no value of the tree ``text`` can match; this takes no look at its structure.

        An escape may stand for any character, and letters beyond ASCII have lower case in several ways.
        """
        if not self._required or b"\\" in text:
            return True
        if not self._ignores_case:
            return self._required in text
        return not text.isascii() or not self._required.isascii() or self._required in text.lower()

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

"""Makes text from files, and file names, safe to print.

Keys of a tree, file names and messages of servers may contain escape sequences that a terminal obeys, newlines that
forge a line of output, and characters that change the direction of text.  Everything that asdffs prints or logs goes
through ``printable``, so one line stays one line, and each word of a command that a message proposes through
``as_word``.  JSON has its own escapes.  Pure.
"""

from __future__ import annotations

import re
from typing import Final

#: C0 and C1 controls except the tab, line separators, and characters that change the direction of text (Unicode TR 9,
#: TR 36).
_UNSAFE: Final = "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
#: Bytes of names that are not UTF-8, as Python decodes them (``surrogateescape``).
_UNDECODED: Final = "[\udc80-\udcff]"


def printable(text: str, *, terminal: bool = False) -> str:
    r"""Return ``text`` with unsafe characters replaced by escapes such as ``\x1b`` and ``\n``.

    ``terminal``: also replace bytes that are not UTF-8.  A pipe gets these bytes unchanged.
    """
    if text.isprintable():  # neither class has a printable character; and most commands compile none of them
        return text
    safe = re.sub(_UNSAFE, _escape, text)
    return re.sub(_UNDECODED, lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", safe) if terminal else safe


def numbered(count: int, thing: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def as_word(text: str) -> str:
    r"""Return ``text`` as one word of a command for a shell, as a message proposes it; it is safe to print.

    A name with unsafe characters becomes ``$'a\nb'``, which bash, zsh and ksh read.
    """
    if text == printable(text, terminal=True):
        from shlex import quote  # not above: every command imports this module

        return quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{re.sub(f'{_UNSAFE}|{_UNDECODED}', _shell_escape, escaped)}'"


def as_words(*words: str) -> str:
    """Return a command line of these words: see ``as_word``."""
    return " ".join(map(as_word, words))


def _shell_escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    byte = number - 0xDC00 if number >= 0xDC80 and number < 0xDD00 else number
    return f"\\x{byte:02x}" if number < 0x80 or byte != number else f"\\u{number:04x}"


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")

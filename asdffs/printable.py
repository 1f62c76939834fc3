"""Text from files and their names, made safe to print: one line stays one line, and a terminal obeys nothing in it.

Keys of a tree, names of files and what servers say may hold escape sequences, newlines that forge a line of output,
and signs that turn the direction of text around.  All that asdffs prints or logs goes through here; JSON has its own
escapes.  Pure.
"""

from __future__ import annotations

import re
from typing import Final

#: C0 and C1 controls but the tab, line separators, and signs that change the direction of text (Unicode TR 9, TR 36).
_UNSAFE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
#: Bytes of names that are not UTF-8, as Python has them.
_UNDECODED: Final = re.compile("[\udc80-\udcff]")


def printable(text: str, *, terminal: bool = False) -> str:
    r"""``text`` with escapes such as ``\x1b`` and ``\n`` in the place of what is not safe to print.

    ``terminal``: also in that of bytes that are not UTF-8, which a pipe is given as they are.
    """
    safe = _UNSAFE.sub(_escape, text)
    return _UNDECODED.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", safe) if terminal else safe


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")

"""Regular expressions whose search takes bounded time: for conditions and ``grep``.  Pure functions."""

from __future__ import annotations

import re
from typing import Any, Final

from asdffs.errors import UsageError

#: Bounds of a search: one pattern on one value must not take seconds.
_LONGEST_PATTERN: Final = 200
LONGEST_VALUE: Final = 1000
_MOST_REPEATS: Final = 3


def compile_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression whose search takes bounded time.

    Refused (``UsageError``) are patterns that are too long, refer back, repeat a repetition, or repeat too often.
    """
    if len(text) > _LONGEST_PATTERN:
        raise UsageError(f"a regular expression has at most {_LONGEST_PATTERN} characters")
    try:
        parsed = re._parser.parse(text, flags)  # type: ignore[attr-defined]  # how re itself reads a pattern
    except (re.error, OverflowError, RecursionError) as err:
        raise UsageError(f"{text!r} is not a regular expression: {err}") from err
    if _repeats(parsed, text, inside=False) > _MOST_REPEATS:
        raise UsageError(f"the regular expression {text!r} has more than {_MOST_REPEATS} of '*', '+' and '{{'")
    return re.compile(text, flags)


def _repeats(parsed: Any, text: str, *, inside: bool) -> int:
    """Count the repetitions of a parsed pattern."""
    count = 0
    for name, value in parsed:
        kind = str(name)
        if kind in ("GROUPREF", "GROUPREF_EXISTS", "ASSERT", "ASSERT_NOT"):
            raise UsageError(
                f"the regular expression {text!r} refers to other parts of the text, which may take for ever"
            )
        repeats = kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and int(value[1]) > 1
        if repeats and inside:
            raise UsageError(f"the regular expression {text!r} repeats a repetition, which may take for ever")
        count += repeats
        for part in value if isinstance(value, (list, tuple)) else ():
            count += _inner(part, text, inside=inside or repeats)
    return count


def _inner(part: Any, text: str, *, inside: bool) -> int:
    if isinstance(part, re._parser.SubPattern):  # type: ignore[attr-defined]
        return _repeats(part, text, inside=inside)
    if isinstance(part, list):
        return sum(_inner(one, text, inside=inside) for one in part)
    return 0

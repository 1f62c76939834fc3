"""Says which value a user means by the text that he typed behind ``PATH=``.

| typed                                                | value                                            |
|------------------------------------------------------|--------------------------------------------------|
| a number of JSON's grammar, ``0x1F``, ``.inf``, ``.nan`` | that number, written as YAML 1.1 reads it    |
| ``true``, ``false``, ``null``                        | these                                            |
| an ISO date or time: ``2027-01-31``, ``2027-01-31T12:30`` | that date                                   |
| anything else, also nothing                          | that text                                        |

If the value that is there is text, what was typed is text as well (``value_edits``).  Pure.
"""

from __future__ import annotations

import datetime
import math
import re
from typing import Final

from asdffs.errors import UsageError
from asdffs.tree.resolving import plain_value
from asdffs.tree.snippets import NewValue, number_text, parse_value, text_value

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_OTHER_NUMBER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|\.inf)|\.nan")
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]+)?)?(Z|[-+][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_WORDS: Final = frozenset({"true", "false", "null"})
#: What begins a value of YAML that is more than a word.
_YAML: Final = ("[", "{", '"', "'", "!")


def typed_value(typed: str) -> NewValue:
    """Return the value that ``typed`` means by the rule above, with ``typed`` itself.

    Raises ``UsageError`` for a number that YAML 1.1 cannot hold.
    """
    found = text_value(typed)
    if number := _number_of(typed):
        found = parse_value(number)
    elif typed in _WORDS:
        found = parse_value(typed)
    elif date := _date_of(typed):
        found = parse_value(date)
    return found._replace(typed_text=typed)


def is_yaml(typed: str) -> bool:
    """Return whether ``typed`` begins like a list, a mapping, a quoted text or a tag of YAML."""
    return typed.startswith(_YAML)


def _number_of(typed: str) -> str:
    """Return the number that was typed, as YAML 1.1 reads it; empty if it is none."""
    if _OTHER_NUMBER.fullmatch(typed):
        return typed
    found = _NUMBER.fullmatch(typed)
    if found is None:
        return ""
    if not (found[1] or found[2]):
        if isinstance(plain_value(typed), int):
            return typed
        raise UsageError(f"the number {typed[:20]}... has too many digits; --string takes it as text")
    value = float(typed)
    if math.isinf(value):
        raise UsageError(f"the number {typed} is larger than any float; write .inf, or --string to have it as text")
    return typed if plain_value(typed) == value else number_text(value)


def _date_of(typed: str) -> str:
    """Return the date that was typed, with seconds, as YAML 1.1 needs them; empty if it is none."""
    found = _DATE.fullmatch(typed)
    if found is None:
        return ""
    written = typed if found[1] is None or found[2] else typed.replace(found[1], f"{found[1]}:00", 1)
    return written if isinstance(plain_value(written), datetime.date) else ""

"""Compares values of trees with the literals of conditions, one by one and in columns of many trees.

The answers are True, False, and None: not known, because the value is not known (``Mark``).
"""

from __future__ import annotations

import datetime
import functools
import operator
import re
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from asdffs.tree.resolving import plain_value

#: What a lookup returns for a path that is not in the tree.
MISSING: Final = object()


class Mark(Enum):
    """The answer of a lookup for a value that is no scalar, or that is not known.

    ``EMPTY``, ``FULL``: a mapping or sequence, without or with content.  ``LEFT_OUT``: something that is not empty.
    ``UNKNOWN``: perhaps nothing.
    """

    EMPTY = "empty"
    FULL = "full"
    LEFT_OUT = "left out"
    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        return self is not Mark.EMPTY


_UNKNOWN: Final = (Mark.LEFT_OUT, Mark.UNKNOWN)
#: A year or a month, which is its first day, and a time without seconds.
_DAY_LEFT_OUT: Final = re.compile(r"(\d{4})(-\d\d)?")
_SECONDS_LEFT_OUT: Final = re.compile(r"([Tt ]\d\d:\d\d)(?![\d:])")
_NUMBERS: Final = frozenset({int, float})
#: Types of which equal values have the same text, and types of which they may be equal to those of another one.
_PLAIN: Final = frozenset({str, type(None), type(MISSING), Mark})
_ALIKE: Final = frozenset({bool, int, float})
#: Types whose values are compared as Python does it.
_COMPARED: Final = frozenset({str, int, float, type(None), type(MISSING)})
_EQUAL: Final = {"==": True, "!=": False}
_ORDERED: Final = ((int, float), str, datetime.datetime)
_ORDER: Final[dict[str, Any]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def compare_each(name: str, values: Sequence[Any], literal: Any) -> list[bool | None]:
    """Return ``compare`` of each of ``values``, of which many are of one kind, and many the same."""
    order = _ORDER.get(name)
    if order is not None and literal.__class__ in _NUMBERS:
        number = _NUMBERS
        return [order(one, literal) if one.__class__ in number else compare(name, one, literal) for one in values]
    if name in _EQUAL and literal.__class__ in _COMPARED and _COMPARED.issuperset(map(type, values)):
        return [(one == literal) is _EQUAL[name] for one in values]
    return _compare_alike(name, values, literal)


def _compare_alike(name: str, values: Sequence[Any], literal: Any) -> list[bool | None]:
    kinds = set(map(type, values))
    if not kinds - _PLAIN - _ALIKE and len(kinds & _ALIKE) < 2:  # then equal values are the same, as in most columns
        results = {value: compare(name, value, literal) for value in set(values)}
        return [results[value] for value in values]
    known: dict[type, dict[Any, bool | None]] = {}
    found: list[bool | None] = []
    for value in values:
        if isinstance(value, (dict, list, datetime.date)):  # equal instants have different texts
            found.append(compare(name, value, literal))
            continue
        results = known.setdefault(value.__class__, {})  # 1, 1.0 and True are the same key, and not the same value
        if value not in results:
            results[value] = compare(name, value, literal)
        found.append(results[value])
    return found


def compare(name: str, value: Any, literal: Any) -> bool | None:
    """Return the result of the operator ``name`` on a value of the tree and a literal; None if it is not known.

    A number equals a number whatever its type.  A date is an instant, and a pattern sees it in ISO 8601.  A search
    that takes too long finds nothing out.
    """
    if value in _UNKNOWN:
        return None
    if value is MISSING:
        return name == "!="
    if isinstance(value, datetime.date):
        value, literal = (value.isoformat(), literal) if name == "=~" else (_instant(value), _as_instant(literal))
    if name == "=~":
        found: bool | None = isinstance(value, str) and literal.search(value)
        return found
    if name == "in":
        return any(_equal(value, item) for item in literal)
    if name in ("==", "!="):
        return _equal(value, literal) == (name == "==")
    if isinstance(value, bool) or isinstance(literal, bool):
        return False
    same_kind = any(isinstance(value, kind) and isinstance(literal, kind) for kind in _ORDERED)
    return same_kind and bool(_ORDER[name](value, literal))


def _instant(value: datetime.date) -> datetime.datetime:
    """Return the instant of a date, which is its first, or of a time, which is UTC without a zone (YAML 1.1)."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day)
    return value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)


def _as_instant(literal: Any) -> Any:
    """Return the instant that a literal means, item by item of a list; a literal that is no date as it is."""
    if isinstance(literal, list):
        return [_as_instant(item) for item in literal]
    return _read_instant(literal) if isinstance(literal, str) else literal


@functools.lru_cache(maxsize=1 << 8)
def _read_instant(text: str) -> Any:
    if month := _DAY_LEFT_OUT.fullmatch(text):
        text = f"{month[1]}{month[2] or '-01'}-01"
    value = plain_value(_SECONDS_LEFT_OUT.sub(r"\1:00", text))
    return _instant(value) if isinstance(value, datetime.date) else text


def _equal(value: Any, literal: Any) -> bool:
    if isinstance(value, bool) or isinstance(literal, bool):
        return value is literal
    return bool(value == literal)

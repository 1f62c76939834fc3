"""The metadata of a group as attributes: dotted paths -> values, as ``asdffs find`` has them.  Pure."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_ITEM: Final = re.compile(r"(?P<list>.+)\[(?P<number>\d+)\]")
#: Keys of the root that are about the file, and not about what it holds.
_OF_THE_FILE: Final = re.compile(r"(?:asdf_library|history)[.\[]")


def attributes_in(values: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return the attributes of ``group``, a dotted path; empty for the root.

    ``values``: all scalars of a file by their dotted paths (``arrays/scalars``).  Nulls are left out, as are
    ``asdf_library`` and ``history`` at the root.  Dates are texts in ISO 8601.  A list of numbers, or of texts, is
    one attribute.
    """
    found: dict[str, Any] = {}
    for name, value in _inside(values, group):
        item = _ITEM.fullmatch(name)
        if item is None or not _append(found, item["list"], int(item["number"]), value):
            found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def is_all_in(values: Mapping[str, Any], group: str) -> bool:
    """Return whether all of ``values``, as in ``attributes_in``, are in ``group``, or about the file."""
    inside = f"{group}.", f"{group}["
    return all(value is None or name.startswith(inside) or _OF_THE_FILE.match(name) for name, value in values.items())


def _inside(values: Mapping[str, Any], group: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if _OF_THE_FILE.match(name) or not name.startswith(group):
            continue
        rest = name[len(group) :]
        if group and not rest.startswith((".", "[")):
            continue
        yield rest.removeprefix(".") if group else rest, _plain(value)


def _append(found: dict[str, Any], name: str, number: int, value: Any) -> bool:
    """Add an item to the list ``name``; return False if it does not fit there."""
    known = [] if number == 0 else found.get(name)
    if not isinstance(known, list) or len(known) != number or _kind(value) is None:
        return False
    found[name] = known
    if known and _kind(known[0]) is not _kind(value):
        found.pop(name)
        found.update({f"{name}[{place}]": item for place, item in enumerate(known)})
        return False
    known.append(value)
    return True


def _kind(value: Any) -> type | None:
    """Return which values may be in one list with this one; None: it is in no list."""
    if isinstance(value, str):
        return str
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def for_json(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON can have them: NaN and infinite numbers are texts."""

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return [shown(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {name: shown(value) for name, value in attributes.items()}

"""What a block says of its chain of encodings: entries, read from the YAML at its beginning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

#: Encodings of a chain, at the most: each may make its bytes a thousand times as many.
_MOST: Final = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding of a chain, as written."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def argument(self, name: str) -> Any:
        """The argument of that name, None without one."""
        return self.arguments.get(name)


def entries_of(chunk: bytes) -> tuple[Entry, ...]:
    """What a chunk says.  Raises ``ValueError`` when it is no chain."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        anchors = any(getattr(event, "anchor", None) for event in yaml.parse(chunk, Loader=loader))
        found = None if anchors else yaml.load(chunk, Loader=loader)  # a safe one
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, LookupError) as err:
        raise ValueError("its chain of encodings is not YAML") from err
    if anchors:
        raise ValueError("its chain of encodings has anchors, by which it might mean any amount")
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST:
        raise ValueError(f"its chain of encodings is no list of 1 to {_MOST} of them")
    return tuple(map(_entry_of, found))


def _entry_of(value: Any) -> Entry:
    name, *rest = value if isinstance(value, list) and value else (value,)
    arguments = rest[0] if rest else {}
    if not isinstance(name, str) or len(rest) > 1 or not isinstance(arguments or {}, dict):
        raise ValueError("an entry of its chain of encodings is no name with arguments")
    if not all(isinstance(key, str) and _is_plain(argument) for key, argument in (arguments or {}).items()):
        raise ValueError("an argument in its chain of encodings is no number, text, or list of numbers")
    return Entry(name, arguments or {})


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, int) and _is_plain(one) for one in value)
    return isinstance(value, (str, float, type(None))) or (isinstance(value, int) and abs(value) < 1 << 63)

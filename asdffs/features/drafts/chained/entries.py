"""Parser of the YAML at the beginning of a chained block, which lists its encodings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.errors import InvalidTreeError

#: Most encodings of a chain.  Each can decode to a thousand times as many bytes, so the number is limited.
_MOST: Final = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One encoding of a chain, as the block states it."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def argument(self, name: str) -> Any:
        """Return the argument ``name``, or None if it is missing."""
        return self.arguments.get(name)


def entries_of(chunk: bytes) -> tuple[Entry, ...]:
    """Return the entries of a chunk of YAML.  Raises ``ValueError`` with the reason if it is not a chain."""
    from asdffs.tree.lookups import plain  # few blocks are chains
    from asdffs.tree.tape import Tape
    from asdffs.tree.values import Nodes, fault_at, scalar_rows

    try:
        tape = Tape(chunk)
    except InvalidTreeError as err:
        raise ValueError("its chain of encodings is not YAML") from err
    if any(fault_at(tape, row) for row in scalar_rows(tape)):
        raise ValueError("its chain of encodings is not YAML")
    if tape.anchors:
        raise ValueError("its chain of encodings has anchors, which could expand to any size")
    found = plain(Nodes(tape).root())
    if not isinstance(found, list) or not 1 <= len(found) <= _MOST:
        raise ValueError(f"its chain of encodings is not a list of 1 to {_MOST} encodings")
    return tuple(map(_entry_of, found))


def _entry_of(value: Any) -> Entry:
    name, *rest = value if isinstance(value, list) and value else (value,)
    arguments = rest[0] if rest else {}
    if not isinstance(name, str) or len(rest) > 1 or not isinstance(arguments or {}, dict):
        raise ValueError("an entry of its chain of encodings is not a name with arguments")
    if not all(isinstance(key, str) and _is_plain(argument) for key, argument in (arguments or {}).items()):
        raise ValueError("an argument in its chain of encodings is not a number, a text or a list of integers")
    return Entry(name, arguments or {})


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, int) and _is_plain(one) for one in value)
    return isinstance(value, (str, float, type(None))) or (isinstance(value, int) and abs(value) < 1 << 63)

"""The JSON files of a store: what they say, and how they are written (specification, sections 3, 4, 6.1, 8.1, 9).

Version 1.0 has ``{"format":"sparse","eltype":T,"indtype":I}``; 1.1 describes each part of a sparse property as an
array of its own.  Both may be in one store.  Numbers keep the text that they have.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from asdffs.daf.eltypes import BOOL, STRING, Eltype, eltype_of
from asdffs.daf.places import is_text
from asdffs.errors import InvalidStoreError

Version = tuple[int, int]

NEWEST: Final[Version] = (1, 1)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
#: Longer ones are no descriptors.
LARGEST: Final = 16 << 20


class Number(str):
    """The text of a number, as JSON has it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What the JSON file of a vector or matrix says.

    ``indtype``: of a sparse one; ``counts``: elements of its parts, where it says them; ``valued``: whether the file
    says (1.1) that there are values, None where it does not.
    """

    format: Literal["dense", "sparse"]
    eltype: Eltype
    indtype: Eltype | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    valued: bool | None = None


@dataclass(frozen=True, slots=True)
class DafScalar:
    """A scalar: ``value`` is a str, a bool, or a ``Number``."""

    eltype: Eltype
    value: str | bool


def parse_json(raw: bytes) -> dict[str, Any]:
    """An object; numbers as ``Number``.  Raises ``InvalidStoreError``."""
    if len(raw) > LARGEST:
        raise InvalidStoreError(f"has {len(raw)} bytes, and is to be a short JSON object")
    try:
        found = json.loads(
            raw.decode(), parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_once
        )
    except (ValueError, RecursionError) as err:
        raise InvalidStoreError(f"is no JSON object: {str(err)[:100]}") from err
    if not isinstance(found, dict):
        raise InvalidStoreError("is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def parse_version(raw: bytes) -> Version:
    """The version in ``daf.json`` (section 3).  Raises ``InvalidStoreError`` for one that is not known."""
    version = parse_json(raw).get("version")
    numbers = [_integer(number) for number in version] if isinstance(version, list) else []
    if len(numbers) != len(NEWEST) or None in numbers:
        raise InvalidStoreError('has no "version" of two integers')
    major, minor = numbers[0] or 0, numbers[1] or 0
    if major != NEWEST[0] or not 0 <= minor <= NEWEST[1]:
        raise InvalidStoreError(f"says version [{major},{minor}]; [1,0] and [1,1] are known")
    return major, minor


def build_version(version: Version) -> bytes:
    """``daf.json``."""
    return _line({"version": list(version)})


def parse_scalar(raw: bytes) -> DafScalar:
    """Section 4.  Raises ``InvalidStoreError``."""
    found = parse_json(raw)
    eltype, value = eltype_of(found.get("type")), found.get("value")
    if eltype is None:
        raise InvalidStoreError(f"has the type {_shown(found.get('type'))}, which is none of FilesDaf")
    if not isinstance(value, (str, bool)) or not _fits(eltype, value):
        raise InvalidStoreError(f"has the value {_shown(value)}, which is no {eltype.name}")
    if set(found) != {"type", "value"}:
        raise InvalidStoreError('has other keys than "type" and "value"')
    return DafScalar(eltype, value == "1" if isinstance(value, Number) and eltype.name == BOOL else value)


def _fits(eltype: Eltype, value: object) -> bool:
    if eltype.name == STRING:
        return isinstance(value, str) and not isinstance(value, Number) and is_text(value)
    if not isinstance(value, Number):
        return isinstance(value, bool) and eltype.name == BOOL
    if eltype.name == BOOL:
        return value in ("0", "1")
    return not eltype.integer or in_range(eltype, value)


def in_range(eltype: Eltype, value: str) -> bool:
    """Whether the text is an integer that the type has."""
    number = _integer(value)
    bits = 8 * eltype.size
    low, high = (0, (1 << bits) - 1) if eltype.descr[1] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return number is not None and low <= number <= high


def build_scalar(scalar: DafScalar) -> bytes:
    """Section 4: a Bool is 0 or 1."""
    value = Number(int(scalar.value)) if isinstance(scalar.value, bool) else scalar.value
    return _line({"type": scalar.eltype.name, "value": value})


def parse_descriptor(raw: bytes, *, matrix: bool) -> Descriptor:
    """Sections 6.1, 8.1, 9, and the form of 1.1.  Raises ``InvalidStoreError``, ``PackedPropertyError``."""
    found = parse_json(raw)
    if found.get("format") == "dense":
        return Descriptor("dense", _eltype(found, "eltype"))
    if found.get("format") != "sparse":
        raise InvalidStoreError(f'has the format {_shown(found.get("format"))}; "dense" and "sparse" are known')
    if "eltype" in found or "indtype" in found:
        return Descriptor("sparse", _eltype(found, "eltype"), _indtype(found, "indtype"))
    return _parse_parts(found, ("colptr", "rowval") if matrix else ("nzind",))


def _parse_parts(found: dict[str, Any], indices: tuple[str, ...]) -> Descriptor:
    """The form of 1.1: an object for each part."""
    parts = {name: found[name] for name in (*indices, "nzval") if name in found}
    if not all(isinstance(part, dict) for part in parts.values()) or not set(indices) <= set(parts):
        raise InvalidStoreError(f"describes no {' and '.join(indices)}")
    types = {_indtype(parts[name], "eltype").name for name in indices}
    if len(types) > 1:
        raise InvalidStoreError(f"has indices of several types: {', '.join(sorted(types))}")
    counts = {name: _integer(part["n_elements"]) for name, part in parts.items() if "n_elements" in part}
    if None in counts.values():
        raise InvalidStoreError('has an "n_elements" that is no integer')
    valued = "nzval" in parts
    eltype = _eltype(parts["nzval"], "eltype") if valued else _eltype({"eltype": BOOL}, "eltype")
    known = {name: count for name, count in counts.items() if count is not None}
    return Descriptor("sparse", eltype, _indtype(parts[indices[0]], "eltype"), known, valued)


def build_descriptor(descriptor: Descriptor, version: Version, *, counts: Mapping[str, int]) -> bytes:
    """As clients of ``version`` write it; ``counts``: elements of the parts that a sparse property has."""
    eltype, indtype = descriptor.eltype, descriptor.indtype
    if indtype is None:
        return _line({"format": "dense", "eltype": eltype.name})
    if version < NEWEST:
        return _line({"format": "sparse", "eltype": eltype.name, "indtype": indtype.name})
    parts = {
        name: {"format": "dense", "eltype": (eltype if name == "nzval" else indtype).name, "n_elements": count}
        for name, count in counts.items()
    }
    return _line({"format": "sparse", **parts})


def _eltype(found: dict[str, Any], key: str) -> Eltype:
    if "packed_format" in found:
        raise InvalidStoreError("is packed, which is kept as it is, not read", packed=True)
    eltype = eltype_of(found.get(key))
    if eltype is None:
        raise InvalidStoreError(f"has the {key} {_shown(found.get(key))}, which is none of FilesDaf")
    return eltype


def _indtype(found: dict[str, Any], key: str) -> Eltype:
    eltype = _eltype(found, key)
    if not eltype.integer:
        raise InvalidStoreError(f"has indices of the type {eltype.name}")
    return eltype


def _integer(value: Any) -> int | None:
    text = str(value) if isinstance(value, Number) else ""
    return int(text) if _INTEGER.match(text) and len(text) < 30 else None


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value!r}"[:60]


def _line(value: Any) -> bytes:
    """JSON without spaces, and a newline; numbers as they were."""
    return (_text(value) + "\n").encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)

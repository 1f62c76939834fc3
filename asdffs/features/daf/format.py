"""The files of a FilesDaf store: their paths, element types and JSON (specification, sections 2 to 9, and appendix).

| path                              | property                                    |
|-----------------------------------|---------------------------------------------|
| ``scalars/NAME.json``             | a scalar                                    |
| ``axes/NAME.txt``                 | an axis                                     |
| ``vectors/AXIS/NAME.PART``        | a vector, of the parts ``VECTOR_PARTS``     |
| ``matrices/ROWS/COLS/NAME.PART``  | a matrix, of the parts ``MATRIX_PARTS``     |

A name is split at its last known suffix, so ``a.json`` and ``x.nzval`` are valid names.  Paths are relative to the
root of the store, with ``/``.  Bytes that are not UTF-8 are surrogates (``os.fsdecode``).

Version 1.0 has ``{"format":"sparse","eltype":T,"indtype":I}``; 1.1 describes each part of a sparse property as an
array of its own.  One store may contain both.  Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from asdffs.errors import InvalidStoreError

Kind = Literal["scalar", "axis", "vector", "matrix"]

#: The key under which a tree has its store.
DAF: Final = "daf"
#: Suffix of the file that describes the other files of a property.
JSON: Final = "json"
VECTOR_PARTS: Final = (JSON, "data", "txt", "nzind", "nzval", "nztxt")
MATRIX_PARTS: Final = (JSON, "data", "txt", "colptr", "rowval", "nzval", "nztxt")
#: Directories of every store.
SECTIONS: Final = ("scalars", "axes", "vectors", "matrices")
SENTINEL: Final = "daf.json"
#: In the spool of a mount: the log of changes to names since the tree was last committed (``loose``).  Scratch files
#: in the spool are called ``N-QUOTED``, so a name without a dash cannot be one of them.
LOG: Final = "store.log"
#: The log of the tree that is being committed.
NEXT: Final = "store.log.next"

#: By section: the kind, the number of axes in the path, and the parts.
_KINDS: Final[dict[str, tuple[Kind, int, tuple[str, ...]]]] = {
    "scalars": ("scalar", 0, (JSON,)),
    "axes": ("axis", 0, ("txt",)),
    "vectors": ("vector", 1, VECTOR_PARTS),
    "matrices": ("matrix", 2, MATRIX_PARTS),
}
_SECTION_OF: Final = {kind: section for section, (kind, _, _) in _KINDS.items()}


class Key(NamedTuple):
    """A property.  ``axes``: one for a vector, two for a matrix (rows first), else none."""

    kind: Kind
    axes: tuple[str, ...]
    name: str

    def path(self, part: str) -> str:
        """Return the path of one of its files."""
        return "/".join((_SECTION_OF[self.kind], *self.axes, f"{self.name}.{part}"))

    @property
    def keys(self) -> tuple[str, ...]:
        """The path of the property in the tree, below ``daf``."""
        return _SECTION_OF[self.kind], *self.axes, self.name


def place_of(path: str) -> tuple[Key, str] | None:
    """Return the property and the part of the file ``path``; None for a file that FilesDaf does not know."""
    section, *rest = path.split("/")
    kind, depth, parts = _KINDS.get(section, ("scalar", 0, ()))
    if len(rest) != depth + 1:
        return None
    name, _, part = rest[-1].rpartition(".")
    if not name or part not in parts or not all(map(is_text, rest)):
        return None
    return Key(kind, tuple(rest[:-1]), name), part


def is_axis_directory(path: str) -> bool:
    """Return whether it is the directory of an axis or a pair of axes, which counts even if it is empty."""
    section, *rest = path.split("/")
    deepest = {"vectors": 1, "matrices": 2}.get(section, 0)
    return 0 < len(rest) <= deepest and all(map(is_text, rest))


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8; other names cannot be written in a tree."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- element types (appendix): little-endian, without padding; a Bool is one byte, 0 or 1 --

STRING: Final = "String"
BOOL: Final = "Bool"


class Eltype(NamedTuple):
    """One element type.  ``name``: in FilesDaf; ``size``: of an element in bytes, 0 for strings.

    ``datatype``: in the schema core/ndarray; ``descr``: in numpy, little-endian.  Both are empty for strings.
    """

    name: str
    size: int
    datatype: str
    descr: str

    @property
    def integer(self) -> bool:
        """Whether it is an integer type, as indices need."""
        return self.descr[1:2] in ("i", "u")


def _number(name: str, datatype: str, descr: str) -> Eltype:
    return Eltype(name, int(descr[2:]), datatype, descr)


_INTEGERS: Final = [
    _number(f"{'U' * unsigned}Int{8 * size}", f"{'u' * unsigned}int{8 * size}", f"<{'iu'[unsigned]}{size}")
    for unsigned in (0, 1)
    for size in (1, 2, 4, 8)
]
_FLOATS: Final = [_number("Float32", "float32", "<f4"), _number("Float64", "float64", "<f8")]
ELTYPES: Final = {
    eltype.name: eltype for eltype in (_number(BOOL, "bool8", "|b1"), *_INTEGERS, *_FLOATS, Eltype(STRING, 0, "", ""))
}
_ALIASES: Final = {name.lower(): name for name in ELTYPES} | {"Int": "Int64", "int": "Int64"}
_BY_DATATYPE: Final = {eltype.datatype: eltype for eltype in ELTYPES.values() if eltype.datatype}


def eltype_of(name: object) -> Eltype | None:
    """Return the type with this name or alias; None if there is no such type."""
    return ELTYPES.get(_ALIASES.get(name, name)) if isinstance(name, str) else None


def eltype_of_datatype(datatype: object) -> Eltype | None:
    """Return the type for the ASDF ``datatype``; None if FilesDaf has no such type."""
    return _BY_DATATYPE.get(datatype) if isinstance(datatype, str) else None


def in_int64(text: str) -> bool:
    """Return whether every YAML reader can represent this integer, and the asdf library writes the same text back."""
    number = int(text) if len(text) < 30 else 1 << 64
    return -(1 << 63) + 2 <= number < 1 << 63 and str(number) == text


# -- JSON files (sections 3, 4, 6.1, 8.1, 9); numbers keep their text --

Version = tuple[int, int]

NEWEST: Final[Version] = (1, 1)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
#: The largest size of a JSON file, in bytes.
LARGEST: Final = 16 << 20


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Descriptor(NamedTuple):
    """The parsed JSON file of a vector or matrix.

    ``indtype``: type of the indices if it is sparse.  ``counts``: stated numbers of elements, by part.
    ``valued``: whether the file (1.1) describes values; None if it does not tell.
    """

    format: Literal["dense", "sparse"]
    eltype: Eltype
    indtype: Eltype | None = None
    counts: Mapping[str, int] = MappingProxyType({})
    valued: bool | None = None


class DafScalar(NamedTuple):
    """A scalar; ``value`` is a str, a bool, or a ``Number``."""

    eltype: Eltype
    value: str | bool


def parse_json(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; numbers become ``Number``.  Raises ``InvalidStoreError``."""
    if len(raw) > LARGEST:
        raise InvalidStoreError(f"has {len(raw)} bytes, but should be a short JSON object")
    try:
        found = json.loads(
            raw.decode(), parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_once
        )
    except (ValueError, RecursionError) as err:
        raise InvalidStoreError(f"is not a JSON object: {str(err)[:100]}") from err
    if not isinstance(found, dict):
        raise InvalidStoreError("is not a JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def parse_version(raw: bytes) -> Version:
    """Parse ``daf.json`` (section 3).  Raises ``InvalidStoreError``, also for a version that is not supported."""
    version = parse_json(raw).get("version")
    numbers = [_integer(number) for number in version] if isinstance(version, list) else []
    if len(numbers) != len(NEWEST) or None in numbers:
        raise InvalidStoreError('has no "version" of two integers')
    return supported(numbers[0] or 0, numbers[1] or 0)


def supported(major: int, minor: int) -> Version:
    """Return the version.  Raises ``InvalidStoreError`` for another major or a larger minor one (section 3)."""
    if major != NEWEST[0] or not 0 <= minor <= NEWEST[1]:
        raise InvalidStoreError(f"has version [{major},{minor}]; only [1,0] and [1,1] are supported")
    return major, minor


def build_version(version: Version) -> bytes:
    """Build the bytes of ``daf.json``."""
    return _line({"version": list(version)})


def parse_scalar(raw: bytes) -> DafScalar:
    """Parse the JSON file of a scalar (section 4).  Raises ``InvalidStoreError``."""
    found = parse_json(raw)
    eltype, value = eltype_of(found.get("type")), found.get("value")
    if eltype is None:
        raise InvalidStoreError(f"has the type {_shown(found.get('type'))}, which is not a FilesDaf type")
    if not isinstance(value, (str, bool)) or not _fits(eltype, value):
        raise InvalidStoreError(f"has the value {_shown(value)}, which is not a valid {eltype.name}")
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
    """Return whether the text is an integer in the range of the type."""
    number = _integer(value)
    bits = 8 * eltype.size
    low, high = (0, (1 << bits) - 1) if eltype.descr[1] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return number is not None and low <= number <= high


def build_scalar(scalar: DafScalar) -> bytes:
    """Build the JSON file of a scalar (section 4); a Bool is written as 0 or 1."""
    value = Number(int(scalar.value)) if isinstance(scalar.value, bool) else scalar.value
    return _line({"type": scalar.eltype.name, "value": value})


def parse_descriptor(raw: bytes, *, matrix: bool) -> Descriptor:
    """Parse a descriptor of version 1.0 (sections 6.1, 8.1, 9) or 1.1; ``matrix``: of a matrix, not a vector.

    Raises ``InvalidStoreError``; its ``packed`` is true for a packed property.
    """
    found = parse_json(raw)
    if found.get("format") == "dense":
        return Descriptor("dense", _eltype(found, "eltype"))
    if found.get("format") != "sparse":
        raise InvalidStoreError(f'has the format {_shown(found.get("format"))}; "dense" and "sparse" are supported')
    if "eltype" in found or "indtype" in found:
        return Descriptor("sparse", _eltype(found, "eltype"), _indtype(found, "indtype"))
    return _parse_parts(found, ("colptr", "rowval") if matrix else ("nzind",))


def _parse_parts(found: dict[str, Any], indices: tuple[str, ...]) -> Descriptor:
    """Parse the sparse form of 1.1: an object for each part."""
    parts = {name: found[name] for name in (*indices, "nzval") if name in found}
    if not all(isinstance(part, dict) for part in parts.values()) or not set(indices) <= set(parts):
        raise InvalidStoreError(f"does not describe {' and '.join(indices)}")
    types = {_indtype(parts[name], "eltype").name for name in indices}
    if len(types) > 1:
        raise InvalidStoreError(f"has indices of several types: {', '.join(sorted(types))}")
    counts = {name: _integer(part["n_elements"]) for name, part in parts.items() if "n_elements" in part}
    if None in counts.values():
        raise InvalidStoreError('has an "n_elements" that is not an integer')
    valued = "nzval" in parts
    eltype = _eltype(parts["nzval"], "eltype") if valued else _eltype({"eltype": BOOL}, "eltype")
    known = {name: count for name, count in counts.items() if count is not None}
    return Descriptor("sparse", eltype, _indtype(parts[indices[0]], "eltype"), known, valued)


def build_descriptor(descriptor: Descriptor, version: Version, *, counts: Mapping[str, int]) -> bytes:
    """Build a descriptor as clients of ``version`` write it.

    ``counts``: number of elements of each part of a sparse property.
    """
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
        raise InvalidStoreError("is packed; packed properties are kept as they are and not read", packed=True)
    eltype = eltype_of(found.get(key))
    if eltype is None:
        raise InvalidStoreError(f"has the {key} {_shown(found.get(key))}, which is not a FilesDaf type")
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
    """Build one line of JSON without spaces; numbers keep their text."""
    return (_text(value) + "\n").encode("utf-8", "surrogatepass")


def _text(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_text(key)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)

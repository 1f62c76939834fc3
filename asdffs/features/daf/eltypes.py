"""The element types of FilesDaf (specification, appendix), with their ASDF datatypes and numpy dtypes.

Elements are little-endian and have no padding; a Bool is one byte, 0 or 1.  Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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

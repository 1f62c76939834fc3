"""Datatypes of the tree: their size, and their notation in numpy: ``>f4``, ``|S5``, ``[('a', '<i4'), ...]``.

Implements the schema core/ndarray (``datatype``, ``byteorder``): names of numbers, ``[ascii, n]``, ``[ucs4, n]``, and
records whose fields may have a byteorder and a shape of their own.  Pure; does not import numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from asdffs.errors import InvalidArrayError

_NUMBERS: Final = {f"{kind}int{bits}": f"{kind or 'i'}{bits // 8}" for kind in ("", "u") for bits in (8, 16, 32, 64)}
_KINDS: Final = {
    **_NUMBERS,
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "complex64": "c8",
    "complex128": "c16",
    "bool8": "b1",
}
_ORDERS: Final = {"big": ">", "little": "<"}
#: numpy's limit on the size of an element, in bytes.
_LARGEST: Final = (1 << 31) - 1
#: Offsets and sizes of blocks have 64 bits; larger numbers are not valid.
_LARGEST_OFFSET: Final = 1 << 63

Descr = str | list[tuple[Any, ...]]


def descr_of(datatype: Any, byteorder: str | None) -> Descr:
    """Return the datatype in the notation of numpy's ``dtype`` and of .npy headers.  Raises ``InvalidArrayError``."""
    if isinstance(datatype, str) and datatype in _KINDS:
        return _ordered(_KINDS[datatype], byteorder)
    if _is_string(datatype):
        return _string(datatype[0], datatype[1], byteorder)
    if isinstance(datatype, list) and datatype:
        return _record(datatype, byteorder)
    raise InvalidArrayError(f"the datatype {_shown(datatype)} is not known")


def _is_string(datatype: Any) -> bool:
    return isinstance(datatype, list) and len(datatype) == 2 and datatype[0] in ("ascii", "ucs4")


def _string(kind: str, length: Any, byteorder: str | None) -> str:
    if not isinstance(length, int) or not 0 <= length <= _LARGEST // 4:
        raise InvalidArrayError(f"the datatype [{kind}, {_shown(length)}] has no length")
    return f"|S{length}" if kind == "ascii" else _ordered(f"U{length}", byteorder)


def _ordered(code: str, byteorder: str | None) -> str:
    if code in ("i1", "u1", "b1"):
        return f"|{code}"
    if byteorder not in _ORDERS:
        raise InvalidArrayError(f"the byteorder is {_shown(byteorder)}; it must be big or little")
    return _ORDERS[byteorder] + code


def _record(fields: list[Any], byteorder: str | None) -> Descr:
    names = [_name(field, number) for number, field in enumerate(fields)]
    if len(set(names)) != len(names):
        raise InvalidArrayError("two fields of the datatype have the same name")
    return [(name, *_field(field, byteorder)) for name, field in zip(names, fields, strict=True)]


def _name(field: Any, number: int) -> str:
    """Return the name of a field; without one it is f0, f1 and so on, as in numpy."""
    name = field.get("name") if isinstance(field, dict) else None
    return str(name) if name not in (None, "") else f"f{number}"


def _field(field: Any, byteorder: str | None) -> tuple[Any, ...]:
    if not isinstance(field, dict):
        return (descr_of(field, byteorder),)
    shape = field.get("shape", [])
    descr = descr_of(field.get("datatype"), field.get("byteorder") or byteorder)
    if not isinstance(shape, list) or not all(isinstance(n, int) and 0 <= n <= _LARGEST for n in shape):
        raise InvalidArrayError(f"a field of the datatype has the shape {_shown(shape)}")
    return (descr, tuple(shape)) if shape else (descr,)


def _shown(value: Any) -> str:
    return repr(value)[:60]


def item_size(datatype: Any) -> int | None:
    """Return the bytes of one element of ``datatype`` (a name, ``[ascii|ucs4, n]``, or a record); None if unknown."""
    if isinstance(datatype, str):
        return int(_KINDS[datatype][1:]) if datatype in _KINDS else None
    if isinstance(datatype, list) and len(datatype) == 2 and datatype[0] in ("ascii", "ucs4"):
        return datatype[1] * (1 if datatype[0] == "ascii" else 4) if is_length(datatype[1]) else None
    if isinstance(datatype, list) and datatype:
        sizes = [_field_size(field) for field in datatype]
        return None if None in sizes else sum(size or 0 for size in sizes)
    return None


def _field_size(field: Any) -> int | None:
    if not isinstance(field, dict):
        return item_size(field)
    size = item_size(field.get("datatype"))
    shape = integers(field.get("shape", []))
    return size * math.prod(shape) if size is not None and shape is not None else None


def float_orders(datatype: Any, byteorder: str | None) -> Iterator[str | None]:
    """Yield the byteorders of the floats in an array: its own, or those of the fields of a record."""
    if datatype in ("float32", "float64"):
        yield byteorder
    for field in datatype if isinstance(datatype, list) else ():
        if isinstance(field, dict):
            yield from float_orders(field.get("datatype"), field.get("byteorder") or byteorder)
        elif isinstance(field, str):
            yield from float_orders(field, byteorder)


def integers(value: Any) -> tuple[int, ...] | None:
    """Return a list of lengths, strides or offsets as a tuple; None if it is something else."""
    if isinstance(value, Sequence) and not isinstance(value, str) and all(is_length(n) for n in value):
        return tuple(value)
    return None


def is_length(value: Any) -> bool:
    """Return whether ``value`` is an integer that offsets and sizes can have."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_OFFSET

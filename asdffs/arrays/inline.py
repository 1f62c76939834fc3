"""Reads arrays whose values are written in the tree, as numpy arrays.

Implements the schema core/ndarray: ``data`` (nested lists, or the array's short form), ``datatype``, ``shape``.
Values are read as the asdf library reads them: YAML 1.1 scalars, ``core/complex``, null for masked values.
Imports numpy when called.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Final

from asdffs.arrays.branch import Branch, Outline
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.ndarrays import Ndarray
from asdffs.errors import InvalidArrayError, InvalidTreeError
from asdffs.limits import Budget
from asdffs.tree.resolving import YAML_TAGS
from asdffs.tree.tape import MAPPINGS, SCALAR, Tape, column_of
from asdffs.tree.values import Nodes, fault_at, scalar_value

_COMPLEX: Final = re.compile(r"tag:stsci\.edu:asdf/(?:core/complex-\d+\.\d+\.\d+|0\.1\.0/core/complex)")
#: Byte order of this machine, because values in a tree have none of their own.
_NATIVE: Final = sys.byteorder


def inline_array(outline: Outline, branch: Branch, budget: Budget) -> Any:
    """Return the inline array of ``branch``; masked values are zeros.  Raises ``InvalidArrayError``."""
    import numpy as np

    array = branch.array
    if array is None or branch.inline is None:
        raise InvalidArrayError("it states neither a source nor data", line=branch.line)
    values = read_values(outline, branch.inline, branch.line)
    try:
        budget.check(_size(np, values, array), "its elements")
        with np.errstate(over="ignore"):  # ``check_inline`` tells
            found = _as_array(np, values, array)
    except (ValueError, TypeError, OverflowError) as err:
        raise InvalidArrayError(f"its data is not an array: {err}", line=branch.line) from err
    if found.dtype.hasobject:
        raise InvalidArrayError("its data is not an array of numbers or texts", line=branch.line)
    if array.shape is not None and not found.size and 0 in array.shape:
        return found.reshape(array.shape)  # nested lists cannot express axes after one of length 0
    if array.shape is not None and array.shape != found.shape:
        raise InvalidArrayError(f"its data has the shape {found.shape}, not {array.shape}", line=branch.line)
    if array.row is not None and found.size and found.shape[1:] != array.row:
        raise InvalidArrayError(f"its data has the shape {found.shape}, not {('*', *array.row)}", line=branch.line)
    return found


def check_inline(outline: Outline, branch: Branch, budget: Budget) -> None:
    """Raise ``InvalidArrayError`` if the datatype of an inline array cannot hold its values (core/ndarray: data)."""
    found = inline_array(outline, branch, budget)
    if not found.size:  # nested lists cannot express axes after one of length 0
        return
    lost = _first_lost(read_values(outline, branch.inline or (0, 0), branch.line), found.tolist())
    if lost is not None:
        raise InvalidArrayError(f"its datatype makes {lost[1]!r} of the value {lost[0]!r}", line=branch.line)


def _first_lost(values: Any, elements: Any) -> tuple[Any, Any] | None:
    """Return the first value that its element is not equal to, and the element; None without one."""
    if isinstance(values, list):
        pairs = zip(values, elements, strict=True)
        return next((lost for pair in pairs if (lost := _first_lost(*pair)) is not None), None)
    element = elements.decode("latin-1") if isinstance(elements, bytes) else elements
    if values is None or isinstance(element, complex):
        return None
    if isinstance(element, str):
        same = isinstance(values, bool) or not isinstance(values, str) or values == element
    elif isinstance(element, float) and isinstance(values, int | float):
        same = math.isfinite(element) or not math.isfinite(values)  # any datatype of floats rounds
    else:
        same = values == element
    return None if same else (values, element)


def inline_nulls(outline: Outline, branch: Branch, budget: Budget) -> Any:
    """Return an array of bools, true where the values of ``branch`` are null.  Raises as ``inline_array``."""
    import numpy as np

    shape = inline_array(outline, branch, budget).shape
    return np.array(_are_null(read_values(outline, branch.inline or (0, 0), branch.line)), bool).reshape(shape)


def _are_null(values: Any) -> Any:
    return [_are_null(value) for value in values] if isinstance(values, list) else values is None


def _size(np: Any, values: Any, array: Ndarray) -> int:
    """Return the bytes that numpy takes for the values; each element has the size of the largest."""
    if array.datatype is None:
        return _count(values) * 4 * max(4, _longest(values))
    return int(np.dtype(descr_of(array.datatype, array.byteorder or _NATIVE)).itemsize) * _count(values)


def _count(values: Any) -> int:
    return sum(map(_count, values)) if isinstance(values, list) else 1


def _longest(values: Any) -> int:
    """Return the characters of the longest text."""
    if isinstance(values, list):
        return max(map(_longest, values), default=0)
    return len(values) if isinstance(values, str) else 0


def _as_array(np: Any, values: Any, array: Ndarray) -> Any:
    if array.datatype is None:
        found = np.array(_without_nulls(values))  # beside a number, numpy makes each text as long as any number is
        return found.astype(f"U{np.char.str_len(found).max(initial=1)}") if found.dtype.kind == "U" else found
    dtype = np.dtype(descr_of(array.datatype, array.byteorder or _NATIVE))
    if dtype.fields is not None:
        return np.array(_as_rows(values, dtype), dtype=dtype)
    return np.array(_without_nulls(values), dtype=dtype)


def _as_rows(values: Any, dtype: Any) -> Any:
    """Convert the records of a structured array to tuples, as numpy needs them.

    A record is an innermost list that matches the fields.
    """
    if not isinstance(values, list):
        return values
    if _is_row(values, dtype):
        return tuple(_as_field(value, dtype[n]) for n, value in enumerate(values))
    return [_as_rows(value, dtype) for value in values]


def _is_row(values: list[Any], dtype: Any) -> bool:
    if len(values) != len(dtype.names):
        return False
    return all(_depth(value) == _field_depth(dtype[n]) for n, value in enumerate(values))


def _field_depth(field: Any) -> int:
    base, shape = field.subdtype or (field, ())
    return len(shape) + (1 if base.fields else 0)


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth, value = depth + 1, value[0] if value else None
    return depth


def _as_field(value: Any, field: Any) -> Any:
    base = (field.subdtype or (field, ()))[0]
    return _as_rows(value, base) if base.fields else value


def _without_nulls(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nulls(value) for value in values]
    return 0 if values is None else values


def read_values(outline: Outline, span: tuple[int, int], line: int) -> Any:
    """Return the lists, numbers, texts and nulls that are written at ``span``.  Raises ``InvalidArrayError``."""
    start, stop = span
    text = f"{outline.prefix}\n{' ' * column_of(outline.text, start)}{outline.text[start:stop]}\n"
    try:
        nodes = Nodes(Tape(text.encode("utf-8", "surrogateescape")))
        nodes.root().check_aliases()
        return _constructed(nodes.tape, 0, line)
    except InvalidTreeError as err:
        raise InvalidArrayError(
            f"its data cannot be read outside of its place in the tree: {err.sentence}", line=line
        ) from err


def _constructed(tape: Tape, row: int, line: int) -> Any:
    """Construct lists, numbers, texts and nulls; refuse anything else as an element."""
    row = tape.target(row)
    if tape.kind[row] in MAPPINGS:
        raise InvalidArrayError("its data has a mapping in it", line=line)
    if tape.kind[row] != SCALAR:
        return [_constructed(tape, item, line) for item in tape.items(row)]
    tag = tape.tags.get(row, "!")
    if _COMPLEX.fullmatch(tag):
        try:
            return complex_of(tape.scalar(row))
        except ValueError:
            raise InvalidArrayError(f"{tape.scalar(row)[:60]!r} is not a complex number", line=line) from None
    if tag != "!" and not tag.startswith(YAML_TAGS):
        raise InvalidArrayError(f"its data has a value of the tag {tag[:60]}", line=line)
    if fault_at(tape, row):
        raise InvalidArrayError(f"{tape.scalar(row)[:60]!r} is not a valid value", line=line)
    return scalar_value(tape, row)


def complex_of(text: str) -> complex:
    """Return the number that schema core/complex writes as ``text``: as Python, with ``i`` or ``j``, ``infinity``.

    Raises ``ValueError``.
    """
    return complex(re.sub("i(?!n)", "j", text.replace("I", "i").replace("infinity", "inf")).replace("J", "j"))

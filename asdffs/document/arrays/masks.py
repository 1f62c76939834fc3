"""The masks of arrays, whichever way the tree has them: an array, a value that masked elements equal, or nulls.

Implements the property ``mask`` of the schema core/ndarray.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from asdffs.arrays.branch import Branch, Scalar, branch_of_mask
from asdffs.arrays.inline import complex_of, inline_nulls
from asdffs.document.arrays.array import Array
from asdffs.document.arrays.elements import Elements, MadeElements
from asdffs.document.arrays.finding import Location, elements_of
from asdffs.document.for_programs import serialized
from asdffs.document.state import FileState
from asdffs.errors import AbandonedError, InvalidArrayError, NotPermittedError
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.resolving import plain_value

#: The largest size of an element that is compared, in bytes: it is in memory several times.
_LARGEST: Final = 16 << 20
#: Larger integers are no float64.
_LARGEST_FLOAT: Final = 1 << 1023


class ValueMask(Elements):
    """The mask of the elements ``data``: a bool for each, true if the element equals ``value``.

    Raises ``InvalidArrayError`` if elements and value cannot be compared.
    """

    descr = "|b1"

    def __init__(self, data: Elements, value: Scalar, scheduler: Scheduler) -> None:
        import numpy as np

        self._data = data
        self._scheduler = scheduler
        self.shape = data.shape
        self.fortran = data.fortran
        self.size = math.prod(data.shape)
        self._dtype = np.dtype(data.descr)
        if self._dtype.itemsize > _LARGEST:
            raise InvalidArrayError(
                f"its elements are larger than {_LARGEST >> 20} MiB and are not compared with a mask"
            )
        self._value = _value_of(value, self._dtype.kind)
        self._masked(bytes(self._dtype.itemsize))  # raises if they cannot be compared

    def read(self, offset: int, length: int) -> bytes:
        """Return the mask of ``length`` elements from element ``offset``, a byte for each.

        Elements are compared as by numpy's ``masked_values``; for the value NaN, all NaNs are masked.  Raises
        ``AbandonedError`` if the program that asked for the mask has ended, or as ``Elements.read``.
        """
        length = max(0, min(length, self.size - offset))
        step = max(1, CHUNK // max(1, self._dtype.itemsize))
        found = []
        for first in range(offset, offset + length, step):
            if not self._scheduler.wanted:
                raise AbandonedError("the program that asked for the mask has ended")
            found.append(self._read(first, min(step, offset + length - first)))
        return b"".join(found)

    def _read(self, first: int, count: int) -> bytes:
        item = self._dtype.itemsize
        raw = read_bytes(self._data.read(first * item, count * item)) if item else b""
        with self._scheduler.waiting():
            return self._masked(raw) if item else bytes(count)

    def _masked(self, raw: bytes) -> bytes:
        import numpy as np

        elements = np.frombuffer(raw, self._dtype) if raw else np.zeros(1, self._dtype)
        return bytes(self.of(elements).tobytes())

    def of(self, elements: Any) -> Any:
        """Return the mask of some of the elements, an ndarray or a scalar.  Raises ``InvalidArrayError``."""
        try:
            return _compared(elements, self._value, self._dtype)
        except (TypeError, ValueError) as err:
            raise InvalidArrayError(f"its elements cannot be compared with the mask {self._value!r}") from err


class Mask(Array):
    """The mask of an array that the tree states as a value or by nulls.  ``find()`` returns the array's branch."""

    states_value = True

    @property
    def units(self) -> Mapping[str, str]:
        """No units, because a mask has none."""
        return {}

    def _stored(self, pieces: int = 0) -> Location:
        raise NotPermittedError("the tree states it as a value")

    @serialized
    def __getitem__(self, index: Any) -> Any:
        """Return the mask of the selected elements, and read only these.  Raises as ``Array.__getitem__``."""
        elements = self._current()
        if isinstance(elements, ValueMask):
            return elements.of(Array(self._file, self._find)[index])
        return super().__getitem__(index)

    def _make(self, branch: Branch) -> Elements:
        return stated_mask(self._file, branch, super()._make(branch))


def mask_of(file: FileState, branch: Branch, elements: Elements) -> Elements | None:
    """Return the mask of the array at ``branch``, which has these ``elements``; None if it has none.

    Raises ``AsdffsError``, ``OSError``.
    """
    if branch.masked:
        return stated_mask(file, branch, elements)
    mask = branch_of_mask(branch)
    return None if mask is None or mask.array is None else elements_of(file, mask, rows_first=True)


def stated_mask(file: FileState, branch: Branch, elements: Elements) -> Elements:
    """Return the mask of ``elements`` that the tree states by nulls among them, as a value, or in both ways.

    Raises ``InvalidArrayError`` as ``ValueMask`` and ``inline_array``.
    """
    import numpy as np

    value = branch.scalars.get("mask")
    equal = ValueMask(elements, value, file.scheduler) if value is not None else None
    if equal is not None and not branch.nulls:
        return equal
    nulls = inline_nulls(file.outlines.outline(), branch, file.budget)
    if equal is not None:
        nulls |= np.frombuffer(equal.read(0, equal.size), bool).reshape(nulls.shape)
    return MadeElements(nulls)


def _value_of(scalar: Scalar, kind: str) -> Any:
    """Return the value of ``scalar`` for a comparison with elements of a numpy ``kind``."""
    value = plain_value(scalar.text) if scalar.plain else scalar.text
    if kind == "c" and isinstance(value, str):
        return complex_of(value)
    return value.encode() if kind == "S" and isinstance(value, str) else value


def _compared(data: Any, value: Any, dtype: Any) -> Any:
    """Return which of the elements ``data``, of the numpy ``dtype``, equal ``value``; floats nearly (``isclose``).

    Elements without bytes equal nothing.  Raises ``TypeError`` if ``value`` is of another sort than the elements.
    """
    import numpy as np

    if dtype.kind not in "biufcSU" or isinstance(value, (str, bytes)) != (dtype.kind in "SU"):
        raise TypeError
    if not isinstance(value, (bool, int, float, complex, str, bytes)):
        raise TypeError
    if not dtype.itemsize or (isinstance(value, int) and not _has(dtype, value)):
        return np.zeros(np.shape(data), bool)
    if isinstance(value, float) and math.isnan(value):
        return np.isnan(data)
    if dtype.kind == "f":  # as float64, because 1e300 would be infinite as a smaller float
        return np.isclose(np.asarray(data, float), np.asarray(value, float))
    return np.equal(data, value)


def _has(dtype: Any, value: int) -> bool:
    """Return whether an element of ``dtype`` can be the integer ``value``; of floats, nearly."""
    import numpy as np

    if dtype.kind in "iu":
        return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
    return value in (0, 1) if dtype.kind == "b" else abs(value) < _LARGEST_FLOAT

"""Masks that the tree states as a value: elements equal to the value are masked."""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from asdffs.document.arrays.base_elements import Elements
from asdffs.errors import AbandonedError, InvalidArrayError
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.branch import Scalar
from asdffs.tree.inline import complex_of

#: The largest size of an element that is compared, in bytes: it is in memory several times.
_LARGEST: Final = 16 << 20


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
            return _compared(elements, self._value, self._dtype.kind)
        except (TypeError, ValueError) as err:
            raise InvalidArrayError(f"its elements cannot be compared with the mask {self._value!r}") from err


def _value_of(scalar: Scalar, kind: str) -> Any:
    """Return the value of ``scalar`` for a comparison with elements of a numpy ``kind``."""
    value = yaml.safe_load(scalar.text) if scalar.plain else scalar.text
    if kind == "c" and isinstance(value, str):
        return complex_of(value)
    return value.encode() if kind == "S" and isinstance(value, str) else value


def _compared(data: Any, value: Any, kind: str) -> Any:
    """Return which elements equal ``value``; floats nearly, as ``numpy.ma.masked_values`` does it.

    An integer outside of the range of the elements equals none.  Raises ``TypeError`` if ``value`` is of another sort
    than elements of the numpy ``kind``.
    """
    import numpy as np

    if kind not in "biufcSU" or isinstance(value, (str, bytes)) != (kind in "SU") or not np.isscalar(value):
        raise TypeError
    if isinstance(value, float) and math.isnan(value):
        return np.isnan(data)
    return np.isclose(data, value) if kind == "f" else np.equal(data, value)

"""The mask that the tree gives an array as a value: elements that are equal to it are masked."""

from __future__ import annotations

import math
from typing import Any

import yaml

from asdffs.document.arrays.elements import Elements
from asdffs.errors import InvalidArrayError
from asdffs.storage.backend import read_bytes
from asdffs.tree.branch import Scalar


class ValueMask(Elements):
    """A bool for each of ``data``'s elements: whether it is the ``value`` that means "masked"."""

    descr = "|b1"

    def __init__(self, data: Elements, value: Scalar) -> None:
        self._data = data
        self._value = yaml.safe_load(value.text) if value.plain else value.text
        self.shape = data.shape
        self.fortran = data.fortran
        self.size = math.prod(data.shape)

    def read(self, offset: int, length: int) -> bytes:
        """Compared as numpy's ``masked_values`` does; with NaN, where it is not a number."""
        import numpy as np

        dtype = np.dtype(self._data.descr)
        length = max(0, min(length, self.size - offset))
        raw = read_bytes(self._data.read(offset * dtype.itemsize, length * dtype.itemsize))
        try:
            return bytes(_masked(np, np.frombuffer(raw, dtype), self._value).tobytes())
        except (TypeError, ValueError) as err:
            raise InvalidArrayError(f"its elements cannot be compared with the mask {self._value!r}") from err


def _masked(np: Any, data: Any, value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return np.isnan(data)
    return np.ma.getmaskarray(np.ma.masked_values(data, value))

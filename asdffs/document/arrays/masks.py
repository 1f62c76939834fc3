"""The mask that the tree gives an array as a value: elements that are equal to it are masked."""

from __future__ import annotations

import math
from typing import Any, Final

import yaml

from asdffs.document.arrays.elements import Elements
from asdffs.errors import AbandonedError, InvalidArrayError
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.branch import Scalar
from asdffs.tree.inline import complex_of

#: Bytes of an element that is compared: each is in memory several times.
_LARGEST: Final = 16 << 20


class ValueMask(Elements):
    """A bool for each of ``data``'s elements: whether it is the ``value`` that means "masked".

    Raises ``InvalidArrayError`` where they cannot be compared.
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
        self._masked(bytes(self._dtype.itemsize))  # says whether it can be

    def read(self, offset: int, length: int) -> bytes:
        """Compared as numpy's ``masked_values`` does; with NaN, where it is not a number.

        Raises ``AbandonedError`` when nobody waits for it any more.
        """
        length = max(0, min(length, self.size - offset))
        step = max(1, CHUNK // max(1, self._dtype.itemsize))
        found = []
        for first in range(offset, offset + length, step):
            if not self._scheduler.wanted:
                raise AbandonedError("nobody waits for the mask any more")
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
        try:
            return bytes(_compared(np, elements, self._value).tobytes())
        except (TypeError, ValueError) as err:
            raise InvalidArrayError(f"its elements cannot be compared with the mask {self._value!r}") from err


def _value_of(scalar: Scalar, kind: str) -> Any:
    """What elements of a numpy ``kind`` are compared with."""
    value = yaml.safe_load(scalar.text) if scalar.plain else scalar.text
    if kind == "c" and isinstance(value, str):
        return complex_of(value)
    return value.encode() if kind == "S" and isinstance(value, str) else value


def _compared(np: Any, data: Any, value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return np.isnan(data)
    return np.ma.getmaskarray(np.ma.masked_values(data, value))

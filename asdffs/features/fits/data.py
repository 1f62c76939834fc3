"""Images of FITS, computed from arrays piece by piece, and the numbers and texts of FITS.

Implements FITS 4.0, sections 5 (data formats) and 7.1 (image): big-endian; unsigned integers and
int8 by BZERO and TZERO, float16 as float32, bool as 8-bit integers in images and as T and F in tables, Unicode as
UTF-8.  An image of contiguous big-endian numbers is a window on its block.  Imports numpy late.
"""

from __future__ import annotations

import math
from typing import Any, Final

from asdffs.document.arrays.elements import Elements
from asdffs.storage.backend import Extent, read_bytes

#: Kind of numpy -> item size -> BITPIX.  What is not here fits no image.
_BITS: Final = {1: 8, 2: 16, 4: 32, 8: 64}
BITPIX: Final = {"b": {1: 8}, "u": _BITS, "i": _BITS, "f": {2: -32, 4: -32, 8: -64}}
Card = tuple[str, Any, str]


def is_image(elements: Elements) -> bool:
    """Return whether FITS has images of such elements."""
    import numpy as np

    dtype = np.dtype(elements.descr)
    return dtype.itemsize in BITPIX.get(dtype.kind, {}) and bool(elements.shape)


class Image:
    """An array of numbers.  ``elements``: rows first.  ``shape``: theirs.  ``size``: in bytes, without filling."""

    def __init__(self, elements: Elements, *, unsigned: bool = True) -> None:
        import numpy as np

        self._elements = elements
        self.shape = elements.shape
        self._dtype = np.dtype(elements.descr)
        self.bitpix = BITPIX[self._dtype.kind][self._dtype.itemsize]
        self.zero = zero_of(self._dtype) if unsigned else 0
        self._item = abs(self.bitpix) // 8
        self.size = self._item * math.prod(elements.shape)
        self._same = self.zero == 0 and (self._item == 1 or self._dtype == self._dtype.newbyteorder(">"))
        self._same = self._same and self._dtype.itemsize == self._item

    def cards(self) -> list[Card]:
        """BITPIX, the axes, and BZERO."""
        shape = self._elements.shape[::-1]
        axes: list[Card] = [(f"NAXIS{n}", length, "") for n, length in enumerate(shape, 1)]
        return [("BITPIX", self.bitpix, "array data type"), ("NAXIS", len(shape), ""), *axes]

    def scaling(self) -> list[Card]:
        """BSCALE and BZERO, where numbers need them."""
        return [("BSCALE", 1, ""), ("BZERO", self.zero, "")] if self.zero else []

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of a window, or converted numbers."""
        length = max(0, min(length, self.size - offset))
        if self._same:
            return self._elements.read(offset, length)
        import numpy as np

        first, last = offset // self._item, -(-(offset + length) // self._item)
        item = self._dtype.itemsize
        raw = read_bytes(self._elements.read(first * item, (last - first) * item))
        numbers = np.frombuffer(raw, self._dtype)
        stored = numbers if self._dtype.kind == "b" else as_fits(numbers, scaled=bool(self.zero))
        converted: bytes = stored.tobytes()
        start = offset - first * self._item
        return converted[start : start + length]


def zero_of(dtype: Any) -> int:
    """Return the BZERO of an integer type whose sign FITS does not have; 0 for other types."""
    if dtype.kind == "i" and dtype.itemsize == 1:
        return -128
    return int(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "u" and dtype.itemsize > 1 else 0


def as_fits(array: Any, *, scaled: bool = True) -> Any:
    """Return numbers or texts as FITS stores them: texts as UTF-8 where that fits, else with ``?`` for letters."""
    import numpy as np

    kind, item = array.dtype.kind, array.dtype.itemsize
    if kind == "b":
        return np.where(array, np.uint8(ord("T")), np.uint8(ord("F")))
    if kind == "U":
        return _encoded(array)
    if scaled and zero_of(array.dtype):
        flipped = array.astype(f"u{item}", copy=False).astype(f"=u{item}") ^ np.array(1 << (8 * item - 1), f"u{item}")
        return flipped.astype(f">u{item}") if item > 1 else flipped
    if (kind, item) == ("f", 2):
        return array.astype(">f4")
    return array.astype(array.dtype.newbyteorder(">"), copy=False)


def _encoded(array: Any) -> Any:
    """Return texts of N characters as texts of N bytes."""
    import numpy as np

    width = width_of(array.dtype)
    if not width:
        return array.astype("S")
    try:
        return np.char.encode(array, "ascii")
    except UnicodeEncodeError:
        texts = [_fitted(text, width) for text in array.ravel().tolist()]
        return np.array(texts, f"S{width}").reshape(array.shape)


def _fitted(text: str, width: int) -> bytes:
    raw = text.encode("utf-8", "replace")
    return raw if len(raw) <= width else text.encode("ascii", "replace")


def width_of(dtype: Any) -> int:
    """Characters of a text."""
    return int(dtype.itemsize // (4 if dtype.kind == "U" else 1))

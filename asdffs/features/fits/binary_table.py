"""Binary tables of FITS, computed from arrays some rows at a time.

Implements FITS 4.0, section 7.3: TNULL, NaN, empty texts and undefined logical values for masked elements.  Imports
numpy late.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from typing import Any, Final

from asdffs.document.arrays.tables import Column, Rows, Table
from asdffs.errors import InvalidArrayError
from asdffs.features.fits.cards import escaped
from asdffs.features.fits.data import Card, as_fits, width_of, zero_of
from asdffs.scheduling import Scheduler

#: Kind of numpy -> item size -> letter of TFORM.
_WHOLE: Final = {1: "B", 2: "I", 4: "J", 8: "K"}
_LETTERS: Final = {"b": {1: "L"}, "u": _WHOLE, "i": _WHOLE, "f": {2: "E", 4: "E", 8: "D"}, "c": {8: "C", 16: "M"}}
#: Characters of a text that one card holds (FITS 4.0, section 4.2.1).
_LONGEST_NAME: Final = 68
_LARGEST_AXES: Final = 999
#: Rows are converted as a whole.
_LONGEST_ROW: Final = 16 << 20
#: Integers at each end of a type that are tried for TNULL.
_TRIED: Final = 128
#: Bytes of a column that are searched for them at once.
_AT_ONCE: Final = 1 << 22
#: What a header says of texts that may have letters beyond ASCII.
_UNICODE: Final = "UTF-8, ? where that does not fit"
#: Integers of these kinds and sizes have other ones if they are masked: so TNULL can be one that no element has.
_WIDER: Final = {"i1": "i2", "u1": "i2", "u2": "i4", "u4": "i8"}
#: Characters of a COMMENT.
_COMMENT: Final = 70


def _form(column: Column) -> str:
    """Return TFORM."""
    repeat = math.prod(column.shape)
    if column.dtype.kind in "SU":
        return f"{repeat * width_of(column.dtype)}A"
    return f"{repeat}{_LETTERS[column.dtype.kind][column.dtype.itemsize]}"


def _dimensions(column: Column) -> str:
    """Return TDIM, where there is more than one number, or text."""
    axes = [str(n) for n in column.shape[::-1]]
    if column.dtype.kind in "SU" and axes:
        axes.insert(0, str(width_of(column.dtype)))
    return f"({','.join(axes)})" if len(axes) > 1 else ""


def _stored(column: Column) -> Any:
    """Return the dtype of its numbers in the file, with their shape."""
    import numpy as np

    if column.dtype.kind in "SU":
        return np.dtype((f"S{width_of(column.dtype)}", column.shape))
    return np.dtype((as_fits(np.zeros(0, column.dtype)).dtype, column.shape))


class BinaryTable:
    """A ``table`` in FITS.  ``size``: in bytes, without filling.

    ``room``: the number of cards that are known only when the elements were read.  Raises ``InvalidArrayError`` for
    unequal columns.
    """

    def __init__(self, table: Table, scheduler: Scheduler) -> None:
        import numpy as np

        sources, columns = table.sources, [_wide(column, table.sources[column.source]) for column in table.columns]
        counts = {source.count for source in sources}
        if any(source.row_size > _LONGEST_ROW for source in sources):
            raise InvalidArrayError(f"a row of it has more than {_LONGEST_ROW >> 20} MiB; read the .npy")
        if len(counts) > 1:
            raise InvalidArrayError(f"its columns have {', '.join(map(str, sorted(counts)))} rows")
        if len(columns) > _LARGEST_AXES:
            raise InvalidArrayError(f"it has {len(columns)} columns; FITS has at most {_LARGEST_AXES}")
        self._sources = sources
        self.columns = columns
        self._count = counts.pop() if counts else 0
        self._filled = [(n, column) for n, column in enumerate(columns) if column.size]  # an empty text has no bytes
        self._row = np.dtype([(f"c{n}", _stored(column)) for n, column in self._filled])
        self.size = self._row.itemsize * self._count
        self._scheduler, self._left = scheduler, table.left
        masked = [n for n, column in self._filled if column.dtype.kind in "iu" and sources[column.source].mask]
        self._integers = masked
        self.room = len(masked) + len(table.left)

    @functools.cached_property
    def _nulls(self) -> dict[int, int | None]:
        """TNULL of each masked column of integers; None if the column has all numbers that were tried."""
        return {number: self._null_of(self.columns[number]) for number in self._integers}

    def _null_of(self, column: Column) -> int | None:
        """Return a number that the column has nowhere.

        TNULL is the stored number (FITS 4.0, section 7.3.2), but astropy takes it for the number itself.  So those
        with TZERO, 64-bit unsigned integers, have neither this number nor the one that is stored as it.
        """
        import numpy as np

        source, zero = self._sources[column.source], zero_of(column.dtype)
        if column.dtype != source.dtype:
            return int(np.iinfo(column.dtype).min)
        info, most = np.iinfo(column.dtype), np.iinfo(column.dtype).max - zero
        free = [*range(int(info.min), int(info.min) + _TRIED), *range(int(most), int(most) - _TRIED, -1)]
        step = max(1, _AT_ONCE // max(1, source.row_size))
        for first in range(0, self._count, step):
            with self._scheduler.resumed():
                count = min(step, self._count - first)
                rows, masked = source.read(first, count), source.masked(first, count)
            shown = rows[~masked]
            tried = np.array([*free, *(one + zero for one in free)], column.dtype)
            used = set(shown[np.isin(shown, tried)].tolist())
            free = [one for one in free if used.isdisjoint((one, one + zero))]
        return free[0] if free else None

    def late_cards(self) -> list[Card]:
        """Return TNULL of masked integers, and what is not in the table.  Reads the elements of these columns.

        Called without the main lock.
        """
        told = [f"{what} is not in this file" for what in self._left]
        cards: list[Card] = []
        for number, null in self._nulls.items():
            if null is None:
                told.append(f"the mask of the column {self.columns[number].name} is not in this file")
            else:
                cards.append((f"TNULL{number + 1}", null, "of masked elements"))
        return [*cards, *(("COMMENT", _printable(sentence)[:_COMMENT], "") for sentence in told)]

    def cards(self) -> list[Card]:
        """Return the cards with the shape of the table."""
        return [
            ("BITPIX", 8, "array data type"),
            ("NAXIS", 2, ""),
            ("NAXIS1", self._row.itemsize, "bytes in a row"),
            ("NAXIS2", self._count, "rows"),
            ("PCOUNT", 0, ""),
            ("GCOUNT", 1, ""),
            ("TFIELDS", len(self.columns), ""),
        ]

    def column_cards(self) -> Iterable[Card]:
        """Yield the cards of each column."""
        for number, column in enumerate(self.columns, 1):
            yield f"TTYPE{number}", _fitting(column.name, number), ""
            yield f"TFORM{number}", _form(column), _UNICODE if column.dtype.kind == "U" else ""
            if zero_of(column.dtype):
                yield f"TSCAL{number}", 1, ""
                yield f"TZERO{number}", zero_of(column.dtype), ""
            if _dimensions(column):
                yield f"TDIM{number}", _dimensions(column), ""
            if column.unit:
                yield f"TUNIT{number}", column.unit, ""
            if column.description:
                yield f"TCOMM{number}", _printable(column.description), ""

    def read(self, offset: int, length: int) -> bytes:
        """Compute bytes of the rows."""
        import numpy as np

        length = max(0, min(length, self.size - offset))
        if not length:
            return b""
        each = self._row.itemsize
        first, last = offset // each, -(-(offset + length) // each)
        rows = np.zeros(last - first, self._row)
        known = [source.read(first, last - first) for source in self._sources]
        masks = [source.masked(first, last - first) for source in self._sources]
        for number, column in self._filled:
            stored = as_fits(column.of(known[column.source]).astype(column.dtype, copy=False))
            rows[f"c{number}"] = self._masked(number, stored, masks[column.source])
        start = offset - first * each
        raw: bytes = rows.tobytes()
        return raw[start : start + length]

    def _masked(self, number: int, stored: Any, mask: Any) -> Any:
        """Return the elements of a column with those that FITS has for masked ones (sections 4.4.2.5 and 7.3.3)."""
        import numpy as np

        if mask is None or (null := self._missing(number)) is None:
            return stored
        return np.where(mask, np.array(null, stored.dtype), stored)

    def _missing(self, number: int) -> Any:
        dtype = self.columns[number].dtype
        if dtype.kind in "iu":
            null = self._nulls[number]
            if null is None or dtype.kind == "i":
                return null
            return (null - zero_of(dtype)) % (1 << 8 * dtype.itemsize)  # in two's complement
        return {"b": 0, "S": b"", "U": b""}.get(dtype.kind, math.nan)


def _wide(column: Column, rows: Rows) -> Column:
    """Return a column with the dtype that it has in FITS: a wider one if it is masked."""
    if rows.mask is None:
        return column
    import numpy as np

    return dataclasses.replace(column, dtype=np.dtype(_WIDER.get(column.dtype.str[1:], column.dtype)))


def _printable(text: str) -> str:
    """Return a description in characters of FITS, on one line."""
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())


def _fitting(name: str, number: int) -> str:
    """Return the name of a column as one card holds it; a longer one is cut, and ends with the column's number."""
    text = escaped(name)
    if len(text) + text.count("'") <= _LONGEST_NAME:  # a quote takes two characters
        return text
    end = f"_{number}"
    while len(text) + text.count("'") + len(end) > _LONGEST_NAME:
        text = text[:-1]
    return text + end

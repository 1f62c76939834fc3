"""Binary tables of FITS, computed from arrays some rows at a time.

Implements FITS 4.0, section 7.3: TNULL, NaN, empty texts and undefined logical values for masked elements.  Imports
numpy late.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from asdffs.document.arrays.elements import Elements
from asdffs.errors import InvalidArrayError
from asdffs.features.fits.data import Card, as_fits, width_of, zero_of
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import read_bytes

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


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one array.  ``shape``: of the array without its rows.  ``mask``: its mask, None if it has none."""

    elements: Elements
    dtype: Any
    shape: tuple[int, ...]
    mask: Elements | None = None

    @classmethod
    def of(cls, elements: Elements, *, records: bool) -> Rows:
        """Return the table of ``elements`` that are records themselves, or a column of a table."""
        import numpy as np

        return cls(elements, np.dtype(elements.descr), () if records else elements.shape[1:])

    @property
    def count(self) -> int:
        """How many."""
        each = math.prod(self.shape)
        return math.prod(self.elements.shape) // each if each else self.elements.shape[0]

    @property
    def row_size(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize) * math.prod(self.shape)

    def read(self, first: int, count: int) -> Any:
        """Return an array of ``count`` rows from ``first``.  Raises ``AsdffsError``, ``OSError``."""
        import numpy as np

        each = self.row_size
        raw = read_bytes(self.elements.read(first * each, count * each))
        return np.frombuffer(raw, self.dtype).reshape(count, *self.shape) if each else np.zeros((count, 0), "S1")

    def masked(self, first: int, count: int) -> Any:
        """Return the mask of the rows that ``read`` returns, true where masked; None without a mask."""
        import numpy as np

        mask = self.mask
        if mask is None:
            return None
        dtype, shape = np.dtype(mask.descr), self.elements.shape
        if mask.shape != shape:
            whole = np.frombuffer(read_bytes(mask.read(0, mask.size)), dtype).reshape(mask.shape) != 0
            return np.broadcast_to(whole, shape)[first : first + count]
        each = dtype.itemsize * math.prod(self.shape)
        raw = read_bytes(mask.read(first * each, count * each))
        return np.frombuffer(raw, dtype).reshape(count, *self.shape) != 0


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``path`` of fields in the rows of source number ``source``."""

    name: str
    source: int
    path: tuple[str, ...]
    dtype: Any
    shape: tuple[int, ...]
    unit: str = ""
    description: str = ""

    @property
    def size(self) -> int:
        """Bytes in a row of the array, 0 for empty texts and axes."""
        return int(self.dtype.itemsize) * math.prod(self.shape)

    def form(self) -> str:
        """TFORM."""
        repeat = math.prod(self.shape)
        if self.dtype.kind in "SU":
            return f"{repeat * width_of(self.dtype)}A"
        return f"{repeat}{_LETTERS[self.dtype.kind][self.dtype.itemsize]}"

    def dimensions(self) -> str:
        """TDIM, where there is more than one number, or text."""
        axes = [str(n) for n in self.shape[::-1]]
        if self.dtype.kind in "SU" and axes:
            axes.insert(0, str(width_of(self.dtype)))
        return f"({','.join(axes)})" if len(axes) > 1 else ""

    def stored(self) -> Any:
        """Return the dtype of its numbers in the file, with their shape."""
        import numpy as np

        if self.dtype.kind in "SU":
            return np.dtype((f"S{width_of(self.dtype)}", self.shape))
        return np.dtype((as_fits(np.zeros(0, self.dtype)).dtype, self.shape))


class Table:
    """Rows of columns.  ``size``: in bytes, without filling.  ``left``: sentences about what is not in it.

    ``room``: the number of cards that are known only when the elements were read.  Raises ``InvalidArrayError`` for
    unequal columns.
    """

    def __init__(
        self, sources: Sequence[Rows], columns: Sequence[Column], scheduler: Scheduler, left: Sequence[str] = ()
    ) -> None:
        import numpy as np

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
        self._row = np.dtype([(f"c{n}", column.stored()) for n, column in self._filled])
        self.size = self._row.itemsize * self._count
        self._scheduler, self._left = scheduler, left
        masked = [n for n, column in self._filled if column.dtype.kind in "iu" and sources[column.source].mask]
        self._integers = masked
        continued = sum(len(_printable(column.description)) > _LONGEST_NAME // 2 for column in columns)
        self.room = len(masked) + len(left) + 2 * continued

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
        told = [*self._left]
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
            yield f"TFORM{number}", column.form(), _UNICODE if column.dtype.kind == "U" else ""
            if zero_of(column.dtype):
                yield f"TSCAL{number}", 1, ""
                yield f"TZERO{number}", zero_of(column.dtype), ""
            if column.dimensions():
                yield f"TDIM{number}", column.dimensions(), ""
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
            found = known[column.source]
            for name in column.path:
                found = found[name]
            stored = as_fits(found.astype(column.dtype, copy=False))
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


def columns_of(dtype: Any, source: int = 0, above: tuple[str, ...] = (), shape: tuple[int, ...] = ()) -> list[Column]:
    """Yield the columns of records of ``dtype``; fields of records within them get names with dots."""
    found: list[Column] = []
    for name in dtype.names:
        base, sub = dtype[name].subdtype or (dtype[name], ())
        path, axes = (*above, name), shape + sub
        if base.names:
            found += columns_of(base, source, path, axes)
        else:
            found.append(Column(".".join(path), source, path, base, axes))
    return found


def wider(dtype: Any) -> Any:
    """Return the dtype of a masked column whose elements have ``dtype``."""
    import numpy as np

    return np.dtype(_WIDER.get(dtype.str[1:], dtype))


def _printable(text: str) -> str:
    """Return a description in characters of FITS, on one line, cut to what three cards hold."""
    line = " ".join(text.encode("ascii", "backslashreplace").decode().split())[:160]
    return line[: 160 - line.count("'")]  # a quote takes two


def _fitting(name: str, number: int) -> str:
    """Return the name of a column as one card holds it; a longer one is cut, and ends with the column's number."""
    text = name.encode("ascii", "backslashreplace").decode()
    if len(text) + text.count("'") <= _LONGEST_NAME:  # a quote takes two characters
        return text
    end = f"_{number}"
    while len(text) + text.count("'") + len(end) > _LONGEST_NAME:
        text = text[:-1]
    return text + end

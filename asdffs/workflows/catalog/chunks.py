"""Chunks: the scalars of up to 1,000 files, column by column.

Values of one path in many files are alike, so a column compresses well, and a query reads only the columns that it
names.  A column is a JSON list with one item for each file, compressed.  JSON has no dates and no missing values, so
these are lists with a mark, and so are empty lists and mappings, and what is left out.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from enum import Flag, auto
from typing import Any, Final, NamedTuple

from asdffs.tree.conditions import MISSING, Mark

#: Files in a chunk.
FILES: Final = 1000
_LEVEL: Final = 1
#: Bytes of the largest column: 1,000 texts of 65,536 characters, of which each takes 12 bytes in JSON, have fewer.
_LARGEST: Final = 1 << 30
#: Bytes from which on a column is looked at before it is made, and lists in it: one for each place, and the whole.
_LONG: Final = 1 << 20
_MOST_LISTS: Final = FILES + 1
_LISTS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"|\[')
_MISSING_MARK: Final[list[Any]] = []


class Kinds(Flag):
    """The kinds of values in a column.

    ``INT``: numbers that a float has exactly, up to 53 bits; ``LONG``: up to 63 bits; ``HUGE``: more.
    """

    NONE = 0
    BOOL = auto()
    INT = auto()
    LONG = auto()
    HUGE = auto()
    FLOAT = auto()
    TEXT = auto()
    TIME = auto()
    COLLECTION = auto()


_KINDS: Final = {bool: Kinds.BOOL, float: Kinds.FLOAT, str: Kinds.TEXT}
_KINDS_TOO: Final = {datetime.date: Kinds.TIME, datetime.datetime: Kinds.TIME, Mark: Kinds.COLLECTION}


def kinds_of(values: Sequence[Any]) -> Kinds:
    """Return the kinds of ``values``.  Null and missing values have none."""
    found = Kinds.NONE
    for kind in set(map(type, values)):
        found |= (_KINDS | _KINDS_TOO).get(kind, Kinds.NONE)
        if kind is int:
            largest = max(abs(value) for value in values if type(value) is int)
            found |= Kinds.INT if largest <= 1 << 53 else Kinds.LONG if largest < 1 << 63 else Kinds.HUGE
    return found


class Column(NamedTuple):
    """A packed column, and the kinds of its values."""

    kinds: Kinds
    packed: bytes


def column_of(values: Sequence[Any]) -> Column:
    """Return a column with ``values``; ``MISSING`` where a file has none."""
    return Column(kinds_of(values), pack_column(values))


def pack_columns(files: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    """Return the columns of ``files``, each a mapping from dotted paths to scalars."""
    columns: dict[str, list[Any]] = {}
    count = len(files)
    for number, values in enumerate(files):
        for path, value in values.items():
            column = columns.get(path)
            if column is None:
                column = columns[path] = [MISSING] * count
            column[number] = value
    return {path: column_of(column) for path, column in columns.items()}


def pack_column(values: Sequence[Any]) -> bytes:
    """Return a column with ``values``; ``MISSING`` where a file has none."""
    text = json.dumps(values, default=_marked, separators=(",", ":"))
    return zlib.compress(text.encode(), _LEVEL)


def unpack_column(packed: bytes) -> list[Any]:
    """Return the values of a column; ``MISSING`` where a file has none.  Raises ``ValueError`` if it is damaged."""
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, _LARGEST)
        if not stream.eof or (len(text) > _LONG and len(_lists_in(text)) > _MOST_LISTS):
            raise ValueError("a column is one list of at most 1 GiB")
        return [_unmarked(value) if isinstance(value, list) else value for value in json.loads(text)]
    except (zlib.error, TypeError, RecursionError) as err:
        raise ValueError(str(err)) from err


def _lists_in(text: bytes) -> list[bytes]:
    """Return the first lists of a column, found without making them: each empty one takes 20 times its text."""
    found = (part[0] for part in _LISTS.finditer(text) if part[0] == b"[")
    return list(itertools.islice(found, _MOST_LISTS + 1))


def unpack_json(packed: bytes) -> str:
    """Return a column as a JSON list for SQL: an empty list for a missing value; dates are text."""
    return json.dumps([_for_sql(value) for value in unpack_column(packed)])


def _for_sql(value: Any) -> Any:
    if value is MISSING or isinstance(value, Mark):
        return []
    if isinstance(value, datetime.date):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _marked(value: Any) -> Any:
    """Return what JSON has no form for as a list with a mark."""
    if value is MISSING:
        return _MISSING_MARK
    if isinstance(value, datetime.datetime):
        return ["time", value.isoformat()]
    if isinstance(value, datetime.date):
        return ["date", value.isoformat()]
    if isinstance(value, Mark):
        return [value.value]
    raise TypeError(f"a scalar of {type(value).__name__}")


def _unmarked(value: list[Any]) -> Any:
    if not value:
        return MISSING
    if len(value) == 1:
        return Mark(value[0])
    kind, text = value
    if kind == "time":
        return datetime.datetime.fromisoformat(text)
    return datetime.date.fromisoformat(text)

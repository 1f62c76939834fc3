"""Chunks: the scalars of up to 1,000 files, column by column.

Values of one path in many files are alike, so a column compresses well, and a query reads only the columns that it
names.  A column is a JSON list with one item for each file, compressed.  JSON has no dates and no missing values, so
these are lists with a mark, and so are lists and mappings, and what is left out.

A path that few files of a chunk have is rare: each of its values is a row, because a column would have a place for
every file.  A chunk ends before it takes much memory, whatever the files say: ``Packer`` weighs what it has.
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

from asdffs.tree.comparing import MISSING, Mark

#: The most files in a chunk, and bytes of memory that its scalars may take before it ends with the next file.
FILES: Final = 1000
WEIGHT: Final = 64 << 20
_LEVEL: Final = 1
#: A path is rare if at most so many files of a chunk have it, or at most this part of them; never if all have it.
_FEW: Final = 2
_PART: Final = 100
#: Bytes of memory for a path, for a value, and for a character that is not printable ASCII (in JSON it takes 12).
_PATH: Final = 300
_VALUE: Final = 40
_WIDE: Final = 12
#: Bytes of the longest value in JSON, a text of 65,536 characters, and of the largest column.
_LONGEST: Final = (_WIDE << 16) + 2
LARGEST: Final = 2 * WEIGHT + _LONGEST
#: Bytes from which on a column is looked at before it is made: each place has at most three commas and brackets.
_LONG: Final = 1 << 20
_SIGNS: Final = re.compile(rb'(?s)"(?:[^"\\]|\\.)*+"?|[\[,]')
_ENCODE: Final = json.JSONEncoder(default=lambda value: _marked(value), separators=(",", ":")).encode
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
    LEFT_OUT = auto()

    @property
    def scalars(self) -> Kinds:
        """The kinds that are scalars."""
        return self & ~(Kinds.COLLECTION | Kinds.LEFT_OUT)


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
    return found | (Kinds.LEFT_OUT if Mark.LEFT_OUT in values else Kinds.NONE)


class Column(NamedTuple):
    """A packed column, and the kinds of its values."""

    kinds: Kinds
    packed: bytes


class Rare(NamedTuple):
    """The value that the file at one place of a chunk has at a rare path, packed, and its kinds."""

    path: str
    place: int
    kinds: Kinds
    value: str


class Packed(NamedTuple):
    """The scalars of the files of a chunk.  ``weight``: bytes of memory that they took."""

    columns: dict[str, Column]
    rare: list[Rare]
    weight: int


class Packer:
    """Collects the scalars of the files of one chunk by their paths.

    ``files``: how many there are.  ``weight``: bytes of memory that they take.
    """

    def __init__(self) -> None:
        self.files = 0
        self.weight = 0
        self._items: dict[str, list[Any]] = {}

    def add(self, values: Mapping[str, Any]) -> None:
        """Add the scalars of one file, by their dotted paths, at the next place."""
        place, every, weight = self.files, self._items, _VALUE * len(values)
        for path, value in values.items():
            items = every.get(path)
            if items is None:
                items = every[path] = []
                weight += _PATH + len(path)
            items += (place, value)
            if value.__class__ is str:
                weight += _weight_of(value)
        self.weight += weight
        self.files += 1

    def join(self, path: str, values: Mapping[int, Any]) -> None:
        """Add what some files have at one path, by their places, which are behind those that have been added."""
        items = self._items.setdefault(path, [])
        self.weight += 0 if items else _PATH + len(path)
        for place, value in values.items():
            items += (place, value)
            self.weight += _VALUE + (_weight_of(value) if isinstance(value, str) else 0)

    def packed(self) -> Packed:
        """Return the columns, and the values of rare paths."""
        columns, rare = {}, list[Rare]()
        few = min(max(_FEW, self.files // _PART), self.files - 1)
        for path, items in self._items.items():
            places, values = items[::2], items[1::2]
            if len(places) <= few:
                rare += (
                    Rare(path, place, kinds_of((one,)), pack(one)) for place, one in zip(places, values, strict=True)
                )
                continue
            if len(places) < self.files:
                values = dense(dict(zip(places, values, strict=True)), self.files)
            columns[path] = Column(kinds_of(values), pack_column(values))
        return Packed(columns, rare, self.weight)


def _weight_of(text: str) -> int:
    return len(text) if text.isascii() and text.isprintable() else _WIDE * len(text)


def dense(values: Mapping[int, Any], places: int) -> list[Any]:
    """Return a value for each of ``places``; ``MISSING`` where ``values`` has none."""
    return [values.get(place, MISSING) for place in range(places)]


def pack(value: Any) -> str:
    """Return one value as text."""
    return _ENCODE(value)


def unpack(text: str) -> Any:
    """Return the value that ``pack`` packed.  Raises ``ValueError`` if it is damaged."""
    try:
        if len(text) > _LONGEST:
            raise ValueError("a value is too long")
        value = json.loads(text)
        return _unmarked(value) if isinstance(value, list) else value
    except (TypeError, RecursionError) as err:
        raise ValueError(str(err)) from err


def pack_column(values: Sequence[Any]) -> bytes:
    """Return a column with ``values``; ``MISSING`` where a file has none."""
    return zlib.compress(_ENCODE(values).encode(), _LEVEL)


def unpack_column(packed: bytes, places: int) -> list[Any]:
    """Return the values of a column for the files at ``places``; ``MISSING`` where one has none.

    Raises ``ValueError`` if it is damaged, before it takes much more memory than a column may.
    """
    if not isinstance(places, int) or not 0 <= places <= FILES:  # a damaged catalogue may say anything
        raise ValueError("no number of places")
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(packed, min(LARGEST, places * (_LONGEST + 1) + 2))
        if not stream.eof or (len(text) > _LONG and _has_more_signs(text, 3 * places)):
            raise ValueError(f"a column is one list of {places} values")
        values = json.loads(text)
        if not isinstance(values, list):
            raise ValueError("a column is a list")
        if text.count(b"[") > 1:  # else no value has a mark, nor a text a bracket
            values = [_unmarked(value) if isinstance(value, list) else value for value in values]
    except (zlib.error, TypeError, RecursionError) as err:
        raise ValueError(str(err)) from err
    if len(values) != places:
        raise ValueError(f"a column has {len(values)} values for {places} places")
    return values


def _has_more_signs(text: bytes, most: int) -> bool:
    """Return whether JSON has more than ``most`` commas and lists.  None is made: it takes 20 times its text."""
    found = (None for sign in _SIGNS.finditer(text) if text[sign.start()] != ord('"'))
    return next(itertools.islice(found, most, None), 0) is None


def unpack_json(packed: bytes, places: int) -> str:
    """Return a column as a JSON list for SQL: an empty list for a missing value; dates are text."""
    return json.dumps([_for_sql(value) for value in unpack_column(packed, places)])


def unpack_value_json(text: str) -> str:
    """Return the value of a rare path as a JSON list of one item, as ``unpack_json``."""
    return json.dumps([_for_sql(unpack(text))])


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

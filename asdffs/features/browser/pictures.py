"""Pictures of arrays: numbers become grey levels or colours, and these become PNG.  Pure: no file, no thread.

| stretch  | black and white                                  | between them                                  |
|----------|--------------------------------------------------|-----------------------------------------------|
| linear   | percentiles 1 and 99                             | in proportion                                 |
| zscale   | those of IRAF and DS9, around the median         | in proportion                                 |
| asinh    | percentiles 1 and 99.9                           | faint differences larger than bright ones     |
| log      | percentiles 1 and 99.9                           | faint differences much larger                 |

zscale gives the numbers of astropy.  Colours are those of the package cmap: colour maps of matplotlib, DS9 and
others.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from asdffs.errors import NotSupportedError, Remedy, UsageError

#: For each axis an integer, or a slice with a start, a stop and a step.
Index = tuple[int | slice, ...]
#: Bars of the histogram.
BARS: Final = 32
#: Elements of which statistics are made at once.
_AT_ONCE: Final = 1 << 20
#: Parts of the elements that are black or white, because a few very bright ones would make all others black.
_ENDS: Final[Mapping[str, tuple[float, float]]] = {"linear": (1, 99), "asinh": (1, 99.9), "log": (1, 99.9)}
#: Softening of asinh, and exponent of log, as in DS9 and astropy.
_ASINH: Final = 0.1
_LOG: Final = 1000.0
#: zscale: samples, the fewest that tell a line, rounds, standard deviations beyond which one is left out, contrast.
_SAMPLES: Final = 1000
_FEWEST: Final = 5
_ROUNDS: Final = 5
_FAR: Final = 2.5
_CONTRAST: Final = 0.25
#: The squares of larger numbers may be infinite.
_LARGEST: Final = 1e100
GREY = "gray"
_INK: Final = 255
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: Samples of a pixel -> colour type (PNG, section 11.2.1).
_COLOUR_TYPES: Final = {1: 0, 3: 2, 4: 6}


def complete(index: Sequence[Any], shape: Sequence[int]) -> Index:
    """Return ``index`` for all axes of ``shape``: ``...`` and missing axes become whole slices.

    Integers are positive in the result, and slices have numbers.  Raises ``IndexError``.
    """
    keys = list(index)
    named = len(keys) - keys.count(Ellipsis)
    if named > len(shape) or keys.count(Ellipsis) > 1:
        raise IndexError(f"the array has {len(shape)} axes, and {named} are named")
    place = keys.index(Ellipsis) if Ellipsis in keys else len(keys)
    keys[place : place + 1] = [slice(None)] * (len(shape) - named)
    return tuple(_completed(key, length, axis) for axis, (key, length) in enumerate(zip(keys, shape, strict=True)))


def _completed(key: Any, length: int, axis: int) -> int | slice:
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
        if not range(start, stop, step):
            return slice(0, 0, 1)
        return slice(start, None if stop < 0 else stop, step)
    if not -length <= key < length:
        raise IndexError(f"index {key} is out of bounds for axis {axis}, which has {length}")
    return int(key) % length


def lengths(index: Index, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of what a complete index selects."""
    found = zip(index, shape, strict=True)
    return tuple(len(range(*key.indices(length))) for key, length in found if isinstance(key, slice))


def first_plane(index: Index, shape: Sequence[int], axes: int = 2) -> Index:
    """Return an index with at most ``axes`` slices, the last ones: of the others, the first position.

    An index that selects nothing is returned as it is.
    """
    if 0 in lengths(index, shape):
        return index
    many = [axis for axis, key in enumerate(index) if isinstance(key, slice)]
    first = dict.fromkeys(many[: max(0, len(many) - axes)])
    return tuple(_first(key, shape[axis]) if axis in first else key for axis, key in enumerate(index))


def _first(key: int | slice, length: int) -> int:
    return range(*key.indices(length))[0] if isinstance(key, slice) else key


def coarser(index: Index, step: int) -> Index:
    """Return an index that selects every ``step``-th position of each slice."""
    return tuple(
        slice(key.start, key.stop, (key.step or 1) * step) if isinstance(key, slice) else key for key in index
    )


class Statistics(NamedTuple):
    """Facts about numbers.

    ``least``, ``greatest``, ``mean`` and ``deviation`` (the standard one) are of the finite numbers; None without
    any.  The first two are exact.  ``numbers``: how many there are; ``nan``, ``infinite``: how many of them are such.
    ``bars``: how many finite numbers are in each of equal parts from ``least`` to ``greatest``.  ``masked``: how many
    elements were left out, because they are masked.
    """

    numbers: int
    nan: int
    infinite: int
    least: float | int | None
    greatest: float | int | None
    mean: float | None
    deviation: float | None
    bars: tuple[int, ...]
    masked: int = 0

    def facts(self) -> dict[str, Any]:
        """Return the statistics under the names that users read."""
        facts: dict[str, Any] = {"read": self.numbers + self.masked, "masked": self.masked, "nan": self.nan}
        facts |= {"infinite": self.infinite, "min": self.least, "max": self.greatest}
        return facts | {"mean": self.mean, "std": self.deviation, "histogram": list(self.bars)}


def statistics_of(values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None = None) -> Statistics:
    """Return the statistics of ``values``, an array of numbers or bools, of any shape.

    ``mask``: of the same shape, true for elements that are left out.
    """
    numbers = nan = count = 0
    ends: list[float | int] = []
    mean = squares = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # the sum of the largest numbers is infinite
        for piece in _pieces(values, mask):
            finite = piece[np.isfinite(piece)]
            numbers, nan = numbers + piece.size, nan + int(np.isnan(piece).sum())
            if not finite.size:
                continue
            ends += [finite.min().item(), finite.max().item()]
            floats = finite.astype("f8")
            own, total = float(floats.mean()), count + finite.size
            squares += float(((floats - own) ** 2).sum()) + (own - mean) ** 2 * count * finite.size / total
            mean, count = mean + (own - mean) * finite.size / total, total
    masked = 0 if mask is None else values.size - numbers
    if not count:
        return Statistics(numbers, nan, numbers - nan, None, None, None, None, (), masked)
    least, greatest = min(ends), max(ends)
    middle, spread = (value if math.isfinite(value) else None for value in (mean, math.sqrt(squares / count)))
    bars = _bars(values, mask, float(least), float(greatest), count)
    return Statistics(numbers, nan, numbers - nan - count, least, greatest, middle, spread, bars, masked)


def _pieces(values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the elements that are not masked, some at a time; bools as integers."""
    flat = values.reshape(-1)
    flat = flat.view("u1") if flat.dtype.kind == "b" else flat
    hidden = None if mask is None else mask.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        piece = flat[start : start + _AT_ONCE]
        yield piece if hidden is None else piece[~hidden[start : start + _AT_ONCE]]


def _bars(
    values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None, least: float, greatest: float, count: int
) -> tuple[int, ...]:
    """Return the histogram: one bar if all numbers are equal, none if their range is larger than a float can be."""
    if least == greatest:
        return (count,)
    return histogram_of(values, mask, (least, greatest), BARS) if math.isfinite(greatest - least) else ()


def histogram_of(
    values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None, ends: tuple[float, float], bars: int
) -> tuple[int, ...]:
    """Return how many numbers are in each of ``bars`` equal parts from ``ends[0]`` to ``ends[1]``, which differ.

    Numbers outside, and those that are not finite or masked, are not counted.
    """
    found = np.zeros(bars, int)
    for piece in _pieces(values, mask):
        found += np.histogram(piece[np.isfinite(piece)].astype("f8"), bars, ends)[0]
    return tuple(map(int, found))


def limits_of(values: np.ndarray[Any, Any], stretch: str) -> tuple[float, float]:
    """Return the numbers that are shown black and white, of the finite elements, by the table above.

    They are different, unless there are no two different elements.
    """
    numbers = values.astype("f8")
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return 0.0, 1.0
    low, high = _zscale(finite) if stretch == "zscale" else map(float, np.percentile(finite, _ENDS[stretch]))
    return (low, high) if low < high else (float(finite.min()), float(finite.max()))


def _zscale(finite: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return black and white by the algorithm of IRAF: a line through sorted samples, without those far from it."""
    samples = np.sort(finite[:: max(1, finite.size // _SAMPLES)][:_SAMPLES])
    low, high = float(samples[0]), float(samples[-1])
    if max(-low, high) > _LARGEST:
        return low, high
    count, places = samples.size, np.arange(samples.size)
    enough, near = max(_FEWEST, count // 2), np.ones(samples.size, bool)
    line = np.zeros(2)
    before = count + 1
    for _ in range(_ROUNDS):
        now = int(near.sum())
        if now >= before or now < enough:
            break
        line = np.polyfit(places[near], samples[near], 1)
        away = samples - np.polyval(line, places)
        far = np.abs(away) > _FAR * away[near].std()
        near = ~np.convolve(far | ~near, np.ones(max(1, count // 100), bool), "same")
        before = now
    if int(near.sum()) < enough:
        return low, high
    slope, middle, median = float(line[0]) / _CONTRAST, (count - 1) // 2, float(np.median(samples))
    return max(low, median - (middle - 1) * slope), min(high, median + (count - middle) * slope)


def grey_levels(values: np.ndarray[Any, Any], limits: tuple[float, float], stretch: str) -> np.ndarray[Any, Any]:
    """Return uint8: 0 for numbers up to ``limits[0]`` and for NaN, 255 for those from ``limits[1]`` on."""
    low, high = limits
    # by halves, because the difference of the largest numbers is larger than a float can be
    scaled = (values.astype("f8") / 2 - low / 2) / (high / 2 - low / 2 if high > low else 127.5)
    part = np.nan_to_num(scaled, nan=0.0, posinf=1.0, neginf=0.0).clip(0, 1)
    if stretch == "asinh":
        part = np.arcsinh(part / _ASINH) / math.asinh(1 / _ASINH)
    elif stretch == "log":
        part = np.log1p(_LOG * part) / math.log1p(_LOG)
    return (part * 255).astype("u1")


def coloured(levels: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    """Return the colours of ``levels``, uint8: ``levels`` itself for ``gray``, else with an axis of 3 more.

    Raises ``UsageError`` for an unknown colour map, ``NotSupportedError`` without the package cmap.
    """
    if name == GREY:
        return levels
    try:
        from cmap import Colormap
    except ImportError as err:
        raise NotSupportedError("colours need cmap, which is not installed", remedy=Remedy.INSTALL_SHOW) from err
    try:
        table = Colormap(name).lut(256)
    except (ValueError, TypeError, KeyError) as err:
        raise UsageError(f"the colour map {name!r} is not known; try viridis, magma, inferno, turbo or gray") from err
    colours = (table[:, :3] * 255).round().astype("u1")
    found: np.ndarray[Any, Any] = colours[levels]
    return found


def curve(
    values: np.ndarray[Any, Any],
    mask: np.ndarray[Any, Any] | None,
    limits: tuple[float, float],
    rows: int,
    columns: int,
) -> np.ndarray[Any, Any]:
    """Return uint8 of ``rows`` and ``columns``: 255 on the curve, 0 elsewhere.  The first row is at the top.

    Each column has a line from the least to the greatest of its elements, and on to those of the column before, so
    that no peak is lost.  NaN, infinite and masked elements leave a gap.  ``mask``: true for masked elements.
    ``limits``: the values at the bottom and top.
    """
    image = np.zeros((rows, columns), "u1")
    low, high = limits
    # by halves, because the difference of the largest numbers is larger than a float can be
    middle, height = low / 2, high / 2 - low / 2 if high > low else 0.5
    before: float | None = None
    hidden = [None] * columns if mask is None else _parts(mask, columns)
    for column, (part, masked) in enumerate(zip(_parts(values, columns), hidden, strict=True)):
        known = (part if masked is None else part[~masked]).astype("f8")
        heights = ((known[np.isfinite(known)] / 2 - middle) / height * (rows - 1)).clip(0, rows - 1)
        if not heights.size:
            before = None
            continue
        first, last = heights.min(), heights.max()
        if before is not None:
            first, last = min(first, before), max(last, before)
        image[rows - 1 - round(float(last)) : rows - round(float(first)), column] = _INK
        before = float(heights[-1])
    return image


def _parts(values: np.ndarray[Any, Any], columns: int) -> list[np.ndarray[Any, Any]]:
    """Return the elements for each column."""
    return np.array_split(values, columns) if len(values) >= columns else _wide(values, columns)


def cells(
    values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any] | None, side: int, *, peak: bool
) -> np.ndarray[Any, Any]:
    """Return the mean of the finite elements in each square of ``side`` elements, of an array of two axes.

    With ``peak``, the greatest.  Where none is finite: infinity if there is one, else NaN.  ``mask``: true for
    elements that are left out.
    """
    starts = np.arange(0, values.shape[1], side)
    found = np.empty((-(-values.shape[0] // side), len(starts)))
    for number, first in enumerate(range(0, values.shape[0], side)):
        band = real(values[first : first + side]).astype("f8")
        if mask is not None:
            band[mask[first : first + side]] = np.nan
        greatest = np.fmax.reduceat(np.fmax.reduce(band), starts)
        finite = np.isfinite(band)
        counts = np.add.reduceat(finite.sum(0), starts)
        with np.errstate(over="ignore"):  # the sum of the largest numbers is infinite
            means = np.add.reduceat(np.where(finite, band, 0).sum(0), starts) / np.maximum(counts, 1)
        found[number] = greatest if peak else np.where(counts, means, greatest)
    return found


def real(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return ``values``, or the absolute values of complex numbers: what a picture shows."""
    return np.abs(values) if values.dtype.kind == "c" else values


def _wide(heights: np.ndarray[Any, Any], columns: int) -> list[np.ndarray[Any, Any]]:
    """Return the elements for each column if there are fewer elements than columns: those that lie nearest."""
    places = np.linspace(0, max(0, len(heights) - 1), columns).round().astype(int)
    return [heights[place : place + 1] for place in places]


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Return an image.

    ``pixels``: uint8, of the shape (rows, columns) for grey levels, or (rows, columns, 3 or 4) for red, green, blue
    and alpha.  The first row is at the top.
    """
    rows, columns = pixels.shape[:2]
    samples = pixels.shape[2] if pixels.ndim == 3 else 1
    header = struct.pack(">IIBBBBB", columns, rows, 8, _COLOUR_TYPES[samples], 0, 0, 0)
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # 0: no filter
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 6)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

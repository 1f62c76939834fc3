"""Grey levels, colours, curves, statistics, and the PNG images of them.

Indexes that select few elements, against numpy.
"""

from __future__ import annotations

import io

import numpy as np
import pytest
from astropy.visualization import ZScaleInterval
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from asdffs.errors import UsageError
from asdffs.features.browser import STRETCHES
from asdffs.features.browser.pictures import (
    cells,
    coarser,
    coloured,
    complete,
    curve,
    first_plane,
    grey_levels,
    lengths,
    limits_of,
    png,
    statistics_of,
)

SHAPE = (4, 9, 30)
VALUES = np.arange(4 * 9 * 30).reshape(SHAPE)
ends = st.one_of(st.none(), st.integers(-35, 35))
keys = st.one_of(
    st.integers(-4, 3), st.just(Ellipsis), st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 7, -1, -3]))
)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (4, 6, 3), (4, 6, 4)])
def test_another_reader_sees_the_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, shape).astype("u1")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)


def test_limits_leave_out_a_few_very_bright_elements() -> None:
    values = np.arange(1000.0)
    values[0], values[500] = np.nan, 1e9
    low, high = limits_of(values, "linear")
    assert 5 < low < 15
    assert 980 < high < 1000
    assert limits_of(np.full(5, 3), "zscale") == (3, 3)
    assert limits_of(np.array([np.nan, np.inf]), "zscale") == (0, 1)
    assert limits_of(np.array([0] * 999 + [7]), "zscale") == (0, 7)
    assert limits_of(np.array([True, False]), "zscale") == (0, 1)
    assert limits_of(np.array([True, False]), "linear") == (0.01, 0.99)
    assert limits_of(np.array([-1e308, 0, 1e308, 1e308, 1, 2]), "zscale") == (-1e308, 1e308)


@given(
    st.integers(1, 3000),
    st.sampled_from(["normal", "bright", "few", "ramp", "equal"]),
    st.integers(0, 2**32 - 1),
)
def test_zscale_is_that_of_astropy(size: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {
        "normal": lambda: rng.normal(100, 5, size),
        "bright": lambda: np.where(rng.random(size) < 0.1, 1e6, rng.normal(size=size)),
        "few": lambda: rng.integers(0, 3, size).astype(float),
        "ramp": lambda: np.arange(float(size)),
        "equal": lambda: np.full(size, 7.0),
    }[kind]()
    expected = ZScaleInterval().get_limits(values)
    if expected[0] < expected[1]:
        assert limits_of(values, "zscale") == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9), st.booleans(), st.integers(0, 2**32 - 1))
def test_cells_against_a_loop(rows: int, columns: int, side: int, peak: bool, seed: int) -> None:
    """The mean or the greatest of the finite elements that are not masked."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns)).astype(rng.choice(["f4", "f8", "i2", "c8"]))
    if values.dtype.kind == "f":
        values[rng.random(values.shape) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
    mask = rng.random(values.shape) < 0.4 if seed % 2 else None
    found = cells(values, mask, side, peak=peak)
    assert found.shape == (-(-rows // side), -(-columns // side))
    shown = np.abs(values).astype("f8") if values.dtype.kind == "c" else values.astype("f8")
    for row, column in np.ndindex(found.shape):
        place = (slice(row * side, (row + 1) * side), slice(column * side, (column + 1) * side))
        cell = shown[place].ravel() if mask is None else shown[place][~mask[place]]
        cell = cell[~np.isnan(cell)]
        finite = cell[np.isfinite(cell)]
        if peak:
            expected = cell.max() if cell.size else np.nan
        else:
            expected = finite.mean() if finite.size else cell.max() if cell.size else np.nan
        assert found[row, column] == pytest.approx(expected, rel=1e-5, abs=1e-12, nan_ok=True)


def test_grey_levels() -> None:
    values = np.array([-5, 0, 5, 10, 20, np.nan, np.inf, -np.inf])
    assert grey_levels(values, (0, 10), "linear").tolist() == [0, 0, 127, 255, 255, 0, 255, 0]
    assert grey_levels(np.array([3, 4]), (3, 3), "linear").tolist() == [0, 1]


def test_stretches() -> None:
    values = np.linspace(0, 100, 1001)
    levels = {stretch: grey_levels(values, (0, 100), stretch).astype(int) for stretch in STRETCHES}
    assert levels["linear"][500] == 127
    assert levels["asinh"][100] > levels["linear"][100]
    assert levels["log"][10] > levels["asinh"][10]
    for found in levels.values():
        assert (found[0], found[-1]) == (0, 255)
        assert (np.diff(found) >= 0).all()
    sky = np.random.default_rng(1).normal(100, 5, 100_000)
    sky[:100] = 1e6
    low, high = limits_of(sky, "zscale")
    assert 70 < low < 100 < high < 130


def test_colours() -> None:
    levels = np.array([[0, 255]], "u1")
    assert coloured(levels, "gray") is levels
    assert coloured(levels, "viridis").tolist() == [[[68, 1, 84], [253, 231, 37]]]
    with pytest.raises(UsageError, match="the colour map 'nothing' is not known"):
        coloured(levels, "nothing")


def test_curves_lose_no_peak() -> None:
    values = np.zeros(10_000)
    values[[1234, 5000]] = 9, -3
    image = curve(values, None, (-3, 9), 13, 100)
    assert image.shape == (13, 100)
    assert image[0].nonzero()[0].tolist() == [12]
    assert image[12].nonzero()[0].tolist() == [50]
    assert image[:, 70].nonzero()[0].tolist() == [9]
    few = curve(np.array([0.0, np.nan, 2.0]), None, (0, 2), 3, 9)
    assert few[2, 0] == few[0, 8] == 255
    assert not few[:, 4].any()
    assert curve(np.full(5, 3.0), None, (3, 3), 4, 5).any(axis=0).all()


def test_statistics() -> None:
    values = np.array([[1, 2], [3, np.nan]])
    assert statistics_of(values)[:7] == (4, 1, 0, 1, 3, 2, pytest.approx(np.std([1, 2, 3])))
    assert sum(statistics_of(values).bars) == 3
    assert statistics_of(np.array([np.inf, np.nan])) == (2, 1, 1, None, None, None, None, (), 0)
    assert statistics_of(np.array([], "i4")) == (0, 0, 0, None, None, None, None, (), 0)
    assert statistics_of(np.array([True, False])).mean == 0.5
    assert statistics_of(np.array([-1.7e308, 1.7e308]))[3:] == (-1.7e308, 1.7e308, 0, None, (), 0)
    assert grey_levels(np.array([-1.7e308, 0, 1.7e308]), (-1.7e308, 1.7e308), "linear").tolist() == [0, 127, 255]
    assert statistics_of(np.array([2**63], "u8")).greatest == 2.0**63


@given(st.lists(keys, max_size=4))
def test_a_complete_index_selects_the_same(index: list) -> None:
    assume(index.count(Ellipsis) <= 1 and len(index) - index.count(Ellipsis) <= 3)
    whole = complete(index, SHAPE)
    expected = VALUES[tuple(index)]
    assert np.array_equal(VALUES[whole], expected)
    assert lengths(whole, SHAPE) == expected.shape
    assert all(isinstance(key, slice) or key >= 0 for key in whole)


@given(st.lists(keys, max_size=3), st.integers(1, 12))
def test_a_coarser_index_has_every_so_many_th(index: list, step: int) -> None:
    assume(index.count(Ellipsis) <= 1)
    whole = complete(index, SHAPE)
    assume(VALUES[whole].size)
    plane = first_plane(whole, SHAPE)
    found = VALUES[whole]
    while found.ndim > 2:
        found = found[0]
    assert np.array_equal(VALUES[plane], found)
    assert np.array_equal(VALUES[coarser(plane, step)], found[(slice(None, None, step),) * found.ndim])


@pytest.mark.parametrize("index", [(4,), (-5,), (0, 0, 0, 0), (..., ...), (slice(2, 2), 3, 30)])
def test_what_is_not_there(index: tuple) -> None:
    with pytest.raises(IndexError):
        complete(index, SHAPE)


def test_nothing_has_no_plane() -> None:
    index = complete((slice(2, 2),), SHAPE)
    assert first_plane(index, SHAPE) == index
    assert VALUES[index].size == 0

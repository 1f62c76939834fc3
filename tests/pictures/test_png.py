"""PNG images and grey levels."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from asdffs.pictures.png import png
from asdffs.pictures.stretch import grey_levels, limits_of


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (4, 6, 3), (4, 6, 4)])
def test_another_reader_sees_the_pixels(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, shape).astype("u1")
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(pixels)))), pixels)


def test_limits_leave_out_a_few_very_bright_elements() -> None:
    values = np.arange(1000.0)
    values[0], values[500] = np.nan, 1e9
    low, high = limits_of(values)
    assert 5 < low < 15
    assert 980 < high < 1000
    assert limits_of(np.full(5, 3)) == (3, 3)
    assert limits_of(np.array([np.nan, np.inf])) == (0, 1)
    assert limits_of(np.array([0] * 999 + [7])) == (0, 7)
    assert limits_of(np.array([True, False])) == (0.01, 0.99)


def test_grey_levels() -> None:
    values = np.array([-5, 0, 5, 10, 20, np.nan, np.inf, -np.inf])
    assert grey_levels(values, (0, 10)).tolist() == [0, 0, 127, 255, 255, 0, 255, 0]
    assert grey_levels(np.array([3, 4]), (3, 3)).tolist() == [0, 1]

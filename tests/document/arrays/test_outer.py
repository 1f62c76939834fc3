"""Selections with a list of positions for each axis, against numpy."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import asdffs
from asdffs.document.arrays.selection import read_outer

SHAPE = (7, 300, 5)
VALUES = np.arange(7 * 300 * 5).reshape(SHAPE)


class Counting:
    """An array that counts reads and elements."""

    shape = SHAPE

    def __init__(self) -> None:
        self.reads: list[int] = []

    def __getitem__(self, index: object) -> np.ndarray:
        found = VALUES[index].copy()
        self.reads.append(found.size)
        return found


def keys(length: int) -> st.SearchStrategy:
    position = st.integers(-length, length - 1)
    return st.one_of(
        position,
        st.builds(slice, position, position, st.sampled_from([None, 1, 2, -1, -3])),
        st.lists(position, max_size=6).map(lambda chosen: np.array(chosen, "i8")),
    )


def by_numpy(index: tuple) -> np.ndarray:
    found, axis = VALUES, 0
    for key in index:
        found = found[(*[slice(None)] * axis, key)]
        axis += not isinstance(key, int)
    return found


@given(st.tuples(*map(keys, SHAPE)), st.booleans())
def test_as_numpy_axis_by_axis(index: tuple, near: bool) -> None:
    found, expected = read_outer(Counting(), index, near=near), by_numpy(index)
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)


def test_what_is_read() -> None:
    scattered = np.array([0, 299, 1, 150, 299])
    for near, reads in ((True, [5 * 35]), (False, [70, 35, 35])):
        source = Counting()
        found = read_outer(source, (slice(None), scattered, slice(None)), near=near)
        assert np.array_equal(found, VALUES[:, scattered])
        assert source.reads == reads
    source = Counting()
    read_outer(source, (0, np.array([3, 5, 4]), slice(None)), near=True)
    assert source.reads == [15]


def test_positions_outside_of_the_axis() -> None:
    with pytest.raises(IndexError, match="out of bounds for an axis of 7"):
        read_outer(Counting(), (np.array([7]), 0, 0), near=True)


def test_through_a_reference(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": VALUES}).write_to(tmp_path / "a.asdf")
    with asdffs.open(tmp_path / "a.asdf") as document:
        found = document.arrays["a"].reference().outer((slice(0, 3), np.array([299, 0]), 2))
    assert np.array_equal(found, VALUES[:3, [299, 0], 2])

"""Indexes that select few elements, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asdffs.features.browser.pictures.sampling import coarser, complete, first_plane, lengths

SHAPE = (4, 9, 30)
VALUES = np.arange(4 * 9 * 30).reshape(SHAPE)
ends = st.one_of(st.none(), st.integers(-35, 35))
keys = st.one_of(
    st.integers(-4, 3), st.just(Ellipsis), st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 7, -1, -3]))
)


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

"""Which later saves correct a refused one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asdffs.document.saves.drafts import corrects

BEFORE = b"a: 1\nb: 2\nc: 3\nd: 4\n"


@pytest.mark.parametrize(
    ("refused", "saved", "expected"),
    [
        (b"a: 1\nb: [\nc: 3\nd: 4\n", b"a: 1\nb: []\nc: 3\nd: 4\n", True),
        (b"a: 1\nb: [\nc: 3\nd: 4\n", b"a: 1\nb: 2\nc: 3\nd: 5\n", False),
        (b"a: 1\nb: [\nc: 3\nd: 4\n", b"a: 1\nb: 2\nc: 5\nd: 4\n", False),  # the next line
        (b"a: 9\nb: [\nc: 3\nd: 4\n", b"a: 9\nb: 2\nc: 3\nd: 4\n", True),  # the broken part is given up
        (b"a: 1\nb: 2\nx: [\nc: 3\nd: 4\n", b"a: 1\nb: 2\nx: []\nc: 3\nd: 4\n", True),  # a new line
        (b"a: 1\nb: 2\nx: [\nc: 3\nd: 4\n", b"a: 7\nb: 2\nc: 3\nd: 4\n", False),
        (b"a: 1\nb", b"a: 1\nb: 2\nc: 3\nd: 5\n", True),  # a program that was not yet at the end
        (b"", b"a: 2\nb: 2\nc: 3\nd: 4\n", True),
    ],
)
def test_the_same_lines(refused: bytes, saved: bytes, expected: bool) -> None:
    assert corrects(BEFORE, refused, saved) == expected


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=8).map(b"".join)


@given(LINES, LINES, LINES)
def test_any_texts(before: bytes, refused: bytes, saved: bytes) -> None:
    assert corrects(before, refused, saved) == corrects(before, saved, refused)
    assert not corrects(before, refused, before)
    assert corrects(before, refused, refused) == (refused != before)


def test_long_texts_are_not_compared_line_by_line() -> None:
    before = b"".join(b"%d: 1\n" % n for n in range(100_000))
    other = b"".join(b"%d: 2\n" % n for n in range(100_000))
    assert corrects(before, other, b"0: 3\n" + before)
    assert not corrects(before, before.replace(b"\n7: 1\n", b"\n7: [\n"), before.replace(b"\n90: 1\n", b"\n90: 2\n"))

"""Offsets in characters and in bytes.  Oracle: the whole text, encoded up to each character."""

from __future__ import annotations

import random

import pytest

from asdffs.arrays import byte_offsets
from asdffs.arrays.byte_offsets import ByteOffsets


@pytest.mark.parametrize("letters", ["abc", "a\u00e9", "a\u20ac\U0001f600", "\U0001f600"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
def test_as_the_encoded_text_says(letters: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_offsets, "_STEP", 8)
    rng = random.Random(size)
    text = "".join(rng.choices(letters, k=size))
    offsets = [*range(size + 1), *rng.choices(range(size + 1), k=20)]
    assert [*ByteOffsets(text).convert(offsets)] == [len(text[:offset].encode()) for offset in offsets]
    assert [ByteOffsets(text).character(len(text[:offset].encode())) for offset in offsets] == offsets

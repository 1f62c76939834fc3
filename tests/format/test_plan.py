"""format/plan: which texts fit before the first block."""

from __future__ import annotations

import pytest
from support.plans import scan
from support.samples import odd_file

from asdffs.format.layout import Padding
from asdffs.format.plan import plan_sized_text, plan_text

WHOLE = odd_file(padding=b" " * 100)
LAYOUT = scan(WHOLE)
TEXT = WHOLE[: LAYOUT.text_end]


def longer(count: int) -> bytes:
    return TEXT.replace(b"value: 1\n", b"value: 1" + b"1" * count + b"\n")


@pytest.mark.parametrize(("count", "fits"), [(99, True), (100, True), (101, False)])
def test_a_text_fits_up_to_the_first_block(count: int, fits: bool) -> None:
    plan = plan_text(LAYOUT, TEXT, b" ", longer(count), Padding())
    assert (plan.move is None) == fits


@pytest.mark.parametrize(("count", "fits"), [(99, True), (100, True), (101, False)])
def test_it_does_inside_another_file(count: int, fits: bool) -> None:
    def blocks() -> bytes:
        return WHOLE[LAYOUT.first_block : LAYOUT.blocks_end]

    plan, _ = plan_sized_text(LAYOUT, TEXT, b" ", longer(count), blocks=blocks, size_for=lambda least: least)
    assert (plan.new_size == LAYOUT.size and plan.written < len(longer(count))) == fits

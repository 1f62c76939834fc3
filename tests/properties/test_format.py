"""parse after build, the scanner fed byte by byte, plans against a naive rewrite."""

from __future__ import annotations

import io
import os
import re

import asdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.plans import applied, scan, shift_of
from support.samples import DATA, MASK, ODD_FILES, TREE, block_bytes, odd_file

from asdffs.format.block_header import BlockHeader, build_block_header, parse_block_header
from asdffs.format.block_index import build_block_index, parse_block_index
from asdffs.format.block_scan import drive, scan_blocks
from asdffs.format.layout import Layout, Padding, RegionKind
from asdffs.format.plan import plan_cut_tail, plan_index, plan_text
from asdffs.format.scanner import scan_layout
from asdffs.format.text import difference

sizes = st.integers(0, 2**63 - 1)


@given(
    st.integers(0, 2**32 - 1), st.binary(min_size=4, max_size=4), sizes, sizes, st.binary(min_size=16, max_size=16)
)
def test_block_header_round_trip(flags: int, compression: bytes, a: int, b: int, checksum: bytes) -> None:
    used, allocated = min(a, b), max(a, b)
    header = BlockHeader(flags, compression, allocated, used, used, checksum, b"extra")
    assert parse_block_header(build_block_header(header), offset=0) == header


@given(st.lists(st.integers(54, 2**50), min_size=1, max_size=50))
def test_index_round_trip(steps: list[int]) -> None:
    offsets = tuple(sum(steps[: n + 1]) for n in range(len(steps)))
    assert parse_block_index(build_block_index(offsets)) == offsets


@given(st.binary(max_size=300), st.data())
def test_difference_is_the_smallest_write(old: bytes, data: st.DataObject) -> None:
    new = bytearray(old)
    for _ in range(data.draw(st.integers(0, 3)) if old else 0):
        new[data.draw(st.integers(0, len(old) - 1))] = data.draw(st.integers(0, 255))
    changed = difference(old, bytes(new))
    places = [n for n in range(len(old)) if old[n] != new[n]]
    if not places:
        assert changed is None
    else:
        assert changed == (places[0], bytes(new[places[0] : places[-1] + 1]))


def assert_tiles(layout: Layout) -> None:
    place = 0
    for region in layout.regions():
        assert region.span.start == place
        assert region.span
        place = region.span.stop
    assert place == layout.size


@pytest.mark.parametrize("name", ODD_FILES)
def test_layout_tiles_and_scanner_takes_any_pieces(name: str) -> None:
    whole = ODD_FILES[name]
    layout = scan(whole)
    assert_tiles(layout)
    for most in (1, 7, 100):
        assert drive(scan_layout(len(whole)), lambda o, n, most=most: whole[o : o + min(n, most)]) == layout
    blocks = [r for r in layout.regions() if r.kind is RegionKind.BLOCK]
    assert len(blocks) == len(layout.offsets)
    if "lying" not in name:  # its entries are checked when they are touched
        assert all(whole[r.span.start :].startswith(b"\xd3BLK") for r in blocks)


@given(st.sampled_from(sorted(ODD_FILES)), st.data())
@settings(max_examples=300 if os.environ.get("ASDFFS_DEEP") else 150)
def test_scanner_survives_cut_and_flipped_files(name: str, data: st.DataObject) -> None:
    """Any file is either refused with a sentence or tiled."""
    whole = bytearray(ODD_FILES[name])
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    from asdffs.errors import DamagedFileError, NotAsdfError

    try:
        layout = scan(cut)
    except (NotAsdfError, DamagedFileError) as err:
        assert str(err)
    else:
        assert_tiles(layout)


words = st.text("abc #é'\n-", max_size=40)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    line = "".join(ch for ch in draw(words) if ch not in "\n")
    body = f"# {line}\nnote: |\n  x{'y' * draw(st.integers(0, 9000))}\n" if draw(st.booleans()) else ""
    return ("#ASDF 1.0.0\n" + TREE.replace("value: 1\n", f"value: {draw(st.integers())}\n{body}")).encode()


@given(st.sampled_from(sorted(set(ODD_FILES) - {"index lying in the middle"})), texts())
@settings(max_examples=300 if os.environ.get("ASDFFS_DEEP") else 150)
def test_plan_of_text_equals_naive_rewrite(name: str, text: bytes) -> None:
    """The text is the new one, the blocks are the old ones, the tail is right or absent."""
    whole = ODD_FILES[name]
    old = scan(whole)
    plan = plan_text(old, whole[: old.text_end], b" ", text, Padding())
    new = applied(whole, plan)
    layout = scan(new)
    assert new.startswith(text)
    assert layout.text_end == len(text)
    shift = shift_of(plan)
    assert [n - shift for n in layout.offsets] == list(old.offsets)
    if old.offsets:
        assert new[layout.offsets[0] : layout.blocks_end] == whole[old.offsets[0] : old.blocks_end]
    assert (plan.move is None) == (len(text) <= old.padding.stop or not old.offsets)
    if plan.move is None and old.offsets:
        assert plan.written <= max(len(text), old.text_end)
    if old.offsets and plan.move:
        assert shift_of(plan) % 4096 == 0 or not text.endswith(b"...\n")
        assert layout.index is None


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=30))
def test_index_is_planned_where_the_tail_was(contents: list[bytes]) -> None:
    whole = odd_file(blocks=[block_bytes(content) for content in contents], index="stale", tail=bytes(9))
    whole = applied(whole, plan_cut_tail(scan(whole)))
    whole = applied(whole, plan_index(scan(whole)))
    layout = scan(whole)
    assert layout.index is not None
    assert list(layout.offsets) == list(
        drive(scan_blocks(len(whole), layout.offsets[0]), lambda o, n: whole[o : o + n]).offsets
    )


@pytest.mark.parametrize(
    "name", sorted(set(ODD_FILES) - {"no tree", "header only", "header and comment", "index lying in the middle"})
)
def test_asdf_opens_every_planned_result(name: str) -> None:
    whole = ODD_FILES[name]
    old = scan(whole)
    text = whole[: old.text_end]
    for new_text in (text.replace(b"value: 1", b"value: 2"), re.sub(rb"value: 1", b"value: x" + b"1" * 9000, text)):
        new = applied(whole, plan_text(old, text, b"\0", new_text, Padding()))
        with open_quietly(new) as tree:
            if old.offsets:
                assert tree["data"][:].tobytes() == DATA
                assert tree["mask"][:].tobytes() == MASK


class open_quietly:  # noqa: N801
    """asdf.open of bytes; the oddities make it warn."""

    def __init__(self, whole: bytes) -> None:
        self.whole = whole

    def __enter__(self) -> dict[str, object]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.file = asdf.open(io.BytesIO(self.whole))
        return self.file.tree

    def __exit__(self, *reason: object) -> None:
        self.file.close()

"""Indexes that lie or are odd, bytes between and behind blocks, and files that were cut: each has a way out."""

from __future__ import annotations

from pathlib import Path

import asdf
import pytest
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, mounted
from support.samples import block_bytes, header_bytes, put

import asdffs as library
from asdffs.errors import NoRoomError, Remedy
from asdffs.format.block_index import is_removable_index

TOKEN = b"#ASDF BLOCK INDEX\n%YAML 1.1\n"


def file_of(blocks: list[bytes], *, between: bytes = b"") -> tuple[bytes, list[int]]:
    """A file without an index, and the offsets of its blocks."""
    raw, offsets = tree_file("v: 1\n", [], padding=b" " * 20), []
    for block in blocks:
        raw += between if offsets else b""
        offsets.append(len(raw))
        raw += block
    return raw, offsets


def index(*offsets: int) -> bytes:
    return TOKEN + b"--- [" + b", ".join(b"%d" % offset for offset in offsets) + b"]\n...\n"


BLOCKS = [block_bytes(bytes([65 + number]) * 3) for number in range(4)]


def contents(path: Path) -> list[bytes]:
    with library.open(path) as document:
        return [bytes(block.read_at(0, 10)) for block in document.blocks]


def command(path: Path, *words: object) -> tuple[int, str]:
    done = asdffs(*words, environment=environment_in(path.parent))
    return done.returncode, done.stdout + done.stderr


def test_an_index_that_leaves_out_a_block_numbers_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    raw, offsets = file_of(BLOCKS)
    path.write_bytes(raw + index(*offsets[:2], offsets[3]))
    assert contents(path) == [b"AAA", b"BBB", b"CCC", b"DDD"]
    assert command(path, "repack", path, tmp_path / "out.asdf")[0] == 0
    assert contents(tmp_path / "out.asdf") == contents(path)
    assert command(path, "check", path)[0] == 9
    assert command(path, "check", "--repair", path)[0] == 0
    assert path.read_bytes() == raw + index(*offsets)


def test_among_many_blocks_it_is_seen_when_one_beside_it_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    raw, offsets = file_of([block_bytes(b"%04d" % number) for number in range(400)])
    path.write_bytes(raw + index(*offsets[:300], *offsets[301:]))
    with library.open(path) as document:
        assert document.blocks[299].read_at(0, 4) == b"0299"
        assert document.blocks[300].read_at(0, 4) == b"0300"


@pytest.mark.parametrize(
    "text",
    [
        TOKEN + b"# a comment\n--- [OFFSET] # another\n...\n",
        TOKEN + b"---\n- HEX\n...\n\0\0\0",
        b"#ASDF BLOCK INDEX  \n%YAML 1.1\n--- [OFFSET]\n...\n",
        TOKEN + b"--- [17]\n...\n",
    ],
)
def test_an_index_in_any_state_is_replaced(tmp_path: Path, text: bytes) -> None:
    """By an edit that has nothing to do with it, and by --repair."""
    path = tmp_path / "a.asdf"
    raw, offsets = file_of(BLOCKS[:1])
    for repaired in (True, False):
        path.write_bytes(raw + text.replace(b"OFFSET", b"%d" % offsets[0]).replace(b"HEX", b"0x%x" % offsets[0]))
        code, said = command(path, "check", path)
        assert code in (0, 9), said
        if repaired:
            assert command(path, "check", "--repair", path)[0] == 0
        else:
            with library.open(path, "r+") as document:
                document.blocks[0].write_at(0, b"Z")
        if code == 9:
            assert path.read_bytes()[-len(index(offsets[0])) :] == index(offsets[0])
        assert command(path, "check", path) == (0, f"{path}: nothing wrong\n")


@pytest.mark.parametrize(
    ("text", "removable"),
    [
        (TOKEN + b"--- [1, 0x2F]\n...\n", True),
        (TOKEN + b"# c\n- 1\n...", True),
        (TOKEN + b"- 1\n...\n  \n", True),
        (TOKEN + b"- 1\n...\ngarbage", False),
        (TOKEN + b"- 1\nkey: value\n...\n", True),
        (TOKEN + b"- 1\n\xff\n...\n", False),
        (TOKEN + b"- 1 # never ends\n", False),
        (TOKEN + b"- " + b"-" * 500_000, True),
        (b"#ASDF BL", True),
        (b"#ASDF other\n", False),
        (b"garbage", False),
    ],
)
def test_what_may_be_removed_as_an_index(text: bytes, removable: bool) -> None:
    assert is_removable_index(text) is removable


def test_bytes_behind_the_last_block_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    raw, offsets = file_of(BLOCKS)
    for tail in (b"garbage", index(*offsets) + b"garbage"):
        path.write_bytes(raw + tail)
        assert "repack --force" in command(path, "check", "--repair", path)[1]
        with (
            library.open(path, "r+") as document,
            pytest.raises(NoRoomError, match="would be overwritten") as refused,
        ):
            document.blocks[3].write_at(0, bytes(9000))
        assert refused.value.remedy is Remedy.DROP_BYTES
        assert command(path, "repack", path)[0] != 0
        assert command(path, "repack", "--force", path)[0] == 0
        assert command(path, "check", path)[0] == 0
        assert contents(path) == [b"AAA", b"BBB", b"CCC", b"DDD"]


@pytest.mark.parametrize("indexed", [True, False])
def test_gaps_between_blocks(tmp_path: Path, indexed: bool) -> None:
    path, out = tmp_path / "a.asdf", tmp_path / "out.asdf"
    raw, offsets = file_of(BLOCKS, between=bytes(33))
    path.write_bytes(raw + (index(*offsets) if indexed else b""))
    assert contents(path) == [b"AAA", b"BBB", b"CCC", b"DDD"]
    assert "33 bytes between this block and the next" in command(path, "check", path)[1]
    assert command(path, "explode", path, tmp_path / "parts")[0] == 0
    assert command(path, "repack", path, out)[0] == 0
    assert contents(out) == contents(path)
    with asdf.open(out) as file:
        assert len(file._blocks.blocks) == 4
    assert command(path, "repack", path)[0] == 0
    assert command(path, "check", path) == (0, f"{path}: nothing wrong\n")


def test_bytes_in_a_gap_are_not_dropped_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    raw, offsets = file_of(BLOCKS, between=b"precious")
    path.write_bytes(raw + index(*offsets))
    code, said = command(path, "repack", path)
    assert (code, "--force drops them" in said) == (4, True)
    assert path.read_bytes() == raw + index(*offsets)
    assert command(path, "repack", "--force", path)[0] == 0
    assert contents(path) == [b"AAA", b"BBB", b"CCC", b"DDD"]


def test_an_index_of_no_blocks_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, tree_file("v: 1\n", []) + index(5), "a.asdf")
    assert "there is a block index, but no block" in command(path, "check", path)[1]


@pytest.mark.mount
def test_regression_a_file_that_was_cut_was_filled_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    raw = tree_file("v: 1\n", [], padding=b" " * 20)
    raw += header_bytes(b"", allocated=1 << 30, data_size=1 << 30, md5=False)[:22] + (1 << 30).to_bytes(8, "big")
    raw += (1 << 30).to_bytes(8, "big") + bytes(16) + b"\x55" * 1000
    path.write_bytes(raw)
    with library.open(path) as document:
        assert document.blocks[0].size == 1 << 30
    with mounted(path, code=7) as mount:
        text = mount.tree.read_text()
        mount.tree.write_text(text.replace("v: 1", "v: 2"))  # what fits needs nothing to be moved
        with pytest.raises(OSError, match="."):
            mount.tree.write_text(text.replace("v: 1", "v: " + "1" * 3000))
        assert "it was cut" in mount.error
        with pytest.raises(OSError, match="Input/output error"):
            open(mount.block(0), "r+b")
        with pytest.raises(OSError, match="."):
            mount.block(1).write_bytes(b"new")
    assert len(path.read_bytes()) == len(raw)
    assert path.read_bytes()[-1000:] == b"\x55" * 1000
    assert "inside this block" in command(path, "check", path)[1]

from __future__ import annotations

import pytest

from asdffs.errors import DamagedBlockError, NotAsdfError
from asdffs.format.block_header import BlockHeader, build_block_header, parse_block_header
from asdffs.format.block_index import build_block_index, find_index_start, may_be_index, parse_block_index
from asdffs.format.layout import Padding
from asdffs.format.text import Header, build_header, find_comments_end, find_tree_end, parse_header, standard_version

HEADERS = [
    (b"#ASDF 1.0.0\n", Header(b"#ASDF", (1, 0, 0), b"\n", 12)),
    (b"#ASDF 1.0.0\r\n", Header(b"#ASDF", (1, 0, 0), b"\r\n", 13)),
    (b"#ASDF 0.1.0\n", Header(b"#ASDF", (0, 1, 0), b"\n", 12)),
    (b"%ASDF 0.1.0\n", Header(b"%ASDF", (0, 1, 0), b"\n", 12)),
]


@pytest.mark.parametrize(("text", "header"), HEADERS)
def test_header_both_ways(text: bytes, header: Header) -> None:
    assert parse_header(text + b"# comment\n") == header
    assert build_header(header) == text


@pytest.mark.parametrize("text", [b"", b"#ASDF", b"#ASDF 1.0\n", b"#ASDF 1.0.0", b"SIMPLE  =", b"\xd3BLK"])
def test_header_refused(text: bytes) -> None:
    with pytest.raises(NotAsdfError, match="not an ASDF file"):
        parse_header(text)


def test_standard_version() -> None:
    assert standard_version(b"#ASDF 1.0.0\r\n#ASDF_STANDARD 1.5.0\r\n") == "1.5.0"
    assert standard_version(b"#ASDF 1.0.0\n") is None


@pytest.mark.parametrize(
    ("text", "end"),
    [(b"%YAML", 0), (b"# a\n# b\n%YAML", 8), (b"# a\n", None), (b"# a", None), (b"", None)],
)
def test_comments_end(text: bytes, end: int | None) -> None:
    assert find_comments_end(text, 0) == end


@pytest.mark.parametrize(
    ("text", "at_eof", "end"),
    [
        (b"a: 1\n...\n", False, 9),
        (b"a: 1\r\n...\r\nrest", False, 11),
        (b"a: 1\n...", True, 8),
        (b"a: 1\n...", False, None),
        (b"a: 1\n....\n", True, None),
        (b"a: |\n  ...\nb: 1\n", True, None),
        (b"a: 1\n... \n", True, None),
    ],
)
def test_tree_end(text: bytes, at_eof: bool, end: int | None) -> None:
    assert find_tree_end(text, 0, at_eof=at_eof) == end


BLOCK = BlockHeader(0, bytes(4), 100, 80, 80, bytes(range(16)))
BLOCKS = [
    (BLOCK, "d3424c4b 0030 00000000 00000000 0000000000000064 0000000000000050 0000000000000050"),
    (BlockHeader(1, bytes(4), 0, 0, 0, bytes(16), b"x" * 16), "d3424c4b 0040 00000001 00000000"),
    (BlockHeader(0, b"zlib", 9, 9, 10**18, bytes(16)), "d3424c4b 0030 00000000 7a6c6962"),
]


@pytest.mark.parametrize(("header", "start"), BLOCKS)
def test_block_header_both_ways(header: BlockHeader, start: str) -> None:
    built = build_block_header(header)
    assert built.startswith(bytes.fromhex(start.replace(" ", "")))
    assert len(built) == header.full_size
    assert parse_block_header(built, offset=7) == header


def test_block_header_facts() -> None:
    assert BLOCK.slack == 20
    assert not BLOCK.compressed
    assert BLOCK.with_used(5).data_size == 5
    assert BLOCK.without_checksum().checksum == bytes(16)
    assert BlockHeader(1, bytes(4), 0, 9, 9, bytes(16)).slack == 0


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\xd3BLX" + bytes(60), "magic"),
        (b"\xd3BLK\x00\x2f" + bytes(60), "the minimum is 48"),
        (build_block_header(BLOCK)[:50], "ends inside"),
        (build_block_header(BlockHeader(0, bytes(4), 10, 11, 11, bytes(16))), "more than allocated_size"),
        (build_block_header(BlockHeader(0, bytes(4), 10, 10, 9, bytes(16))), "without compression"),
    ],
)
def test_block_header_refused(bad: bytes, reason: str) -> None:
    with pytest.raises(DamagedBlockError, match=reason) as caught:
        parse_block_header(bad, offset=1234)
    assert caught.value.offset == 1234


INDEXES = [
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [2043, 16340]\n...\n", (2043, 16340)),
    (b"#ASDF BLOCK INDEX\r\n%YAML 1.1\r\n--- [2043]\r\n...\r\n", (2043,)),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n- 100\n- 200\n...\n", (100, 200)),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [100,\n  200]\n...", (100, 200)),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [200, 100]\n...\n", None),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [100, 110]\n...\n", None),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- []\n...\n", None),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- [100, 2", None),
    (b"#ASDF BLOCK INDEX\n%YAML 1.1\n--- {a: 1}\n...\n", None),
    (b"#ASDF BLOCK INDEX", None),
]


@pytest.mark.parametrize(("text", "offsets"), INDEXES)
def test_index_parsed(text: bytes, offsets: tuple[int, ...] | None) -> None:
    assert parse_block_index(text) == offsets


def test_index_pieces() -> None:
    text = build_block_index([100, 5000], newline=b"\r\n")
    assert text.count(b"\r\n") == text.count(b"\n") == 4
    assert find_index_start(b"data" + text) == 4
    assert find_index_start(b"data") is None
    assert may_be_index(text[30:])
    assert not may_be_index(b"\x00" + text)


def test_padding_policy() -> None:
    policy = Padding()
    assert policy.shift(90, 100) == 8192
    assert policy.shift(100, 100) == 4096
    assert policy.shift(4096, 1_000_000) == 1_097_728, "a first block on a boundary stays on one"
    assert policy.aligned(4096) == 4096
    assert policy.aligned(4097) == 8192
    assert policy.allocation(10, 5) == 5 + 4096, "a small block stays small"
    assert policy.allocation(10001, 10000) == 20000
    assert policy.allocation((1 << 21) + 1, 1 << 21) == (1 << 21) + (1 << 20)
    assert policy.allocation(10**9, 5) == 10**9

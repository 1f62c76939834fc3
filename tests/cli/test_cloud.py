"""``repack --profile cloud``: the order, the storage and the place of each block; the asdf library reads it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import Call
from support.samples import MASK, block_bytes, odd_file

from asdffs.arrays.ndarrays import find_arrays
from asdffs.document.opening import open_document

CHANCE = np.random.default_rng(27)
ARRAYS: dict[str, np.ndarray] = {
    "counts": CHANCE.integers(1000, 1030, (900, 1000), "u2"),
    "flux": CHANCE.normal(size=(700, 800)).astype("f4"),
    "quality": np.zeros((900, 1000), "u4"),
    "cube": CHANCE.integers(0, 9, (5, 300, 400), "i2"),
    "wcs": np.arange(300.0),
    "flags": np.zeros((300, 300), "?"),
    "noise": CHANCE.integers(0, 1 << 32, (300, 400), "u4"),
    "names": np.array([b"a", b"bc"] * 40000, "S2"),
    "mixed": np.zeros(9000, [("a", "<i4"), ("b", "<f8")]),
    "part": CHANCE.integers(0, 9, 300_000, "u1")[5:],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tree = {"roman": {"meta": {"# comment": 1}, **ARRAYS}, "negative": 7}
    path = tmp_path / "data.asdf"
    asdf.AsdfFile(tree).write_to(path, all_array_compression="zlib")
    return path


def parts_of(path: Path, number: int) -> list[int]:
    """The bytes of content of each lz4 part of a block, by the framing of the asdf library."""
    document = open_document(str(path), writable=False)
    offset, header = document.layout.offsets[number], document.blocks[number].header
    document.close()
    stored = path.read_bytes()[offset + header.full_size :][: header.used_size]
    sizes, place = [], 0
    while place < len(stored):
        length, size = struct.unpack_from(">I", stored, place)[0], struct.unpack_from("<I", stored, place + 4)[0]
        sizes.append(size)
        place += 4 + length
    return sizes


def check_layout(path: Path, piece: int) -> None:
    """Small blocks come first, integers are in pieces of whole rows, floats and integers begin at pages."""
    document = open_document(str(path), writable=False)
    arrays = find_arrays(document.tree.text(), document.dialect)
    numbers = {str(array.path[-1]): array.block_in(len(document.blocks)) or 0 for array in arrays}
    headers = [block.header for block in document.blocks]
    starts = [offset + header.full_size for offset, header in zip(document.layout.offsets, headers, strict=True)]
    assert document.layout.index is not None
    document.close()
    small = [header.used_size < 1 << 16 for header in headers]
    assert small == sorted(small, reverse=True)
    assert small[numbers["wcs"]]
    for name, row in (("counts", 2000), ("quality", 4000), ("cube", 800)):
        number = numbers[name]
        assert headers[number].compression == b"lz4\0"
        sizes = parts_of(path, number)
        assert all(size % row == 0 for size in sizes)
        assert len(set(sizes)) == 1  # the rows of all three can be divided
        assert piece <= 2 * sizes[0] or len(sizes) == 1
        assert sizes[0] <= 2 * piece
    assert headers[numbers["flux"]].compression == headers[numbers["noise"]].compression == bytes(4)
    assert headers[numbers["names"]].compression == b"zlib"
    for name in ("counts", "flux", "cube"):
        assert starts[numbers[name]] % 4096 == 0


@pytest.mark.long
@pytest.mark.parametrize("piece", [None, 65536])
def test_the_layout_and_what_asdf_reads(file: Path, call: Call, piece: int | None) -> None:
    out = file.with_name("cloud.asdf")
    options = () if piece is None else ("--piece-size", str(piece))
    done = call("repack", "--profile", "cloud", *options, file, out)
    assert done.code == 0, done.err
    check_layout(out, piece or 1 << 20)
    with asdf.open(out, validate_checksums=True, lazy_load=False, memmap=False) as found:
        for name, array in ARRAYS.items():
            assert np.array_equal(found["roman"][name], array), name
    assert call("check", "--deep", out).code == 0
    assert call("diff", "--values", file, out).code == 0


def test_info_tells_how_many_pieces_there_are(file: Path, call: Call) -> None:
    assert call("repack", "--profile", "cloud", file).code == 0
    blocks = json.loads(call("info", "--json", file).out)["blocks"]
    assert {block["pieces"] for block in blocks if block["compression"] == "none"} == {None}
    found = {block["data_size"]: block["pieces"] for block in blocks if block["compression"] == "lz4"}
    assert found[ARRAYS["counts"].nbytes] == len(parts_of_size(file, ARRAYS["counts"].nbytes)) == 2
    assert found[ARRAYS["quality"].nbytes] == 4
    assert "lz4 x4" in call("info", file).out
    assert {block["pieces"] for block in blocks if block["compression"] == "zlib"} == {None}


def parts_of_size(path: Path, size: int) -> list[int]:
    document = open_document(str(path), writable=False)
    (number,) = (block.number for block in document.blocks if block.size == size)
    document.close()
    return parts_of(path, number)


def test_options_that_contradict_each_other(file: Path, call: Call) -> None:
    done = call("repack", "--profile", "cloud", "--compression", "zlib", file)
    assert (done.code, done.sentence) == (2, "--profile decides the compressions; leave out --compression")
    done = call("repack", "--compression", "zlib", "--piece-size", "1M", file)
    assert done.code != 0
    assert "zlib has no pieces whose size can be chosen; lz4 has" in done.sentence
    done = call("repack", "--piece-size", "1M", file)
    assert (done.code, done.sentence) == (
        2,
        "--piece-size takes effect only with --compression lz4 or --profile cloud",
    )
    assert "from 4K to 64M" in call("repack", "--compression", "lz4", "--piece-size", "1", file).sentence


def test_blocks_of_unknown_objects_stay_where_they_are(tmp_path: Path, call: Call) -> None:
    path, out = tmp_path / "odd.asdf", tmp_path / "cloud.asdf"
    large = np.zeros(30_000, ">f4").tobytes()
    path.write_bytes(odd_file(blocks=[block_bytes(large), block_bytes(MASK), block_bytes(b"whose?")]))
    done = call("repack", "--profile", "cloud", path, out)
    assert done.code == 0, done.err
    assert "the blocks stay in their order: objects of" in done.err
    document = open_document(str(out), writable=False)
    assert [block.header.used_size for block in document.blocks] == [len(large), len(MASK), 6]
    document.close()
    assert call("repack", "--profile", "cloud", "--force", path, out.with_name("forced.asdf")).code == 0
    document = open_document(str(out.with_name("forced.asdf")), writable=False)
    assert [block.header.used_size for block in document.blocks] == [len(MASK), 6, len(large)]
    assert b"source: 2, datatype: float32" in document.tree.text()
    document.close()

"""Blocks that objects of extensions refer to in a way of their own are neither dropped, removed nor renumbered."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, mounted, run
from support.samples import block_bytes

import asdffs as library

ARRAY = "a: !core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [4]}\n"
ZARR = "z: !<asdf://stsci.edu/asdf-zarr/tags/zarr-1.0.0> {.zarray: {shape: [4]}, chunk_block_map: 2}\n"
PUBLISHED = ZARR.replace("stsci.edu/asdf-zarr", "asdf-format.org/zarr")
ALIASED = "n: &n 2\n" + ZARR.replace("chunk_block_map: 2", "chunk_block_map: *n")
UNKNOWN = "u: !<asdf://example.org/tags/thing-1.0.0> {a: 1}\n"
TABLE = struct.pack("<4i", 3, -1, 4, 3)
BLOCKS = [b"data", b"none", TABLE, b"one!", b"two!"]


def write(path: Path, body: str, blocks: list[bytes]) -> bytes:
    path.write_bytes(tree_file(body, list(map(block_bytes, blocks))))
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.asdf"


@pytest.mark.parametrize("body", [ARRAY + ZARR, ARRAY + PUBLISHED, ARRAY + ALIASED, ARRAY + UNKNOWN])
def test_they_are_not_dropped_or_renumbered(path: Path, body: str) -> None:
    before, where = write(path, body, BLOCKS), environment_in(path.parent)
    for command in (["repack", "--drop-unreferenced", path], ["explode", path, path.parent / "parts"]):
        if body == ARRAY + UNKNOWN and command[0] == "explode":
            continue  # implode gives each block its number back
        done = asdffs(*command, environment=where)
        assert done.returncode == 5, (done.stdout, done.stderr)
        assert "--force" in done.stderr
    assert path.read_bytes() == before
    assert asdffs("explode", "--force", path, path.parent / "parts", environment=where).returncode == 0
    assert asdffs("repack", "--drop-unreferenced", "--force", path, environment=where).returncode == 0
    with library.open(path) as document:
        assert [bytes(block.read_at(0, 4)) for block in document.blocks] == [b"data"]


def test_where_arrays_refer_to_all_blocks_nothing_is_in_the_way(path: Path) -> None:
    write(path, ARRAY + UNKNOWN, [b"data"])
    where = environment_in(path.parent)
    assert asdffs("repack", "--drop-unreferenced", path, environment=where).returncode == 0
    assert asdffs("explode", path, path.parent / "parts", environment=where).returncode == 0


@pytest.mark.parametrize("body", [ARRAY + ZARR, ARRAY + PUBLISHED, ARRAY + ALIASED, ARRAY + UNKNOWN])
def test_the_last_one_is_not_removed(path: Path, body: str) -> None:
    write(path, body, BLOCKS)
    where = environment_in(path.parent)
    done = asdffs("block", path, 4, "--remove", environment=where)
    assert done.returncode == 5
    assert "--force" in done.stderr
    assert asdffs("block", path, 4, "--remove", "--force", environment=where).returncode == 0
    done = asdffs("check", path, environment=where)
    chunked = body != ARRAY + UNKNOWN
    expected = "zarr array has a chunk in block 4, and the file has 4 blocks" if chunked else "no array refers"
    assert expected in done.stdout
    assert done.returncode == (4 if chunked else 0)


def test_a_table_that_is_gone_is_an_error(path: Path) -> None:
    write(path, ARRAY + ZARR, BLOCKS[:2])
    done = asdffs("check", path, environment=environment_in(path.parent))
    assert (done.returncode, "chunks is block 2, and the file has 2" in done.stdout) == (4, True)


@pytest.mark.mount
def test_in_a_mount(path: Path) -> None:
    """What was copied in by mistake can be removed again."""
    write(path, ARRAY + ZARR, BLOCKS)
    with mounted(path) as mount:
        assert run("rm", mount.block(4)).stderr.endswith("Device or resource busy\n")
        assert "zarr array keeps its chunks" in mount.error
        mount.block(5).write_bytes(b"mistake")
        assert run("rm", mount.block(5)).returncode == 0
    with library.open(path) as document:
        assert len(document.blocks) == 5

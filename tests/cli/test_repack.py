"""``asdffs repack``: what changes, what stays, and what is refused."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from pathlib import Path

import asdf
import numpy as np
import pytest
from support import codecs
from support.arrays import tree_file
from support.commands import Call, command
from support.contents import contents
from support.mounts import environment_in, mounted
from support.samples import (
    DATA,
    MASK,
    ODD_FILES,
    block_bytes,
    check_saved,
    header_bytes,
    odd_file,
    opened,
    put,
    zlib_block,
)

CODECS = sorted(codecs.CODECS)


@pytest.mark.parametrize("name", ODD_FILES)
def test_tree_and_blocks_stay(tmp_path: Path, call: Call, name: str) -> None:
    path = put(tmp_path, ODD_FILES[name])
    os.chmod(path, 0o640)
    before = contents(path)
    done = call("repack", path)
    assert done.code == 0
    assert contents(path) == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    facts = call("info", "--json", path).json
    assert all(block["slack"] == 0 for block in facts["blocks"])
    assert facts["index"] == ("valid" if facts["blocks"] and not facts["blocks"][-1]["streamed"] else "absent")
    assert call("check", path).code == (4 if name.startswith("no blocks") else 0)
    assert [found.name for found in tmp_path.iterdir() if found.name not in ("state", "data.asdf")] == []


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_every_compression(tmp_path: Path, call: Call, codec: str) -> None:
    arrays = {f"a{n}": np.arange(n * 999, n * 999 + 3000) for n in range(8)}
    file = asdf.AsdfFile({"text": "stays", **arrays})
    file.set_array_compression(arrays["a3"], "bzp2")
    file.write_to(tmp_path / "data.asdf")
    done = call("repack", "--compression", codec, "--json", tmp_path / "data.asdf", tmp_path / "out.asdf")
    assert done.code == 0, done.err
    assert done.json["dropped"] == []
    assert ("asdf-compression" in "".join(done.json["notes"])) is (codec in ("blsc", "lz4f", "zstd"))
    assert done.json["size"] == (tmp_path / "out.asdf").stat().st_size
    with asdf.open(tmp_path / "out.asdf", validate_checksums=True, lazy_load=False, memmap=False) as found:
        assert all(np.array_equal(found[name], array) for name, array in arrays.items())
        assert found["text"] == "stays"
    blocks = call("info", "--json", tmp_path / "out.asdf").json["blocks"]
    assert {block["compression"] for block in blocks} == {codec}
    assert all(block["has_checksum"] for block in blocks)


def test_padding_and_alignment(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(MASK), zlib_block(DATA)]))
    assert call("repack", "--padding", "0", path).code == 0
    assert call("info", "--json", path).json["padding"] < 4096
    assert call("repack", "--padding", "50000", path).code == 0
    assert 50000 <= call("info", "--json", path).json["padding"] < 54096
    assert call("repack", "--align", "8192", path).code == 0
    blocks = call("info", "--json", path).json["blocks"]
    assert {(block["offset"] + block["header_size"] + 6) % 8192 for block in blocks} == {0}
    with opened(path) as found:
        assert found["mask"][:].tobytes() == MASK


def read_strictly(whole: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Compression, checksum and stored bytes of each block, as a reader finds them that knows no padding."""
    place, found = whole.index(b"\n...\n") + 5, []
    while whole[place : place + 4] == b"\xd3BLK":
        (size,) = struct.unpack_from(">H", whole, place + 4)
        _, name, allocated, used, _, checksum = struct.unpack_from(">I4sQQQ16s", whole, place + 6)
        assert (size, allocated) == (48, used)
        found.append((name.rstrip(b"\0"), checksum, whole[place + 54 : place + 54 + used]))
        place += 54 + used
    return found


def test_the_strict_profile_suits_readers_that_take_little(tmp_path: Path, call: Call) -> None:
    arrays = {name: np.arange(9000) + number for number, name in enumerate(("plain", "zlib", "bzp2", "lz4"))}
    file = asdf.AsdfFile(arrays)
    for name in ("zlib", "bzp2", "lz4"):
        file.set_array_compression(arrays[name], name)
    file.write_to(tmp_path / "a.asdf", pad_blocks=True)
    assert call("repack", "--profile", "strict", tmp_path / "a.asdf", tmp_path / "b.asdf").code == 0
    blocks = read_strictly((tmp_path / "b.asdf").read_bytes())
    assert [name for name, _, _ in blocks] == [b"", b"zlib", b"zlib", b"zlib"]
    assert [checksum == bytes(16) for _, checksum, _ in blocks] == [False, True, True, True]
    assert hashlib.md5(blocks[0][2]).digest() == blocks[0][1]
    with asdf.open(tmp_path / "b.asdf", validate_checksums=True, memmap=False, lazy_load=False) as found:
        assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert call("repack", "--profile", "strict", "--padding", "4K", tmp_path / "a.asdf").code == 2


@pytest.mark.parametrize("padding", ["0", "0%"])
def test_no_padding_at_all(tmp_path: Path, call: Call, padding: str) -> None:
    asdf.AsdfFile({"a": np.arange(100), "b": np.arange(1 << 17)}).write_to(tmp_path / "a.asdf")
    assert call("repack", "--padding", padding, tmp_path / "a.asdf", tmp_path / "b.asdf").code == 0
    assert len(read_strictly((tmp_path / "b.asdf").read_bytes())) == 2


def test_dropping_renumbers_sources(tmp_path: Path, call: Call) -> None:
    tree = (
        "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
        "a: &a !core/ndarray-1.0.0 {source: 4, datatype: uint8, byteorder: big, shape: [100]}  # the last but one\n"
        "b: !core/ndarray-1.0.0 {'source': -1, datatype: uint8, byteorder: big, shape: [40]}\n"
        "c: *a\n"
        "m: !core/ndarray-1.0.0\n  source: 0x1\n  datatype: uint8\n  byteorder: big\n  shape: [3]\n"
        "  mask: !core/ndarray-1.0.0 {source: 4, datatype: bool8, byteorder: big, shape: [3]}\n"
        "text: 'source: 4'\n...\n"
    )
    stored = [b"one", b"two", b"three", b"four", DATA, MASK]
    path = put(tmp_path, odd_file(tree=tree, blocks=[block_bytes(content) for content in stored]))
    done = call("repack", "--drop-unreferenced", path)
    assert done.out.endswith("; dropped blocks: 0, 2, 3\n"), done.err
    text, blocks = contents(path)
    assert blocks == [b"two", DATA, MASK]
    expected = tree.replace("{source: 4", "{source: 1").replace("0x1", "0")
    assert text == odd_file(tree=expected, blocks=[])
    with opened(path) as found:
        assert found["a"][:].tobytes() == DATA
        assert found["b"][:].tobytes() == MASK
        assert found["m"][:].data.tobytes() == b"two"


def test_dropping_is_refused_when_it_is_not_sure(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "data.asdf"
    odd = odd_file(blocks=[block_bytes(b"x"), block_bytes(DATA)]).replace(b"source: 0", b"source: !!int '1'")
    path.write_bytes(odd)
    done = call("repack", "--drop-unreferenced", path)
    assert done.code in (0, 4, 5)
    if done.code:
        assert path.read_bytes() == odd
    bad = odd_file().replace(b"value: 1\n", b"value: [\n")
    path.write_bytes(bad)
    done = call("repack", "--drop-unreferenced", path)
    assert (done.code, "line 10, column 1" in done.sentence) == (4, True)
    assert path.read_bytes() == bad
    assert call("repack", path).code == 0, "without it the tree is not looked at"


def test_what_cannot_be_recompressed_stays_and_is_told(tmp_path: Path, call: Call) -> None:
    unknown = header_bytes(b"whatever it is", compression=b"wxyz", data_size=99) + b"whatever it is"
    stream = header_bytes(b"", flags=1, md5=False) + MASK
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), stream], index="absent"))
    done = call("repack", "--compression", "zlib", path)
    assert (done.code, done.sentence) == (0, f"warning: {path}: block 1 stays as it is stored: it is streamed")
    with opened(path) as found:
        assert found["data"][:].tobytes() == DATA
        assert found["mask"][:].tobytes() == MASK
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), unknown]))
    done = call("repack", "--compression", "zlib", "--json", path)
    assert done.code == 8
    assert done.json["notes"][0].startswith("block 1 stays as it is stored: the compression 'wxyz' is not known")
    assert path.read_bytes().count(b"whatever it is") == 1


def test_a_wrong_checksum_is_not_made_right(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "data.asdf"
    blocks = [block_bytes(DATA), block_bytes(MASK)]
    wrong = odd_file(blocks=blocks).replace(MASK, MASK[::-1])
    path.write_bytes(wrong)
    done = call("repack", "--compression", "zlib", path)
    assert (done.code, "block 1" in done.sentence, "checksum" in done.sentence) == (4, True, True)
    assert path.read_bytes() == wrong
    assert [found.name for found in tmp_path.iterdir() if found.name not in ("state", "data.asdf")] == []


@pytest.mark.mount
def test_refusals(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file())
    assert call("repack", "--compression", "magic", path).sentence.startswith(
        f"{path}: the compression 'magic' is not known"
    )
    assert call("repack", "--align", "-1", path).code == 2
    assert call("repack", "--align", "1T", path).code == 2
    assert call("repack", path, path).code == 0, "in place"
    os.link(path, tmp_path / "other")
    done = call("repack", path)
    assert (done.code, "several names" in done.sentence) == (8, True)
    os.unlink(tmp_path / "other")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/data.asdf").mkdir()
    assert call("repack", path, tmp_path / "out").code == 3
    with mounted(path) as mount:
        done = call("repack", path)
        assert (done.code, f"already mounted for writing at {mount.point}" in done.sentence) == (5, True)
        assert call("repack", path, tmp_path / "copy.asdf").code == 0, "it may be read"
    check_saved(tmp_path / "copy.asdf", 1)


def test_external_sources_stay(tmp_path: Path, call: Call) -> None:
    path = put(tmp_path, odd_file(blocks=[]).replace(b"source: 0", b"source: other.asdf"))
    assert call("repack", "--drop-unreferenced", path).code == 0
    assert b"source: other.asdf" in path.read_bytes()


def test_relative_sources_lead_to_the_same_file_from_elsewhere(tmp_path: Path, call: Call) -> None:
    other = odd_file(tree=None, comments="", blocks=[block_bytes(DATA)], index="absent")
    (tmp_path / "other.asdf").write_bytes(other)
    path = put(tmp_path, odd_file().replace(b"source: 0", b"source: other.asdf"))
    (tmp_path / "there").mkdir()
    assert call("repack", path, tmp_path / "there/data.asdf").code == 0
    assert b'source: "../other.asdf"' in (tmp_path / "there/data.asdf").read_bytes()
    assert call("check", tmp_path / "there/data.asdf").code == 0
    bad = odd_file().replace(b"value: 1\n", b"value: [\n")
    path.write_bytes(bad)
    done = call("repack", path, tmp_path / "there/bad.asdf")
    assert (done.code, "line 10" in done.sentence) == (4, True)


ALIASED = (
    "n: &n 1\n"
    "a: !core/ndarray-1.0.0 {source: *n, datatype: uint8, byteorder: big, shape: [4]}\n"
    "c: &c {source: 1}\n"
    "b: !core/ndarray-1.0.0 {<<: *c, datatype: uint8, byteorder: big, shape: [4]}\n"
    "d: !core/ndarray-1.0.0 {source: 1, datatype: uint8, byteorder: big, shape: [*n]}\n"
)


def test_regression_blocks_that_an_alias_or_a_merge_key_refers_to_were_dropped(tmp_path: Path) -> None:
    path, environment = tmp_path / "a.asdf", environment_in(tmp_path)
    path.write_bytes(tree_file(ALIASED, [block_bytes(b"none"), block_bytes(b"data")]))
    with asdf.open(path) as file:
        before = [file[name][:].tobytes() for name in "abd"]
    assert "a, b, d" in command("info", "-v", path, environment=environment).out
    done = command("block", path, "1", "--remove", environment=environment)
    assert (done.code, "has source 1" in done.err) == (5, True), done
    done = command("repack", "--drop-unreferenced", path, environment=environment)
    assert "dropped blocks: 0\n" in done.out
    with asdf.open(path) as file:
        assert [file[name][:].tobytes() for name in "abd"] == before
        assert file["n"] == 1


def test_a_block_that_cannot_be_decoded_is_only_printed_as_it_is_stored(tmp_path: Path, call: Call) -> None:
    path = tmp_path / "data.asdf"
    unknown = header_bytes(b"stored", compression=b"wxyz", data_size=len(MASK)) + b"stored"
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), unknown]))
    done = call("block", path, 1)
    assert (done.code, done.out) == (2, "")
    assert "the compression 'wxyz' is not known" in done.sentence
    assert "--stored prints" in done.sentence
    done = call("check", "--deep", path)
    assert (done.code, "warning: block 1" in done.out) == (9, True)

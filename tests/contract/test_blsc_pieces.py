"""Blocks ``blsc`` of several buffers, as abacusutils writes and reads them."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import blosc
import numpy as np
import pytest
from support.codecs import Bytes
from support.samples import odd_file

import asdffs
from asdffs.cli.main import main
from asdffs.codecs.blsc import PLUGIN, BlscPieces
from asdffs.codecs.seeking import seeker_of

PIECE = 1 << 16
VALUES = np.arange(100_000, dtype="<f4")
CONTENT = VALUES.tobytes()
TREE = """\
%YAML 1.1
%TAG ! tag:stsci.edu:asdf/
--- !core/asdf-1.1.0
a: !core/ndarray-1.1.0 {source: 0, datatype: float32, byteorder: little, shape: [100000]}
...
"""


def stored_by_abacus(content: bytes, *, shuffle: int = blosc.BITSHUFFLE, name: str = "zstd") -> bytes:
    parts = (content[place : place + PIECE] for place in range(0, len(content), PIECE))
    buffers = (blosc.compress(part, typesize=4, clevel=1, shuffle=shuffle, cname=name) for part in parts)
    return b"".join(struct.pack(">I", len(buffer)) + buffer for buffer in buffers)


def read_by_abacus(stored: bytes) -> list[bytes]:
    """The content of each buffer."""
    found, place = [], 0
    while place < len(stored):
        (length,) = struct.unpack_from(">I", stored, place)
        found.append(blosc.decompress(stored[place + 4 : place + 4 + length]))
        place += 4 + length
    return found


def block(stored: bytes, size: int) -> bytes:
    lengths = (len(stored), len(stored), size)
    return b"\xd3BLK" + struct.pack(">HI4sQQQ16s", 48, 0, b"blsc", *lengths, hashlib.md5(stored).digest()) + stored


def write(path: Path, stored: bytes) -> Path:
    path.write_bytes(odd_file(tree=TREE, blocks=[block(stored, len(CONTENT))]))
    return path


@pytest.mark.parametrize("name", ["zstd", "lz4", "blosclz"])
@pytest.mark.parametrize("shuffle", [blosc.BITSHUFFLE, blosc.SHUFFLE, blosc.NOSHUFFLE])
def test_both_directions(tmp_path: Path, name: str, shuffle: int) -> None:
    """An edit keeps the layout, the size of the pieces, the inner compression and the shuffle."""
    path = write(tmp_path / "a.asdf", stored_by_abacus(CONTENT, shuffle=shuffle, name=name))
    assert main(["check", "--deep", str(path)]) == 0
    with asdffs.open(path, "r+") as document:
        assert np.array_equal(document.arrays["a"][...], VALUES)
        document.arrays["a"][70_000] = -1
    changed = VALUES.copy()
    changed[70_000] = -1
    with asdffs.open(path) as document:
        stored = document.read_raw(document.blocks[0].offset + 54, document.blocks[0].header.used_size)
        assert np.array_equal(document.arrays["a"][...], changed)
    pieces = read_by_abacus(stored)
    assert [len(piece) for piece in pieces] == [PIECE] * 6 + [len(CONTENT) - 6 * PIECE]
    assert b"".join(pieces) == changed.tobytes()
    layout = PLUGIN.layout_of(Bytes(stored))
    assert layout == PLUGIN.layout_of(Bytes(stored_by_abacus(CONTENT, shuffle=shuffle, name=name)))


def test_a_reader_starts_at_the_piece_that_it_needs() -> None:
    stored = Bytes(stored_by_abacus(CONTENT))
    codec = PLUGIN.layout_of(stored)
    seeker = seeker_of(codec, stored, len(CONTENT))
    assert seeker.start_before(5 * PIECE + 1) > 0
    start = seeker.start_before(5 * PIECE + 1)
    assert b"".join(seeker.decode_from(start)) == CONTENT[start:]


def test_one_buffer_is_none_of_several() -> None:
    single = blosc.compress(CONTENT, typesize=4)
    assert not isinstance(PLUGIN.layout_of(Bytes(single)), BlscPieces)
    assert not isinstance(PLUGIN.layout_of(Bytes(b"\0" * 19)), BlscPieces)


@pytest.mark.parametrize("damage", ["cut", "length", "header", "content"])
def test_damaged_pieces(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    stored = stored_by_abacus(CONTENT)
    second = 4 + struct.unpack_from(">I", stored)[0]
    if damage == "cut":
        stored = stored[:-7]
    elif damage == "length":
        stored = stored[:second] + b"\0\0\1\0" + stored[second + 4 :]
    elif damage == "header":
        stored = stored[: second + 16] + b"\xff\xff" + stored[second + 18 :]
    else:
        stored = stored[: second + 400] + bytes(300) + stored[second + 700 :]
    path = write(tmp_path / "a.asdf", stored)
    assert main(["check", "--deep", str(path)]) == 4
    assert "it cannot be decoded: its compressed bytes are damaged" in capsys.readouterr().out


@pytest.mark.parametrize("ours", [True, False])
def test_a_process_of_ours_decodes_without_numpy(ours: bool) -> None:
    """The library imports numpy for its tests, which other programs may want."""
    script = """
        import sys
        from asdffs import allocator
        from asdffs.codecs import blsc

        if sys.argv[1] == "True":
            allocator.own_process()
        library = blsc._library(alone=True)
        print("numpy" in sys.modules, library.decompress(library.compress(b"1234" * 100)) == b"1234" * 100)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(ours)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [str(not ours), "True"], done.stderr

"""Every codec decodes what the asdf library encodes, in any pieces."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np
import pytest

from asdffs.codecs.base import Codec
from asdffs.document.opening import Settings, open_document
from asdffs.errors import DamagedBlockError, ReadOnlyError
from asdffs.registry import plugins
from asdffs.vfs.scratch import read_bytes

CODECS = {codec.id.decode(): codec for codec in plugins("codecs")}


def encoded(tmp_path: Path, name: str, content: np.ndarray) -> tuple[Path, bytes]:
    path = tmp_path / "c.asdf"
    file = asdf.AsdfFile({"a": content})
    file.write_to(path, all_array_compression=name)
    document = open_document(str(path), writable=False)
    header = document.block_header(0)
    start = document.block_offset(0) + header.full_size
    stored = path.read_bytes()[start : start + header.used_size]
    document.close()
    return path, stored


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("piece", [1, 100, 10**6])
@pytest.mark.parametrize("limit", [1, 4096])
def test_decodes_in_any_pieces(tmp_path: Path, name: str, piece: int, limit: int) -> None:
    content = np.repeat(np.arange(300, dtype="u2"), 3)
    _, stored = encoded(tmp_path, name, content)
    codec: Codec = CODECS[name]
    decoder = codec.decoder()
    out, place = b"", 0
    while not decoder.finished and len(out) < content.nbytes:
        feed = b""
        if decoder.hungry:
            feed, place = stored[place : place + piece], place + piece
        out += decoder.decode(feed, limit)
    assert out == content.tobytes()


@pytest.mark.parametrize("name", CODECS)
def test_random_reads_of_a_block(tmp_path: Path, name: str) -> None:
    content = np.random.default_rng(1).integers(0, 99, 700_000).astype("u4")
    path, _ = encoded(tmp_path, name, content)
    whole = content.tobytes()
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
    for offset, length in [(0, 10), (2_000_000, 500), (5, 9), (len(whole) - 3, 100), (len(whole) + 5, 1)]:
        assert read_bytes(document.read_block(0, offset, length)) == whole[offset : offset + length]
    with pytest.raises(ReadOnlyError, match="compressed"):
        document.write_block(0, 0, b"x")
    document.close()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("damage", ["flip", "short", "longer data_size"])
def test_damage_is_told_block_by_block(tmp_path: Path, name: str, damage: str) -> None:
    content = np.random.default_rng(1).integers(0, 99, 50_000).astype("u4")
    path, stored = encoded(tmp_path, name, content)
    raw = bytearray(path.read_bytes())
    start = raw.find(b"\xd3BLK")
    if damage == "flip":
        raw[start + 54 + len(stored) // 2] ^= 0xFF
        raw[start + 54 + len(stored) // 3] ^= 0xFF
    elif damage == "short":
        raw[start + 54 + 20 : start + 54 + len(stored)] = bytes(len(stored) - 20)
    else:
        raw[start + 30 : start + 38] = (2**60).to_bytes(8)
    path.write_bytes(raw)
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path)))
    with pytest.raises(DamagedBlockError) as caught:
        document.read_block(0, content.nbytes - 10, 100)
    assert caught.value.block == 0
    document.close()


def test_unknown_compression_leaves_the_rest(tmp_path: Path) -> None:
    from asdffs.errors import NotSupportedError

    path, _ = encoded(tmp_path, "zlib", np.arange(100))
    raw = path.read_bytes().replace(b"zlib", b"????", 1)
    path.write_bytes(raw)
    document = open_document(str(path), writable=True)
    with pytest.raises(NotSupportedError, match=r"\?\?\?\?"):
        document.read_block(0, 0, 10)
    document.commit_tree(document.tree.text().replace(b"%YAML", b"# still editable\n%YAML", 1))
    document.close()

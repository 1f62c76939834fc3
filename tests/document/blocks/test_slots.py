"""Slots: encoded bytes of an exact length, and blocks of which only some pieces are encoded again."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import lz4.block
import numpy as np
import pytest
import zstandard
from asdf._compression import Lz4Compressor
from support.samples import compressed_block, odd_file

from asdffs.codecs import zstd
from asdffs.codecs.lz4 import encode_part, encode_to_length
from asdffs.document.blocks import committing
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document

CHANCE = random.Random(2727)
PIECE = 1 << 20
GRAIN = 4096
#: Content of several pieces, each compressible in another way, and some not at all.
CONTENT = b"".join(
    [bytes(PIECE), CHANCE.randbytes(PIECE), CHANCE.randbytes(PIECE // 8) * 8, bytes(range(256)) * (PIECE // 256)] * 2
)[: 8 * PIECE - 77]


def by_asdf(stored: bytes, size: int) -> bytes:
    """What the asdf library decodes."""
    out = bytearray(size)
    assert Lz4Compressor().decompress([stored], memoryview(out)) == size
    return bytes(out)


def kinds_of_content() -> list[bytes]:
    numbers = np.arange(30_000, dtype=">i4").tobytes()
    return [b"", b"x", bytes(100), bytes(70_000), CHANCE.randbytes(70_000), numbers, CHANCE.randbytes(200) * 300]


@pytest.mark.parametrize("number", range(7))
def test_lz4_parts_of_an_exact_length(number: int) -> None:
    content = kinds_of_content()[number]
    least = len(encode_part(content))
    given = 0
    for length in [*range(max(1, least - 20), least + 300), least + 1000, least + 5000, least // 2 + 1, 3 * least]:
        stored = encode_to_length(content, length, GRAIN)
        if stored is not None:
            given += 1
            assert len(stored) >= length
            assert (len(stored) - length) % GRAIN == 0
            assert len(stored) < max(length, least) + 3 * GRAIN
            assert by_asdf(stored, len(content)) == content
    assert given > 200 or len(content) < 200


@pytest.mark.long
def test_a_slot_that_is_not_full_keeps_its_length() -> None:
    content = bytes(70_000)
    least = len(encode_part(content))
    for length in range(least + 310, least + 4500):
        stored = encode_to_length(content, length, GRAIN)
        assert stored is not None
        assert len(stored) == length


def test_zstd_frames_of_an_exact_length() -> None:
    for content in kinds_of_content():
        least = len(zstandard.ZstdCompressor(level=3).compress(content))
        for length in [*range(max(1, least - 20), least + 60), least + 5000]:
            stored = zstd._encode_frame(content, length, GRAIN)
            assert len(stored) in (length, length + GRAIN)
            found = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress(stored)
            assert found == content


def lz4_stored() -> bytes:
    return b"".join(encode_part(CONTENT[at : at + PIECE]) for at in range(0, len(CONTENT), PIECE))


def zstd_stored() -> bytes:
    compressor = zstandard.ZstdCompressor()
    return b"".join(compressor.compress(CONTENT[at : at + PIECE]) for at in range(0, len(CONTENT), PIECE))


STORED = {b"lz4\0": lz4_stored(), b"zstd": zstd_stored()}
LAST = bytes(range(100)) * 30


def sample(path: Path, compression: bytes, *, last: bool) -> None:
    """Two blocks; the compressed one is the last one or the first."""
    blocks = [
        compressed_block(STORED[compression], compression, len(CONTENT)),
        compressed_block(LAST, b"\0" * 4, 3000),
    ]
    path.write_bytes(odd_file(blocks=blocks[::-1] if last else blocks))


def check_file(path: Path, number: int, content: bytes) -> None:
    """A new reader sees ``content``; the other block and both checksums are right, and there is an index."""
    document = open_document(str(path), writable=False)
    assert document.blocks[number].read_at(0, len(content) + 1) == content
    assert document.blocks[1 - number].read_at(0, 4000) == LAST
    for block in document.blocks:
        assert block.find_checksum_fault() == ""
        assert block.header.checksum != bytes(16)
    assert document.layout.index is not None
    document.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("growth", ["auto", "copy"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("compression", STORED)
def test_random_edits_are_those_of_a_model(tmp_path: Path, compression: bytes, growth: str, *, last: bool) -> None:
    """Writes, reads, flushes and finishes in a small spool; with a larger one, changes of size as well."""
    path = tmp_path / "data.asdf"
    sample(path, compression, last=last)
    chance = random.Random(f"{compression!r} {growth} {last}")
    model, number = bytearray(CONTENT), int(last)
    room = (6 if growth == "auto" and compression == b"lz4\0" else 20) * PIECE
    settings = Settings(spool=str(tmp_path), spool_max=room, growth=growth)
    document = open_document(str(path), writable=True, settings=settings)
    for _ in range(60):
        edit(document, number, model, chance, resize=room > len(model))
        start = chance.randrange(len(model))
        assert document.blocks[number].read_at(start, 5000) == model[start : start + 5000]
    document.blocks[number].flush(durable=True)
    document.finish()
    document.close()
    check_file(path, number, bytes(model))


def edit(document: Document, number: int, model: bytearray, chance: random.Random, *, resize: bool) -> None:
    """Make one change of the document, and of the model."""
    block, kind = document.blocks[number], chance.randrange(12)
    start = chance.choice([chance.randrange(len(model)), chance.randrange(1, 7) * PIECE - 3])
    if kind < 6:
        length = chance.choice([1, 5, 700, 9000])
        payload = chance.choice([chance.randbytes(length), bytes(length)])[: len(model) - start]
        block.write_at(start, payload)
        model[start : start + len(payload)] = payload
    elif kind < 9:
        block.flush(durable=True)
    elif kind == 9:
        document.finish()
    elif kind == 10 and resize:
        size = len(model) + chance.choice([-3, -PIECE // 2, 5])
        block.truncate(size)
        model[:] = model[:size].ljust(size, b"\0")
    else:
        old = document.tree.text()
        document.commit_tree(old.replace(b"value: ", b"value: 1"))


def test_only_the_changed_pieces_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five bytes: one slot of the same length; noise: one that is longer by whole blocks of the file system."""
    path = tmp_path / "data.asdf"
    sample(path, b"lz4\0", last=False)
    before = path.read_bytes()
    monkeypatch.setattr(committing.BlockCommitter, "_encode", None)  # the whole block is never encoded
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
    document.blocks[0].write_at(PIECE + 1000, b"12345")
    document.blocks[0].flush(durable=True)
    document.finish()
    after = path.read_bytes()
    assert len(after) == len(before)
    changed = [n for n in range(len(after)) if before[n] != after[n]]
    assert 5 < len(changed) <= 5 + 16 + 40  # the bytes, the checksum, and what LZ4 makes of a few other literals
    document.blocks[0].write_at(5, random.Random(1).randbytes(9000))
    document.blocks[0].flush(durable=True)
    document.finish()
    assert document.blocks[0].header.used_size - len(STORED[b"lz4\0"]) in range(GRAIN, 6 * GRAIN, GRAIN)
    document.close()


def test_damage_is_told_at_the_write_and_other_pieces_can_be_written(tmp_path: Path) -> None:
    stored = bytearray(STORED[b"lz4\0"])
    first = struct.unpack(">I", stored[:4])[0] + 4
    stored[first + 4 : first + 8] = b"\xff\xff\x00\x00"  # the length of the second piece is a lie
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file(blocks=[compressed_block(bytes(stored), b"lz4\0", len(CONTENT))]))
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
    with pytest.raises(Exception, match="damaged"):
        document.blocks[0].write_at(PIECE + 5, b"x")
    document.close()
    assert lz4.block.decompress(bytes(stored[4:first])) == CONTENT[:PIECE]


def test_a_block_that_was_written_in_part_gives_back_what_others_need(tmp_path: Path) -> None:
    """The other block is read as a whole; what was written to the first one stays, the rest of it goes."""
    path = tmp_path / "data.asdf"
    one = compressed_block(STORED[b"lz4\0"], b"lz4\0", len(CONTENT))
    path.write_bytes(odd_file(blocks=[one, one]))
    settings = Settings(spool=str(tmp_path), spool_max=9 * PIECE)
    document = open_document(str(path), writable=True, settings=settings)
    first, second = document.blocks
    assert first.read_at(0, len(CONTENT)) == CONTENT
    first.write_at(3 * PIECE, b"12345")
    for at in range(0, len(CONTENT), PIECE):
        assert second.read_at(at, PIECE) == CONTENT[at : at + PIECE]
    kept = [document.contents.compressed.block(number) for number in (0, 1)]
    assert sum(block.kept for block in kept if block is not None) <= 10 * PIECE
    first.flush(durable=True)
    assert first.read_at(0, len(CONTENT)) == CONTENT[: 3 * PIECE] + b"12345" + CONTENT[3 * PIECE + 5 :]
    document.close()


@pytest.mark.parametrize("readable", [False, True])
def test_a_block_that_was_written_in_part_is_named_as_a_whole(tmp_path: Path, *, readable: bool) -> None:
    """At the end of a mount that cannot store it.  Without the file, what was written is there, and zeros."""
    path, kept = tmp_path / "data.asdf", tmp_path / "kept.bin"
    sample(path, b"lz4\0", last=False)
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
    document.blocks[0].write_at(3 * PIECE + 7, b"12345")
    if not readable:
        os.truncate(path, 1000)
    assert document.contents.give_name(0, str(kept))
    found, model = kept.read_bytes(), CONTENT[: 3 * PIECE + 7] + b"12345" + CONTENT[3 * PIECE + 12 :]
    assert len(found) == len(model)
    assert found[3 * PIECE :][:100] == model[3 * PIECE :][:100]
    assert (found == model) == readable
    assert all(a in (b, 0) for a, b in zip(found[:: PIECE // 64], model[:: PIECE // 64], strict=True))
    document.contents.revert(0)

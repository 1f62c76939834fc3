"""Compressed blocks are edited like others: every codec, every edit, read back by the asdf library."""

from __future__ import annotations

import contextlib
import os
import random
import zlib
from pathlib import Path
from unittest import mock

import asdf
import numpy as np
import pytest
from support import codecs
from support.memory import MemoryFolder
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file, zlib_block

from asdffs.codecs.base import name_of
from asdffs.codecs.zlib import ZlibPoints
from asdffs.document.blocks.reading import ChecksumPolicy
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.errors import (
    AbandonedError,
    DamagedBlockError,
    NameRefusedError,
    NotPermittedError,
    ReadOnlyError,
    Remedy,
    SpoolFullError,
)
from asdffs.scheduling import SingleThread

CODECS = sorted(codecs.CODECS)
RNG = np.random.default_rng(11)
CONTENT = np.repeat(RNG.integers(0, 50, 40_000, "u1"), 7).tobytes()
NAME = "f.asdf"


def sample(path: Path, compression: str | None) -> None:
    """Two arrays; the first is compressed."""
    file = asdf.AsdfFile({"a": np.frombuffer(CONTENT, "u1"), "b": np.arange(500)})
    file.set_array_compression(file["a"], compression)
    file.write_to(path)


def whole(document: Document, number: int) -> bytes:
    return document.blocks[number].read_at(0, document.blocks[number].size)


def check(path: Path, content: bytes, compression: str) -> None:
    """As the asdf library sees it, with checksums verified; the next open, and ``check``, agree."""
    document = open_document(str(path), writable=False)
    assert name_of(document.blocks[0].header.compression) == compression
    assert whole(document, 0) == content
    assert document.blocks[0].find_checksum_fault() == ""
    assert document.blocks[0].header.checksum != bytes(16)
    document.close()
    with asdf.open(path, validate_checksums=True, lazy_load=False, memmap=False) as found:
        stored = found._blocks.blocks[0]
        assert bytes(stored.cached_data) == content
        assert np.array_equal(found["b"], np.arange(500))


def overwrite(document: Document) -> bytes:
    document.blocks[0].write_at(1000, b"\xee" * 5000)
    return CONTENT[:1000] + b"\xee" * 5000 + CONTENT[6000:]


def grow(document: Document) -> bytes:
    noise = random.Random(3).randbytes(400_000)
    document.blocks[0].write_at(len(CONTENT), noise)
    return CONTENT + noise


def shrink(document: Document) -> bytes:
    document.blocks[0].truncate(1234)
    return CONTENT[:1234]


def extend(document: Document) -> bytes:
    document.blocks[0].truncate(len(CONTENT) + 70_000)
    return CONTENT + bytes(70_000)


def replace(document: Document) -> bytes:
    document.blocks[0].truncate(0)
    document.blocks[0].write_at(10, b"anew")
    return bytes(10) + b"anew"


EDITS = {edit.__name__: edit for edit in (overwrite, grow, shrink, extend, replace)}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("growth", ["auto", "copy"])
def test_edits(tmp_path: Path, codec: str, edit: str, growth: str) -> None:
    path = tmp_path / NAME
    sample(path, codec)
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path), growth=growth))
    content = EDITS[edit](document)
    assert whole(document, 0) == content
    assert document.pending
    assert document.contents.written == document.contents.compressed.dirty == (0,)
    document.blocks[0].flush(durable=False)
    assert document.contents.compressed.dirty == ()
    assert whole(document, 0) == content
    shape = b"shape: [%d]"
    document.commit_tree(document.tree.text().replace(shape % len(CONTENT), shape % len(content)))
    document.finish()
    document.close()
    check(path, content, codec)
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_recompress_to_every_other(tmp_path: Path, codec: str) -> None:
    path = tmp_path / NAME
    sample(path, None if codec == "none" else codec)
    for other in [*CODECS, "none", codec]:
        document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
        document.blocks[0].set_compression(codec)
        document.blocks[0].set_compression(other)
        assert whole(document, 0) == CONTENT
        document.finish()
        document.close()
        check(path, CONTENT, other)


@pytest.mark.parametrize("codec", CODECS)
def test_random_reads(tmp_path: Path, codec: str) -> None:
    path = tmp_path / NAME
    sample(path, codec)
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path)))
    size = len(CONTENT)
    for offset, length in [(0, 10), (200_000, 500), (5, 9), (size - 3, 100), (size + 5, 1), (0, size)]:
        assert document.blocks[0].read_at(offset, length) == CONTENT[offset : offset + length]
    document.close()


def test_what_was_written_in_place_and_not_settled_is_compressed(tmp_path: Path) -> None:
    path = tmp_path / NAME
    sample(path, None)
    document = open_document(str(path), writable=True)
    content = grow(document)
    document.blocks[0].set_compression("zlib")
    document.blocks[0].write_at(0, b"once more")
    document.finish()
    document.close()
    check(path, b"once more" + content[9:], "zlib")


def test_the_last_block_gives_back_what_it_does_not_need() -> None:
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)])})
    document = open_in_folder(folder, NAME, writable=True)
    document.blocks[1].write_at(0, bytes(50_000))
    document.blocks[1].set_compression("zlib")
    assert document.blocks[1].header.allocated_size < 200
    document.finish()
    assert document.layout.index is not None
    document.close()


def compressed(content: bytes, **facts: object) -> bytes:
    """A file whose first block is zlib's, with header fields of choice."""
    used = zlib.compress(content)
    header = {"compression": b"zlib", "data_size": len(content), **facts}
    return odd_file(blocks=[header_bytes(used, **header) + used, block_bytes(MASK)])


DAMAGED = {
    "flipped": compressed(CONTENT).replace(zlib.compress(CONTENT)[40:60], bytes(20)),
    "data_size too large": compressed(CONTENT, data_size=len(CONTENT) + 1),
    "data_size too small": compressed(CONTENT, data_size=len(CONTENT) - 1),
    "an exabyte": compressed(CONTENT, data_size=1 << 60),
    "no zlib": compressed(CONTENT, compression=b"bzp2"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_concerns_one_block(kind: str) -> None:
    folder = MemoryFolder({NAME: DAMAGED[kind]})
    document = open_in_folder(folder, NAME, writable=True)
    for _ in range(2):
        with pytest.raises(DamagedBlockError) as caught:
            document.blocks[0].read_extent(len(CONTENT) - 10, 100)
        assert caught.value.block == 0
        with pytest.raises(DamagedBlockError):
            document.blocks[0].write_at(0, b"x")
    assert whole(document, 1) == MASK
    document.blocks[1].write_at(0, b"other")
    document.finish()
    document.close()
    stored = bytes(folder.files[NAME].content)
    assert zlib.compress(CONTENT)[-50:] in stored or kind == "flipped"


def test_what_comes_before_the_damage_can_be_read() -> None:
    content = random.Random(1).randbytes(6 << 20)
    raw = bytearray(compressed(content, md5=False))
    raw[-200_000] ^= 0xFF
    document = open_in_folder(MemoryFolder({NAME: bytes(raw)}), NAME, writable=False)
    assert document.blocks[0].read_at(0, 1 << 20) == content[: 1 << 20]
    with pytest.raises(DamagedBlockError):
        document.blocks[0].read_extent(len(content) - 10, 10)
    assert document.blocks[0].read_at(100, 1000) == content[100:1100]
    document.close()


def test_an_unknown_compression_shows_what_is_stored() -> None:
    raw = compressed(CONTENT).replace(b"zlib", b"????", 1)
    document = open_in_folder(MemoryFolder({NAME: raw}), NAME, writable=True)
    assert whole(document, 0) == zlib.compress(CONTENT)
    assert "'????' is not known" in document.blocks[0].obstacle
    for work in (
        lambda: document.blocks[0].write_at(0, b"x"),
        lambda: document.blocks[0].truncate(0),
        lambda: document.blocks[0].set_compression("none"),
    ):
        with pytest.raises(ReadOnlyError, match="stored bytes"):
            work()
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    document.close()


def test_a_library_that_is_not_installed_is_named() -> None:
    raw = compressed(CONTENT).replace(b"zlib", b"zstd", 1)
    folder = MemoryFolder({NAME: raw})
    with mock.patch("asdffs.codecs.base.is_installed", return_value=False):
        document = open_in_folder(folder, NAME, writable=True)
        assert whole(document, 0) == zlib.compress(CONTENT)
        assert "pip install 'asdffs[zstd]'" in document.blocks[0].obstacle
        with pytest.raises(Exception, match=r"asdffs\[zstd\]"):
            document.blocks[1].set_compression("zstd")
        document.close()


def test_refusals() -> None:
    folder = MemoryFolder(
        {NAME: odd_file(blocks=[block_bytes(DATA), header_bytes(b"", flags=1, md5=False) + MASK], index="absent")}
    )
    document = open_in_folder(folder, NAME, writable=True)
    with pytest.raises(NameRefusedError, match="known are none, bls2, blsc, bsc2, bzp2, lz4, lz4f, zlib, zstd"):
        document.blocks[0].set_compression("gzip")
    for work in (
        lambda: document.blocks[1].set_compression("zlib"),
        lambda: document.blocks[1].reserve(500),
        document.blocks.append,
    ):
        with pytest.raises(NotPermittedError, match="streamed"):
            work()
    with pytest.raises(NameRefusedError, match="uses 100 bytes"):
        document.blocks[0].reserve(99)
    document.close()


# -- the room for decoded blocks ------------------------------------------------


def room_of(document: Document) -> SpoolRoom:
    return document._room


@pytest.mark.long
def test_a_block_larger_than_the_room_is_read_by_a_window(tmp_path: Path) -> None:
    content = np.repeat(RNG.integers(0, 9, 3 << 20, "u1"), 20)
    path = tmp_path / NAME
    asdf.AsdfFile({"a": content}).write_to(path, all_array_compression="zlib")
    settings = Settings(spool=str(tmp_path), spool_max=16 << 20)
    document = open_document(str(path), writable=True, settings=settings)
    raw, step = content.tobytes(), 1 << 20
    for place in range(0, len(raw), step):
        assert document.blocks[0].read_at(place, step) == raw[place : place + step]
        assert sum(block.kept for block in room_of(document)._used) <= (16 << 20) + (2 << 20)
    spool = document.contents.compressed._decoded[0]._content.file.fileno()
    assert os.fstat(spool).st_blocks * 512 <= 20 << 20
    assert document.blocks[0].read_at(5, 10) == raw[5:15], "back to what was given up"
    with pytest.raises(SpoolFullError, match="the spool has only") as refused:
        document.blocks[0].write_at(0, b"x")
    assert refused.value.remedy is Remedy.MORE_SPOOL
    document.blocks[0].truncate(5_000)
    document.close()


@pytest.mark.long
def test_two_readers_of_blocks_larger_than_the_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side, each goes on where it was: nobody begins anew for every piece."""
    arrays = {name: np.repeat(RNG.integers(0, 9, 2 << 20, "u1"), 16) for name in "ab"}
    path = tmp_path / NAME
    asdf.AsdfFile(arrays).write_to(path, all_array_compression="zlib")
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path), spool_max=16 << 20))
    begun = []
    decode = ZlibPoints.decode_from
    monkeypatch.setattr(ZlibPoints, "decode_from", lambda self, start: begun.append(start) or decode(self, start))
    step = 1 << 20
    for place in range(0, 32 << 20, step):
        for number, name in enumerate("ab"):
            found = document.blocks[number].read_at(place, step)
            assert found == arrays[name][place : place + step].tobytes()
        assert sum(block.kept for block in room_of(document)._used) <= 18 << 20
    assert begun == [0, 0]
    document.close()


def test_who_was_used_least_recently_gives_way(tmp_path: Path) -> None:
    arrays = {name: np.full(6 << 20, number, "u1") for number, name in enumerate("abcd")}
    path = tmp_path / NAME
    asdf.AsdfFile(arrays).write_to(path, all_array_compression="zlib")
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path), spool_max=16 << 20))
    document.blocks[0].write_at(0, b"dirty")
    for number in (1, 2, 3, 1, 0):
        assert whole(document, number)[10:] == arrays["abcd"[number]].tobytes()[10:]
    kept = {block.number for block in room_of(document)._used}
    assert kept == {0, 1}, "what was written stays"
    document.finish()
    document.close()


def test_many_blocks_do_not_use_up_the_descriptors(tmp_path: Path) -> None:
    blocks = [zlib_block(b"%03d" % number * 100) for number in range(400)]
    path = tmp_path / NAME
    path.write_bytes(odd_file(blocks=blocks))
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path)))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(400):
        assert whole(document, number) == b"%03d" % number * 100
    assert len(os.listdir("/proc/self/fd")) - before <= 257
    document.close()
    assert len(os.listdir("/proc/self/fd")) < before


# -- checksums ------------------------------------------------------------------


def test_a_wrong_checksum_is_not_hidden_by_a_recompression() -> None:
    raw = odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)]).replace(DATA, DATA[::-1], 1)
    folder = MemoryFolder({NAME: raw})
    document = open_in_folder(folder, NAME, writable=True)
    with pytest.raises(DamagedBlockError, match="its checksum is"):
        document.blocks[0].set_compression("zlib")
    assert bytes(folder.files[NAME].content) == raw
    document.blocks[0].write_at(0, b"changed")
    document.blocks[0].set_compression("zlib")
    assert document.blocks[0].find_checksum_fault() == ""
    document.close()


@pytest.mark.parametrize("keep", [True, False])
def test_checksums_of_changed_blocks(keep: bool) -> None:
    blocks = [block_bytes(DATA), zlib_block(MASK * 9), zlib_block(MASK, md5=False), block_bytes(MASK)]
    folder = MemoryFolder({NAME: odd_file(blocks=blocks)})
    document = open_in_folder(folder, NAME, writable=True, settings=Settings(checksums=ChecksumPolicy(keep=keep)))
    for number in range(3):
        document.blocks[number].write_at(0, b"new")
    new = document.blocks.append().number
    document.blocks[new].write_at(0, b"more")
    document.finish()
    sums = [document.blocks[number].header.checksum != bytes(16) for number in range(5)]
    assert sums == ([True, True, False, True, True] if keep else [False, False, False, True, False])
    assert [document.blocks[number].find_checksum_fault() for number in range(5)] == [""] * 5
    document.close()


# -- appending, removing, reserving -----------------------------------------------


@pytest.mark.parametrize("kind", ["blocks", "no blocks", "padded", "no tree", "NULs", "stale index"])
def test_append_and_remove(kind: str) -> None:
    tree = "%YAML 1.1\n---\nvalue: 1\n...\n"
    raw = {
        "blocks": odd_file(tree=tree, blocks=[block_bytes(DATA), block_bytes(MASK)]),
        "no blocks": odd_file(tree=tree, blocks=[]),
        "padded": odd_file(tree=tree, blocks=[], padding=bytes(700)),
        "no tree": odd_file(tree=None, blocks=[], comments=""),
        "NULs": odd_file(tree=tree, blocks=[block_bytes(DATA)], index="absent", tail=bytes(100)),
        "stale index": odd_file(tree=tree, blocks=[block_bytes(DATA)], index="stale"),
    }[kind]
    folder = MemoryFolder({NAME: raw})
    document = open_in_folder(folder, NAME, writable=True)
    count = len(document.blocks)
    before = [whole(document, number) for number in range(count)]
    for number in range(count, count + 3):
        assert document.blocks.append().number == number
        document.blocks[number].write_at(0, b"%d" % number * 900)
    document.blocks[count + 2].remove()
    document.finish()
    document.close()
    document = open_in_folder(folder, NAME, writable=True)
    assert document.layout.index is not None
    assert len(document.blocks) == count + 2
    after = [whole(document, number) for number in range(count + 2)]
    assert after == [*before, b"%d" % count * 900, b"%d" % (count + 1) * 900]
    document.blocks[count + 1].remove()
    document.blocks[count].remove()
    document.finish()
    document.close()
    document = open_in_folder(folder, NAME, writable=True)
    assert [whole(document, number) for number in range(len(document.blocks))] == before
    assert document.tree.text() == raw[: document.layout.text_end]
    document.close()


@pytest.mark.parametrize(("source", "sentence"), [(b"1", "has source 1"), (b"-1", "has source -1")])
def test_a_block_that_the_tree_refers_to_stays(source: bytes, sentence: str) -> None:
    raw = odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)]).replace(b"source: 1,", b"source: " + source + b",")
    document = open_in_folder(MemoryFolder({NAME: raw}), NAME, writable=True)
    with pytest.raises(Exception, match=f"mask .line 10. {sentence}"):
        document.blocks[1].remove()
    with pytest.raises(Exception, match="only the last"):
        document.blocks[0].remove()
    document.close()


def test_room_that_was_reserved_stays() -> None:
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)])})
    document = open_in_folder(folder, NAME, writable=True)
    document.blocks[1].reserve(5000)
    document.blocks[1].write_at(0, b"changed")
    document.blocks[0].reserve(3000)
    document.finish()
    document.close()
    document = open_in_folder(folder, NAME, writable=True)
    assert document.blocks[1].header.allocated_size == 5000
    assert document.blocks[0].header.allocated_size >= 3000
    assert whole(document, 0) == DATA
    with pytest.raises(NotPermittedError, match="only the last gives room back"):
        document.blocks[0].reserve(200)
    size = document.layout.size
    document.blocks[1].reserve(40)
    assert document.blocks[1].header.allocated_size == 40
    assert document.layout.size < size
    document.close()


def test_progress_is_told() -> None:
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(CONTENT), block_bytes(MASK)])})
    document = open_in_folder(folder, NAME, writable=True)
    told: list[dict[str, object]] = []
    folder.step = lambda kind, name, *details: told.extend(document.report.progress.facts())
    document.blocks[0].set_compression("zlib")
    document.blocks[1].write_at(0, b"x")
    document.finish()
    folder.step = lambda kind, name, *details: None
    names = {fact["operation"] for fact in told}
    assert {"compression", "storing"} <= names
    assert all(fact["block"] == 0 and 0 <= fact["done"] <= fact["total"] for fact in told)
    assert document.report.progress.facts() == []
    document.close()


# -- what two reviews found -------------------------------------------------------


def test_regression_a_part_of_a_failed_write_showed_up_in_a_gap(tmp_path: Path) -> None:
    folder = MemoryFolder({NAME: odd_file(blocks=[zlib_block(DATA)])})
    document = open_in_folder(folder, NAME, writable=True, settings=Settings(spool=str(tmp_path)))
    document.blocks[0].write_at(0, b"x")

    def half(fd: int, payload: bytes, offset: int) -> None:
        os.pwrite(fd, payload[:1000], offset)
        raise OSError(28, "full")

    with mock.patch("asdffs.document.blocks.decoding.write_all", half), pytest.raises(OSError, match="full"):
        document.blocks[0].write_at(200, b"G" * 5000)
    document.blocks[0].truncate(5000)
    assert whole(document, 0) == b"x" + DATA[1:] + bytes(4900)
    document.close()


def test_regression_a_part_of_a_failed_write_in_place_showed_up_in_a_gap(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(odd_file(blocks=[block_bytes(DATA), block_bytes(MASK)]))
    document = open_document(str(path), writable=True)
    document.blocks[1].write_at(0, MASK + bytes(10))
    document.blocks[1].reserve(9000)
    backend = document._transaction.backend
    write = backend.write_at

    def half(offset: int, payload: bytes) -> None:
        write(offset, payload[:1000])
        raise OSError(28, "full")

    full = pytest.raises(OSError, match="full")
    with mock.patch.object(type(backend), "write_at", lambda self, *details: half(*details)), full:
        document.blocks[1].write_at(200, b"G" * 5000)
    document.blocks[1].truncate(5000)
    assert whole(document, 1) == MASK + bytes(4960)
    document.close()


def test_regression_verify_refused_a_block_that_was_written() -> None:
    block = bytearray(zlib_block(DATA))
    block[60] ^= 1  # damaged, and about to be replaced
    folder = MemoryFolder({NAME: odd_file(blocks=[bytes(block)])})
    document = open_in_folder(folder, NAME, writable=True, settings=Settings(checksums=ChecksumPolicy(verify=True)))
    document.blocks[0].truncate(0)
    document.blocks[0].write_at(0, b"repaired")
    assert whole(document, 0) == b"repaired"
    document.finish()
    assert whole(document, 0) == b"repaired"
    document.close()


@pytest.mark.parametrize("size", [1 << 50, (1 << 63) + 5, (1 << 64) - 1])
@pytest.mark.parametrize("compression", [b"zlib", bytes(4)])
def test_regression_sizes_that_cannot_be_right(size: int, compression: bytes) -> None:
    """Past the end of the file, or of what any file can have: one error, at once."""
    header = bytearray(header_bytes(MASK, compression=compression))
    header[14:38] = size.to_bytes(8) * 3
    raw = odd_file(blocks=[block_bytes(DATA), bytes(header) + MASK], index="absent")
    document = open_in_folder(
        MemoryFolder({NAME: raw}), NAME, writable=False, settings=Settings(checksums=ChecksumPolicy(verify=True))
    )
    assert whole(document, 0) == DATA
    with pytest.raises(DamagedBlockError) as caught:
        document.blocks[1].read_extent(0, 10)
    assert caught.value.block == 1
    document.close()


def test_regression_an_empty_block_with_stored_bytes_is_damaged(tmp_path: Path) -> None:
    from asdffs.workflows.checking import check_document

    path = tmp_path / NAME
    path.write_bytes(compressed(CONTENT, data_size=0, md5=False))
    document = open_document(str(path), writable=False)
    found = [finding.sentence for finding in check_document(document, deep=True) if finding.block == 0]
    assert any("more than its data_size of 0" in sentence for sentence in found)
    document.close()


def test_decoders_that_are_not_read_from_are_stopped(tmp_path: Path) -> None:
    """Their memory is bounded; a reader who comes back goes on where it was."""
    arrays = {f"a{number}": np.repeat(RNG.integers(0, 9, 1 << 18, "u1"), 40) for number in range(12)}
    path = tmp_path / NAME
    asdf.AsdfFile(arrays).write_to(path, all_array_compression="lz4")
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path)))
    step = 1 << 20
    for place in range(0, 10 << 20, step):
        for number in range(12):
            found = document.blocks[number].read_at(place, step)
            assert found == arrays[f"a{number}"][place : place + step].tobytes()
        assert sum(block.memory for block in room_of(document)._used) <= 256 << 20
    document.close()


class Ending(SingleThread):
    """A scheduler whose mount comes to its end after some pieces."""

    def __init__(self, pieces: int) -> None:
        self._left = pieces

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def resumed(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @property
    def stopping(self) -> bool:
        self._left -= 1
        return self._left < 0

    @property
    def wanted(self) -> bool:
        return not self.stopping


def test_slow_work_is_given_up_when_nobody_waits(tmp_path: Path) -> None:
    path = tmp_path / NAME
    content = np.repeat(RNG.integers(0, 9, 1 << 20, "u1"), 8)
    asdf.AsdfFile({"a": content}).write_to(path, all_array_compression="zlib")
    before = path.read_bytes()
    scheduler = Ending(3)
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path), scheduler=scheduler))
    with pytest.raises(AbandonedError):
        document.blocks[0].read_extent(content.size - 10, 10)
    scheduler._left = 1 << 30
    assert whole(document, 0) == content.tobytes(), "the next reader goes on"
    scheduler._left = 2
    with pytest.raises(AbandonedError):
        document.blocks[0].set_compression("none")
    scheduler._left = 1 << 30
    document.close()
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [NAME]

"""Every bug that was found once, in the smallest form that shows it."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import struct
from contextlib import closing
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.arrays import tree_file
from support.crashes import record
from support.memory import MemoryFolder
from support.plans import scan
from support.samples import DATA, MASK, block_bytes, header_bytes, index_bytes, odd_file

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.errors import (
    DamagedBlockError,
    DamagedFileError,
    FailedFileError,
    NoRoomError,
    RecoveryError,
    StaleFileError,
)
from asdffs.format.block_scan import drive
from asdffs.format.plan import Plan, Write
from asdffs.format.scanner import scan_layout
from asdffs.storage.journal import Journal
from asdffs.storage.record import Fill, make_record
from asdffs.storage.recovery import recover
from asdffs.storage.sidecars import PAYLOAD_SUFFIX, temporary_prefix
from asdffs.workflows.checking import check_document

NAME = "f.asdf"
THREE = [block_bytes(DATA), block_bytes(MASK), block_bytes(b"three")]


def opened(whole: bytes) -> tuple[MemoryFolder, Document]:
    folder = MemoryFolder({NAME: whole})
    return folder, open_in_folder(folder, NAME, writable=True)


def content(folder: MemoryFolder) -> bytes:
    return bytes(folder.files[NAME].content)


def grown(document: Document, size: int = 6000) -> bytes:
    return document.tree.text().replace(b"value: 1\n", b"value: 2\nlong: " + b"x" * size + b"\n")


@pytest.mark.parametrize(("count", "padding"), [(1, b""), (1, b" " * 50), (2, b"\0" * 50)])
def test_regression_blocks_without_a_magic_were_taken_for_padding(count: int, padding: bytes) -> None:
    """The index names them.  Without it, every other block had a wrong number, and arrays the data of others."""
    blocks = [block_bytes(DATA), block_bytes(MASK), block_bytes(bytes(16))]
    damaged = [b"XXXX" + block[4:] if number < count else block for number, block in enumerate(blocks)]
    whole = odd_file(blocks=blocks, padding=padding)
    raw = whole.replace(b"".join(blocks), b"".join(damaged))
    folder, document = opened(raw)
    assert len(document.blocks) == 3
    for number in range(count):
        with pytest.raises(DamagedBlockError, match="the magic d3 42 4c 4b is missing"):
            document.blocks[number].read_at(0, 1)
    assert document.blocks[2].read_at(0, 16) == bytes(16)
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    with pytest.raises(DamagedBlockError, match="is missing"):
        document.commit_tree(document.tree.text().replace(b"value: 2\n", b"value: 2\nlong: " + b"x" * 6000 + b"\n"))
    document.close()
    assert content(folder) == raw.replace(b"value: 1", b"value: 2"), "what may still be rescued stays"


@pytest.mark.parametrize("blank", [b" ", b"\0"])
def test_an_index_that_names_blank_padding_is_wrong(blank: bytes) -> None:
    blocks = [block_bytes(DATA), block_bytes(MASK)]
    raw = odd_file(blocks=blocks).replace(blocks[0], blank * len(blocks[0]))
    _, document = opened(raw)
    assert (len(document.blocks), document.layout.index) == (1, None)
    document.close()


def test_regression_damaged_first_block_was_taken_for_padding() -> None:
    broken = bytearray(block_bytes(DATA))
    broken[30:38] = struct.pack(">Q", 3)  # data_size differs from used_size
    blocks = [bytes(broken), block_bytes(MASK)]
    whole = odd_file(blocks=blocks, padding=b" " * 50, index="absent")
    folder, document = opened(whole)
    assert len(document.blocks) == 2
    with pytest.raises(DamagedBlockError, match="data_size 3"):
        document.blocks[0].read_at(0, 1)
    assert document.blocks[1].read_at(0, len(MASK)) == MASK, "what follows it is found all the same"
    document.commit_tree(grown(document, 20))
    assert content(folder).endswith(b"".join(blocks))
    document.commit_tree(grown(document))
    document.close()
    assert content(folder).endswith(b"".join(blocks)), "all bytes from the first magic on are moved as they are"


def test_regression_damaged_middle_block_lost_the_later_ones() -> None:
    blocks = [THREE[0], bytearray(THREE[1]), THREE[2]]
    blocks[1][4:6] = struct.pack(">H", 10)
    whole = odd_file(blocks=[bytes(block) for block in blocks])
    folder, document = opened(whole)
    assert len(document.blocks) == 3
    with pytest.raises(DamagedBlockError) as caught:
        document.blocks[1].header  # noqa: B018
    assert caught.value.block == 1
    assert document.blocks[2].read_at(0, 99) == b"three"
    with pytest.raises(DamagedBlockError):
        document.commit_tree(grown(document))
    assert content(folder) == whole
    document.close()


def test_regression_gap_between_blocks_lost_the_later_ones() -> None:
    whole = odd_file(blocks=[THREE[0], THREE[1] + bytes(100), THREE[2]], index="absent")
    offsets = [len(whole) - sum(map(len, THREE)) - 100]
    offsets += [offsets[0] + len(THREE[0]), offsets[0] + len(THREE[0]) + len(THREE[1]) + 100]
    whole += index_bytes(offsets)
    folder, document = opened(whole)
    assert [document.blocks[n].size for n in range(3)] == [100, 40, 5]
    with pytest.raises(NoRoomError, match="unused bytes follow"):
        document.commit_tree(grown(document))
    with pytest.raises(NoRoomError):
        document.blocks[2].write_at(5, b"more")
    document.blocks[1].write_at(0, b"in place")
    document.finish()
    document.close()
    assert scan(content(folder)).index is not None


def test_regression_write_into_slack_past_the_end_of_the_file_was_cut_off() -> None:
    last = block_bytes(DATA, slack=bytes(900))[: -900 + 10]
    folder, document = opened(odd_file(blocks=[THREE[0], last], index="absent"))
    document.blocks[1].write_at(100, b"n" * 700)
    document.blocks[1].flush(durable=True)
    assert document.blocks[1].read_at(0, 2000) == DATA + b"n" * 700
    document.finish()
    document.close()
    assert DATA + b"n" * 700 in content(folder)
    assert hashlib.md5(DATA + b"n" * 700).digest() in content(folder)


def test_regression_foreign_bytes_after_an_index_are_kept() -> None:
    whole = odd_file(index="stale", tail=b"something else entirely")
    folder, document = opened(whole)
    with pytest.raises(NoRoomError, match="neither a block nor an index"):
        document.blocks[1].write_at(40, b"more")
    document.commit_tree(grown(document))
    document.finish()
    document.close()
    assert content(folder).endswith(b"something else entirely")


def test_regression_saving_the_old_text_after_a_foreign_replace_reported_success() -> None:
    folder, document = opened(odd_file(padding=b" " * 400))
    text = document.tree.text()
    other = folder.open("other", writable=True, create=True)
    other.write_at(0, content(folder).replace(b"value: 1", b"value: 7"))
    folder.replace(other, NAME)
    with pytest.raises(StaleFileError):
        document.commit_tree(text)


def test_regression_block_write_after_a_foreign_replace_went_to_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(odd_file(blocks=[block_bytes(DATA, md5=False)]))
    document = open_document(str(path), writable=True)
    document.blocks[0].write_at(0, b"ours")
    (tmp_path / "new").write_bytes(path.read_bytes())
    os.replace(tmp_path / "new", path)
    for work in (
        lambda: document.blocks[0].write_at(0, b"lost"),
        lambda: document.blocks[0].flush(durable=True),
        document.finish,
    ):
        with pytest.raises(StaleFileError):
            work()
    document.close()


def test_regression_failed_folder_sync_after_growth_served_wrong_bytes() -> None:
    folder, document = opened(odd_file())

    def broken(kind: str, name: str, *details: object) -> None:
        if kind == "syncdir":
            raise OSError(errno.EIO, "I/O error")

    folder.step = broken
    with pytest.raises(FailedFileError):
        document.commit_tree(grown(document))
    folder.step = lambda kind, name, *details: None
    assert document.blocks[0].read_at(0, 200) == DATA
    assert document.blocks[1].read_at(0, 200) == MASK
    assert b"value: 2" in document.tree.text()


def test_regression_compressed_block_was_unreadable_after_growth(tmp_path: Path) -> None:
    import asdf
    import numpy as np

    path = tmp_path / NAME
    array = np.random.default_rng(5).integers(0, 9, 3 << 20).astype("u1")
    asdf.AsdfFile({"value": 1, "a": array}).write_to(path, all_array_compression="zlib")
    document = open_document(str(path), writable=True, settings=Settings(spool=str(tmp_path)))
    assert document.blocks[0].read_at(0, 10) == array[:10].tobytes()
    document.commit_tree(document.tree.text().replace(b"value: 1\n", b"value: 2\nlong: " + b"x" * 9000 + b"\n"))
    assert document.blocks[0].read_at(0, array.size) == array.tobytes()
    document.close()


def test_regression_stale_record_under_another_name_undid_a_later_save() -> None:
    """A hard link, or a rename: the record is found by the file, not by the name."""
    folder = MemoryFolder({"a": bytes(2000)})
    folder.files["b"] = folder.files["a"]
    backend = folder.open("a", writable=True)
    journal = Journal.open(folder, "a")
    journal.write(make_record(backend, Plan(2000, 2000, (Write(100, b"interrupted"),))))
    journal.close()
    other = folder.open("b", writable=True)
    assert "completed" in recover(folder, other, Journal.open(folder, "b"))
    assert other.read_at(100, 11) == b"interrupted"
    other.write_at(100, b"later save!")
    assert recover(folder, backend, Journal.open(folder, "a")) == ""
    assert backend.read_at(100, 11) == b"later save!"


def test_regression_a_recovery_that_failed_kept_the_lock() -> None:
    """The next open said that the file is still mounted."""
    whole = odd_file(padding=b" " * 400)
    folder, document = opened(whole)
    document.close()
    backend = folder.open(NAME, writable=True)
    journal = Journal.open(folder, NAME)
    fill = Fill(len(whole) - 20, 20, 1, 1, f"{temporary_prefix(NAME)}1{PAYLOAD_SUFFIX}")
    journal.write(make_record(backend, Plan(len(whole), len(whole)), fill))
    journal.close()
    backend.close()
    for _ in range(2):
        with pytest.raises(RecoveryError, match="is missing or was changed"):
            open_in_folder(folder, NAME, writable=True)


def test_regression_reader_trusted_the_record_of_a_file_that_was_rewritten() -> None:
    whole = odd_file(padding=b" " * 400)
    folder, document = opened(whole)
    document.close()
    backend = folder.open(NAME, writable=True)
    journal = Journal.open(folder, NAME)
    journal.write(make_record(backend, Plan(len(whole), len(whole), (Write(20, b"#" * 300),))))
    journal.close()
    foreign = odd_file(padding=b" " * 400).replace(b"value: 1", b"value: 8").replace(b"NIRC", b"MIRI")
    backend.write_at(0, foreign[:200] + b"#" + foreign[201:])
    backend.write_at(200, foreign[200:201])
    reader = open_in_folder(folder, NAME, writable=False)
    assert b"value: 8" in reader.tree.text()
    reader.close()


def test_regression_huge_shapes_broke_the_commit_after_it_was_made() -> None:
    _, document = opened(odd_file(padding=b" " * 9000))
    for shape in (b"9" * 4000, b", ".join([b"9" * 18] * 300)):
        document.commit_tree(document.tree.text().replace(b"shape: [25]", b"shape: [" + shape + b"]"))
        document.commit_tree(document.tree.text().replace(b"shape: [" + shape, b"shape: [25"))
    document.commit_tree(document.tree.text().replace(b"shape: [25]", b"shape: [" + b"9" * 18 + b", 9999]"))
    assert "more bytes than a file can have" in document.report.warnings[0]


def test_regression_sidecars_of_other_files_are_no_reason_not_to_open(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(odd_file())
    (tmp_path / ".dir.asdffs-journal").mkdir()
    os.mkfifo(tmp_path / ".fifo.asdffs-journal")
    (tmp_path / ".gone.asdffs-journal").symlink_to("nowhere")
    open_document(str(path), writable=True).close()


def test_regression_long_numbers_took_quadratic_time() -> None:
    _, document = opened(odd_file(padding=b" " * 400))
    document.commit_tree(grown(document).replace(b"long: x", b"long: " + b"1" * 400_000 + b"x"))
    assert document.tree.size > 400_000


def test_regression_file_without_end_marker_is_not_held_in_memory() -> None:
    """The scan keeps a window, whatever the size of the file."""
    head = b"#ASDF 1.0.0\n%YAML 1.1\n"
    asked = []

    def read_at(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        if offset >= 200 << 20:
            return b""  # the file became shorter meanwhile
        return (head if offset == 0 else b"").ljust(length, b"x")

    with pytest.raises(DamagedFileError, match="no end"):
        drive(scan_layout(100 << 20), read_at)
    with pytest.raises(DamagedFileError, match="became shorter"):
        drive(scan_layout(1 << 36), read_at)
    assert max(length for _, length in asked) <= 4 << 20


def test_regression_seek_past_the_end_of_a_stream_makes_a_hole() -> None:
    stream = header_bytes(b"", flags=1, md5=False) + MASK
    folder, document = opened(odd_file(blocks=[THREE[0], stream], index="absent"))
    steps = record(folder, lambda: document.blocks[1].write_at(50_000, b"end"))
    assert [len(event.details[1]) for event in steps if event.kind == "write"] == [3]
    assert document.blocks[1].read_at(49_990, 99) == bytes(10) + b"end"
    document.close()


def test_regression_a_full_spool_leaves_no_wrong_bytes(tmp_path: Path) -> None:
    """The piece that could not be kept was decoded already; the next try wrote the one after it in its place."""
    content = np.random.default_rng(3).integers(0, 50, 4 << 20).astype("u1")
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": content}).write_to(path, all_array_compression="zlib")
    document = open_document(str(path), writable=False, settings=Settings(spool=str(tmp_path)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((5 << 20) // 2, limits[1]))
        for _ in range(3):
            with pytest.raises(OSError, match="too large"):
                document.blocks[0].read_extent(0, 4 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert document.blocks[0].read_at(0, 4 << 20) == content.tobytes()
    document.close()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_regression_a_contradiction_made_a_right_index_wrong(number: int) -> None:
    blocks = [bytearray(block) for block in THREE]
    blocks[number][30:38] = struct.pack(">Q", 3)  # data_size differs from used_size
    folder, document = opened(odd_file(blocks=[bytes(block) for block in blocks]))
    document.table.verify_index()
    assert document.layout.index is not None
    assert not document.repair_index()
    document.commit_tree(grown(document))
    document.finish()
    document.close()
    again = opened(content(folder))[1]
    found = [finding.sentence for finding in check_document(again, deep=True)]
    assert not [sentence for sentence in found if "index" in sentence and number != 2]
    again.close()


def test_regression_an_array_with_a_colon_in_a_name() -> None:
    tree = (
        b"t: !core/ndarray-1.1.0 {source: 0, shape: [2], byteorder: big, datatype: [{name: 'a:b', datatype: int8}]}\n"
    )
    whole = odd_file(blocks=[block_bytes(b"\1\2")]).replace(b"value: 1\n", b"value: 1\n" + tree)
    _, document = opened(whole)
    assert document.arrays["t"][...]["a:b"].tolist() == [1, 2]
    document.close()


def test_regression_a_check_leaves_the_outline_whole(tmp_path: Path) -> None:
    """It reads only the entries with arrays, and other users of the same document need the scalars beside them."""
    lines = "".join(f"k{number}: {{a: 1}}\n" for number in range(20))
    path = tmp_path / "a.asdf"
    path.write_bytes(tree_file(f"{lines}meta: {{telescope: ROMAN}}\na: !core/ndarray-1.0.0 [1]\n", []))
    with closing(open_document(str(path), writable=False)) as document:
        whole = document.outlines.outline().root
        assert whole is not None
        assert [finding.sentence for finding in check_document(document, deep=False)] == []
        again = document.outlines.outline().root
        assert again is not None
        assert [*again.children] == [*whole.children] == ["meta", "a"]
        assert again.children["meta"].scalars == whole.children["meta"].scalars

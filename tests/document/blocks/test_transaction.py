"""How many bytes an edit writes, and what is left when writing fails at any step."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from support.crashes import record
from support.memory import MemoryFolder
from support.plans import scan
from support.samples import DATA, MASK, block_bytes, odd_file

from asdffs.document.document import Document
from asdffs.document.opening import open_in_folder
from asdffs.errors import AsdffsError, FailedFileError, StaleFileError

NAME = "f.asdf"
PADDED = odd_file(padding=b" " * 900)


def written(whole: bytes, work: Callable[[Document], None]) -> tuple[int, MemoryFolder]:
    """Bytes written into the file itself (not the journal) by ``work`` and ``finish``."""
    folder = MemoryFolder({NAME: whole})
    document = open_in_folder(folder, NAME, writable=True)

    def everything() -> None:
        work(document)
        document.finish()

    steps = record(folder, everything)
    document.close()
    return sum(len(e.details[1]) for e in steps if e.kind == "write" and e.name == NAME), folder


def edit(old: bytes, new: bytes) -> Callable[[Document], None]:
    return lambda d: d.commit_tree(d.tree.text().replace(old, new))


@pytest.mark.parametrize("blocks", [2, 200])
def test_an_edit_writes_what_changed_whatever_the_blocks(blocks: int) -> None:
    whole = odd_file(padding=b" " * 900, blocks=[block_bytes(DATA), block_bytes(MASK)] * (blocks // 2))
    assert written(whole, edit(b"value: 1", b"value: 2"))[0] == 1
    text = whole[: scan(whole).text_end]
    tail = len(text) - text.index(b"value: 1") - 7
    assert written(whole, edit(b"value: 1", b"value: 2345"))[0] == tail + 3
    assert written(whole, lambda d: None)[0] == 0
    assert written(whole, lambda d: d.commit_tree(d.tree.text()))[0] == 0


def test_a_block_write_writes_itself_and_two_checksums() -> None:
    count, folder = written(PADDED, lambda d: d.blocks[0].write_at(10, b"\xee" * 5))
    assert count <= 5 + 16 + 16
    assert bytes(folder.files[NAME].content) == odd_file(
        padding=b" " * 900, blocks=[block_bytes(DATA[:10] + b"\xee" * 5 + DATA[15:]), block_bytes(MASK)]
    )


def test_what_a_shorter_tree_leaves_is_blanked() -> None:
    for padding, fill in ((b" " * 50, b" "), (bytes(50), b"\0"), (b"", b" ")):
        _, folder = written(odd_file(padding=padding), edit(b"# a comment to keep\n", b""))
        layout = scan(bytes(folder.files[NAME].content))
        room = bytes(folder.files[NAME].content[layout.padding.start : layout.padding.stop])
        assert room == fill * 20 + padding


def test_nothing_is_written_over_a_foreign_change() -> None:
    folder = MemoryFolder({NAME: PADDED})
    document = open_in_folder(folder, NAME, writable=True)
    other = folder.open(NAME, writable=True)
    other.write_at(len(PADDED), b"\0")
    for work in (
        lambda: document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2")),
        lambda: document.blocks[0].write_at(0, b"x"),
    ):
        with pytest.raises(StaleFileError, match="another program"):
            work()
    assert bytes(folder.files[NAME].content) == PADDED + b"\0"


def test_regression_a_foreign_change_while_the_journal_is_written_is_seen() -> None:
    """Invariant 1: the signature is checked again when the record is durable."""
    folder = MemoryFolder({NAME: PADDED})
    document = open_in_folder(folder, NAME, writable=True)
    other = folder.open(NAME, writable=True)

    def step(kind: str, name: str, *details: object) -> None:
        if kind == "sync" and name != NAME:
            folder.step = lambda kind, name, *details: None
            other.write_at(len(PADDED), b"\0")

    folder.step = step
    with pytest.raises(StaleFileError, match="another program"):
        document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    assert bytes(folder.files[NAME].content) == PADDED + b"\0"


def test_content_is_durable_before_its_checksum() -> None:
    folder = MemoryFolder({NAME: PADDED})
    document = open_in_folder(folder, NAME, writable=True)
    document.blocks[0].write_at(10, b"\xee" * 5)
    steps = [(one.kind, one.name) for one in record(folder, document.finish)]
    document.close()
    assert steps[0] == ("sync", NAME)


WORK = {
    "fits": (PADDED, edit(b"value: 1", b"value: 2345")),
    "grows": (odd_file(), edit(b"value: 1", b"value: " + b"7" * 900)),
    "block": (PADDED, lambda d: d.blocks[1].write_at(3, b"\xee" * 30)),
    "last block": (PADDED, lambda d: d.blocks[1].write_at(30, b"\xee" * 300)),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failure_of_any_step_leaves_a_whole_file(name: str, code: int) -> None:
    """The one step fails once; then the mount goes on or is FAILED; the file is old or new after the next open."""
    whole, work = WORK[name]
    total = len(record(folder := MemoryFolder({NAME: whole}), lambda: run(folder, work)))
    old_text = whole[: scan(whole).text_end]
    new_text = bytes(folder.files[NAME].content[: scan(bytes(folder.files[NAME].content)).text_end])
    for number in range(total):
        folder = MemoryFolder({NAME: whole})
        folder.step = failing_at(number, code)
        try:
            run(folder, work)
        except (AsdffsError, OSError) as err:
            reason = err
        else:
            reason = None
        folder.step = lambda kind, name, *details: None
        for file in folder.files.values():
            file.holder = None  # the process is gone
        document = open_in_folder(folder, NAME, writable=True)
        assert document.tree.text() in (old_text, new_text)
        if reason is None:
            assert document.tree.text() == new_text
        document.close()
        assert sorted(folder.files) == [NAME]


def test_failed_state_is_sticky_and_reads_go_on() -> None:
    folder = MemoryFolder({NAME: PADDED})
    document = open_in_folder(folder, NAME, writable=True)

    def broken(kind: str, name: str, *details: object) -> None:
        if kind == "sync" and name == NAME:
            raise OSError(errno.EIO, "I/O error")

    folder.step = broken
    with pytest.raises(FailedFileError, match="nothing more is written"):
        document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    folder.step = lambda kind, name, *details: None
    for change in (
        lambda: document.blocks[0].write_at(0, b"x"),
        lambda: document.commit_tree(document.tree.text() + b"\n"),
        document.finish,
    ):
        with pytest.raises(FailedFileError):
            change()
    assert document.tree.text()
    document.close()
    assert len(folder.files) == 2, "the journal stays for recovery"
    document = open_in_folder(folder, NAME, writable=True)
    assert b"value: 2" in document.tree.text()
    assert "completed from the journal" in document.report.recovery
    document.close()


def run(folder: MemoryFolder, work: Callable[[Document], None]) -> None:
    document = open_in_folder(folder, NAME, writable=True)
    work(document)
    document.finish()
    document.close()


def failing_at(number: int, code: int) -> Callable[..., None]:
    count = iter(range(10**9))

    def step(kind: str, name: str, *details: object) -> None:
        if next(count) == number:
            raise OSError(code, "injected")

    return step

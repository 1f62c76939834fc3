"""A step of a change fails, or is interrupted, and the process lives: what it shows, and what is left.

One step fails once, or every step from one on; with ENOSPC, EIO, or an exception that is no refusal.
What can still be read is the old or the new file, never a mixture; after the next open it is whole.
"""

from __future__ import annotations

import errno
import functools
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.test_simulated import Case, check, check_block, copied
from support.changes import CHANGES, NAME, Promising, replace_tree
from support.contents import shown
from support.crashes import Crash, record
from support.filesystems import filesystem
from support.memory import MemoryFolder
from support.mounts import run
from support.samples import DATA, MASK, block_bytes, header_bytes, odd_file, put

from asdffs.document.opening import Settings, open_document, open_in_folder
from asdffs.errors import AsdffsError, DamagedBlockError, NoRoomError

STREAMED = odd_file(blocks=[block_bytes(DATA), header_bytes(b"", flags=1, md5=False) + MASK], index="absent")
CHOSEN = [name for name in CHANGES if "content" not in name]
FAULTS: dict[str, Callable[[], BaseException]] = {
    "ENOSPC": lambda: OSError(errno.ENOSPC, "injected"),
    "EIO": lambda: OSError(errno.EIO, "injected"),
    "interrupt": KeyboardInterrupt,
    "no memory": MemoryError,
}


def failing(number: int, fault: Callable[[], BaseException], *, for_good: bool) -> Callable[..., None]:
    """A hook that fails at step ``number``, and with ``for_good`` at every later one."""
    count = 0

    def step(kind: str, name: str, *details: object) -> None:
        nonlocal count
        if kind in ("promise", "version"):
            return
        count += 1
        if count == number + 1 or (for_good and count > number):
            raise fault()

    return step


@pytest.mark.sampled(12)
@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", CHOSEN)
def test_any_step_fails(name: str, fault: str, for_good: bool) -> None:
    change = CHANGES[name]
    case = case_of(name)
    steps = [event.kind for event in case.events if event.kind not in ("promise", "version")]
    for number in range(len(steps)):
        folder = copied(case.origin)
        folder.step = failing(number, FAULTS[fault], for_good=for_good)
        document = None
        try:
            document = open_in_folder(folder, NAME, writable=True, settings=change.settings)
            change.work(Promising(folder, document))
            document.finish()
            failed = False
        except (AsdffsError, OSError, KeyboardInterrupt, MemoryError):
            failed = True
        folder.step = lambda kind, name, *details: None
        if document is not None:
            check_shown(case, *shown(document))
            document.close()
        assert failed or not for_good or set(steps[number:]) == {"remove"}, "only sidecars are removed after the work"
        for file in folder.files.values():
            file.holder = None  # the process is gone
        if case.is_new(folder, {}):
            check(folder, case, {})


@functools.cache
def case_of(name: str) -> Case:
    """One for all faults: an image of the disk that one of them left needs no second look after another."""
    return Case.of(CHANGES[name])


def check_shown(case: Case, text: bytes, blocks: list[bytes]) -> None:
    """A reader of the process that goes on sees one of the versions, blocks in part written through."""
    assert text in [version[0] for version in case.versions]
    for number, now in enumerate(blocks):
        check_block([version[1][number] for version in case.versions if number < len(version[1])], now)


def grow_again(folder: MemoryFolder, settings: Settings) -> list[bytes]:
    document = open_in_folder(folder, NAME, writable=True, settings=settings)
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: " + b"1" * 700))
    blocks = shown(document)[1]
    document.close()
    return blocks


def test_regression_recovery_of_a_growth_damaged_a_backup_put_back_in_place() -> None:
    change = CHANGES["tree, grows by insert"]
    total = len(record(folder := MemoryFolder({NAME: change.start}), lambda: change.run(folder)))
    for stop in range(total):
        folder = MemoryFolder({NAME: change.start})
        record(folder, lambda f=folder: change.run(f), stop=stop)
        other = folder.open(NAME, writable=True)
        other.truncate(0)
        other.write_at(0, change.start)
        for file in folder.files.values():
            file.holder = None
        document = open_in_folder(folder, NAME, writable=True)
        assert shown(document)[1] == [DATA * 20, MASK * 30]
        document.close()
    assert issubclass(Crash, BaseException)


def test_regression_a_lying_index_sent_a_write_to_another_block() -> None:
    blocks = [block_bytes(bytes([65 + n]) * 100) for n in range(6)]
    whole = odd_file(blocks=blocks, index="absent")
    starts = [whole.index(block) for block in blocks]
    lies = [starts[0], starts[1], starts[1] + 60, starts[4], starts[5]]
    index = b"#ASDF BLOCK INDEX\n%YAML 1.1\n---\n" + b"".join(b"- %d\n" % n for n in lies) + b"...\n"
    folder = MemoryFolder({NAME: whole + index})
    document = open_in_folder(folder, NAME, writable=True)
    before = document.blocks[3].read_at(0, 100)
    with pytest.raises((NoRoomError, DamagedBlockError)):
        document.blocks[3].write_at(100, b"x" * 5000)
    document.blocks[3].write_at(0, b"new")
    document.close()
    assert b"new" + before[3:] in bytes(folder.files[NAME].content)


def test_regression_a_block_without_checksum_that_only_shrank_kept_its_size() -> None:
    folder = MemoryFolder({NAME: odd_file(blocks=[block_bytes(DATA, md5=False), block_bytes(MASK)])})
    document = open_in_folder(folder, NAME, writable=True)
    document.blocks[0].truncate(8)
    document.finish()
    document.close()
    assert grow_again(folder, Settings())[0] == DATA[:8]


def test_regression_a_partial_append_to_a_stream_made_later_saves_stale(tmp_path: Path) -> None:
    path = put(tmp_path, STREAMED)
    size = path.stat().st_size
    document = open_document(str(path), writable=True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2000, limits[1]))
        with pytest.raises(OSError, match="too large"):
            document.blocks[1].write_at(40, b"s" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert document.blocks[1].size == 2040
    document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2"))
    document.close()
    assert path.read_bytes().endswith(MASK + b"s" * 2000)


def interrupted_insertion(path: Path) -> None:
    """A process that appends to a stream, grows the tree, and dies when the range is inserted."""
    code = f"""
import os
from asdffs.document.opening import Settings, open_document
from asdffs.storage.file_backend import FileBackend
document = open_document({str(path)!r}, writable=True, settings=Settings(growth="insert"))
document.blocks[1].write_at(40, b"s" * 300_000)
insert = FileBackend.insert_range
FileBackend.insert_range = lambda *arguments: (insert(*arguments), os._exit(7))
document.commit_tree(document.tree.text().replace(b"value: 1", b"value: 2\\nlong: " + b"x" * 9000))
"""

    assert (
        run(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}).returncode
        == 7
    )


@pytest.mark.long
def test_regression_room_behind_the_end_was_missed_after_a_reboot(tmp_path: Path) -> None:
    """XFS reserves some while a file is appended to, and gives it up when it forgets the file."""
    with filesystem("xfs", tmp_path) as place:
        path = put(place, STREAMED)
        interrupted_insertion(path)
        assert run("umount", place).returncode == 0
        assert run("mount", "-o", "loop", tmp_path / "xfs.image", place).returncode == 0
        for writable in (False, True):
            document = open_document(str(path), writable=writable)
            assert shown(document)[1] == [DATA, MASK + b"s" * 300_000]
            document.close()


@pytest.mark.long
def test_regression_a_file_that_shares_bytes_is_not_grown_by_insertion(tmp_path: Path) -> None:
    """What is written into shared bytes gets another address, and recovery would miss the old one."""
    with filesystem("xfs", tmp_path) as place:
        path = put(place, odd_file())
        assert run("cp", "--reflink=always", path, place / "copy").returncode == 0
        os.link(path, place / "other")
        document = open_document(str(path), writable=True, settings=Settings(growth="insert"))
        with pytest.raises(NoRoomError, match="shares bytes"):
            replace_tree(b"value: 1", b"value: 2\nlong: " + b"x" * 9000)(document)
        document.close()
        document = open_document(str(path), writable=True)
        with pytest.raises(NoRoomError, match="clone: it has several names.*shares bytes.*by repack"):
            replace_tree(b"value: 1", b"value: 2\nlong: " + b"x" * 9000)(document)
        (place / "other").unlink()
        replace_tree(b"value: 1", b"value: 2\nlong: " + b"x" * 9000)(document)
        assert document.growth == "clone"
        assert shown(document)[1] == [DATA, MASK]
        document.close()

"""Old bytes of blocks that are kept with ``undo=SIZE``, and taken back."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest

import asdffs
from asdffs.document.block import Block
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import AsdffsError, MissingValueError, NotPermittedError, RecoveryError, UntrustedFileError
from asdffs.scheduling import SerialCalls
from asdffs.storage.file_backend import FileBackend
from asdffs.storage.old_bytes import _CRC, _RECORD
from asdffs.workflows.undoing import take_back

ROOM = 64 << 20


def write(path: Path, compression: str | None = None) -> Path:
    rng = np.random.default_rng(1)
    tree = {"a": rng.integers(0, 50, 300_000, "u1"), "b": rng.integers(0, 50, 70_000, "u1"), "c": np.arange(10)}
    path.parent.mkdir(exist_ok=True)
    asdf.AsdfFile(tree).write_to(path, all_array_compression=compression)
    return path


def session(path: Path, room: int = ROOM) -> Document:
    return open_document(str(path), writable=True, settings=Settings(undo=room))


@contextlib.contextmanager
def writing(path: Path, room: int = ROOM) -> Iterator[Document]:
    """A session that ends as a mount does."""
    document = session(path, room)
    yield document
    document.finish()
    document.close()


def contents(path: Path) -> list[bytes]:
    with asdffs.open(path) as document:
        return [block.read_at(0, block.size) for block in document.blocks]


def undo(path: Path, *, dry_run: bool = False) -> tuple[int, int, int]:
    with asdffs.open(path, "r+") as document:
        return take_back(document, dry_run=dry_run)


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_are_taken_back_session_by_session(seed: int, tmp_path: Path) -> None:
    """Against copies of the contents: writes, cuts, growth, whole contents, of blocks compressed or not."""
    chance = random.Random(seed)
    path = write(tmp_path / "a.asdf", [None, "zlib", "lz4"][seed % 3])
    known = [contents(path)]
    for _ in range(chance.randint(1, 3)):
        document = session(path)
        for _ in range(chance.randint(1, 12)):
            block = document.blocks[chance.randrange(3)]
            kind = chance.random()
            if kind < 0.7:
                offset = chance.randrange(block.size + 1000)
                block.write_at(offset, chance.randbytes(chance.choice([1, 100, 4096, 200_000])))
            elif kind < 0.85:
                block.truncate(chance.randrange(block.size + 1000))
            else:
                block.replace(chance.randbytes(chance.choice([0, 10, 100_000])))
            if chance.random() < 0.2:
                with document.edit():
                    document.values["note"] = "x" * chance.choice([1, 5000])
            if chance.random() < 0.3:
                block.flush(durable=True)
        document.finish()
        document.close()
        known.append(contents(path))
    known.pop()
    while known:
        undo(path)
        assert contents(path) == known.pop()
        with asdf.open(path) as found:
            assert found["a"].shape == (300_000,) or known
    assert not (tmp_path / "a.asdf.undo").exists()
    with pytest.raises(MissingValueError, match="there are no old bytes of it, in a.asdf.undo"):
        undo(path)


def test_a_session_that_was_killed_is_taken_back(tmp_path: Path) -> None:
    """Every cut of its record: what is behind the last whole record was not changed yet."""
    path = write(tmp_path / "a.asdf")
    before = contents(path)
    document = session(path)
    document.blocks[0].write_at(5, b"\xff" * 100)
    document.blocks[1].write_at(0, b"\xff" * 70_000)
    document.finish()
    document.contents.keeper = None  # nothing is said at the end
    document.close()
    (record,) = (tmp_path / "a.asdf.undo").iterdir()
    raw = record.read_bytes()
    record.write_bytes(raw + b"half of a record")
    assert undo(path) == (2, 65_536 + 70_000, 0)
    assert contents(path) == before


def test_what_was_changed_again_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    with writing(path) as document:
        document.arrays["a"][7] = 99
    with asdffs.open(path, "r+") as later:
        later.arrays["a"][8] = 77
    changed = contents(path)
    with pytest.raises(NotPermittedError, match="block 0: bytes 0 to 65536 of it were changed again after"):
        undo(path)
    assert contents(path) == changed
    with asdffs.open(path, "r+") as later:  # elsewhere it does not matter
        later.arrays["b"][0] = 1


def test_no_more_room(tmp_path: Path) -> None:
    """Old sessions go first; then changes go on, and undo refuses."""
    path = write(tmp_path / "a.asdf")
    for _ in range(3):
        document = session(path, 150_000)
        document.blocks[0].write_at(0, os.urandom(10))
        document.finish()
        document.close()
    assert len(list((tmp_path / "a.asdf.undo").iterdir())) == 2
    document = session(path, 150_000)
    document.blocks[0].write_at(0, os.urandom(300_000))
    assert document.contents.keeper.facts()["full"]
    document.finish()
    document.close()
    with pytest.raises(NotPermittedError, match="there was no more room"):
        undo(path)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    with writing(path) as document:
        document.blocks[2].write_at(0, b"\xff")
    raw = path.read_bytes()
    assert undo(path, dry_run=True) == (1, 80, 0)
    assert path.read_bytes() == raw
    assert undo(path) == (1, 80, 0)


def test_the_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a.asdf.undo").symlink_to("elsewhere")
    document = session(path)
    with pytest.raises(UntrustedFileError, match="is not a directory of your own"):
        document.blocks[0].write_at(0, b"x")
    document.close()
    assert contents(path) == contents(write(tmp_path / "b.asdf"))


def test_without_a_change_nothing_is_beside_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    document = session(path)
    with document.edit():
        document.values["note"] = "x" * 5000
    document.finish()
    document.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.asdf"]


def changed_later(path: Path, number: int, offset: int, raw: bytes) -> None:
    with asdffs.open(path, "r+") as later:
        later.blocks[number].write_at(offset, raw)


@pytest.mark.parametrize(
    ("change", "offset"), [(lambda block: block.truncate(20_000), 25_000), (lambda block: block.truncate(10), 50)]
)
def test_regression_bytes_that_were_added_later_were_lost(
    change: Callable[[Block], None], offset: int, tmp_path: Path
) -> None:
    """Behind the end that a session has left, where nothing was kept."""
    path = write(tmp_path / "a.asdf")
    with writing(path) as document:
        change(document.blocks[2])
    changed_later(path, 2, offset, b"typed")
    kept = contents(path)
    with pytest.raises(NotPermittedError, match="block 2: its size was changed again"):
        undo(path)
    assert contents(path) == kept


def test_regression_changes_after_a_kill_were_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    document = session(path)
    document.blocks[0].write_at(0, b"session")
    document.finish()
    document.contents.keeper = None
    document.close()
    changed_later(path, 0, 10, b"later")
    with pytest.raises(NotPermittedError, match="changed again after the session"):
        undo(path)


def test_regression_several_threads_wrote_over_the_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    path = tmp_path / "a.asdf"
    asdf.AsdfFile({f"a{n}": rng.integers(0, 99, 40 * 65_536, "u1") for n in range(4)}).write_to(path)
    before = contents(path)
    document = open_document(str(path), writable=True, settings=Settings(undo=ROOM, scheduler=SerialCalls()))

    def work(number: int) -> None:
        for piece in range(40):
            document.blocks[number].write_at(piece * 65_536, b"changed")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    document.finish()
    document.close()
    assert undo(path)[:2] == (4, 4 * 40 * 65_536)
    assert contents(path) == before


@pytest.mark.parametrize("crash", range(1, 9))
def test_regression_an_interrupted_undo_could_not_go_on(
    crash: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write: also one that has written half of its piece."""
    path = write(tmp_path / "a.asdf")
    before = contents(path)
    with writing(path) as document:
        document.blocks[0].truncate(0)
        document.blocks[0].write_at(0, b"B" * 100_000)
        document.blocks[1].write_at(0, b"C" * 70_000)
    write_at, calls = Block.write_at, []

    def failing(block: Block, offset: int, payload: bytes) -> None:
        calls.append(offset)
        if len(calls) == crash:
            write_at(block, offset, payload[:4096])
            raise OSError(5, "crash")
        write_at(block, offset, payload)

    monkeypatch.setattr(Block, "write_at", failing)
    if crash <= 7:
        with pytest.raises(OSError, match="crash"):
            undo(path)
        monkeypatch.undo()
    undo(path)
    assert contents(path) == before


def test_a_new_block_is_nobodys_old_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    before = contents(path)
    document = session(path, 1 << 20)
    new = document.blocks.append()
    new.write_at(0, bytes(3 << 20))
    document.blocks[0].write_at(0, b"x")
    assert not document.contents.keeper.facts()["full"]
    document.finish()
    document.close()
    undo(path)
    assert contents(path)[:3] == before


def test_a_disk_that_is_full_leaves_no_empty_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.asdf")
    with writing(path) as document:
        document.blocks[0].write_at(0, b"first")
    (tmp_path / "a.asdf.undo/000002").write_bytes(b'{"asdf')  # as a crash leaves it
    before = contents(path)
    document = session(path)
    monkeypatch.setattr(FileBackend, "sync", lambda own: (_ for _ in ()).throw(OSError(28, "full")))
    for _ in range(3):
        with pytest.raises(OSError, match="full"):
            document.blocks[1].write_at(0, b"x")
    monkeypatch.undo()
    document.close()
    assert contents(path) == before
    assert undo(path)[0] == 1
    assert not (tmp_path / "a.asdf.undo").exists()


@pytest.mark.parametrize(
    "head", [b'{"blocks": 1e999}\n', b'{"blocks": -1}\n', b"[]\n", b'{"blocks": 3}\n' + bytes(200)]
)
@pytest.mark.parametrize("record", [(1, 7, 0, 0), (2, 0, 5, 0), (5, 0, 0, 1 << 31), (1, 0, 1 << 63, 0), (9, 0, 0, 0)])
def test_hostile_records_are_a_sentence(head: bytes, record: tuple[int, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    before = contents(path)
    (tmp_path / "a.asdf.undo").mkdir()
    fields = _RECORD.pack(*record, 0)
    (tmp_path / "a.asdf.undo/000001").write_bytes(head + (fields + _CRC.pack(zlib.crc32(fields))) * 5)
    with contextlib.suppress(AsdffsError):
        undo(path)
    assert contents(path) == before


def test_a_damaged_block_can_be_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf", "zlib")
    with asdffs.open(path) as document:
        place = document.blocks[1].offset + document.blocks[1].header.full_size
    raw = bytearray(path.read_bytes())
    raw[place : place + 20] = bytes(20)
    path.write_bytes(raw)
    with writing(path) as document:
        document.blocks[1].replace(b"new")
    with pytest.raises(NotPermittedError, match="block 1: its old bytes could not be read"):
        undo(path)


def test_another_program_ends_the_session(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    document = session(path)
    document.blocks[0].write_at(0, b"mine")
    document.finish()
    raw = bytearray(path.read_bytes())
    raw[-500] ^= 1
    path.write_bytes(raw)
    document.close()
    with pytest.raises(NotPermittedError, match="another program changed the file during the session"):
        undo(path)


def at_every_write(
    folder: Path, copies: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
) -> list[Path]:
    """Do ``work``, and return a copy of ``folder`` as it was before and after each write into a file of it."""
    taken: list[Path] = []

    def copied(method: Callable[..., object]) -> Callable[..., object]:
        def call(*words: object) -> object:
            for late in (False, True):
                found = method(*words) if late else None
                taken.append(copies / str(len(taken)))
                shutil.copytree(folder, taken[-1])
            return found

        return call

    for name in ("write_at", "truncate"):
        monkeypatch.setattr(FileBackend, name, copied(getattr(FileBackend, name)))
    work()
    monkeypatch.undo()
    return taken


def put_back(copy: Path, folder: Path) -> None:
    """Make ``folder`` as it was when the copy was made; the ASDF file stays the same file."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.suffix != ".asdf":
            entry.unlink()
    shutil.copytree(copy, folder, dirs_exist_ok=True)


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_killed_at_every_write(compression: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a session, and of its undo: what is there then can be taken back, and was nothing if no record is there."""
    path = write(tmp_path / "here/a.asdf", compression)
    before = contents(path)

    def change() -> None:
        with writing(path) as document:
            document.blocks[0].write_at(70_000, b"x" * 100_000)
            document.blocks[1].truncate(100)
            document.blocks[1].write_at(50, b"y" * 9000)
            document.blocks[2].write_at(500, b"z")

    copies = at_every_write(path.parent, tmp_path / "session", monkeypatch, change)
    copies += at_every_write(path.parent, tmp_path / "undo", monkeypatch, lambda: undo(path))
    assert len(copies) > 100
    lost = 0
    for copy in copies:
        put_back(copy, path.parent)
        try:
            undo(path)
        except MissingValueError:
            pass  # nothing was changed yet, or all was taken back
        except RecoveryError:
            lost += 1  # a payload of the journal is known by its inode, which a copy does not have
            continue
        assert contents(path) == before
        assert [*path.parent.glob("a.asdf.undo/*")] == []
    assert lost < len(copies) // 5


def test_changes_after_an_interrupted_undo_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "here/a.asdf")
    with writing(path) as document:
        document.blocks[0].write_at(0, b"B" * 200_000)
    copies = at_every_write(path.parent, tmp_path / "undo", monkeypatch, lambda: undo(path))
    put_back(copies[len(copies) // 2], path.parent)
    changed_later(path, 0, 5, b"typed")
    with pytest.raises(NotPermittedError, match="block 0: bytes 0 to 65536 of it were changed again"):
        undo(path)
    assert contents(path)[0][5:10] == b"typed"


def test_another_file_of_the_same_name_is_not_that_of_a_killed_session(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    document = session(path)
    document.blocks[0].write_at(0, b"mine")
    document.contents.keeper = None
    document.close()
    write(tmp_path / "new.asdf").replace(path)
    before = contents(path)
    with pytest.raises(NotPermittedError, match="another program changed the file"):
        undo(path)
    assert contents(path) == before


def test_an_open_for_writing_reads_no_record_that_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.asdf")
    with writing(path) as document:
        document.blocks[0].write_at(0, b"x" * 200_000)
    reads: list[int] = []
    read_at = FileBackend.read_at

    def counted(backend: FileBackend, offset: int, length: int) -> bytes:
        if backend.name.isdecimal():
            reads.append(length)
        return read_at(backend, offset, length)

    monkeypatch.setattr(FileBackend, "read_at", counted)
    asdffs.open(path, "r+").close()
    assert sum(reads) < 200

"""Old bytes of blocks that are kept with ``undo=SIZE``, and taken back."""

from __future__ import annotations

import os
import random
from pathlib import Path

import asdf
import numpy as np
import pytest

import asdffs
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import MissingValueError, NotPermittedError, UntrustedFileError
from asdffs.storage.old_bytes import Session
from asdffs.workflows.undoing import take_back

ROOM = 64 << 20


def write(path: Path, compression: str | None = None) -> Path:
    rng = np.random.default_rng(1)
    tree = {"a": rng.integers(0, 50, 300_000, "u1"), "b": rng.integers(0, 50, 70_000, "u1"), "c": np.arange(10)}
    asdf.AsdfFile(tree).write_to(path, all_array_compression=compression)
    return path


def session(path: Path, room: int = ROOM) -> Document:
    return open_document(str(path), writable=True, settings=Settings(undo=room))


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
    document._keeper = None
    document.contents.keeper = None  # nothing is said at the end
    document.close()
    (record,) = (tmp_path / "a.asdf.undo").iterdir()
    raw = record.read_bytes()
    record.write_bytes(raw + b"half of a record")
    assert undo(path) == (2, 65_536 + 70_000, 0)
    assert contents(path) == before


def test_what_was_changed_again_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "a.asdf")
    document = session(path)
    document.arrays["a"][7] = 99
    document.finish()
    document.close()
    with asdffs.open(path, "r+") as later:
        later.arrays["a"][8] = 77
    changed = contents(path)
    with pytest.raises(NotPermittedError, match="block 0: bytes 0 to 65536 of it were changed again after"):
        undo(path)
    assert contents(path) == changed
    with asdffs.open(path, "r+") as later:  # elsewhere it does not matter
        later.arrays["b"][0] = 1


def test_a_crash_of_undo_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.asdf")
    before = contents(path)
    document = session(path)
    document.blocks[0].write_at(0, b"\xff" * 200_000)
    document.finish()
    document.close()
    read, calls = Session.bytes_of, []

    def failing(own: Session, old: object) -> bytes:
        calls.append(old)
        if len(calls) == 6:  # of the second half: records are checked first
            raise OSError(5, "crash")
        return read(own, old)

    monkeypatch.setattr(Session, "bytes_of", failing)
    with pytest.raises(OSError, match="crash"):
        undo(path)
    monkeypatch.undo()
    assert contents(path) != before
    undo(path)
    assert contents(path) == before


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
    document = session(path)
    document.blocks[2].write_at(0, b"\xff")
    document.finish()
    document.close()
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

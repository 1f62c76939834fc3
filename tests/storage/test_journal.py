from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.memory import MemoryFolder

from asdffs.errors import LockedError, RecoveryError
from asdffs.format.plan import Plan, Write
from asdffs.storage.file_backend import FileBackend, FileFolder
from asdffs.storage.journal import Journal
from asdffs.storage.lock import read_owner
from asdffs.storage.record import Gap, Kind, RecordImage, make_record
from asdffs.storage.recovery import recover
from asdffs.storage.sidecars import journal_name, temporary_prefix
from asdffs.storage.unfinished import apply, as_recovered, belongs, undo

OLD = bytes(range(256)) * 40
PLAN = Plan(
    len(OLD),
    len(OLD) + 50,
    (Write(10, b"hello"), Write(5000, b"x" * 600), Write(len(OLD), b"tail" * 12)),
    steady=5000,
)


def make() -> tuple[MemoryFolder, Journal]:
    folder = MemoryFolder({"f": OLD})
    return folder, Journal.open(folder, "f")


def test_record_round_trip() -> None:
    folder, journal = make()
    record = make_record(folder.open("f", writable=True), PLAN)
    assert record.images[0].before == OLD[10:15]
    assert record.images[2].before == b""
    assert record.witness_length > 0
    journal.write(record)
    assert journal.pending() == record
    journal.retire()
    assert journal.pending() is None


@pytest.mark.parametrize(
    "numbers",
    [
        {"witness_length": 1 << 60},
        {"witness_offset": 1 << 63},
        {"new_size": 1 << 63},
        {"images": (RecordImage(1 << 63, b"", b"x"),)},
        {"gap": Gap(Kind.INSERT, 10, 1 << 63)},
    ],
)
def test_regression_impossible_numbers_are_no_record(numbers: dict[str, Any]) -> None:
    """The checksum is right.  They took all memory, or recovery moved nothing for ever."""
    folder, journal = make()
    journal.write(make_record(folder.open("f", writable=True), PLAN)._replace(**numbers))
    assert journal.pending() is None


@pytest.mark.parametrize("place", [4096, 4104, 4112, 4130, 4800])
def test_torn_record_is_no_record(place: int) -> None:
    folder, journal = make()
    journal.write(make_record(folder.open("f", writable=True), PLAN))
    sidecar = folder.open(journal_name("f"), writable=True)
    sidecar.write_at(place, bytes([sidecar.read_at(place, 1)[0] ^ 1]))
    assert journal.pending() is None


def test_undo_and_apply_are_inverse() -> None:
    folder, _ = make()
    backend = folder.open("f", writable=True)
    record = make_record(backend, PLAN)
    apply(backend, record.images, record.new_size)
    assert backend.size() == PLAN.new_size
    new = backend.read_at(0, backend.size())
    apply(backend, record.images, record.new_size)
    assert backend.read_at(0, backend.size()) == new
    undo(backend, record.images, record.old_size)
    assert backend.read_at(0, backend.size()) == OLD


def test_overlay_shows_what_recovery_will_make() -> None:
    folder, _ = make()
    backend = folder.open("f", writable=True)
    record = make_record(backend, PLAN)
    overlay = as_recovered(backend, record).backend
    shown = overlay.read_at(0, overlay.size())
    assert overlay.read_at(8, 9) == shown[8:17]
    assert overlay.extent(5590, 20) == shown[5590:5610]
    assert backend.read_at(0, backend.size()) == OLD
    apply(backend, record.images, record.new_size)
    assert backend.read_at(0, backend.size()) == shown


def test_foreign_change_sets_the_record_aside() -> None:
    folder, journal = make()
    backend = folder.open("f", writable=True)
    record = make_record(backend, PLAN)
    journal.write(record)
    assert belongs(backend, record)
    backend.write_at(12, b"?")
    assert not belongs(backend, record)
    before = backend.read_at(0, backend.size())
    sentence = recover(folder, backend, journal)
    assert "set aside" in sentence
    assert "orphan-1" in sentence
    assert backend.read_at(0, backend.size()) == before
    assert [name for name in folder.names() if "orphan" in name]


def test_a_growth_by_copying_within_the_file_is_refused() -> None:
    """Earlier versions had it: the file is neither the old nor the new one, and only they can complete it."""
    folder, journal = make()
    backend = folder.open("f", writable=True)
    record = make_record(backend, PLAN)._replace(gap=Gap(Kind.SHIFT, 4096, 50))
    journal.write(record)
    backend.write_at(4146, OLD[4096:4200])
    before = backend.read_at(0, backend.size())
    with pytest.raises(RecoveryError, match="earlier version"):
        recover(folder, backend, journal)
    with pytest.raises(RecoveryError, match="earlier version"):
        as_recovered(backend, record)
    assert journal.pending() == record
    assert backend.read_at(0, backend.size()) == before


def test_other_inode_or_size_does_not_belong() -> None:
    folder, _ = make()
    backend = folder.open("f", writable=True)
    record = make_record(backend, PLAN)
    backend.truncate(len(OLD) - 1)
    assert not belongs(backend, record)
    other = MemoryFolder({"f": OLD}).open("f", writable=True)
    assert not belongs(other, record)


def test_temporaries_of_a_cut_growth_are_removed() -> None:
    folder, journal = make()
    folder.open(temporary_prefix("f") + "0.tmp", writable=True, create=True)
    folder.open(temporary_prefix("g") + "0.tmp", writable=True, create=True)
    assert recover(folder, folder.open("f", writable=True), journal) == ""
    assert temporary_prefix("f") + "0.tmp" not in folder.names()
    assert temporary_prefix("g") + "0.tmp" in folder.names()


def test_owner_note() -> None:
    folder, journal = make()
    assert read_owner(folder, "g") == {}
    assert read_owner(folder, "f") == {}
    journal.note_owner({"pid": 7, "state": "serving"})
    journal.write(make_record(folder.open("f", writable=True), PLAN))
    assert read_owner(folder, "f") == {"pid": 7, "state": "serving"}


def test_the_name_comes_with_the_first_record_and_is_durable_before_it() -> None:
    folder = MemoryFolder({"f": OLD})
    steps: list[tuple[str, str]] = []
    folder.step = lambda kind, name, *details: steps.append((kind, name))
    journal = Journal.open(folder, "f")
    journal.reserve(10_000)
    assert folder.names() == ["f"]
    name = journal_name("f")
    for number in range(2):
        steps.clear()
        journal.write(make_record(folder.open("f", writable=True), PLAN))
        named = [("replace", name), ("syncdir", "")] * (not number)
        assert steps == [*named, ("write", name), ("sync", name)]
    journal.discard()
    assert folder.names() == ["f"]


@pytest.fixture(params=["here", "elsewhere"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> FileFolder:
    """Return a folder with a file; ``elsewhere``: its file system has no files without a name, as NFS."""
    (tmp_path / "f").write_bytes(OLD)
    return FileFolder(str(tmp_path)) if request.param == "here" else WithoutUnnamed(str(tmp_path))


class WithoutUnnamed(FileFolder):
    def open_unnamed(self) -> FileBackend:
        return FileFolder("/dev/shm").open_unnamed()  # on another file system


def test_regression_an_open_file_that_is_only_read_leaves_its_directory_alone(folder: FileFolder) -> None:
    backend = folder.open("f", writable=True)
    assert folder.lock(backend)
    before = os.stat(folder.directory)
    journal = Journal.open(folder, "f")
    journal.reserve(10_000)
    now = backend.signature()
    note = {"pid": os.getpid(), "program": "x", "device": now.device, "inode": now.inode}
    journal.note_owner(note)
    assert folder.names() == ["f"]
    assert os.stat(folder.directory).st_mtime_ns == before.st_mtime_ns
    assert read_owner(folder, "f") == note
    record = make_record(backend, PLAN)
    journal.write(record)
    assert sorted(folder.names()) == [journal_name("f"), "f"]
    assert read_owner(folder, "f") == note
    assert journal.pending() == record
    assert not folder.lock(folder.open(journal_name("f"), writable=True))
    assert os.stat(folder.path(journal_name("f"))).st_mode & 0o777 == 0o600
    journal.discard()
    backend.close()
    assert folder.names() == ["f"]
    assert read_owner(folder, "f") == {}


def test_a_sidecar_that_came_meanwhile_is_not_used(folder: FileFolder) -> None:
    journal = Journal.open(folder, "f")
    with open(folder.path(journal_name("f")), "wb") as planted:
        planted.write(bytes(5000))
    backend = folder.open("f", writable=True)
    with pytest.raises(LockedError):
        journal.write(make_record(backend, PLAN))
    journal.discard()
    assert os.path.getsize(folder.path(journal_name("f"))) == 5000


def test_names_of_sidecars_fit() -> None:
    assert journal_name("data.asdf") == ".data.asdf.asdffs-journal"
    assert len(journal_name("x" * 255)) <= 255
    assert len(temporary_prefix("x" * 255)) < 60

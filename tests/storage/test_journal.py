from __future__ import annotations

import pytest

from asdffs.format.plan import Plan, Write
from asdffs.storage.journal import Journal, read_owner
from asdffs.storage.journal_name import journal_name
from asdffs.storage.memory_backend import MemoryFolder
from asdffs.storage.payload import temporary_prefix
from asdffs.storage.record import make_record
from asdffs.storage.recovery import Outcome, recover
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
    overlay = as_recovered(backend, record, None).backend
    shown = overlay.read_at(0, overlay.size())
    assert overlay.read_at(8, 9) == shown[8:17]
    assert overlay.extent(5590, 20) == shown[5590:5610]
    assert not overlay.writable
    with pytest.raises(OSError, match="."):
        overlay.write_at(0, b"")
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
    outcome, sentence = recover(folder, backend, journal)
    assert outcome is Outcome.SET_ASIDE
    assert "orphan-1" in sentence
    assert backend.read_at(0, backend.size()) == before
    assert [name for name in folder.names() if "orphan" in name]


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
    assert recover(folder, folder.open("f", writable=True), journal)[0] is Outcome.CLEAN
    assert temporary_prefix("f") + "0.tmp" not in folder.names()
    assert temporary_prefix("g") + "0.tmp" in folder.names()


def test_owner_note() -> None:
    folder, journal = make()
    assert read_owner(folder, "g") == {}
    assert read_owner(folder, "f") == {}
    journal.note_owner({"pid": 7, "state": "serving"})
    assert read_owner(folder, "f") == {"pid": 7, "state": "serving"}


def test_names_of_sidecars_fit() -> None:
    assert journal_name("data.asdf") == ".data.asdf.asdffs-journal"
    assert len(journal_name("x" * 255)) <= 255
    assert len(temporary_prefix("x" * 255)) < 60

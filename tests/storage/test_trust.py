"""A journal or a payload that another user put beside a file is not obeyed, whatever it says."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import asdffs, environment_in

import asdffs as library
from asdffs.errors import UntrustedFileError
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.journal import read_record
from asdffs.storage.lock import read_owner
from asdffs.storage.record import Fill, Record, RecordImage, build
from asdffs.storage.sidecars import check_trusted, is_payload_name, is_trusted, journal_name

NAME = "data.asdf"
SIDECAR = journal_name(NAME)
OTHER = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to other users needs root")


def plant(folder: Path, record: Record) -> Path:
    """A journal with ``record`` that is whole."""
    body = b"".join(build(record))
    mark = struct.pack(">8sQI", b"ASDFFSJ3", len(body), zlib.crc32(body))
    sidecar = folder / SIDECAR
    sidecar.write_bytes(b'{"pid": 1, "state": "finishing"}'.ljust(4096) + mark + body)
    sidecar.chmod(0o600)
    return sidecar


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(tree_file("value: 1111\n", []))
    path.chmod(0o644)
    return path


def change_of(path: Path) -> Record:
    """1111 becomes 6666."""
    facts, place = path.stat(), path.read_bytes().index(b"1111")
    images = (RecordImage(place, b"1111", b"6666"),)
    return Record(1, facts.st_ino, facts.st_size, facts.st_size, 0, 0, 0, images)


def to_another_user(sidecar: Path) -> None:
    os.chown(sidecar, OTHER, OTHER)


def open_to_others(sidecar: Path) -> None:
    sidecar.chmod(0o602)


def second_name(sidecar: Path) -> None:
    os.link(sidecar, sidecar.parent / "the victim's own file")


@pytest.mark.parametrize("spoil", [pytest.param(to_another_user, marks=NEEDS_ROOT), open_to_others, second_name])
def test_it_is_not_obeyed(file: Path, spoil: Callable[[Path], None]) -> None:
    sidecar, before = plant(file.parent, change_of(file)), file.read_bytes()
    spoil(sidecar)
    found = sidecar.read_bytes()
    with library.open(file) as document:
        assert "1111" in document.tree_text
    done = asdffs("recover", file, environment=environment_in(file.parent))
    assert (done.returncode, file.read_bytes(), sidecar.read_bytes()) == (8, before, found)
    assert f"rm {sidecar}" in done.stderr
    assert read_owner(FileFolder(str(file.parent)), NAME) == {}
    done = asdffs("check", file, environment=environment_in(file.parent))
    assert "is not used" in done.stdout


def test_ours_is(file: Path) -> None:
    plant(file.parent, change_of(file))
    with library.open(file) as document:
        assert "6666" in document.tree_text
    assert asdffs("recover", file, environment=environment_in(file.parent)).returncode == 0
    assert b"6666" in file.read_bytes()


@NEEDS_ROOT
def test_that_of_the_owner_of_the_file_is(file: Path) -> None:
    os.chown(file, OTHER, OTHER)
    sidecar = plant(file.parent, change_of(file))
    to_another_user(sidecar)
    with library.open(file) as document:
        assert "6666" in document.tree_text


@NEEDS_ROOT
def test_under_another_name_it_is_not_looked_at(file: Path) -> None:
    sidecar = plant(file.parent, change_of(file)).rename(file.parent / ".other.asdf.asdffs-journal")
    to_another_user(sidecar)
    assert asdffs("recover", file, environment=environment_in(file.parent)).returncode == 0
    assert b"1111" in file.read_bytes()
    assert sidecar.exists()


def test_who_may_write_the_file_may_write_its_journal(file: Path) -> None:
    """As on a file system that knows no owners."""
    sidecar, folder = plant(file.parent, change_of(file)), FileFolder(str(file.parent))
    sidecar.chmod(0o666)
    backend = folder.open(SIDECAR, writable=False)
    with pytest.raises(UntrustedFileError, match="can be written by others"):
        check_trusted(folder, NAME, backend)
    file.chmod(0o666)
    assert is_trusted(folder, NAME, backend)
    assert not is_trusted(folder, "gone.asdf", backend)
    backend.close()


@pytest.mark.parametrize(
    "name", ["/home/x/precious", "../precious", "precious", ".asdffs-0123456789abcdef-1.payload/x"]
)
def test_a_record_names_no_other_file_than_a_payload(file: Path, name: str) -> None:
    assert not is_payload_name(name)
    facts = file.stat()
    fill = Fill(0, 0, 0, 0, name)
    plant(file.parent, Record(1, facts.st_ino, facts.st_size, facts.st_size, 0, 0, 0, (), None, fill))
    (file.parent / "precious").write_text("mine")
    backend = FileFolder(str(file.parent)).open(SIDECAR, writable=False)
    assert read_record(backend) is None
    backend.close()
    assert asdffs("recover", file, environment=environment_in(file.parent)).returncode == 0
    assert (file.parent / "precious").read_text() == "mine"


def test_rubbish_with_a_checksum_is_no_record(file: Path) -> None:
    for body in (b"", b"x" * 50, b"\xff" * 200):
        mark = struct.pack(">8sQI", b"ASDFFSJ3", len(body), zlib.crc32(body))
        (file.parent / SIDECAR).write_bytes(bytes(4096) + mark + body)
        backend = FileFolder(str(file.parent)).open(SIDECAR, writable=False)
        assert read_record(backend) is None
        backend.close()

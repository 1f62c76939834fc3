"""The lock that keeps two asdffs from writing one file."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from asdffs.errors import LockedError
from asdffs.storage import lock
from asdffs.storage.file_backend import FileFolder


def test_regression_who_just_ended_was_said_to_be_writing(tmp_path: Path) -> None:
    """The note of a daemon goes before its lock does."""
    (tmp_path / "data.asdf").write_bytes(b"x")
    folder = FileFolder(str(tmp_path))
    holder = folder.open("data.asdf", writable=True)
    assert folder.lock(holder)
    with pytest.raises(LockedError, match="another asdffs is writing this file"):
        lock.open_locked(folder, "data.asdf", patience=0)
    read_owner = lock.read_owner

    def ending(*arguments: object) -> object:
        holder.close()
        return read_owner(*arguments)  # type: ignore[arg-type]

    with mock.patch.object(lock, "read_owner", ending):
        lock.open_locked(folder, "data.asdf", patience=600).close()


@pytest.mark.parametrize(("command", "waits"), [("set", True), ("undo", True), ("edit", False), ("watch", False)])
def test_regression_a_reader_in_an_archive_got_ebusy_beside_set(tmp_path: Path, command: str, waits: bool) -> None:
    """A command that is soon done with the file is waited for."""
    (tmp_path / "data.asdf").write_bytes(b"x")
    folder = FileFolder(str(tmp_path))
    holder = folder.open("data.asdf", writable=True)
    assert folder.lock(holder)
    asked = []

    def noted(path: str) -> dict[str, object]:
        asked.append(path)
        if len(asked) == 3:
            holder.close()
        return {"command": command, "pid": 1}

    if waits:
        lock.open_locked(folder, "data.asdf", patience=600, noted=noted).close()
        assert len(asked) == 3
    else:
        with pytest.raises(LockedError, match="is changing this file"):
            lock.open_locked(folder, "data.asdf", patience=600, noted=noted)

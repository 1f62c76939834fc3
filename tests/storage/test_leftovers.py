"""Names beside a file: which of them are left over from its own changes, and which belong to other files."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.arrays import tree_file

from asdffs.storage.file_backend import FileFolder
from asdffs.storage.recovery import find_leftovers
from asdffs.storage.sidecars import journal_name, temporary_prefix

NAME = "a.asdf"
KEPT = [
    f"{NAME}.rejected-1.yaml",
    f"{NAME}.conflict-12.yaml",
    f"{NAME}.unsaved-3.bin",
    f"{NAME}.leftover",
    f"{NAME}.leftover-2",
    f"{journal_name(NAME)}.orphan-1",
]
OTHERS = [
    f"{NAME}.rejected-1.yaml~",
    f"{NAME}.rejected-x.yaml",
    f"{NAME}.leftover-",
    f"{NAME}x.leftover",
    f"x{NAME}.leftover",
    "aXasdf.leftover",
    "b.asdf.leftover",
    f"{journal_name(NAME)}.orphan-",
    f"{journal_name('b.asdf')}.orphan-1",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / NAME
    path.write_bytes(tree_file("a: 1\n", []))
    return path


def found(file: Path) -> list[tuple[str, bool, bool]]:
    """The name in each sentence, and whether it is repairable and kept."""
    folder = FileFolder(str(file.parent))
    backend = folder.open(file.name, writable=False)
    try:
        every = find_leftovers(folder, backend)
    finally:
        backend.close()
    return [(one.sentence.split()[0].rpartition("/")[2], one.repairable, one.kept) for one in every]


def test_what_is_kept_is_found(file: Path) -> None:
    for name in KEPT + OTHERS:
        (file.parent / name).touch()
    assert sorted(found(file)) == sorted((name, False, True) for name in KEPT)


def test_what_was_interrupted_is_repairable(file: Path) -> None:
    own, other = (f"{temporary_prefix(name)}7" for name in (NAME, "b.asdf"))
    (file.parent / own).touch()
    (file.parent / other).touch()
    assert found(file) == [(own, True, False)]


def test_nothing_is_left(file: Path) -> None:
    assert found(file) == []

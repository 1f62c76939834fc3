"""The ring of committed trees survives a kill at any moment."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from asdffs.document.saves.history import LENGTH, History


def found(folder: Path) -> list[bytes]:
    return [Path(path).read_bytes() for path in History(str(folder), []).paths]


def test_what_is_replaced_is_there_before_the_save(tmp_path: Path) -> None:
    history = History(str(tmp_path / "h"), [])
    history.note(b"old")
    history.note(b"old")
    assert found(tmp_path / "h") == [b"old"], "a kill now loses nothing"


def test_a_cut_write_is_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(str(tmp_path), [])
    history.note(b"old")

    def killed(*_: object) -> None:
        raise OSError(errno.EIO, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        history.note(b"new")
    assert found(tmp_path) == [b"old"]
    assert sorted(os.listdir(tmp_path)) == ["1.yaml"]


def test_it_is_a_ring(tmp_path: Path) -> None:
    history = History(str(tmp_path), [])
    for number in range(LENGTH + 3):
        history.note(b"%d" % number)
    assert found(tmp_path) == [b"%d" % number for number in range(3, LENGTH + 3)]

"""Scratch of killed mounts is found again, wherever their spools were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asdffs.cli.places import forget_past_spools, past_spools, places_of


def test_spools_are_known_until_their_scratch_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = str(tmp_path / "data.asdf")
    first, second = places_of(path), places_of(path, str(tmp_path / "elsewhere"))
    assert past_spools(path, first) == [first.spool]
    assert past_spools(path, second) == [first.spool, second.spool]
    assert past_spools(path, second) == [first.spool, second.spool], "a mount that ended before it kept them"
    forget_past_spools(path, second)
    assert past_spools(path, first) == [second.spool, first.spool]


def test_the_note_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    places = places_of(str(tmp_path / "data.asdf"))
    past_spools(str(tmp_path / "data.asdf"), places)
    note = next((tmp_path / "state").rglob("spools.json"))
    assert json.loads(note.read_text()) == [places.spool]
    assert [p.name for p in note.parent.glob("spools*")] == ["spools.json"]
    note.write_text("[half")
    assert past_spools(str(tmp_path / "data.asdf"), places) == [places.spool]

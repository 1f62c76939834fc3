"""Scratch of killed mounts is found again, wherever their spools were."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from asdffs.cli.places import forget_past_spools, past_spools, places_at, places_of, state_home
from asdffs.errors import MountError
from asdffs.storage.remote.options import cache_folder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="to be another user needs root")
OTHER = 65534


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


@needs_root
def test_regression_root_does_not_use_the_home_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("HOME", home)
        assert (state_home(), cache_folder()) == (f"{home}/.local/state", f"{home}/.cache/asdffs")
        os.chown(home, OTHER, OTHER)
        for left in ("", ".local/state", ".cache/asdffs"):  # such as an earlier command of root may have left
            os.makedirs(os.path.join(home, left), exist_ok=True)
            for found in (state_home(), cache_folder()):
                assert not found.startswith(home)
        monkeypatch.setenv("XDG_STATE_HOME", f"{home}/state")
        assert not state_home().startswith(home)
        os.seteuid(OTHER)
        try:
            assert (state_home(), cache_folder()) == (f"{home}/state", f"{home}/.cache/asdffs")
        finally:
            os.seteuid(0)


@needs_root
@pytest.mark.parametrize("plant", ["directory", "link", "file"])
def test_regression_a_spool_that_another_user_planted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path, scratch = str(tmp_path / "data.asdf"), tmp_path / "scratch"
    planted = Path(places_at(path, str(scratch)).spool)
    scratch.mkdir(mode=0o1777)
    if plant == "directory":
        planted.mkdir(mode=0o700)
    elif plant == "link":
        planted.symlink_to(tmp_path)
    else:
        planted.write_bytes(b"")
    os.chown(planted, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(MountError, match="choose another place"):
        places_of(path, str(scratch))


def test_an_own_spool_becomes_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = str(tmp_path / "data.asdf")
    own = Path(places_at(path, str(tmp_path)).spool)
    own.mkdir(mode=0o755)
    assert places_of(path, str(tmp_path)).spool == str(own)
    assert own.stat().st_mode & 0o777 == 0o700

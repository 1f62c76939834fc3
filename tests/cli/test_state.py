"""The state directories of files: their logs have an end, and those that nobody uses go."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest
from support.mounts import environment_in, mounted
from support.samples import odd_file

from asdffs.cli import logs
from asdffs.cli.logs import log_to
from asdffs.cli.places import places_of
from asdffs.cli.unused_states import remove_unused_states

OLD = time.time() - 100 * 86400


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state/asdffs/files").mkdir(parents=True)
    return tmp_path / "state/asdffs"


def made_old(top: Path) -> None:
    for path in (*top.rglob("*"), top):
        os.utime(path, (OLD, OLD))


def test_only_what_is_old_and_empty_goes(state: Path, tmp_path: Path) -> None:
    tops = {}
    for name in ("unused", "recent", "drafts", "report", "elsewhere"):
        top = Path(places_of(str(tmp_path / name)).log).parent
        for folder in ("spool", "rejected"):
            (top / folder).rmdir()
        (top / "history").mkdir()
        (top / "history/1.yaml").write_text("v: 1")
        (state / "files" / name).write_text(str(top))
        tops[name] = top
    (tops["drafts"] / "rejected").mkdir()
    (tops["report"] / "report.json").write_text("{}")
    (state / "files" / "~broken").write_bytes(b"\xff\xfe")
    (tmp_path / "scratch").mkdir()
    (tops["elsewhere"] / "spools.json").write_text(f'["{tmp_path / "scratch"}"]')
    for name, top in tops.items():
        if name != "recent":
            made_old(top)
    remove_unused_states()
    assert {name for name, top in tops.items() if top.exists()} == tops.keys() - {"unused"}
    (state / "files" / "~broken").unlink()
    assert sorted(path.name for path in (state / "files").iterdir()) == sorted(tops.keys() - {"unused"})
    for top in tops.values():
        if top.exists():
            made_old(top)
    remove_unused_states()
    assert tops["recent"].exists(), "once a day"


@pytest.mark.mount
def test_a_mount_tidies_up_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "data.asdf"
    file.write_bytes(odd_file())
    old = Path(environment_in(tmp_path)["XDG_STATE_HOME"]) / "asdffs/0123456789abcdef"
    old.mkdir(parents=True)
    (old / "log").write_text("of long ago")
    made_old(old)
    with mounted(file):
        assert old.exists()
    assert not old.exists()


def test_a_log_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LONGEST", 1000)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        root.handlers[:] = []
        log_to(str(tmp_path / "log"), keep=False)
        for number in range(100):
            root.info("line %d of many", number)
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers[:] = before
        root.setLevel(level)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"log", "log.1"}
    assert max(sizes.values()) < 1200
    assert "line 99 of many" in (tmp_path / "log").read_text()


def test_regression_a_log_on_a_full_disk_ended_the_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It died before it left its report, because the second line wrote what the first had left in the buffer."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        root.handlers[:] = []
        log_to("/dev/full", keep=False)
        for number in range(3):
            root.info("line %d", number)
        (handler,) = root.handlers
        with pytest.raises(OSError, match="No space left"):
            handler.close()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    assert capsys.readouterr().err == ""

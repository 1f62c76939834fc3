"""State of closed files: logs have an end, and what nobody uses goes."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import environment_in, foreground, mounted
from support.processes import until

from asdffs.cli import logs
from asdffs.cli.logs import log_to
from asdffs.cli.state_files import lock_directory, remove_unused_states

OLD = time.time() - 100 * 86400


def made_old(top: Path) -> None:
    for path in (*top.rglob("*"), top):
        os.utime(path, (OLD, OLD))


def test_only_what_is_closed_and_old_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = tmp_path / "asdffs"
    names = ("closed/1-2/1-2.a", "closed/3-4/3-4.a", "closed/3-4/3-4.b", "mirrors/1-2", "mirrors/3-4", "open/5-6.a")
    for name in names:
        (home / name).mkdir(parents=True)
        (home / name / "lock").write_bytes(b"")
    made_old(home)
    for name in ("closed/3-4/3-4.b", "mirrors/3-4"):
        os.utime(home / name)
    opening = lock_directory(str(home / names[1]))
    assert opening is not None
    remove_unused_states()
    assert {name for name in names if (home / name).exists()} == {*names[1:3], *names[4:]}
    assert not (home / "closed/1-2").exists()
    opening.close()
    remove_unused_states()
    assert (home / names[1]).exists(), "once a day"
    made_old(home)
    remove_unused_states()
    assert [str(path.relative_to(home)) for path in home.glob("*/*")] == ["open/5-6.a"]


@pytest.mark.mount
def test_a_mount_tidies_up_at_its_end(file: Path, tmp_path: Path) -> None:
    old = Path(environment_in(tmp_path)["XDG_STATE_HOME"]) / "asdffs/mirrors/1-2"
    old.mkdir(parents=True)
    (old / "record").write_text("of long ago")
    made_old(old)
    with mounted(file):
        assert old.exists()
    assert not old.exists()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, without the handlers of the tests."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    root.handlers[:] = []
    yield root
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("keep", [False, True])
def test_a_log_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: logging.Logger, *, keep: bool
) -> None:
    """``keep``: a log that the user chose."""
    monkeypatch.setattr(logs, "_LONGEST_CHOSEN" if keep else "_LONGEST", 1000)
    log_to(str(tmp_path / "log"), keep=keep)
    for number in range(100):
        root.info("line %d of many", number)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"log", "log.1"}
    assert max(sizes.values()) < 1200
    assert "line 99 of many" in (tmp_path / "log").read_text()


def test_a_log_where_no_file_may_be_made_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: logging.Logger
) -> None:
    monkeypatch.setattr(logs, "_LONGEST_CHOSEN", 1000)
    (tmp_path / "log.1").mkdir()  # as good as a directory without the right to write
    log_to(str(tmp_path / "log"), keep=True)
    for number in range(100):
        root.info("line %d of many", number)
    assert (tmp_path / "log").stat().st_size < 1200
    assert "line 99 of many" in (tmp_path / "log").read_text()


@pytest.mark.mount
def test_regression_a_hangup_ended_a_mount(file: Path, tmp_path: Path) -> None:
    """logrotate renames the log, and sends SIGHUP.  What was refused is in the log once."""
    log = tmp_path / "log"
    with mounted(file, "-o", f"log={log}", code=7) as mount:
        log.rename(tmp_path / "log.1")
        os.kill(mount.pid, signal.SIGHUP)
        until(log.exists)
        until(lambda: "opened again" in log.read_text())
        with pytest.raises(OSError, match="Bad message"), mount.tree.open("wb") as tree:
            tree.write(b"not a tree")
        assert log.read_text().count("refused: ") == 1
    assert "is mounted at" in (tmp_path / "log.1").read_text()
    assert "was unmounted" in log.read_text()


@pytest.mark.mount
def test_a_hangup_finishes_a_mount_in_the_foreground(file: Path, tmp_path: Path) -> None:
    with foreground(file) as process:
        process.send_signal(signal.SIGHUP)
    assert (process.returncode, os.path.ismount(tmp_path / "mnt")) == (0, False)


def test_regression_a_log_on_a_full_disk_ended_the_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: logging.Logger
) -> None:
    """It died before it left its report, because the second line wrote what the first had left in the buffer."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log_to("/dev/full", keep=False)
    for number in range(3):
        root.info("line %d", number)
    with pytest.raises(OSError, match="No space left"):
        root.handlers.pop().close()
    assert capsys.readouterr().err == ""

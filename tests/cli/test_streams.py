"""Whatever whoever starts us did to the standard streams, the names, and the environment."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.mounts import NOBODY, as_user, asdffs, environment_in, foreground, mounted, needs_root, run
from support.namespaces import in_own_namespace

from asdffs.cli.state_files import state_home
from asdffs.storage.own_files import cache_folder

ASDFFS = f"{sys.executable} -m asdffs"


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("bash", "-c", line, env={**environment_in(folder), **environment}, cwd=folder)


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-", "2>&-"])
def test_closed_streams_are_no_tracebacks(file: Path, closed: str) -> None:
    for command in ("info data.asdf", "ls", "check data.asdf"):
        done = shell(f"{ASDFFS} {command} {closed}", file.parent)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_told_by_the_exit_code_alone(file: Path) -> None:
    done = shell(f"{ASDFFS} info --json data.asdf | true; echo ${{PIPESTATUS[0]}}", file.parent)
    assert done.stderr == ""
    assert done.stdout in ("141\n", "0\n")
    done = shell(f"{ASDFFS} info data.asdf > /dev/full; echo $?", file.parent)
    assert done.stdout == "8\n"


@pytest.mark.mount
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_regression_a_daemon_with_closed_streams_lost_its_file(file: Path, closed: str) -> None:
    (file.parent / "mnt").mkdir()
    script = (
        f"{ASDFFS} mount data.asdf mnt {closed}; sed -i 's/value: 1/value: 2/' mnt/tree.yaml; {ASDFFS} umount mnt"
    )
    done = shell(script, file.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_bytes().count(b"value: 2") == 1


@pytest.mark.mount
def test_regression_messages_of_libfuse_went_into_the_file(file: Path) -> None:
    """On a device that is none, so that libfuse has something to say."""
    before = file.read_bytes()
    (file.parent / "mnt").mkdir()
    script = f"mknod -m 666 none c 10 230 && mount --bind none /dev/fuse && {ASDFFS} mount -f data.asdf mnt 2>&-"
    done = in_own_namespace(script, file.parent)
    assert done.returncode == 6
    assert file.read_bytes() == before


def test_mistyped_commands_and_empty_names(file: Path) -> None:
    environment = environment_in(file.parent)
    for arguments in (("unmuont", "x"), ("chek", file)):
        done = asdffs(*arguments, environment=environment)
        assert (done.returncode, "invalid choice" in done.stderr) == (2, True)
    for arguments in (("mount", file, ""), ("mount", "", file.parent), ("umount", ""), ("info", "")):
        done = asdffs(*arguments, environment=environment)
        assert done.returncode == 2
        assert done.stderr.endswith(" is empty\n")
    done = asdffs("mount", file, file.parent, environment={**environment, "ASDFFS_LIBFUSE": "bogus"})
    assert done.returncode in (2, 6)
    assert "Traceback" not in done.stderr
    done = asdffs("--version", environment={**environment, "ASDFFS_LIBFUSE": "bogus"})
    assert "not 'bogus'" in done.stdout


@pytest.mark.mount
def test_regression_state_directories_that_are_none(file: Path) -> None:
    """A relative one means nothing, and neither does the home of another user."""
    folder = file.parent
    (folder / "home").mkdir()
    (folder / "mnt").mkdir()
    script = (
        f"{ASDFFS} mount data.asdf mnt && sed -i 's/value: 1/value: 2/' mnt/tree.yaml && {ASDFFS} umount mnt && ls -A"
    )
    done = shell(script, folder, XDG_STATE_HOME="relative", HOME=str(folder / "home"))
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == {"data.asdf", "home", "mnt"}
    assert (folder / "home/.local/state/asdffs").is_dir()
    done = shell(
        f"unset HOME; timeout 120 {ASDFFS} doctor | grep 'state directory'", folder, XDG_STATE_HOME="relative"
    )
    assert done.returncode == 0
    assert "~" not in done.stdout


@needs_root
def test_regression_a_temporary_directory_of_somebody_else_was_used(file: Path) -> None:
    other = file.parent / "tmp"
    other.mkdir()
    place = other / "asdffs-of-0"
    place.mkdir()
    os.chown(place, 65534, 65534)
    code = "import asdffs.storage.own_files as p; p._home_of_user = lambda: ''; p.own_directory('XDG_STATE_HOME', '')"
    environment = {**environment_in(file.parent), "TMPDIR": str(other), "HOME": "", "XDG_STATE_HOME": ""}
    done = run(sys.executable, "-c", code, env=environment)
    assert "belongs to somebody else" in done.stderr


@pytest.mark.mount
@pytest.mark.parametrize("name", ["m\N{NO-BREAK SPACE}nb", "v\vt", "l\N{LINE SEPARATOR}s", "a b", "t\tt"])
def test_mount_points_with_any_white_space(file: Path, name: str) -> None:
    point = file.parent / name
    point.mkdir()
    environment = environment_in(file.parent)
    script = f"mount -t tmpfs '' {file.parent}/empty && exec {ASDFFS} ls"
    (file.parent / "empty").mkdir()
    assert asdffs("mount", file, point, environment=environment).returncode == 0
    try:
        done = in_own_namespace(script, file.parent, environment)
        shown = str(point).replace("\v", r"\x0b").replace("\N{LINE SEPARATOR}", r"\u2028")
        assert f"{shown}\trw\tserving" in done.stdout, done.stderr
    finally:
        assert asdffs("umount", point, environment=environment).returncode == 0


@pytest.mark.mount
def test_log_in_the_foreground(file: Path) -> None:
    log = file.parent / "log"
    with foreground(file, "-o", f"log={log}") as process:
        assert asdffs("umount", file.parent / "mnt", environment=environment_in(file.parent)).returncode == 0
        assert process.stderr.read() == ""
    assert "was unmounted and finished" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600  # it may have words of private files


@pytest.mark.mount
def test_the_kernel_gets_its_flags(file: Path) -> None:
    with mounted(file, "-o", "noexec,noatime,nofail,group") as mount:
        options = run("findmnt", "-no", "OPTIONS", mount.point).stdout
        assert {"noexec", "noatime"} <= set(options.strip().split(","))


@needs_root
def test_regression_root_does_not_use_the_home_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("HOME", home)
        assert (state_home(), cache_folder()) == (f"{home}/.local/state", f"{home}/.cache/asdffs")
        os.chown(home, NOBODY, NOBODY)
        for left in ("", ".local/state", ".cache/asdffs"):  # such as an earlier command of root may have left
            os.makedirs(os.path.join(home, left), exist_ok=True)
            for found in (state_home(), cache_folder()):
                assert not found.startswith(home)
        monkeypatch.setenv("XDG_STATE_HOME", f"{home}/state")
        assert not state_home().startswith(home)
        with as_user():
            assert (state_home(), cache_folder()) == (f"{home}/state", f"{home}/.cache/asdffs")

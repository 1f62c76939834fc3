"""Mounts that call themselves asdffs and never answer, or say anything: nobody waits for them, or believes them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import hostile_mount
from support.arrays import tree_file
from support.mounts import ASDFFS, environment_in, mounted, run
from support.samples import put

from asdffs.cli.commands.umount import _all_mountpoints

pytestmark = [
    pytest.mark.long,
    pytest.mark.mount,
    pytest.mark.skipif(os.geteuid() != 0, reason="to be root beside another user needs root"),
    pytest.mark.skipif(os.environ.get("ASDFFS_LIBFUSE") == "2", reason="the mount of the other user needs libfuse 3"),
]

USER = 65534
GOOD = {
    "file": "/x/a.asdf",
    "report": "/x/asdffs/1/report.json",
    "log": "",
    "pid": 1,
    "progress": [],
    "writable": True,
}
STATUSES = {
    "another's process": GOOD,
    "huge pid": {**GOOD, "pid": 10**30},
    "NUL": {**GOOD, "file": "a\0b"},
    "surrogate": {**GOOD, "file": "\ud800"},
    "escapes": {**GOOD, "file": "\x1b]0;pwned\x07\nb.asdf\tx"},
    "another's file": {**GOOD, "report": "VICTIM"},
    "progress": {**GOOD, "progress": [{"operation": 1}, "x"]},
}
TEXTS = {name: json.dumps(status).encode() for name, status in STATUSES.items()}
TEXTS |= {"brackets": b"[" * 1_000_000, "long": b'"' + b"x" * 3_000_000 + b'"', "digits": b"1" * 10_000, "empty": b""}
TEXTS |= {"pid of text": b'{"pid": "x"}', "list": b"[]", "half": b"["}


@contextlib.contextmanager
def hostile(folder: Path, how: str, text: bytes) -> Iterator[Path]:
    """A mount of another user."""
    for place in (folder, *list(folder.parents)[:2]):
        place.chmod(0o755)
    point, status = folder / "hostile", folder / "status"
    point.mkdir()
    os.chown(point, USER, USER)
    status.write_bytes(text)
    command = [sys.executable, hostile_mount.__file__, str(point), how, str(status), str(USER)]
    where = {**os.environ, "FUSE_LIBRARY_NAME": "fuse3"}
    with subprocess.Popen(command, env=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            server.kill()
            raise AssertionError(server.communicate()[1].decode())
        try:
            yield point
        finally:
            server.kill()
            run("umount", "-l", point)


def ask(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command as root; it may take its time, but not for ever."""
    return run(*ASDFFS, *words, env=environment_in(folder))


@pytest.mark.parametrize("how", ["getattr", "getattr/.asdffs", "opendir", "open", "fsyncdir"])
def test_one_that_does_not_answer_keeps_no_other(tmp_path: Path, how: str) -> None:
    path = put(tmp_path, tree_file("v: 1\n", []), "a.asdf")
    with mounted(path, code=None) as mount, hostile(tmp_path, how, TEXTS["another's process"]) as point:
        listed = ask(tmp_path, "ls")
        assert (listed.returncode, str(mount.point) in listed.stdout) == (0, True)
        done = ask(tmp_path, "umount", str(point), str(mount.point))  # -a would take those of other tests as well
        assert "Traceback" not in done.stderr
        assert not os.path.ismount(mount.point)
        assert str(point) in done.stderr or done.returncode == 0


def test_of_all_mounts_ones_own_come_first(tmp_path: Path) -> None:
    path = put(tmp_path, tree_file("v: 1\n", []), "a.asdf")
    with mounted(path) as mount, hostile(tmp_path, "getattr", b"") as point:
        found = _all_mountpoints()
        assert found.index(str(mount.point)) < found.index(str(point))


@pytest.mark.parametrize("name", TEXTS)
def test_what_one_says_is_not_believed(tmp_path: Path, name: str) -> None:
    victim = put(tmp_path, b"{}", "victim.json")
    with hostile(tmp_path, "none", TEXTS[name].replace(b"VICTIM", os.fsencode(victim))) as point:
        for words in (("ls",), ("ls", "--json"), ("umount", str(point), str(point))):
            done = ask(tmp_path, *words)
            said = done.stdout + done.stderr
            assert "Traceback" not in said
            assert not any(sign in said for sign in ("\x1b", "\x07", "\nb.asdf")), said
    assert victim.read_bytes() == b"{}", "root's umount removed any file that a mount named as its report"

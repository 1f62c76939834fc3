"""Plug-ins of other packages: each is loaded when it is needed, and one that does not work harms nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.mounts import ASDFFS, environment_in, mounted, run
from support.plugins import install
from support.samples import odd_file, put

from asdffs.registry import KINDS

BROKEN = {
    "import": "import no_such_module_anywhere\n",
    "attribute": "",
    "exit": "raise SystemExit(3)\n",
    "none": "PLUGIN = None\n",
    "made": "class PLUGIN:\n    def __init__(self, *_):\n        raise RuntimeError('cannot be made')\n",
    "empty": "class Empty: pass\nPLUGIN = Empty()\n",
    "answers": "class Odd:\n    ending = '.odd'\n    def __getattr__(self, name):\n        raise RuntimeError(name)\n"
    "PLUGIN = Odd()\n",
}
WORKING = """
class Words:
    id, extra, ratio = b"word", "", 4
    def available(self): return True
    def memory(self, stored): return 0
    def decode(self, stored, size): yield bytes(255 - one for one in stored.read_at(0, stored.size))
    def encode(self, content): yield bytes(255 - one for one in content.read_at(0, content.size))
PLUGIN = Words()
"""


def asdffs(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: the registry reads what is installed once."""
    environment = environment_in(site.parent)
    environment["PYTHONPATH"] += f":{site}"
    return run(*ASDFFS, *arguments, env=os.environ | environment, errors="replace")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return put(tmp_path, odd_file())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_plugin_harms_nothing(site: Path, path: Path, how: str) -> None:
    install(site, "broken", BROKEN[how], dict.fromkeys(KINDS, "aaa"))
    install(site, "working", WORKING, {"codecs": "word"})
    before = path.read_bytes()
    for arguments in (
        ("info", path),
        ("check", path),
        ("block", path, 0),
        ("block", path, 0, "--compression", "word"),
    ):
        done = asdffs(site, *arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert path.read_bytes() != before
    done = asdffs(site, "block", path, 0, "--compression", "none")
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.mount
@pytest.mark.parametrize("how", BROKEN)
def test_a_mount_beside_broken_plugins(site: Path, path: Path, how: str) -> None:
    install(site, "broken", BROKEN[how], dict.fromkeys(KINDS, "aaa"))
    with mounted(path, packages=site) as mount:
        assert sorted(os.listdir(mount.point)) == [".asdffs", "arrays", "blocks", "exploded", "tree.yaml"]
        assert "data.npy" in os.listdir(mount.point / "arrays")
        mount.edit()
    assert b"value: 2\n" in path.read_bytes()


def test_a_broken_one_is_told_of_once_and_by_doctor(site: Path, path: Path) -> None:
    install(site, "broken", BROKEN["import"], {"codecs": "word", "views": "aaa"})
    done = asdffs(site, "block", path, 0, "--compression", "word")
    assert done.returncode == 2
    assert "has a plug-in that does not work: ModuleNotFoundError" in done.stderr
    done = asdffs(site, "doctor", "--json")
    found = {one["subject"]: one for one in json.loads(done.stdout)["found"]}
    for subject in ("codecs: word", "views: aaa"):
        assert "does not work: ModuleNotFoundError" in found[subject]["sentence"]
        assert "pip uninstall broken" in found[subject]["advice"]


def test_a_codec_is_named_by_its_compression(site: Path, path: Path) -> None:
    install(site, "working", WORKING, {"codecs": "words"})
    done = asdffs(site, "block", path, 0, "--compression", "words")
    assert done.returncode == 2
    assert "its id is b'word', not the name of its entry point" in done.stderr
    found = {one["subject"]: one for one in json.loads(asdffs(site, "doctor", "--json").stdout)["found"]}
    assert found["codecs: words"]["level"] == "missing"


def test_only_what_is_needed_is_loaded(site: Path, path: Path) -> None:
    install(site, "loud", "raise SystemExit('loaded')\n", dict.fromkeys(("codecs", "views", "formats"), "loud"))
    done = asdffs(site, "block", path, 0, "--compression", "zlib")
    assert (done.returncode, done.stderr) == (0, "")


MISTAKES = {
    "another length": ("yield content.read_at(0, content.size) + b'x'", "does not decode what it encoded"),
    "other bytes": ("yield content.read_at(0, content.size)[::-1]", "does not decode what it encoded"),
    "an exception": ("yield 1 + b''", "the codec word failed (TypeError"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_codec_that_encodes_wrongly_costs_no_data(site: Path, path: Path, mistake: str) -> None:
    body, reason = MISTAKES[mistake]
    module = WORKING.replace("yield bytes(255 - one for one in content.read_at(0, content.size))", body)
    install(site, "wrong", module, {"codecs": "word"})
    before = path.read_bytes()
    done = asdffs(site, "block", path, 0, "--compression", "word")
    assert done.returncode == 2
    assert reason in done.stderr
    assert path.read_bytes() == before
    done = asdffs(site, "repack", "--compression", "word", path, path.parent / "new.asdf")
    assert (done.returncode, reason in done.stderr) == (2, True)
    assert not (path.parent / "new.asdf").exists()


def test_a_codec_that_decodes_wrongly_is_told(site: Path, path: Path) -> None:
    install(site, "word", WORKING, {"codecs": "word"})
    assert asdffs(site, "block", path, 0, "--compression", "word").returncode == 0
    (site / "word.py").write_text(
        WORKING.replace("yield bytes(255 - one for one in stored", "yield 1 + b'', (stored")
    )
    done = asdffs(site, "check", "--deep", path)
    assert done.returncode == 4
    assert "the codec word failed (TypeError" in done.stdout


KILLER = """
import os, signal
class Killer:
    name = "killer"
    def claims(self, head):
        head.startswith(b"KILL") and os.kill(os.getpid(), signal.SIGKILL)
        return False
PLUGIN = Killer()
"""


def test_files_that_kill_the_process_that_reads_them(site: Path, tmp_path: Path) -> None:
    """As the system does when memory is short: they have a row each, and all others are read."""
    install(site, "killer", KILLER, {"containers": "killer"})
    (tmp_path / "archive").mkdir()
    for number in range(60):
        raw = b"KILL" if number in (7, 40) else odd_file(blocks=[])
        (tmp_path / f"archive/{number:02}.asdf").write_bytes(raw)
    catalog = tmp_path / "c.db"
    done = asdffs(site, "index", "--json", "--jobs", "2", "--catalog", catalog, tmp_path / "archive")
    assert done.returncode == 0, done.stderr
    facts = {"found": 60, "read": 60, "unread": 2, "removed": 0, "kept": 0, "absent": 0, "moved": 0}
    assert json.loads(done.stdout) == {"catalog": str(catalog), **facts}
    rows = asdffs(
        site, "find", "--csv", "--catalog", catalog, "--sql", "SELECT path, error FROM file WHERE error != ''"
    )
    reason = "a worker process was killed; give the command again"
    assert rows.stdout.splitlines()[1:] == [f"{tmp_path}/archive/{number}.asdf,{reason}" for number in ("07", "40")]
    files = [tmp_path / f"archive/{number:02}.asdf" for number in range(6, 9)]
    done = asdffs(site, "set", "--jobs", "2", "value=2", *files)
    assert (done.returncode, done.stdout) == (8, "3 files: 2 changed, 0 already so, 1 failed\n")
    assert f"asdffs: {files[1]}: {reason}" in done.stderr

"""Commands without a mount need nothing that only Linux has: they run where it is taken away.

That is not macOS, where they have not been run; it is what can be tried of it here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import command
from support.mounts import ASDFFS, environment_in
from support.mounts import run as started
from support.samples import block_bytes, check_saved, odd_file, opened

#: What Python has on Linux only.
MISSING = [
    *(
        "fdatasync",
        "posix_fallocate",
        "posix_fadvise",
        "copy_file_range",
        "sendfile",
        "splice",
        "listxattr",
        "getxattr",
    ),
    *("setxattr", "removexattr", "pidfd_open", "memfd_create", "eventfd", "sched_getaffinity", "O_TMPFILE"),
]
TAKEN_AWAY = f"""
import ctypes, os, fcntl
for name in {MISSING}:
    if hasattr(os, name):
        delattr(os, name)
real = ctypes.CDLL
class Library(real):
    def __getattr__(self, name):
        if name.startswith("fallocate"):
            raise AttributeError(name)
        return super().__getattr__(name)
ctypes.CDLL = Library
def refused(*arguments):
    raise OSError(25, "not here")
fcntl.ioctl = refused
"""


@pytest.fixture
def elsewhere(tmp_path: Path):
    """Runs commands where these are not there."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(TAKEN_AWAY)
    environment = environment_in(tmp_path)
    environment["PYTHONPATH"] = f"{tmp_path}/site:{environment['PYTHONPATH']}"

    code = "import os; print(any(hasattr(os, name) for name in ('fdatasync', 'copy_file_range', 'listxattr')))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

    def run(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        return started(*ASDFFS, *arguments, env={**environment, **more}, stdin=subprocess.DEVNULL)

    return run


@pytest.mark.long
def test_every_command(tmp_path: Path, elsewhere) -> None:
    file, parts = tmp_path / "data.asdf", tmp_path / "parts"
    file.write_bytes(odd_file())
    editor = f"sed -i 's/^value: 1$/value: 2 #{'y' * 9000}/'"
    assert elsewhere("edit", file, EDITOR=editor, VISUAL="").stderr == ""
    check_saved(file, 2)
    assert elsewhere("explode", file, parts).stderr == ""
    tree = parts / "data.asdf"
    tree.write_bytes(tree.read_bytes().replace(b"value: 2 #", b"value: 3 #"))
    new = odd_file(tree=None, comments="", blocks=[block_bytes(b"new" * 3000)], index="absent")
    (parts / "data0002.asdf").write_bytes(new)
    done = elsewhere("watch", "--once", parts, file)
    assert (done.returncode, done.stderr) == (0, "")
    check_saved(file, 3)
    out = tmp_path / "out.asdf"
    assert elsewhere("implode", tree, out, "--sync").stderr == ""
    assert elsewhere("diff", file, out).stdout == ""
    done = elsewhere("repack", "--compression", "zlib", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert elsewhere("block", out, "new", "--replace", file).stdout == "3\n"
    for arguments in (("check", out), ("info", out), ("recover", out)):
        done = elsewhere(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
    with opened(out) as found:
        assert found["value"] == 3
    assert command("diff", "--values", file, out, environment=environment_in(tmp_path)).code == 0
    assert os.path.getsize(out) > 9000

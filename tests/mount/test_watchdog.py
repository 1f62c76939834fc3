"""A mount that nobody can serve any more ends itself, keeps what was typed, and says so."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.mounts import LIMIT, environment_in, lazily_unmount
from support.processes import until
from support.samples import odd_file

pytestmark = pytest.mark.mount

#: statvfs(2) waits in a system call on /dev/fuse, with the main lock, until the test gives up its lock of the device.
STUCK = """
import fcntl
from asdffs.mount import answering, watchdog
from asdffs.mount.protocol import Opcode
watchdog.Watchdog.__init__.__defaults__ = (0.3,)
def statfs(self, place, header, asked):
    fcntl.flock(self._loop.device, fcntl.LOCK_EX)
    return b""
answering.TABLE[Opcode.STATFS] = answering.Operation(statfs, answering.About.LOOK)
"""


@pytest.mark.skipif(
    os.geteuid() != 0 and not os.path.ismount("/sys/fs/fuse/connections"),
    reason="without fusectl only root may abort a mount",
)
def test_it_is_aborted_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    file, point, package = tmp_path / "data.asdf", tmp_path / "mnt", tmp_path / "package"
    file.write_bytes(odd_file())
    point.mkdir()
    package.mkdir()
    (package / "sitecustomize.py").write_text(STUCK)
    environment = environment_in(tmp_path)
    environment["PYTHONPATH"] = f"{package}:{environment['PYTHONPATH']}"
    command = [sys.executable, "-m", "asdffs", "mount", "-f", file, point]
    daemon = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    told: list[int] = []

    def ask() -> None:
        try:
            os.statvfs(point)
        except OSError as err:
            told.append(err.errno)

    asker = threading.Thread(target=ask, daemon=True)
    try:
        until(lambda: os.path.ismount(point) and (point / "tree.yaml").exists())
        draft = os.open(point / "tree.yaml", os.O_WRONLY | os.O_TRUNC)
        os.write(draft, b"half-typed")
        fcntl.flock(device, fcntl.LOCK_EX)
        asker.start()
        asker.join(LIMIT)
        assert told, "the mount was not aborted"
        fcntl.flock(device, fcntl.LOCK_UN)
        said = daemon.communicate(timeout=LIMIT)[1]
    finally:
        os.close(device)
        lazily_unmount(point)
        daemon.kill()
    with pytest.raises(OSError, match="not connected"):
        os.close(draft)
    assert daemon.returncode == 7, said
    assert "the mount was aborted, because it did not answer any more" in said
    assert "fcntl.flock(self._loop.device" in said, "the stacks"
    assert (tmp_path / "data.asdf.rejected-1.yaml").read_bytes() == b"half-typed"

"""``-o undo=SIZE``: what programs changed in blocks and arrays of a mount is taken back by ``asdffs undo``."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import command
from support.mounts import environment_in, mounted, run

pytestmark = pytest.mark.mount


def contents(path: Path) -> dict[str, np.ndarray]:
    with asdf.open(path, memmap=False, lazy_load=False) as found:
        return {name: np.array(found[name]) for name in ("data", "packed")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    file = asdf.AsdfFile({"data": rng.random((300, 300)), "packed": rng.integers(0, 9, 200_000), "note": "x"})
    file.set_array_compression(file["packed"], "zlib")
    file.write_to(tmp_path / "a.asdf")
    return tmp_path / "a.asdf"


def test_programs_change_pixels_and_get_them_back(path: Path) -> None:
    before = contents(path)
    with mounted(path, "-o", "undo=50M") as mount:
        data = np.load(mount.point / "arrays/data.npy", mmap_mode="r+")
        data[::7] = 0
        data.flush()
        del data
        run("dd", "if=/dev/zero", f"of={mount.point}/blocks/0001.bin", "bs=1k", "count=3", "conv=notrunc", check=True)
        os.truncate(mount.point / "blocks/0000.bin", 300 * 300 * 8 + 80)
        run("sed", "-i", "s/note: x/note: y/", mount.point / "tree.yaml", check=True)
        status = json.loads((mount.point / ".asdffs/status.json").read_text())["undo"]
        assert status["kept"] >= 300 * 300 * 8
        assert (status["limit"], status["full"]) == (50 << 20, False)
    changed = contents(path)
    assert not np.array_equal(changed["data"], before["data"])
    done = command("undo", path, "--dry-run", environment=environment_in(path.parent))
    assert "2 blocks would get back" in done.out
    done = command("undo", path, environment=environment_in(path.parent))
    assert (done.code, "2 blocks got back" in done.out) == (0, True), done
    found = contents(path)
    assert all(np.array_equal(found[name], before[name]) for name in before)
    with asdf.open(path, validate_checksums=True) as file:
        assert file["note"] == "y", "the tree is not a pixel"
    assert not (path.parent / "a.asdf.undo").exists()


def test_after_a_kill(path: Path) -> None:
    before = contents(path)
    with mounted(path, "-o", "undo=50M", code=None) as mount:
        data = np.load(mount.point / "arrays/data.npy", mmap_mode="r+")
        data[100:200] = -1
        data.flush()
        del data
        os.kill(mount.pid, signal.SIGKILL)
    assert command("undo", path, environment=environment_in(path.parent)).code == 0
    found = contents(path)
    assert all(np.array_equal(found[name], before[name]) for name in before)

"""Other people's exercisers, several programs at once: stress-ng with verification, and dbench."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import Mounted, mounted, run
from support.samples import DATA, block_bytes, odd_file, opened, put

pytestmark = [pytest.mark.long, pytest.mark.mount]

SIZE = 8 << 20


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mounted]:
    path = put(tmp_path, odd_file(blocks=[block_bytes(DATA), block_bytes(bytes(SIZE))], padding=b" " * 77))
    with mounted(path) as mount:
        yield mount
    with opened(path) as found:
        assert found["data"][:].tobytes() == DATA


@needs("stress-ng")
@pytest.mark.parametrize("options", ["wr-seq,rd-seq,fsync", "wr-rnd,rd-rnd,utimes,fdatasync"])
def test_stress_ng(mount: Mounted, options: str) -> None:
    done = run(
        *("stress-ng", "--hdd", "2", "--hdd-ops", "300", "--hdd-bytes", "4m", "--hdd-opts", options, "--verify"),
        *("--temp-path", mount.point),
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs("dbench")
def test_dbench(mount: Mounted) -> None:
    load = mount.file.parent / "client.txt"
    lines = Path("/usr/share/dbench/client.txt").read_text().splitlines()
    load.write_text("\n".join(lines[:6000]) + "\n")
    done = run("dbench", "-c", load, "-D", mount.point, "-t", "4", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stdout
    assert run("rm", "-rf", mount.point / "clients").returncode == 0

"""Real file systems in files, mounted through loop devices: ext4, XFS, btrfs; and a small tmpfs.

Needs root.  Nothing survives a test: the mount is taken away, and with it the loop device.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.mounts import run

#: What each is made with, and whether it can insert ranges and clone.
KINDS = {
    "ext4": (("mkfs.ext4", "-q", "-F"), {"insert"}),
    "xfs": (("mkfs.xfs", "-q", "-f"), {"insert", "clone"}),
    "btrfs": (("mkfs.btrfs", "-q", "-f"), {"clone"}),
}


def needs_filesystem(kind: str) -> None:
    """Skip where ``kind`` cannot be made and mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system needs root")
    if kind != "tmpfs" and shutil.which(KINDS[kind][0][0]) is None:
        pytest.skip(f"{KINDS[kind][0][0]} is not installed")


@contextlib.contextmanager
def filesystem(kind: str, folder: Path, size: int = 320 << 20) -> Iterator[Path]:
    """A new file system of ``size`` bytes in an image below ``folder``; its mount point.

    XFS takes no less than 300 MiB.  The image is sparse.
    """
    needs_filesystem(kind)
    point = folder / f"on-{kind}"
    point.mkdir()
    if kind == "tmpfs":
        done = run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", point)
    else:
        image = folder / f"{kind}.image"
        with open(image, "wb") as file:
            file.truncate(size)
        made = run(*KINDS[kind][0], image)
        assert made.returncode == 0, made.stderr
        done = run("mount", "-o", "loop", image, point)
    if done.returncode != 0:
        pytest.skip(f"{kind} cannot be mounted here: {done.stderr.strip()}")
    try:
        yield point
    finally:
        _unmount(point)


def _unmount(point: Path) -> None:
    """Until it is gone, however busy the machine is with other mounts: one was left once, and nobody was told."""
    said = ""
    for _ in range(200):
        if not os.path.ismount(point):
            return
        said = run("umount", "-l", point).stderr
    raise AssertionError(f"{point} is still mounted: {said}")


def inserts(folder: Path) -> bool:
    """Whether FALLOC_FL_INSERT_RANGE works here."""
    with open(folder / "probe", "wb") as file:
        file.write(bytes(1 << 17))
        file.flush()
        done = run("fallocate", "--insert-range", "-o", 4096, "-l", 4096, file.name)
    (folder / "probe").unlink()
    return done.returncode == 0


def fill(folder: Path) -> Path:
    """Leave no byte free."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        for piece in (1 << 20, 1 << 12, 1 << 9, 1):
            try:
                while True:
                    assert file.write(bytes(piece))
            except OSError:
                continue
    return filler

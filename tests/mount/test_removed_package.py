"""A package that is removed or replaced under a mount: the daemon goes on with the code that it was started with."""

from __future__ import annotations

import compileall
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asdf
import numpy as np
import pytest
from astropy.io import fits
from support.daf_stores import sample, tree_of
from support.fits_files import write_fits
from support.mounts import Mounted, asdffs, environment_in, lazily_unmount
from support.processes import until
from support.web_server import WebServer

import asdffs as package

pytestmark = pytest.mark.mount

DATA = np.arange(50_000, dtype="f4")


def write(path: Path) -> None:
    """A file with a block of each compression, an array in the tree, and a mask."""
    arrays = {name: DATA + number for number, name in enumerate(("zlib", "bzp2", "lz4"), 1)}
    file = asdf.AsdfFile({"plain": DATA, "inline": np.arange(3), "image": np.ones((20, 20), "f4"), **arrays})
    for name, array in arrays.items():
        file.set_array_compression(array, name)
    file.set_array_storage(file["inline"], "inline")
    file.write_to(path)


@contextmanager
def bereft(what: Path | str, folder: Path, *, replaced: bool) -> Iterator[Mounted]:
    """Mount ``what`` with a copy of the package, and take that away; ``replaced``: by one that cannot be imported."""
    site, point = folder / "site", folder / "mnt"
    shutil.copytree(Path(package.__file__).parent, site / "asdffs", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(site, quiet=1)
    point.mkdir()
    environment = environment_in(folder) | {"PYTHONPATH": str(site)}
    mount = Mounted(Path(what), point, environment)
    done = asdffs("mount", "-o", f"log={folder / 'log'}", what, point, environment=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    try:
        until(lambda: "all modules are imported" in (folder / "log").read_text())
        shutil.rmtree(site)
        if replaced:
            for path in Path(package.__file__).parent.rglob("*.py"):
                new = site / "asdffs" / path.relative_to(Path(package.__file__).parent)
                new.parent.mkdir(parents=True, exist_ok=True)
                new.write_text("raise ImportError('of another version')\n")
        yield mount
        assert asdffs("umount", point, environment=environment_in(folder)).returncode in (0, 7)  # 7: after ``change``
    finally:
        if os.path.ismount(point):
            lazily_unmount(point)
    log = (folder / "log").read_text()
    assert "Error" not in log
    assert "No module" not in log


@pytest.fixture(params=[False, True], ids=["removed", "replaced"])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Path | str], object]:
    return lambda what: bereft(what, tmp_path, replaced=request.param)


def use(point: Path, *, writable: bool = True) -> None:
    """Read each view, and change the file in each way, through the mount of one file."""
    for number, name in enumerate(("plain", "zlib", "bzp2", "lz4")):
        assert np.array_equal(np.load(point / f"arrays/{name}.npy"), DATA + number)
    assert np.load(point / "arrays/inline.npy").tolist() == [0, 1, 2]
    assert fits.getdata(point / "arrays/image.fits").sum() == 400
    with asdf.open(next((point / "exploded").glob("*.asdf"))) as file:
        assert np.array_equal(file["lz4"], DATA + 3)
    assert (point / ".asdffs/status.json").read_bytes()
    os.listxattr(point / "blocks/0000.bin")
    if writable:
        change(point)


def change(point: Path) -> None:
    """Growth, a rejected save, writes to compressed blocks, mapped writes in two views, a new block, history."""
    tree = point / "tree.yaml"
    text = tree.read_text()
    tree.write_text(text.replace("\n...", "\nmore: " + "x" * 100_000 + "\n..."))
    assert "xxx" in tree.read_text()
    with pytest.raises(OSError), tree.open("r+") as file:  # noqa: PT011  # at its close
        file.write("#ASDF 9")
    tree.write_text((point / ".asdffs/committed.yaml").read_text())
    for number in range(4):
        with (point / f"blocks/{number:04d}.bin").open("r+b") as block:
            block.write(b"\1\2\3\4")
    new = len(list((point / "blocks").iterdir()))
    (point / f"blocks/{new:04d}.bin").write_bytes(b"a new block")
    with (point / "arrays/plain.npy").open("r+b") as view, (point / "blocks/0000.bin").open("r+b") as block:
        mapped = mmap.mmap(view.fileno(), 0)
        mapped[-4:] = b"\0\0\0\0"
        mapped.flush()
        block.write(b"\5")
        mapped.close()
    fd = os.open(point, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def test_file(tmp_path: Path, without: Callable[[Path | str], object]) -> None:
    write(tmp_path / "a.asdf")
    with without(tmp_path / "a.asdf") as mount:
        use(mount.point)


def test_archive(tmp_path: Path, without: Callable[[Path | str], object]) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    for name in "ab":
        write(folder / f"{name}.asdf")
    with without(folder) as mount:
        for name in "ab":
            use(mount.point / f"{name}.asdf.d")
        assert (mount.point / "a.asdf").read_bytes().startswith(b"#ASDF")
        write(folder / "c.asdf")
        use(mount.point / "c.asdf.d", writable=False)


def test_fits_container(tmp_path: Path, without: Callable[[Path | str], object]) -> None:
    write_fits(tmp_path / "a.fits")
    with without(tmp_path / "a.fits") as mount:
        tree = mount.point / "tree.yaml"
        tree.write_text(tree.read_text().replace("\n...", "\nmore: " + "x" * 10_000 + "\n..."))
        for block in sorted((mount.point / "blocks").iterdir()):
            assert block.read_bytes()
    with fits.open(tmp_path / "a.fits") as file:
        file.verify("exception")


def test_store(tmp_path: Path, without: Callable[[Path | str], object]) -> None:
    store = sample("minimal", tmp_path)
    assert asdffs("daf", "pack", store, tmp_path / "a.asdf", environment=environment_in(tmp_path)).returncode == 0
    with without(tmp_path / "a.asdf") as mount:
        assert tree_of(store) == tree_of(mount.point / "daf")
        (mount.point / "daf/scalars/new.json").write_text('{"type":"Int64","value":3}')
        assert "new.json" in os.listdir(mount.point / "daf/scalars")


def test_remote_file(tmp_path: Path, without: Callable[[Path | str], object]) -> None:
    write(tmp_path / "a.asdf")
    with WebServer().running() as server, without(server.put("/a.asdf", (tmp_path / "a.asdf").read_bytes())) as mount:
        use(mount.point, writable=False)

"""``asdf://`` of fsspec beside a mount of the same file, and the programs that use it."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import asdf
import numpy as np
import pytest
from astropy.io import fits
from support.mounts import mounted
from support.web_server import Answer, WebServer

from asdffs.errors import AsdffsError

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install '.[test-zarr]'")

pytestmark = pytest.mark.long

IMAGE = np.random.default_rng(2).integers(0, 60, (400, 300), "u2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tree = {"roman": {"data": IMAGE, "list": [np.arange(5.0)]}, "n": 1}
    asdf.AsdfFile(tree).write_to(tmp_path / "x.asdf", all_array_compression="lz4")
    return tmp_path / "x.asdf"


def opened(file: Path, **options: object) -> fsspec.AbstractFileSystem:
    return fsspec.filesystem("asdf", fo=str(file), **options)


@pytest.mark.mount
def test_it_is_what_a_mount_shows(file: Path) -> None:
    """All names, kinds, sizes and contents, but for the facts about the mount itself."""
    found = opened(file)
    with mounted(file, "-o", "ro") as mount:
        top = mount.point
        there = {str(path.relative_to(top)): path for path in top.rglob("*") if ".asdffs" not in path.parts}
        assert {name for name in found.find("", withdirs=True) if not name.startswith(".asdffs")} == there.keys()
        for name, path in there.items():
            info = found.info(name)
            assert info["type"] == ("directory" if path.is_dir() else "file"), name
            if path.is_file():
                assert info["size"] == path.stat().st_size, name
                assert found.cat(name) == path.read_bytes(), name


def test_paths_and_parts(file: Path) -> None:
    found = opened(file)
    raw = IMAGE.tobytes()
    assert found.cat_file("blocks/0000.bin", 10, 20) == raw[10:20]
    assert found.cat_file("/blocks/0000.bin", -7) == raw[-7:]
    assert found.cat_ranges(["blocks/0000.bin"] * 2, [0, 5], [3, 9]) == [raw[:3], raw[5:9]]
    assert found.ls("asdf://blocks", detail=False) == ["blocks/0000.bin", "blocks/0001.bin"]
    assert found.glob("arrays/**/*.npy") == ["arrays/roman/data.npy", "arrays/roman/list/0.npy"]
    assert found.isdir("arrays")
    assert found.isfile("tree.yaml")
    assert not found.exists("arrays/none.npy")
    assert found.ukey("tree.yaml") == opened(file, skip_instance_cache=True).ukey("tree.yaml")
    with found.open("blocks/0000.bin") as stream:
        stream.seek(1000)
        assert stream.read(50) == raw[1000:1050]
        assert stream.read() == raw[1050:]
    assert "arrays/roman/data.fits" not in opened(file, hide=("fits",)).find("")


@pytest.mark.parametrize("path", ["none", "blocks/none", "tree.yaml/x"])
def test_missing_files(file: Path, path: str) -> None:
    for ask in (opened(file).info, opened(file).ls, opened(file).cat_file, opened(file).open):
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            ask(path)


def test_what_is_refused(file: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="read-only"):
        opened(file).open("tree.yaml", "wb")
    with pytest.raises(IsADirectoryError):
        opened(file).cat_file("blocks")
    (tmp_path / "text.asdf").write_text("no ASDF file")
    with pytest.raises(AsdffsError, match=r"text\.asdf"):
        opened(tmp_path / "text.asdf")
    with pytest.raises(FileNotFoundError):
        opened(tmp_path / "none.asdf")


def test_a_file_that_changes(tmp_path: Path) -> None:
    """What was not read before is refused, never taken from another version."""
    path = tmp_path / "x.asdf"
    asdf.AsdfFile({"a": np.arange(100_000), "b": np.arange(100_000)}).write_to(path)
    found = opened(path)
    assert found.cat_file("blocks/0000.bin", 0, 8) == bytes(8)
    asdf.AsdfFile({"a": np.arange(100_000) + 1, "b": np.arange(100_000) + 1}).write_to(path)
    with pytest.raises(AsdffsError, match="another program changed the file"):
        found.cat_file("blocks/0001.bin", 400_000, 400_008)


def test_chains(file: Path, tmp_path: Path) -> None:
    """From a file, a zip archive, memory, an open file, and a web server, of which little is fetched."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(file, "night/x.asdf")
    fsspec.filesystem("memory").pipe("/x.asdf", file.read_bytes())
    for rest in (f"file://{file}", f"zip://night/x.asdf::file://{tmp_path}/a.zip", "memory://x.asdf"):
        with fsspec.open(f"asdf://arrays/roman/data.npy::{rest}") as stream:
            assert np.array_equal(np.load(stream), IMAGE), rest
    assert fsspec.filesystem("asdf", fo=io.BytesIO(file.read_bytes())).cat("tree.yaml").startswith(b"#ASDF 1.0.0")
    big = {"a": np.arange(1_000_000), "b": np.arange(1_000_000)}
    asdf.AsdfFile(big).write_to(tmp_path / "big.asdf")
    with WebServer().running() as server:
        url = server.put("/big.asdf", (tmp_path / "big.asdf").read_bytes())
        with fsspec.open(f"asdf://tree.yaml::{url}") as stream:
            assert b"!core/ndarray" in stream.read()
        assert fsspec.filesystem("asdf", fo=url).cat_file("blocks/0001.bin", 8000, 8008) == (1000).to_bytes(
            8, "little"
        )
        assert server.sent < 600_000


def test_answers_of_another_length(tmp_path: Path) -> None:
    """A server that ignores ranges is refused, never believed; a file that reads less at a time is read on."""
    values = np.arange(200_000)
    asdf.AsdfFile({"a": values}).write_to(tmp_path / "x.asdf")
    raw = (tmp_path / "x.asdf").read_bytes()
    with WebServer().running() as server:
        url = server.put("/x.asdf", raw)
        server.fault = lambda request: Answer(ranges=False) if request.method == "GET" else None
        with pytest.raises((AsdffsError, OSError, ValueError)):
            fsspec.filesystem("asdf", fo=url).cat("blocks/0000.bin")

    class Short(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 50_000))

    found = fsspec.filesystem("asdf", fo=Short(raw))
    assert found.cat("blocks/0000.bin") == values.tobytes()
    assert found.cat_file("blocks/0000.bin", 70_000, 200_000) == values.tobytes()[70_000:200_000]


def test_fits_and_dask(file: Path) -> None:
    with fsspec.open(f"asdf://arrays/roman/data.fits::file://{file}") as stream:
        assert np.array_equal(fits.getdata(stream), IMAGE)
    dask_bytes = pytest.importorskip("dask.bytes", reason="dask is not installed")
    parts = dask_bytes.read_bytes(f"asdf://blocks/*.bin::file://{file}", blocksize=None)[1]
    assert [part[0].compute() for part in parts] == [IMAGE.tobytes(), np.arange(5.0).tobytes()]
    assert pickle.loads(pickle.dumps(opened(file))).cat("tree.yaml") == opened(file).cat("tree.yaml")


def test_without_the_modules_of_unix(file: Path) -> None:
    """Nothing of ours that reads needs ``fcntl``, ``resource``, ``pwd``, ``grp`` or ``termios``."""
    script = (
        "import sys\n"
        "for name in ('fcntl', 'resource', 'pwd', 'grp', 'termios'):\n"
        "    sys.modules[name] = None\n"
        "import fsspec, numpy\n"
        "found = fsspec.filesystem('asdf', fo=sys.argv[1])\n"
        "assert found.cat('tree.yaml').startswith(b'#ASDF')\n"
        "print(len(found.cat('blocks/0000.bin')), numpy.load(found.open('arrays/roman/data.npy')).shape)\n"
        "import asdffs\n"
        "print(asdffs.open(sys.argv[1]).arrays['roman/data'][3, 4])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, file], capture_output=True, text=True, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"240000 (400, 300)\n{IMAGE[3, 4]}\n"

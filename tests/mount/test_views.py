"""Views on real mounts: numpy, dask, pandas, astropy and the asdf library read what the asdf library reads."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import asdf
import astropy.io.fits
import numpy as np
import pytest
from support.arrays import UNSHOWN, read_by_asdf, tree_file, write_all_kinds
from support.mounts import Mounted, mounted, run
from support.plugins import install
from support.samples import block_bytes, header_bytes, opened, put, zlib_block

from asdffs.tree.paths import name_of

pytestmark = pytest.mark.mount

MODES = [None, "r", "c", "r+"]
ARRAY = "!core/ndarray-1.0.0"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("views") / "all kinds.asdf"
    write_all_kinds(path)
    return path


@pytest.fixture(scope="module")
def mount(file: Path) -> Iterator[Mounted]:
    before = file.read_bytes()
    with mounted(file) as mount:
        yield mount
    assert file.read_bytes() == before, "what was read and written back as it was changes no byte"


@pytest.fixture(scope="module")
def arrays(file: Path) -> dict[tuple[str | int, ...], np.ndarray]:
    found = read_by_asdf(file)
    assert len(found) > 60
    return found


def place_of(mount: Mounted, path: tuple[str | int, ...], ending: str) -> Path:
    return mount.point / "arrays" / ("/".join(map(name_of, path)) + ending)


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()


def test_npy_in_every_mode(mount: Mounted, arrays: dict[tuple[str | int, ...], np.ndarray]) -> None:
    """Strided and computed arrays refuse to be mapped for writing, windows are."""
    refused = set()
    for path, wanted in arrays.items():
        for mode in MODES:
            if mode is not None and not wanted.size:
                continue  # numpy cannot map what has no bytes
            try:
                found = np.load(place_of(mount, path, ".npy"), mmap_mode=mode)
            except PermissionError:
                refused.add((path[0], mode))
                continue
            assert_same(found, wanted)
            if mode == "r+":
                found.reshape(-1, order="A")[0] = found.reshape(-1, order="A")[0]
                found.flush()
    strided = {"backwards", "mirrored", "slice", "transposed", "repeated", "overlapping", "masked_by_value"}
    made = {"inline", "short", "list", ".", "100%", "ünï ☃"}
    assert {name for name, _ in refused} == strided - {"masked_by_value"} | made | {"masked_by_value"}
    assert {mode for _, mode in refused} == {"r+"}
    assert not os.access(place_of(mount, ("slice",), ".npy"), os.W_OK) or os.getuid() == 0
    assert place_of(mount, ("slice",), ".npy").stat().st_mode & 0o222 == 0


def test_only_arrays_are_listed(mount: Mounted, arrays: dict[tuple[str | int, ...], np.ndarray]) -> None:
    listed = set((mount.point / "arrays").rglob("*.npy"))
    assert listed == {place_of(mount, path, ".npy") for path in arrays}
    names = run("ls", "-lR", mount.point / "arrays")
    assert names.returncode == 0, names.stderr
    assert sorted(os.listdir(mount.point / "arrays/list")) == ["1", "2"]
    assert {"%2E.npy", "100%25.npy", "ünï ☃.npy"} <= set(os.listdir(mount.point / "arrays"))


@pytest.mark.long
def test_dask_and_pandas(mount: Mounted, arrays: dict[tuple[str | int, ...], np.ndarray]) -> None:
    import dask.array
    import pandas as pd

    mapped = np.load(place_of(mount, ("packed",), ".npy"), mmap_mode="r")
    lazy = dask.array.from_array(np.memmap(mapped.filename, mapped.dtype, "r", mapped.offset, mapped.shape), chunks=7)
    assert_same(np.asarray(lazy), arrays["packed",])
    assert float(lazy.sum()) == float(arrays["packed",].sum(dtype="f8"))
    records = np.load(place_of(mount, ("records",), ".npy"), mmap_mode="r")
    frame = pd.DataFrame({name: records[name].astype(records[name].dtype.newbyteorder("=")) for name in ("a", "b c")})
    assert frame["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert frame["b c"].sum() == arrays["records",]["b c"].sum()


def test_fits_by_astropy(mount: Mounted, arrays: dict[tuple[str | int, ...], np.ndarray]) -> None:
    shown = 0
    for path, wanted in arrays.items():
        place = place_of(mount, path, ".fits")
        numeric = (
            wanted.dtype.kind in "biuf" and wanted.ndim and path[0] not in ("short", "list", ".", "100%", "ünï ☃")
        )
        numeric = numeric and path != ("masked_by_value", "mask")  # it is in the array's own file
        assert place.exists() == bool(numeric or wanted.dtype.names), place
        if not place.exists():
            continue
        shown += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for memmap in (True, False):
                check_fits(place, wanted, memmap=memmap)
        assert place.stat().st_size % 2880 == 0
        assert place.stat().st_mode & 0o222 == 0
    assert shown > 40


def check_fits(place: Path, wanted: np.ndarray, *, memmap: bool) -> None:
    with astropy.io.fits.open(place, memmap=memmap) as units:
        units.verify("exception")
        if wanted.dtype.names:
            for name in wanted.dtype.names:
                found = np.asarray(units[1].data[name])
                assert np.array_equal(found if found.dtype.kind != "U" else np.char.encode(found), wanted[name])
            return
        if memmap and "BZERO" in units[0].header:
            return  # astropy maps no scaled images, of any file
        data = units[0].data
        assert data is None or np.array_equal(data, wanted)
        assert data is not None or not wanted.size
        if place.name.startswith("masked"):
            assert units["MASK"].data.sum() > 0


def test_fits_headers(mount: Mounted) -> None:
    done = run(Path(sys.executable).parent / "fitsheader", mount.point / "arrays/rank2.fits")
    assert done.returncode == 0, done.stderr
    assert "HIERARCH meta.instrument.name = 'a b     '" in done.stdout
    header = astropy.io.fits.getheader(mount.point / "arrays/rank2.fits")
    assert (header["meta.exposure"], header["meta.instrument.name"], header["meta.instrument.detector"]) == (
        12.5,
        "a b",
        7,
    )
    assert (header["BITPIX"], header["NAXIS1"], header["NAXIS2"]) == (16, 30, 4)


def test_asdf_opens_the_exploded_form(
    mount: Mounted, file: Path, arrays: dict[tuple[str | int, ...], np.ndarray]
) -> None:
    exploded = mount.point / "exploded"
    assert "source: all%20kinds0000.asdf, datatype: int8, byteorder: big" in (exploded / file.name).read_text()
    found = read_by_asdf(exploded / file.name)
    assert set(found) == set(arrays)
    for path, wanted in arrays.items():
        assert_same(found[path], wanted)
    with asdf.open(exploded / file.name, memmap=True, lazy_load=True) as lazy:
        assert_same(np.asarray(lazy["rank2"]), arrays["rank2",])


@pytest.mark.long
def test_a_copy_of_the_exploded_form_is_one(mount: Mounted, file: Path, tmp_path: Path) -> None:
    assert run("cp", "-r", mount.point / "exploded", tmp_path / "copy").returncode == 0
    done = run(
        Path(sys.executable).parent / "asdftool",
        "implode",
        "-o",
        tmp_path / "whole.asdf",
        tmp_path / "copy" / file.name,
    )
    assert done.returncode == 0, done.stderr
    with opened(tmp_path / "whole.asdf") as whole:
        assert np.array_equal(whole["rank2"], np.arange(120).reshape(4, 30) - 60)
        assert np.array_equal(whole["packed"], np.arange(500).reshape(10, 50))


def test_a_window_is_written_through(tmp_path: Path) -> None:
    """Into blocks that are stored as they are, and compressed ones; the header refuses changes."""
    path = tmp_path / "data.asdf"
    common = "datatype: int32, byteorder: little, shape: [2, 50]"
    body = f"plain: {ARRAY} {{source: 0, {common}}}\npacked: {ARRAY} {{source: 1, {common}}}\n"
    path.write_bytes(tree_file(body, [block_bytes(bytes(400)), zlib_block(bytes(400))]))
    with mounted(path) as mount:
        for name in ("plain", "packed"):
            place = mount.point / f"arrays/{name}.npy"
            array = np.load(place, mmap_mode="r+")
            array[1, 3] = 77
            array.flush()
            del array
            with open(place, "r+b", buffering=0) as raw, pytest.raises(PermissionError):
                os.pwrite(raw.fileno(), b"X", 20)
            with pytest.raises(PermissionError):
                os.truncate(place, 10)
            with open(place, "r+b", buffering=0) as raw, pytest.raises(PermissionError):
                os.pwrite(raw.fileno(), b"12345678", place.stat().st_size - 4)
            assert np.load(place)[1, 3] == 77
        assert "the array keeps its size" in mount.error or "the array cannot grow by a write" in mount.error
        run("sync", mount.point)
    with opened(path) as found:
        for name in ("plain", "packed"):
            assert found[name][1, 3] == 77
            assert np.count_nonzero(found[name]) == 1


def test_a_commit_changes_the_arrays_at_once(tmp_path: Path) -> None:
    """Those that it does not concern keep their times; the rest comes, goes and changes."""
    path = tmp_path / "data.asdf"
    common = "source: 0, datatype: uint8, byteorder: big"
    body = f"a: {ARRAY} {{{common}, shape: [6]}}\nb: {ARRAY} {{{common}, shape: [3]}}\nc: {{d: {ARRAY} [1, 2]}}\n"
    path.write_bytes(tree_file(body, [block_bytes(bytes(range(6)))], padding=b" " * 500))
    with mounted(path) as mount:
        folder = mount.point / "arrays"
        before = {name: (folder / f"{name}.npy").stat().st_mtime_ns for name in ("a", "b", "c/d")}
        assert np.load(folder / "b.npy").shape == (3,)
        held = open(folder / "b.npy", "rb")
        text = mount.tree.read_text().replace("shape: [3]", "shape: [3, 2]").replace("c: {d", "new: {e")
        mount.tree.write_text(text.replace("a: !core", "# a comment\na: !core"))
        assert np.load(folder / "b.npy").tolist() == [[0, 1], [2, 3], [4, 5]]
        assert np.load(held).shape == (3, 2), "a file that was open shows what is there now"
        assert sorted(path.name for path in folder.iterdir() if path.suffix != ".fits") == ["a.npy", "b.npy", "new"]
        assert not (folder / "c/d.npy").exists()
        assert not (folder / "c").exists()
        assert np.load(folder / "new/e.npy").tolist() == [1, 2]
        assert (folder / "a.npy").stat().st_mtime_ns == before["a"]
        assert (folder / "b.npy").stat().st_mtime_ns > before["b"]
        assert (folder / "new/e.npy").stat().st_mtime_ns > before["c/d"]
        held.close()


def test_a_growing_stream(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    body = f"s: {ARRAY} {{source: -1, datatype: uint16, byteorder: big, shape: ['*', 2]}}\n"
    path.write_bytes(tree_file(body, [header_bytes(b"", flags=1, md5=False) + bytes(8)], index="absent"))
    with mounted(path) as mount:
        place = mount.point / "arrays/s.npy"
        assert np.load(place, mmap_mode="r").shape == (2, 2)
        with open(mount.block(0), "ab") as stream:
            for number in range(100):
                stream.write(np.array([number, 7], ">u2").tobytes())
                stream.flush()
                if number % 20 == 0:
                    found = np.load(place)
                    assert found.shape == (3 + number, 2)
                    assert found[-1].tolist() == [number, 7]
        with asdf.open(mount.point / "exploded/data.asdf") as exploded:
            assert exploded["s"].shape == (102, 2)
            assert exploded["s"][-1].tolist() == [99, 7]
        assert astropy.io.fits.getdata(mount.point / "arrays/s.fits").shape == (102, 2)


def test_wrong_trees(tmp_path: Path) -> None:
    """Each such array is EIO with a sentence that names its line; all others work, and so do saves."""
    body = "".join(f"'{name}': {ARRAY} {text}\n" for name, (text, _) in UNSHOWN.items())
    body += f"right: {ARRAY} {{source: 0, shape: [5], datatype: int16, byteorder: big}}\n"
    body = body.replace("*kind", "int24")
    path = put(tmp_path, tree_file(body, [block_bytes(bytes(range(256)) * 16)], padding=b" " * 500))
    with mounted(path) as mount:
        folder = mount.point / "arrays"
        for number, (name, (_, sentence)) in enumerate(UNSHOWN.items(), 6):
            assert (folder / f"{name}.npy").stat().st_size == 0
            for ending in ("npy", "fits"):
                if (folder / f"{name}.{ending}").exists():
                    with pytest.raises(OSError, match="Input/output error"):
                        (folder / f"{name}.{ending}").read_bytes()
                    assert mount.error.startswith(f"line {number}: "), mount.error
                    assert sentence in mount.error, (name, mount.error)
        assert np.load(folder / "right.npy").tolist() == [1, 515, 1029, 1543, 2057]
        assert run("ls", "-lR", mount.point).returncode == 0
        mount.tree.write_text(mount.tree.read_text().replace("int17", "uint8"))
        assert np.load(folder / "unknown datatype.npy").tolist() == [0, 1, 2, 3, 4]


@pytest.mark.long
def test_ten_thousand_arrays(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    count = 10_000
    fact = "datatype: int32, byteorder: little, shape: [2]"
    body = "".join(f"a{n}: {ARRAY} {{source: {n}, {fact}}}\n" for n in range(count))
    path.write_bytes(tree_file(body, [block_bytes(np.array([n, -n], "<i4").tobytes()) for n in range(count)]))
    with mounted(path, "-o", "fits=off") as mount:
        listing = run("ls", "-l", mount.point / "arrays").stdout.splitlines()
        assert len(listing) == count + 1
        assert {line.split()[4] for line in listing[1:]} == {"136"}
        for n in range(0, count, 997):
            assert np.load(mount.point / f"arrays/a{n}.npy").tolist() == [n, -n]
        with asdf.open(mount.point / "exploded/data.asdf") as exploded:
            assert exploded["a9999"][1] == -9999


TOY = """
from asdffs.views.base import View, ViewFile

class Count(ViewFile):
    def __init__(self, document):
        self._document = document
    def size(self):
        return len(self.read(0, 100))
    def read(self, offset, length):
        return f"{len(self._document.blocks)} blocks\\n".encode()[offset:offset + length]

class Toy(View):
    directory = "toy"
    def names(self):
        return iter(["count.txt"])
    def child(self, name):
        return {"count.txt": Count(self._document)}[name]
"""


def test_a_view_of_another_package_is_one_file(tmp_path: Path) -> None:
    """Found through the entry point, served beside the others."""
    packages = tmp_path / "packages"
    install(packages, "toy", TOY, {"views": "toy"}, "Toy")
    path = put(tmp_path, tree_file("value: 1\n", [block_bytes(b"x"), block_bytes(b"y")]))
    with mounted(path, packages=packages) as mount:
        assert (mount.point / "toy/count.txt").read_text() == "2 blocks\n"
        assert sorted(os.listdir(mount.point)) == [".asdffs", "arrays", "blocks", "exploded", "toy", "tree.yaml"]
        with pytest.raises(PermissionError):
            (mount.point / "toy/new").write_text("")


def test_without_fits(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    body = f"a: {ARRAY} {{source: 0, shape: [2], datatype: uint8, byteorder: big}}\n"
    path.write_bytes(tree_file(body, [block_bytes(b"xy")]))
    with mounted(path, "-o", "fits=off") as mount:
        assert os.listdir(mount.point / "arrays") == ["a.npy"]


@pytest.mark.long
@pytest.mark.skipif(not (shutil.which("ds9") and shutil.which("xvfb-run")), reason="ds9 or xvfb-run is not installed")
def test_ds9_shows_the_pixels(mount: Mounted, tmp_path: Path) -> None:
    """DS9, which needs a screen, opens views and writes out the pixels that it has."""
    for name, dtype, zero in (("rank2", ">i2", 0), ("float64_little", ">f8", 0), ("uint16_big", ">i2", 32768)):
        out = tmp_path / f"{name}.array"
        view = mount.point / f"arrays/{name}.fits"
        done = run("timeout", "60", "xvfb-run", "-a", "ds9", "-fits", view, "-export", "array", out, "big", "-exit")
        assert done.returncode == 0, done.stderr
        found = np.frombuffer(out.read_bytes(), dtype).reshape(4, 30).astype("f8")
        assert np.array_equal(found + zero, np.load(view.with_suffix(".npy"))), "it exports what is before BZERO"


def test_a_refused_write_says_what_works_instead(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    asdf.AsdfFile({"a": np.zeros((4, 5), "f4")}).write_to(path)
    with mounted(path) as mount:
        npy, fits = (mount.point / f"arrays/a{ending}" for ending in (".npy", ".fits"))
        with pytest.raises(PermissionError):
            np.save(npy, np.ones((4, 5), "f4"))
        assert "write in place instead: numpy.load(FILE, mmap_mode='r+')[...] = values" in mount.error
        np.load(npy, mmap_mode="r+")[...] = 1
        with pytest.raises(OSError, match="Permission|Operation not permitted"):
            fits.open("r+b")
        assert "write the data through the .npy file beside it, and header values in tree.yaml" in mount.error
    with asdf.open(path) as found:
        assert found["a"].sum() == 20

"""Arrays in FITS files beside the ASDF file, as data sets of DKIST have them, against what was written."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from astropy.io import fits
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrays import tree_file
from support.mounts import as_user, asdffs, environment_in, mounted
from support.web_server import WebServer

import asdffs as library
from asdffs.document import data_files
from asdffs.document.opening import Settings, open_document
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.limits import Budget
from asdffs.workflows.checking import check_document

pytestmark = pytest.mark.feature("fits")

COUNTS, IMAGE = (2, 3), (6, 8)
PATH = "dataset/data"


def image(values: np.ndarray[Any, Any], packed: str) -> fits.HDUList:
    """A file with ``values`` in HDU 1; ``packed``: the compression of tiles, empty for none."""
    if not packed:
        return fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(values[None], name="OBSERVATION")])
    level = -0.01 if packed == "RICE_1" else 0  # floats in GZIP_2 are exact
    hdu = fits.CompImageHDU(values[None], compression_type=packed, quantize_level=level, name="OBSERVATION")
    return fits.HDUList([fits.PrimaryHDU(), hdu])


def tree(names: Any, dtype: str, shape: Any, more: str = "") -> str:
    facts = f"{{fileuris: {json.dumps(names)}, target: 1, datatype: {dtype}, shape: {json.dumps(shape)}{more}}}"
    data = f"!<asdf://dkist.nso.edu/tags/file_manager-1.1.0> {facts}"
    return f"dataset: !<asdf://dkist.nso.edu/tags/dataset-1.2.0>\n  data: {data}\n  unit: ct\n"


def name_of(number: int) -> str:
    return f"tile {number}%23.fits"  # it is a name, and no URI


def written(folder: Path, dtype: str = "float32", packed: str = "", more: str = "") -> np.ndarray[Any, Any]:
    """Write a data set as ``data.asdf`` with its files into ``folder``, and return its array."""
    count = COUNTS[0] * COUNTS[1]
    values = (np.arange(count * IMAGE[0] * IMAGE[1]) % 251).astype(dtype).reshape(count, *IMAGE)
    folder.mkdir(exist_ok=True)
    for number in range(count):
        image(values[number], packed).writeto(folder / name_of(number))
    names = np.array([name_of(number) for number in range(count)]).reshape(COUNTS).tolist()
    (folder / "data.asdf").write_bytes(tree_file(tree(names, dtype, [1, *IMAGE], more), []))
    return values.reshape(*COUNTS, *IMAGE)


KINDS = [
    *((dtype, "") for dtype in ("uint8", "int16", "int32", "int64", "float32", "float64")),
    *((dtype, packed) for dtype in ("int16", "float32", "float64") for packed in ("RICE_1", "GZIP_2")),
]


@pytest.mark.parametrize(("dtype", "packed"), KINDS)
def test_the_files_are_one_array(tmp_path: Path, dtype: str, packed: str) -> None:
    values = written(tmp_path, dtype, packed)
    with fits.open(tmp_path / name_of(4)) as hdus:
        exact = np.array_equal(hdus[1].data[0], values[1, 1])
    assert exact or dtype.startswith("float")
    with library.open(tmp_path / "data.asdf") as document:
        array = document.arrays[PATH]
        assert (array.shape, array.dtype, array.chunks) == (values.shape, np.dtype(dtype), (1, 1, *IMAGE))
        assert array.units == {"": "ct"}
        np.testing.assert_allclose(array[:], values, atol=0 if exact else 0.5)
        np.testing.assert_array_equal(array[1, ::-1, 2:5, -1], array[:][1, ::-1, 2:5, -1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two data sets of the same elements, as they are and compressed, without one file."""
    place = tmp_path_factory.mktemp("sets")
    for name, packed in (("stored", ""), ("packed", "GZIP_2")):
        written(place / name, "float64", packed, ", subslice: [[1, 6, 2], [null, 7, null]]")
        (place / name / name_of(2)).unlink()
    return place


def keys() -> Any:
    numbers = st.none() | st.integers(-9, 9)
    steps = st.builds(slice, numbers, numbers, st.sampled_from([None, 1, 2, -1, -3]))
    places = st.lists(st.integers(-2, 1), min_size=2, max_size=2) | st.just(np.array([[0, 1], [-1, 0]]))
    return st.lists(steps | st.integers(-2, 1) | st.just(...) | places, max_size=4)


@settings(max_examples=300 if os.environ.get("ASDFFS_DEEP") else 60, deadline=None)
@given(kind=st.sampled_from(["stored", "packed"]), index=keys(), data=st.data())
def test_any_selection_and_any_bytes(folder: Path, kind: str, index: Any, data: st.DataObject) -> None:
    whole = (np.arange(6 * 48) % 251).astype("f8").reshape(*COUNTS, *IMAGE)
    whole[0, 2] = np.nan
    whole = whole[:, :, 1:6:2, :7]
    index = tuple(index) if sum(one is ... for one in index) < 2 else (...,)
    with library.open(folder / kind / "data.asdf") as document:
        np.testing.assert_array_equal(document.arrays[PATH][index], whole[index])
        elements = document.arrays[PATH].elements()
        start, length = data.draw(st.integers(0, whole.nbytes)), data.draw(st.integers(0, whole.nbytes))
        assert elements.read(start, length) == whole.tobytes()[start : start + length]


def test_integers_of_a_missing_file_are_the_least(tmp_path: Path) -> None:
    values = written(tmp_path, "int16")
    (tmp_path / name_of(1)).unlink()
    with library.open(tmp_path / "data.asdf") as document:
        found = document.arrays[PATH][:]
        notes = [finding.sentence for finding in check_document(document, deep=False)]
    assert (found[0, 1] == -32768).all()
    assert (np.delete(found.reshape(6, -1), 1, 0) == np.delete(values.reshape(6, -1), 1, 0)).all()
    sentence = "1 of its files are not there, so their elements are missing"
    assert notes == [f"line 7: dataset/data: {sentence}: {name_of(1)}"]


def test_one_file_alone_and_external_arrays(tmp_path: Path) -> None:
    values = np.arange(48, dtype="f4").reshape(IMAGE)
    (tmp_path / "below").mkdir()
    image(values, "").writeto(tmp_path / "below/one.fits")
    far = "far: !core/externalarray-1.0.0 {fileuri: below/one.fits, target: observation, datatype: float32, "
    body = tree("below/one.fits", "float64", [1, *IMAGE]) + far + "shape: [1, 6, 8]}\n"
    (tmp_path / "data.asdf").write_bytes(tree_file(body, []))
    with library.open(tmp_path / "data.asdf") as document:
        assert (document.arrays[PATH].dtype, document.arrays["far"].dtype) == (np.dtype("f8"), np.dtype("f4"))
        np.testing.assert_array_equal(document.arrays[PATH][:], values)
        np.testing.assert_array_equal(document.arrays["far"][:], values[None])


def refusal(folder: Path, body: str, **options: Any) -> str:
    (folder / "data.asdf").write_bytes(tree_file(body, []))
    document = open_document(str(folder / "data.asdf"), writable=False, settings=Settings(**options))
    with document, pytest.raises(AsdffsError) as caught:
        document.arrays[PATH][:]
    return caught.value.sentence


@pytest.mark.parametrize("name", ["../x.fits", "/etc/x.fits", "a/../../x.fits", ".", "file:///etc/x.fits/../../.."])
def test_names_elsewhere_are_not_followed(tmp_path: Path, name: str) -> None:
    found = refusal(tmp_path, tree([name, name], "float32", [4]))
    assert found == f"{name!r} is not in the directory of this file, and is not read"


def test_what_does_not_fit_names_the_file(tmp_path: Path) -> None:
    values = np.arange(48, dtype="f8").reshape(IMAGE)
    image(values, "").writeto(tmp_path / "a.fits")
    scaled = fits.ImageHDU(values.astype("i2"))
    scaled.header["BSCALE"] = 0.5
    fits.HDUList([fits.PrimaryHDU(), scaled]).writeto(tmp_path / "s.fits")
    (tmp_path / "text.fits").write_text("no image")
    (tmp_path / "empty.fits").write_bytes(b"")
    raw = (tmp_path / "a.fits").read_bytes()
    (tmp_path / "cut.fits").write_bytes(raw[: len(raw) - 2880])
    cut = "its source, the FITS extension OBSERVATION, is cut off by the end of the file"
    refused = {
        ("a.fits", "float64", (1, 6, 7)): "its image has the shape [1, 6, 8], and the tree says [1, 6, 7]",
        ("a.fits", "float32", (1, 6, 8)): "its image has elements of float64, and the tree says float32",
        ("s.fits", "int16", (6, 8)): "its image is scaled (BSCALE, BZERO), of which the tree says nothing",
        ("text.fits", "int16", (6, 8)): "it is in no format that asdffs reads",
        ("empty.fits", "int16", (6, 8)): "it is in no format that asdffs reads",
        ("cut.fits", "float64", (1, 6, 8)): cut,
    }
    for (name, dtype, shape), sentence in refused.items():
        assert refusal(tmp_path, tree([name], dtype, shape)) == f"{name!r} cannot be read: {sentence}"
    there = tree(["a.fits"], "float64", [1, 6, 8]).replace("target: 1", "target: 7")
    assert refusal(tmp_path, there) == "'a.fits' cannot be read: it has no extension '7'"


@pytest.mark.parametrize("packed", ["", "GZIP_2"])
def test_two_arrays_in_one_file_are_each_as_the_tree_says(tmp_path: Path, packed: str) -> None:
    values = np.arange(48, dtype="f4").reshape(IMAGE)
    image(values, packed).writeto(tmp_path / "a.fits")
    tag = "!<asdf://dkist.nso.edu/tags/file_manager-1.1.0>"
    kinds = {"f8": ("float64", [1, 6, 8]), "f4": ("float32", [1, 6, 8]), "bad": ("float32", [1, 6, 7])}
    body = "".join(
        f"{name}: {tag} {{fileuris: a.fits, target: 1, datatype: {dtype}, shape: {shape}}}\n"
        for name, (dtype, shape) in kinds.items()
    )
    (tmp_path / "data.asdf").write_bytes(tree_file(body, []))
    with library.open(tmp_path / "data.asdf") as document:
        for name in ("f8", "f4", "f8"):
            assert document.arrays[name][:].dtype == np.dtype(name)
            np.testing.assert_array_equal(document.arrays[name][:], values)
        with pytest.raises(InvalidArrayError, match="the tree says"):
            document.arrays["bad"][:]


def test_only_what_is_not_there_is_missing(tmp_path: Path) -> None:
    """What is there and cannot be read is an error, and a FIFO does not hold anybody up."""
    image(np.zeros(IMAGE), "").writeto(tmp_path / "a.fits")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "below").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    reasons = {name: refusal(tmp_path, tree([name], "float64", [1, *IMAGE])) for name in ("fifo", "below", "loop")}
    assert reasons == {
        "fifo": "'fifo' cannot be read: is not a regular file; give the file itself",
        "below": "'below' cannot be read: is a directory; give the file itself",
        "loop": "'loop' cannot be read: Too many levels of symbolic links",
    }
    (tmp_path / "a.fits").chmod(0)
    tmp_path.chmod(0o755)
    (tmp_path / "data.asdf").write_bytes(tree_file(tree(["a.fits"], "float64", [1, *IMAGE]), []))
    denied = pytest.raises(InvalidArrayError, match="Permission denied")
    with library.open(tmp_path / "data.asdf") as document, as_user(), denied:
        document.arrays[PATH][:]
    for name in ("none.fits", "a.fits/x", "none/x"):
        (tmp_path / "data.asdf").write_bytes(tree_file(tree([name], "float64", [1, *IMAGE]), []))
        with library.open(tmp_path / "data.asdf") as document:
            assert np.isnan(document.arrays[PATH][:]).all()


@pytest.mark.mount
def test_a_name_in_its_own_mount_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "link").symlink_to("mnt/arrays/dataset")
    names = ["mnt", "mnt/arrays/dataset/data.npy", "link/data.npy", "link"]
    (tmp_path / "data.asdf").write_bytes(tree_file(tree(names, "float64", [1, *IMAGE]), []))
    with mounted(tmp_path / "data.asdf", at=tmp_path / "mnt") as mount:
        assert (mount.point / "arrays/dataset/data.npy").stat().st_size > 0
        with pytest.raises(OSError, match="Input/output error|Operation not permitted"):
            (mount.point / "arrays/dataset/data.npy").read_bytes()
        assert "is in a mount of asdffs" in (mount.point / ".asdffs/error").read_text()


def test_a_shape_alone_takes_no_memory(tmp_path: Path) -> None:
    """Names cost nothing: only files that are there count, each once."""
    image(np.zeros((100, 100)), "").writeto(tmp_path / "a.fits")
    names = ["a.fits"] * 50 + [f"{number}.fits" for number in range(50)]
    found = refusal(tmp_path, tree(names, "float64", [1, 100, 100]), budget=Budget(1 << 20))
    assert found == "its elements would take 8 MiB of memory, more than 1 MiB"


def test_few_files_stay_open(tmp_path: Path) -> None:
    image(np.ones((2, 2)), "").writeto(tmp_path / "0.fits")
    names = [f"{number}.fits" for number in range(300)]
    for name in names[1:]:
        os.link(tmp_path / "0.fits", tmp_path / name)
    (tmp_path / "data.asdf").write_bytes(tree_file(tree(names, "float64", [1, 2, 2]), []))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with library.open(tmp_path / "data.asdf") as document:
        assert document.arrays[PATH][:].sum() == 1200
        opened = len(os.listdir("/proc/self/fd")) - before
        assert opened <= 2 * data_files._MOST + 4  # two for each, and those of the ASDF file
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_comes_or_changes_is_seen(tmp_path: Path) -> None:
    for packed in ("", "GZIP_2"):
        place = tmp_path / f"set{packed}"
        values = written(place, "float64", packed)
        (place / name_of(0)).unlink()
        with library.open(place / "data.asdf") as document:
            array = document.arrays[PATH]
            assert np.isnan(array[0, 0]).all()
            for factor in (1, 2, 3):
                image(factor * values[0, 0], packed).writeto(place / "new")
                os.replace(place / "new", place / name_of(0))
                np.testing.assert_array_equal(array[0, 0], factor * values[0, 0])


@pytest.mark.parametrize("packed", ["", "GZIP_2"])
def test_on_a_web_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    values = written(tmp_path / "set", "float64", packed)
    values[0, 1] = np.nan
    with WebServer().running() as server:
        for path in (tmp_path / "set").iterdir():
            if path.name != name_of(1):
                server.put(f"/d/{path.name}", path.read_bytes())
        with library.open(server.put("/d/data.asdf", (tmp_path / "set/data.asdf").read_bytes())) as document:
            before = len(server.requests)
            np.testing.assert_array_equal(document.arrays[PATH][0, 0], values[0, 0])
            assert len(server.requests) - before <= 2  # the head has all of a small file
            np.testing.assert_array_equal(document.arrays[PATH][:], values)
        for name in ("../data.asdf", "//127.0.0.1:1/x.fits"):
            url = server.put("/d/odd.asdf", tree_file(tree([name], "float64", [1, *IMAGE]), []))
            with library.open(url) as document, pytest.raises(InvalidArrayError, match="not in the directory"):
                document.arrays[PATH][:]
        name = "http:x.fits"  # a name as any other
        with library.open(server.put("/d/odd.asdf", tree_file(tree([name], "float64", [1, *IMAGE]), []))) as document:
            assert np.isnan(document.arrays[PATH][:]).all()
            assert server.requests[-1].path == f"/d/{quote(name)}"


def test_other_users_see_what_they_may_read(tmp_path: Path) -> None:
    values = written(tmp_path, "float64")
    for one in (tmp_path, *tmp_path.parents[:3], *tmp_path.iterdir()):
        one.chmod(0o755)
    with open_document(str(tmp_path / "data.asdf"), writable=False, settings=Settings(others=0)) as document:
        np.testing.assert_array_equal(document.arrays[PATH][:], values)
        (tmp_path / name_of(3)).chmod(0o600)
        with pytest.raises(InvalidArrayError, match="may not all read this file"):
            document.arrays[PATH][1, 0]


@pytest.mark.mount
def test_in_a_mount(tmp_path: Path) -> None:
    values = written(tmp_path / "set", "float32", "GZIP_2")
    (tmp_path / "set" / name_of(5)).unlink()
    values[1, 2] = np.nan
    path = tmp_path / "set/data.asdf"
    with mounted(path) as mount:
        found = np.load(mount.point / "arrays/dataset/data.npy")
        np.testing.assert_array_equal(found, values)
        with fits.open(mount.point / "arrays/dataset/data.fits") as hdus:
            np.testing.assert_array_equal(hdus[0].data, values)
            assert hdus[0].header["BUNIT"] == "ct"
        assert json.loads((mount.point / ".asdffs/arrays.json").read_text()) == []
        with pytest.raises(PermissionError):
            (mount.point / "arrays/dataset/data.npy").open("r+b")
        before = (mount.point / "arrays/dataset/data.npy").stat().st_mtime_ns
        image(values[0, 0], "").writeto(tmp_path / "set" / name_of(5))  # a download that comes late
        after = (mount.point / "arrays/dataset/data.npy").stat().st_mtime_ns
        assert np.array_equal(np.load(mount.point / "arrays/dataset/data.npy")[1, 2], values[0, 0])
        assert after > before
        (tmp_path / "set" / name_of(5)).unlink()
        assert np.isnan(np.load(mount.point / "arrays/dataset/data.npy")[1, 2]).all()
    environment = environment_in(path.parent)
    facts = json.loads(asdffs("info", "--json", path, environment=environment).stdout)
    assert facts["arrays"][0]["pieces"] == {"kind": "files", "count": 6, "missing": 1}
    lines = asdffs("info", path, environment=environment).stdout.splitlines()
    assert "dataset/data float32  2 x 3 x 6 x 8 ct   6 files, 1 missing" in lines

"""Arrays in FITS files that are hostile, change, or are asked for in unusual ways: found by a review."""

from __future__ import annotations

import io
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from astropy.io import fits
from support.arrays import tree_file
from support.fits_files import bomb, with_tile
from support.mounts import mounted
from support.web_server import WebServer

import asdffs as library
from asdffs.document.arrays import stacked
from asdffs.document.arrays.elements import Strided
from asdffs.document.opening import Settings, open_document
from asdffs.errors import AsdffsError, InvalidArrayError, Remedy
from asdffs.limits import Budget
from asdffs.workflows.checking import Level, check_document

pytestmark = pytest.mark.feature("fits")

IMAGE = (6, 8)
TAG = "!<asdf://dkist.nso.edu/tags/file_manager-1.1.0>"


def written(path: Path, value: Any, packed: str = "", **options: Any) -> Path:
    values = np.broadcast_to(value, (1, *IMAGE)) if np.ndim(value) < 2 else np.asarray(value)[None]
    hdu = fits.CompImageHDU(values, compression_type=packed, **options) if packed else fits.ImageHDU(values)
    fits.HDUList([fits.PrimaryHDU(), hdu]).writeto(path.with_name("new"), overwrite=True)
    os.replace(path.with_name("new"), path)
    return path


def tree(names: Any, dtype: str = "float64", shape: Any = (1, *IMAGE), name: str = "d") -> str:
    files = str(names).replace("'", '"')
    return f"{name}: {TAG} {{fileuris: {files}, target: 1, datatype: {dtype}, shape: {list(shape)}}}\n"


def asdf(folder: Path, body: str) -> Path:
    (folder / "data.asdf").write_bytes(tree_file(body, []))
    return folder / "data.asdf"


def refusal(path: Path, index: Any = ..., **options: Any) -> str:
    settings = Settings(**options)
    opened = open_document(str(path), writable=False, settings=settings)
    with opened as document, pytest.raises(AsdffsError) as caught:
        document.arrays["d"][index]
    return caught.value.sentence


# -- files that lie --------------------------------------------------------------------


def test_a_file_that_ends_early_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy does not look at the size of an empty buffer."""
    path = written(tmp_path / "a.fits", np.ones(IMAGE))
    real = stacked._Image._stored

    def shortened(self: Any, inside: Any) -> Any:
        os.truncate(path, 5760)
        return real(self, inside)

    monkeypatch.setattr(stacked._Image, "_stored", shortened)
    assert refusal(asdf(tmp_path, tree(["a.fits"]))) == (
        "'a.fits' cannot be read: the file ends before the selected elements"
    )
    with pytest.raises(InvalidArrayError, match="ends before"):
        Strided((2, 3), (24, 8), 8, 0).read(lambda offset, length: b"")


def test_who_has_no_astropy_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "a.fits", np.ones(IMAGE, "i4"), "RICE_1")
    monkeypatch.setitem(sys.modules, "astropy.io", None)
    with library.open(asdf(tmp_path, tree(["a.fits"], "int32"))) as document, pytest.raises(AsdffsError) as caught:
        document.arrays["d"][...]
    assert caught.value.remedy is Remedy.INSTALL_FITS


def test_compressions_that_leave_their_memory_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.fits", np.ones(IMAGE, "i2"), "PLIO_1")
    assert "of another compression than RICE_1" in refusal(asdf(tmp_path, tree(["a.fits"], "int16")))


@pytest.mark.parametrize(
    ("side", "more", "sentence"),
    [
        (6, 40 << 20, "its compressed tile 0 has 42126 bytes, more than its elements take"),
        (600, 400 << 20, "its compressed tile 0 has more elements than the header says"),
    ],
)
def test_a_tile_decodes_to_no_more_than_it_should(tmp_path: Path, side: int, more: int, sentence: str) -> None:
    values = np.arange(side * side, dtype="i4").reshape(side, side)
    path = written(tmp_path / "a.fits", values, "GZIP_1", tile_shape=(1, side, side))
    with_tile(path, 1, bomb(values.astype(">i4").tobytes(), more))
    found = refusal(asdf(tmp_path, tree(["a.fits"], "int32", (1, side, side))))
    assert found.startswith("'a.fits' cannot be read: its compressed tile 0 has ")
    assert found.endswith(sentence.partition("bytes")[2] or sentence[-20:])


def test_a_table_of_tiles_has_few_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "a.fits", np.ones(IMAGE, "i4"), "RICE_1")
    raw = path.read_bytes()
    place = raw.index(b"TFIELDS =")
    path.write_bytes(raw[:place] + b"TFIELDS =             10000000".ljust(80) + raw[place + 80 :])
    assert "without a valid TFIELDS" in refusal(asdf(tmp_path, tree(["a.fits"], "int32")))


def test_what_is_only_stated_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file with a large image, and a server where nothing is known of the files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    written(tmp_path / "a.fits", 1.0)
    path = asdf(tmp_path, tree(["a.fits", "none.fits"], shape=(1, 20_000, 20_000)))
    assert refusal(path).startswith("its elements would take ")
    with WebServer().running() as server:
        url = server.put("/d/data.asdf", tree_file(tree(["a.fits"], shape=(1, 20_000, 20_000)), []))
        with library.open(url) as document, pytest.raises(InvalidArrayError, match="its elements would take"):
            document.arrays["d"][:]


@pytest.mark.mount
def test_a_bad_array_leaves_the_others_alone(tmp_path: Path) -> None:
    huge = tree(["a.fits"], shape=(1, 1 << 30, 1 << 30))
    long = tree(["a.fits"], "'<i" + "9" * 5000 + "'", name="e")
    path = asdf(tmp_path, huge + long + "n: !core/ndarray-1.0.0 [1, 2]\n")
    with mounted(path) as mount:
        assert sorted(os.listdir(mount.point / "arrays")) == ["n.npy"]
        assert np.load(mount.point / "arrays/n.npy").tolist() == [1, 2]
    with library.open(path) as document:
        assert document.arrays["n"][1] == 2


# -- names -----------------------------------------------------------------------------


@pytest.mark.long  # fsspec is an extra
def test_a_file_that_a_program_opened_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from asdffs.features.filesystem.files import AsdfFileSystem

    (tmp_path / "d").mkdir()
    written(tmp_path / "d/a.fits", 1.0)
    written(tmp_path / "secret.fits", 9.0)
    monkeypatch.chdir(tmp_path / "d")
    for name in ("a.fits", "../secret.fits", str(tmp_path / "secret.fits")):
        raw = asdf(tmp_path / "d", tree([name])).read_bytes()
        with (tmp_path / "d/data.asdf").open("rb") as file:
            opened = file if name == "a.fits" else io.BytesIO(raw)
            files = AsdfFileSystem(fo=opened, skip_instance_cache=True)
            with pytest.raises((AsdffsError, OSError)) as caught:
                files.cat_file("arrays/d.npy")
            assert "only the program that opened this file" in str(caught.value) or "not in the directory" in str(
                caught.value
            )


def test_a_query_signs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with WebServer().running() as server:
        url = server.put("/d/data.asdf", tree_file(tree(["a.fits"]), []))
        with library.open(url + "?token=x") as document, pytest.raises(AsdffsError, match="has a query"):
            document.arrays["d"][:]
        assert not any("a.fits" in one.path for one in server.requests)


def test_check_says_what_a_read_says(tmp_path: Path) -> None:
    written(tmp_path / "a.fits", 1.0)
    (tmp_path / "text.fits").write_text("no image")
    os.mkfifo(tmp_path / "fifo")
    names = ["a.fits", "text.fits", "fifo", "none.fits", "/etc/passwd"]
    with library.open(asdf(tmp_path, tree(names))) as document:
        found = {one.sentence: one.level for one in check_document(document, deep=False)}
    place = "line 6: d: "
    assert found == {
        f"{place}'/etc/passwd' is not in the directory of this file, and is not read": Level.ERROR,
        f"{place}'fifo' cannot be read: is not a regular file; give the file itself": Level.ERROR,
        f"{place}'text.fits' cannot be read: it is in no format that asdffs reads": Level.ERROR,
        f"{place}1 of its files are not there, so their elements are missing: none.fits": Level.NOTE,
    }


# -- changes ---------------------------------------------------------------------------


@pytest.mark.mount
@pytest.mark.parametrize("packed", ["", "GZIP_2"])
def test_links_and_directories_that_change_are_seen(tmp_path: Path, packed: str) -> None:
    def wrote(name: str, value: float) -> None:
        written(tmp_path / name, np.full(IMAGE, float(value)), packed, **({"quantize_level": 0} if packed else {}))

    for folder in ("sub", "away", "mnt"):
        (tmp_path / folder).mkdir()
    wrote("sub/b.fits", 1)
    wrote("away/c.fits", 2)
    wrote("away/e.fits", 20)
    (tmp_path / "c.fits").symlink_to("away/c.fits")
    path = asdf(tmp_path, tree(["sub/b.fits", "c.fits", "sub/late.fits"]))
    with mounted(path, at=tmp_path / "mnt") as mount, library.open(path) as document:

        def seen() -> list[float]:
            first = document.arrays["d"][:, 2, 3]
            np.testing.assert_array_equal(np.load(mount.point / "arrays/d.npy")[:, 2, 3], first)
            return [float(value) for value in np.nan_to_num(first, nan=-1)]

        assert seen() == [1, 2, -1]
        wrote("sub/late.fits", 3)
        assert seen() == [1, 2, 3]
        (tmp_path / "c.fits").unlink()
        (tmp_path / "c.fits").symlink_to("away/e.fits")
        assert seen() == [1, 20, 3]
        wrote("away/e.fits", 21)
        assert seen() == [1, 21, 3]
        (tmp_path / "c.fits").unlink()
        assert seen() == [1, -1, 3]
        (tmp_path / "sub").rename(tmp_path / "old")
        (tmp_path / "sub").mkdir()
        wrote("sub/b.fits", 111)
        assert seen() == [111, -1, -1]


# -- questions -------------------------------------------------------------------------


def test_lists_read_only_the_files_that_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.arange(200 * 48, dtype="f8").reshape(200, *IMAGE)
    names = [f"{number}.fits" for number in range(200)]
    for name, values in zip(names, whole, strict=True):
        written(tmp_path / name, values)
    opened, real = list[str](), stacked.StackedElements._image

    def counted(self: Any, name: str, *rest: Any, **options: Any) -> Any:
        opened.append(name)
        return real(self, name, *rest, **options)

    monkeypatch.setattr(stacked.StackedElements, "_image", counted)
    mask = np.zeros(200, bool)
    mask[[3, 90]] = True
    questions: list[Any] = [
        ([0, 1, 171],),
        ([171, 0, 0, -1], slice(None), 3),
        (mask, 2),
        ([5, 7], 1, slice(None, None, -1)),
        (np.array([[1, 2], [3, 199]]),),
        ([0, 1], slice(None), [2, 3]),
        (7, slice(None), [0, 5]),
    ]
    with library.open(asdf(tmp_path, tree(names))) as document:
        for number, index in enumerate(questions):
            del opened[:]
            np.testing.assert_array_equal(document.arrays["d"][index], whole[index])
            assert len(opened) <= 4 or number == 4  # more than a list for an axis: the box around it
        with pytest.raises(IndexError):
            document.arrays["d"][[0, 200]]


@pytest.mark.long  # xarray is an extra
def test_xarray_reads_only_the_files_that_it_needs(tmp_path: Path) -> None:
    """Those that are no images are never opened."""
    import xarray

    whole = np.arange(20 * 48, dtype="f8").reshape(20, *IMAGE)
    for number in range(20):
        (tmp_path / f"{number}.fits").write_text("no image")
    for number in (0, 17):
        written(tmp_path / f"{number}.fits", whole[number])
    path = asdf(tmp_path, tree([f"{number}.fits" for number in range(20)]))
    with xarray.open_dataset(path, engine="asdffs") as dataset:
        found = dataset["d"].isel(dim_0=[0, 17], dim_2=[1]).values
    np.testing.assert_array_equal(found, whole[[0, 17]][..., [1]])


def test_types_that_would_lose_digits_and_other_hdus_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.fits", np.full(IMAGE, (1 << 53) + 1))
    columns = [fits.Column("a", "J", array=np.arange(6))]
    fits.HDUList([fits.PrimaryHDU(), fits.BinTableHDU.from_columns(columns)]).writeto(tmp_path / "t.fits")
    assert refusal(asdf(tmp_path, tree(["a.fits"]))) == (
        "'a.fits' cannot be read: its image has elements of int64, and the tree says float64"
    )
    assert refusal(asdf(tmp_path, tree(["t.fits"], "int32", (6,)))) == (
        "'t.fits' cannot be read: its extension '1' is no image"
    )
    far = "d: !core/externalarray-1.0.0 {fileuri: none.fits, target: 1, datatype: float64, shape: [6, 8]}\n"
    assert "No such file or directory" in refusal(asdf(tmp_path, far))


def test_a_scalar(tmp_path: Path) -> None:
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.array([7.0]))]).writeto(tmp_path / "a.fits")
    with library.open(asdf(tmp_path, tree(["a.fits"], shape=(1,)))) as document:
        assert document.arrays["d"].shape == ()
        assert document.arrays["d"][()] == 7


def test_large_images_are_read_by_their_tiles_and_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(300 * 200, dtype="i4").reshape(300, 200)
    written(tmp_path / "rows.fits", values, "RICE_1")
    written(tmp_path / "one.fits", values, "RICE_1", tile_shape=(1, 300, 200))
    calls, real = list[Any](), stacked.converted

    def counted(*words: Any, **options: Any) -> Any:
        calls.append(words)
        return real(*words, **options)

    monkeypatch.setattr(stacked, "converted", counted)
    settings = Settings(budget=Budget(100 << 10))
    path = asdf(tmp_path, tree(["rows.fits"], "int32", (1, 300, 200)))
    with open_document(str(path), writable=False, settings=settings) as document:
        np.testing.assert_array_equal(document.arrays["d"][7, :5], values[7, :5])
    assert "a compressed tile would take" in refusal(
        asdf(tmp_path, tree(["one.fits"], "int32", (1, 300, 200))), (7, slice(5)), budget=Budget(40 << 10)
    )
    with library.open(tmp_path / "data.asdf") as document:
        del calls[:]
        elements = document.arrays["d"].elements()
        raw = b"".join(elements.read(at, 4096) for at in range(0, values.nbytes, 4096))
        assert (raw, len(calls)) == (values.tobytes(), 1)


def test_threads_leave_the_warnings_of_the_program_as_they_are(tmp_path: Path) -> None:
    written(tmp_path / "a.fits", np.ones(IMAGE, "i4"), "RICE_1")
    path, before = asdf(tmp_path, tree(["a.fits"] * 20, "int32")), list(warnings.filters)

    def read(_: int) -> float:
        with library.open(path) as document:
            return sum(float(document.arrays["d"][number, 0, 0]) for number in range(20))

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(read, range(24))) == {20.0}
    assert list(warnings.filters) == before

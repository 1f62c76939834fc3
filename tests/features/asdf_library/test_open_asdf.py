"""``asdffs.open_asdf`` beside ``asdf.open``: the same trees and elements, by fewer bytes."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from asdf.extension import Converter, Extension
from asdf.tags.core import NDArrayType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.arrays import _arrays, read_by_asdf, tree_file, write_all_kinds
from support.commands import command
from support.fits_files import DATA, DQ, write_fits
from support.mounts import environment_in
from support.samples import block_bytes
from support.web_server import WebServer

import asdffs
from asdffs.errors import AsdffsError
from asdffs.features.asdf_library.arrays import LazyArray

CHANCE = np.random.default_rng(11)
IMAGE = CHANCE.integers(0, 60, (2000, 1000), "u2")


def arrays_by_asdffs(path: Path) -> dict[tuple[str | int, ...], np.ndarray]:
    with asdffs.open_asdf(path, ignore_unrecognized_tag=True) as file:
        assert isinstance(file["float32_big"] if "float32_big" in file else file["a"], LazyArray)
        file.resolve_references()
        return {place: np.array(array) for place, array in _arrays(dict(file.tree), ())}


def test_every_kind_is_as_asdf_has_it(tmp_path: Path) -> None:
    write_all_kinds(tmp_path / "kinds.asdf")
    expected, found = read_by_asdf(tmp_path / "kinds.asdf"), arrays_by_asdffs(tmp_path / "kinds.asdf")
    assert found.keys() == expected.keys()
    assert len(found) > 60
    for place, array in expected.items():
        assert (found[place].shape, found[place].dtype) == (array.shape, array.dtype), place
        assert np.array_equal(found[place], array, equal_nan=array.dtype.kind in "fc"), place


@pytest.mark.parametrize("storage", ["internal", "external", "inline"])
def test_storage_and_shape_before_reading(tmp_path: Path, storage: str) -> None:
    tree = {"a": np.arange(60.0).reshape(3, 4, 5), "m": np.ma.array([1, 2, 3], mask=[0, 1, 0])}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf", all_array_storage=storage)
    with asdffs.open_asdf(tmp_path / "a.asdf") as file, asdf.open(tmp_path / "a.asdf") as theirs:
        assert isinstance(file, asdf.AsdfFile)
        assert isinstance(file["a"], NDArrayType if storage == "inline" else LazyArray)
        assert (file["a"].shape, file["a"].dtype, len(file["a"])) == ((3, 4, 5), np.float64, 3)
        assert repr(file["m"]) == repr(theirs["m"])
        assert np.array_equal(file["a"] + 1, tree["a"] + 1)
        assert file["a"].mean() == tree["a"].mean()
        assert file["m"].sum() == 4
        assert file["m"][1] is np.ma.masked
        assert np.array_equal(np.asarray(file["a"]), tree["a"])


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_any_slice_of_any_array(tmp_path: Path, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    array: Any = CHANCE.integers(0, 9, shape).astype(data.draw(st.sampled_from(["u1", ">i4", "f8", "c16", "?"])))
    if data.draw(st.booleans()):
        array = array.T
    if data.draw(st.booleans()):
        array = np.ma.array(array, mask=CHANCE.random(array.shape) < 0.4)
    compression = data.draw(st.sampled_from([None, "zlib", "lz4"]))
    asdf.AsdfFile({"a": array}).write_to(tmp_path / "a.asdf", all_array_compression=compression)
    index = tuple(
        data.draw(
            st.one_of(
                st.integers(-length, length - 1),
                st.slices(length),
                st.just(...) if number == 0 and data.draw(st.booleans()) else st.slices(length),
                st.lists(st.integers(0, length - 1), min_size=1, max_size=3),
            )
        )
        for number, length in enumerate(array.shape)
    )[: data.draw(st.integers(1, array.ndim))]
    with asdffs.open_asdf(tmp_path / "a.asdf") as file, asdf.open(tmp_path / "a.asdf") as theirs:
        assert isinstance(file["a"], LazyArray)
        for whole in (False, True):
            try:
                expected = theirs["a"][index]
            except IndexError:
                with pytest.raises(IndexError):
                    file["a"][index]
                return
            found = file["a"][index]
            assert np.array_equal(np.ma.getmaskarray(found), np.ma.getmaskarray(expected))
            assert np.array_equal(np.ma.filled(found, 0), np.ma.filled(expected, 0))
            if whole:
                assert file["a"].sum() == theirs["a"].sum() or file["a"].sum() is np.ma.masked


def test_masks_that_the_tree_states_as_a_value(tmp_path: Path) -> None:
    array = "!core/ndarray-1.1.0 {source: 0, datatype: float64, byteorder: little, shape: [3], mask: "
    block = block_bytes(np.array([np.nan, -1, 3]).tobytes())
    (tmp_path / "a.asdf").write_bytes(tree_file(f"a: {array}-1}}\nb: {array}.nan}}\n", [block]))
    with asdffs.open_asdf(tmp_path / "a.asdf") as file, asdf.open(tmp_path / "a.asdf") as theirs:
        assert isinstance(file["a"], LazyArray)
        for name in "ab":
            for index in (..., 1, slice(0, 1)):
                assert np.array_equal(np.ma.getmaskarray(file[name][index]), np.ma.getmaskarray(theirs[name][index]))


def test_a_cutout_fetches_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a compressed image on a server, the metadata and one piece are fetched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    image = CHANCE.integers(0, 30, (4000, 2000), "u2")
    asdf.AsdfFile({"roman": {"data": image}}).write_to(tmp_path / "a.asdf")
    done = command("repack", "--profile", "cloud", tmp_path / "a.asdf", environment=environment_in(tmp_path))
    assert done.code == 0
    raw = (tmp_path / "a.asdf").read_bytes()
    with WebServer().running() as server:
        with asdffs.open_asdf(server.put("/a.asdf", raw)) as file:
            assert len(server.requests) == 2
            assert np.array_equal(file["roman"]["data"][1500:1510, 20:40], image[1500:1510, 20:40])
        assert len(raw) > 8_000_000
        assert server.sent < 1_500_000
        assert len(server.requests) < 12


def test_what_is_changed_in_memory_is_written(tmp_path: Path) -> None:
    """An assignment changes no file; new files have the elements, and nothing that tells of asdffs."""
    tree = {"a": IMAGE[:20, :20], "m": np.ma.array([1, 2, 3], mask=[0, 1, 0]), "t": IMAGE[:9, :9].T}
    asdf.AsdfFile(tree).write_to(tmp_path / "a.asdf", all_array_compression="lz4")
    before = (tmp_path / "a.asdf").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with asdffs.open_asdf(tmp_path / "a.asdf") as file:
            file["a"][0, 0] = 7
            assert file["a"][0, 0] == 7
            file.set_array_compression(file["t"], "zlib")
            file.write_to(tmp_path / "b.asdf")
            asdf.AsdfFile({"other": file["t"], "masked": file["m"]}).write_to(tmp_path / "c.asdf")
            copied = copy.deepcopy(file.tree)
            pickled = pickle.loads(pickle.dumps(file["t"]))
    assert (tmp_path / "a.asdf").read_bytes() == before
    assert np.array_equal(copied["t"], tree["t"])
    assert np.array_equal(pickled, tree["t"])
    with asdf.open(tmp_path / "b.asdf") as first, asdf.open(tmp_path / "c.asdf") as second:
        assert first["a"][0, 0] == 7
        assert np.array_equal(first["a"][1:], tree["a"][1:])
        assert first.get_array_compression(first["t"]) == "zlib"
        assert np.array_equal(second["other"], tree["t"])
        assert np.array_equal(np.ma.getmaskarray(second["masked"][:]), [0, 1, 0])
    for name in "bc":
        assert b"asdffs" not in (tmp_path / f"{name}.asdf").read_bytes()


def test_compression_and_storage_stay(tmp_path: Path) -> None:
    """A file that is written anew is as large as asdf writes it, unless the user asks for something else."""
    tree = {"z": np.zeros((500, 500)), "l": np.zeros((300, 300), "f4"), "n": np.arange(99)}
    file = asdf.AsdfFile(tree)
    for name, compression in (("z", "zlib"), ("l", "lz4")):
        file.set_array_compression(tree[name], compression)
    file.write_to(tmp_path / "a.asdf")
    asdf.AsdfFile(tree).write_to(tmp_path / "e.asdf", all_array_storage="external")
    with asdffs.open_asdf(tmp_path / "a.asdf") as found, asdf.open(tmp_path / "a.asdf") as theirs:
        for name in tree:
            assert found.get_array_compression(found[name]) == theirs.get_array_compression(theirs[name])
        found.set_array_compression(found["l"], "bzp2")
        found.write_to(tmp_path / "b.asdf")
    with asdf.open(tmp_path / "b.asdf") as found:
        assert [found.get_array_compression(found[name]) for name in tree] == ["zlib", "bzp2", None]
        assert np.array_equal(found["n"], tree["n"])
    with asdffs.open_asdf(tmp_path / "e.asdf") as found:
        assert found.get_array_storage(found["n"]) == "external"


def test_asdf_inside_fits(tmp_path: Path) -> None:
    write_fits(tmp_path / "cal.fits")
    with asdffs.open_asdf(tmp_path / "cal.fits") as file:
        assert np.array_equal(file["data"][1:3, 2], DATA[1:3, 2])
        assert file["dq"].dtype == DQ.dtype
        assert np.array_equal(file["dq"], DQ)


class _Raw:
    def __init__(self, content: np.ndarray) -> None:
        self.content = content


class _RawConverter(Converter):
    """A converter of another package, which reads and writes a block by itself."""

    tags = ("asdf://example.org/tags/raw-1.0.0",)
    types = (_Raw,)

    def to_yaml_tree(self, obj: _Raw, tag: str, ctx: Any) -> dict[str, Any]:
        return {"block": ctx.find_available_block_index(lambda: obj.content)}

    def from_yaml_tree(self, node: Any, tag: str, ctx: Any) -> _Raw:
        return _Raw(ctx.get_block_data_callback(node["block"])())


class _RawExtension(Extension):
    extension_uri = "asdf://example.org/extensions/raw-1.0.0"
    converters = (_RawConverter(),)
    tags = ("asdf://example.org/tags/raw-1.0.0",)


def test_converters_of_other_packages(tmp_path: Path) -> None:
    content = np.arange(100, dtype="u1")
    file = asdf.AsdfFile({"raw": _Raw(content), "a": np.arange(9)}, extensions=[_RawExtension()])
    file.write_to(tmp_path / "a.asdf")
    for lazy in (False, True):
        with asdffs.open_asdf(tmp_path / "a.asdf", extensions=[_RawExtension()], lazy_tree=lazy) as found:
            assert np.array_equal(found["raw"].content, content)
            assert found["a"][3] == 3


def test_a_damaged_block_and_a_file_that_changes(tmp_path: Path) -> None:
    """Other arrays are read; what another program wrote is not taken for the same."""
    path = tmp_path / "a.asdf"
    asdf.AsdfFile({"a": np.arange(99), "b": np.arange(5)}).write_to(path, all_array_compression="zlib")
    text = path.read_bytes()
    place = text.index(b"\xd3BLK") + 54
    path.write_bytes(text[:place] + b"\xff" * 9 + text[place + 9 :])
    with asdffs.open_asdf(path) as file:
        assert file["a"].shape == (99,)
        assert file["b"][2] == 2
        with pytest.raises(AsdffsError, match="damaged"):
            file["a"][3]
        asdf.AsdfFile({"b": np.arange(5) + 5}).write_to(path)
        with pytest.raises(AsdffsError, match="changed the file"):
            file["b"][2]


def test_closing(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.arange(9)}).write_to(tmp_path / "a.asdf")
    file = asdffs.open_asdf(tmp_path / "a.asdf")
    array = file["a"]
    file.close()
    with pytest.raises(ValueError, match="closed"):
        array[0]
    again = asdffs.open_asdf(tmp_path / "a.asdf")
    document = again["a"]._from._file
    del again
    gc.collect()
    with pytest.raises(ValueError, match="closed"):
        document.tree_text  # noqa: B018


def test_what_is_refused(tmp_path: Path) -> None:
    asdf.AsdfFile({"a": np.arange(9)}).write_to(tmp_path / "a.asdf")
    for option in ("mode", "memmap", "lazy_load"):
        with pytest.raises(TypeError, match=f"no option {option}"):
            asdffs.open_asdf(tmp_path / "a.asdf", **{option: "r"})
    with pytest.raises(AsdffsError, match="No such file"):
        asdffs.open_asdf(tmp_path / "none.asdf")
    (tmp_path / "text.asdf").write_text("no file")
    with pytest.raises(AsdffsError, match="text.asdf"):
        asdffs.open_asdf(tmp_path / "text.asdf")

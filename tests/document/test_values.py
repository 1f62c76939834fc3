"""``document.values`` and ``document.edit()``, beside dicts and lists that get the same changes."""

from __future__ import annotations

import copy
import datetime
import enum
import os
import struct
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from astropy import units
from astropy.time import Time
from hypothesis import given, settings
from hypothesis import strategies as st
from support.arrays import tree_file
from support.samples import block_bytes, odd_file

import asdffs
from asdffs.document.values import TreeMapping, TreeSequence
from asdffs.errors import InvalidTreeError, ReadOnlyError, SharedValueError

EXAMPLES = 500 if os.environ.get("ASDFFS_DEEP") else 40
TREE: dict[str, Any] = {
    "meta": {"observer": "Ada", "exposure": {"time": 107.5, "done": True}, "none": None},
    "items": [1, [2, 3], {"x": "y"}],
    "1": "a key of digits",
}
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["p", "q r", "1"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data.asdf"
    asdf.AsdfFile(TREE | {"data": np.arange(10), "stack": [np.zeros(3)]}).write_to(made)
    return made


def test_reading(path: Path) -> None:
    with asdffs.open(path) as document:
        values = document.values
        assert values["meta"]["observer"] == "Ada"
        assert values["meta"] == TREE["meta"]
        assert values["items"] == TREE["items"]
        assert values["items"][-1]["x"] == "y"
        assert values["items"][:2] == [1, [2, 3]]
        assert list(values["meta"]) == ["exposure", "none", "observer"]
        assert "observer" in values["meta"]
        assert "nope" not in values
        assert dict(values["meta"]["exposure"]) == {"time": 107.5, "done": True}
        assert values[1] == "a key of digits"
        assert isinstance(values["meta"], TreeMapping)
        assert isinstance(values["items"], TreeSequence)
        assert repr(values["items"]) == "TreeSequence([1, [2, 3], {'x': 'y'}])"
        assert np.array_equal(values["data"][:], np.arange(10))
        assert np.array_equal(values["stack"][0][:], np.zeros(3))
        for key in ("nope", "observer"):
            with pytest.raises(KeyError):
                values[key]
        with pytest.raises(IndexError):
            values["items"][3]


def test_one_commit(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        values = document.values
        with document.edit():
            values["meta"]["observer"] = "Grace"
            values["meta"]["exposure"]["time"] = 1
            values["items"].append({"new": [1.5, None]})
            del values["meta"]["none"]
            del values["items"][0]
            assert values["meta"]["observer"] == "Grace", "what is staged is seen"
            with asdf.open(path) as other:
                assert other["meta"]["observer"] == "Ada", "and not in the file yet"
        assert document.staged_text is None
    with asdf.open(path) as found:
        assert found["meta"] == {"observer": "Grace", "exposure": {"time": 1, "done": True}}
        assert found["items"] == [[2, 3], {"x": "y"}, {"new": [1.5, None]}]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(2.5), 2.5),  # a subclass of float whose repr() has the name of the type
        (np.float64(1e300), 1e300),
        (np.float64("nan"), float("nan")),
        (np.int64(3), 3),
        (np.str_("text"), "text"),
        (enum.IntEnum("Mode", "ON").ON, 1),
        (enum.StrEnum("Kind", "SCIENCE").SCIENCE, "science"),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (np.datetime64("2026-01-02T03:04:05"), datetime.datetime(2026, 1, 2, 3, 4, 5)),
    ],
    ids=str,
)
def test_values_of_numpy_are_written_exactly(path: Path, value: object, plain: object) -> None:
    with asdffs.open(path, "r+") as document, document.edit():
        document.values["meta"]["observer"] = value
        document.values["meta"]["all"] = {"list": [value, value]}
    with asdffs.open(path) as document:
        found = document.values["meta"]
        for one in (found["observer"], *found["all"]["list"]):
            assert type(one) is type(plain)
            assert repr(one) == repr(plain), "nan is not equal to itself"
    with asdf.open(path) as other:
        assert repr(other["meta"]["observer"]) == repr(plain)


def test_keys_that_are_not_text(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        document.tree_text = document.tree_text.replace("meta:", "true: 1\n6: 2\n5: 3\nmeta:", 1)
        document.commit()
        assert [document.values[key] for key in (True, 6, 5)] == [1, 2, 3]
        with document.edit():
            document.values[True] = 4
            del document.values[6]
    with asdf.open(path) as other:
        assert (other[True], other[5], 6 in other.tree) == (4, 3, False)


@pytest.mark.parametrize("value", [Time("2027-01-01"), 2 * units.m, object(), np.zeros(2), {1, 2}, 1j])
def test_other_types_are_refused(path: Path, value: object) -> None:
    with asdffs.open(path, "r+") as document, document.edit():
        for wrapped in (value, {"list": [value]}):
            with pytest.raises(TypeError, match=f"{type(value).__name__} is not a plain value; use None, bool,"):
                document.values["meta"]["observer"] = wrapped


def test_an_exception_drops_the_changes(path: Path) -> None:
    before = path.read_bytes()
    with asdffs.open(path, "r+") as document:
        with pytest.raises(ZeroDivisionError), document.edit():
            fail_after_a_change(document)
        assert document.values["meta"]["observer"] == "Ada"
        with pytest.raises(ReadOnlyError, match=r"with document\.edit"):
            document.values["meta"]["observer"] = "Grace"
        with document.edit(), pytest.raises(ValueError, match="already"), document.edit():
            pass
    assert path.read_bytes() == before
    with asdffs.open(path) as document, pytest.raises(ReadOnlyError, match="opened for reading"), document.edit():
        pass


def fail_after_a_change(document: asdffs.Document) -> None:
    document.values["meta"]["observer"] = "Grace"
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [("meta", object(), TypeError), ("meta", np.arange(3), TypeError), ("x", {1.5: 1}, TypeError)],
)
def test_what_cannot_be_assigned(path: Path, key: str, value: object, error: type[Exception]) -> None:
    before = path.read_bytes()
    with asdffs.open(path, "r+") as document, pytest.raises(error), document.edit():
        document.values[key] = value
    assert path.read_bytes() == before


def test_shared_and_broken(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    path.write_bytes(odd_file().replace(b"value: 1\n", b"value: &v 1\nother: *v\n"))
    with asdffs.open(path, "r+") as document, pytest.raises(SharedValueError), document.edit():
        document.values["value"] = 2
    path.write_bytes(odd_file().replace(b"value: 1\n", b"value: [\n"))
    with asdffs.open(path) as document, pytest.raises(InvalidTreeError):
        document.values["value"]


def test_regression_arrays_were_mappings_and_lists(tmp_path: Path) -> None:
    """Each array of ``arrays`` is a value: also the short form, those below ``!!omap`` and those of asdf-zarr."""
    path = tmp_path / "data.asdf"
    meta = "{shape: [2], chunks: [2], dtype: '<i4', compressor: null, filters: null, fill_value: 7, order: C}"
    chunked = f"!<asdf://stsci.edu/asdf-zarr/tags/zarr-1.0.0> {{.zarray: {meta}, chunk_block_map: 0}}"
    array = "!core/ndarray-1.1.0 {data: [3], datatype: int8}"
    body = f"a: !core/ndarray-1.1.0 [1, 2]\nb: !!omap [1: x, c: [{array}], c: [0, {array}]]\nd: {chunked}\n"
    path.write_bytes(tree_file(body, [block_bytes(struct.pack("<i", -1))]))
    with asdffs.open(path) as document:
        assert list(document.arrays) == ["a", "b/c/1", "d"]
        assert document.values["a"][:].tolist() == [1, 2]
        assert document.values["b"]["c"][1][:].tolist() == [3]
        assert document.values["d"][:].tolist() == [7, 7]


def test_another_program_changes_the_file(path: Path) -> None:
    with asdffs.open(path) as document:
        meta = document.values["meta"]
        with asdffs.open(path, "r+") as other, other.edit():
            other.values["meta"]["observer"] = "Grace"
        assert meta["observer"] == "Grace"
        with asdffs.open(path, "r+") as other, other.edit():
            del other.values["meta"]
        with pytest.raises(KeyError):
            meta["observer"]


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), PLAIN), min_size=1, max_size=4))
def test_values_are_what_a_dict_would_be(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    path = tmp_path_factory.mktemp("values") / "data.asdf"
    asdf.AsdfFile(TREE).write_to(path)
    model = copy.deepcopy(TREE)
    with asdffs.open(path, "r+") as document, document.edit():
        for kind, number, value in steps:
            for tree in (model, document.values):
                change(tree, kind, number, value)
    with asdffs.open(path) as document:
        assert {key: item for key, item in document.values.plain().items() if key in model} == model


def change(tree: Any, kind: int, number: int, value: Any) -> None:
    """The same change of a dict and of a ``TreeMapping``."""
    places = [(tree, key) for key in sorted(tree) if key in (*TREE, "new")]
    places += [(tree["items"], index) for index in range(len(tree["items"]))] if "items" in tree else []
    box, key = places[number % len(places)] if places else (tree, "new")
    if kind == 0 and key != "items":
        del box[key]
    elif kind == 1 and "items" in tree:
        tree["items"].append(value)
    elif kind == 2:
        tree["new"] = value
    elif key != "items":
        box[key] = value

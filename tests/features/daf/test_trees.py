"""Stores in trees that others have written or changed: what counts, what is said, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock

import asdf
import numpy as np
import pytest
from support.commands import Done, command
from support.daf_stores import Builder, differences
from support.mounts import environment_in

import asdffs.features.daf
from asdffs import registry
from asdffs.document.opening import open_document
from asdffs.errors import InvalidStoreError
from asdffs.features.daf.packing import Packing
from asdffs.vfs.names import check_alone

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"


class Place:
    """A directory with a store, and commands in it."""

    def __init__(self, folder: Path, version: tuple[int, int] = (1, 0)) -> None:
        self.folder = folder
        self.store, self.packed, self.back = folder / "s.daf", folder / "x.asdf", folder / "back.daf"
        self.store.mkdir()
        self.builder = Builder(self.store, version)
        self.builder.axis("cell", ["a", "b"])
        self.builder.axis("gene", ["g", "h", "i"])

    def daf(self, *words: object) -> Done:
        return command("daf", *words, environment=environment_in(self.folder))

    def pack(self) -> None:
        done = self.daf("pack", "--force", self.store, self.packed)
        assert done.code == 0, done.err

    def unpack(self) -> Path:
        done = self.daf("unpack", self.packed, self.back)
        assert done.code == 0, done.err
        return self.back

    def tree(self, text: str) -> None:
        """A file whose tree is this text."""
        self.packed.write_text(HEAD + text + "...\n")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_regression_long_json_that_is_written_otherwise(place: Place) -> None:
    place.builder.raw("scalars/s.json", json.dumps({"type": "String", "value": "x" * 1100}).encode())
    place.builder.raw("daf.json", b'{"version":[1,0]}' + b" " * 1100)
    place.pack()
    assert differences(place.store, place.unpack()) == ""


def test_regression_what_was_deleted_came_back(place: Place) -> None:
    place.builder.raw("scalars/a.json", b'{ "value" : 3 , "type" : "int8" }')
    place.builder.raw("vectors/cell/v.json", b'{"eltype":"int16","format":"dense"}')
    place.builder.raw("vectors/cell/v.data", b"1234")
    place.pack()
    with asdf.open(place.packed) as file:
        del file["daf"]["scalars"]["a"]
        del file["daf"]["vectors"]["cell"]["v"]
        file.write_to(place.packed)
    back = place.unpack()
    assert os.listdir(back / "scalars") == os.listdir(back / "vectors/cell") == []


def test_regression_a_descriptor_of_other_counts_was_kept(place: Place) -> None:
    place.builder.version = (1, 1)
    place.builder.sparse("vectors/cell/s", "Int8", "UInt32", {"nzind": [2]}, [5])
    place.builder.sparse("vectors/cell/b", "Bool", "UInt32", {"nzind": [1]}, None)
    place.pack()
    with asdf.open(place.packed) as file:
        vectors = file["daf"]["vectors"]["cell"]
        vectors["s"]["nzind"] = np.array([1, 2], "<u4")
        vectors["s"]["nzval"] = np.array([5, 6], "i1")
        vectors["b"]["nzval"] = np.array([False])
        file.write_to(place.packed)
    back = place.unpack()
    assert place.daf("check", back).code == 0
    with asdffs.features.daf.open(back) as store:
        assert store.vectors["cell"]["s"].tolist() == [5, 6]
        assert store.vectors["cell"]["b"].tolist() == [False, False]


def test_regression_python_hid_what_is_wrong_in_a_tree(place: Place) -> None:
    place.builder.raw("scalars/f.json", b'{"value":1.50,"type":"Float64"}')
    place.builder.raw("scalars/a.json", b'{"value":3,"type":"Int8"} ')
    place.pack()
    with asdf.open(place.packed) as file:
        file["daf"]["scalars"]["f"]["value"] = float("inf")
        file["daf"]["scalars"]["a"]["value"] = 300
        file.write_to(place.packed)
    with asdffs.features.daf.open(place.packed) as store:
        assert store.scalars == {"f": float("inf")}
        assert any("300" in fault for fault in store.faults)
    assert place.daf("unpack", place.packed, place.back).code == 4


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"colptr": [1, 2, 2, 2], "rowval": [100_000_000]}, "is 100000000"),
        ({"colptr": [1, 2, 2, 2], "rowval": [0]}, "is 0"),
        ({"colptr": [1, 9, 2, 2], "rowval": [1]}, "must not decrease"),
    ],
)
@pytest.mark.parametrize("eltype", ["Int8", "String"])
def test_regression_bad_indices_ended_the_program(
    place: Place, parts: dict[str, list[int]], said: str, eltype: str
) -> None:
    place.builder.sparse("matrices/cell/gene/m", eltype, "UInt32", parts, [1])
    with asdffs.features.daf.open(place.store) as store, pytest.raises(InvalidStoreError, match=said):
        _ = store.matrices["cell", "gene"]["m"]


def test_regression_index_0_was_the_last_one(place: Place) -> None:
    place.builder.sparse("vectors/cell/v", "Int8", "UInt32", {"nzind": [0]}, [1])
    with asdffs.features.daf.open(place.store) as store, pytest.raises(InvalidStoreError, match="is 0"):
        _ = store.vectors["cell"]["v"]


ARRAY = "!core/ndarray-1.1.0 {data: %s, datatype: %s, shape: %s}"
AXES = "daf:\n  version: [1, 0]\n  axes: {r: [a, b], c: [x, y, z]}\n"
FAULTY = {
    "a transpose": (
        f"  matrices: {{r: {{c: {{m: {ARRAY % ('[[1, 2], [3, 4], [5, 6]]', 'int8', '[3, 2]')}}}}}}}\n",
        "its shape is [3, 2], but its axes have [2, 3] entries",
    ),
    "other values": (
        "  vectors: {r: {v: {format: sparse, shape: [2], eltype: Float32, "
        f"nzind: {ARRAY % ('[1]', 'uint32', '[1]')}, nzval: {ARRAY % ('[5]', 'int32', '[1]')}}}}}}}\n",
        "its eltype is Float32, but the type of its nzval is Int32",
    ),
    "a newline": ('  vectors: {r: {v: ["a\\nb", c]}}\n', "has a newline"),
    "a file in a file": ("  files: {verbatim: {a: x, a/b: y}}\n", "it is both a file and a directory"),
    "a file that is a directory": ("  files: {verbatim: {scalars: x}}\n", "it is both a file and a directory"),
    "twice": ('  files: {verbatim: {a: x, "%61": y}}\n', "it occurs twice"),
    "no path": ('  files: {verbatim: {"": x}, dirs: [""], absent: [null]}\n', "is not a path in a store"),
    "a version": ("  scalars: {s: {type: Bool, value: '1'}}\n", ""),
    "complex": (f"  vectors: {{r: {{v: {ARRAY % ('[1, 2]', 'complex64', '[2]')}}}}}\n", "has no elements of"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_what_a_tree_cannot_say(place: Place, name: str) -> None:
    text, said = FAULTY[name]
    place.tree(AXES + text)
    done = place.daf("check", place.packed)
    if not said:
        assert done.code == 0, done.out
        return
    assert done.code == 4
    assert said in done.out
    assert place.daf("unpack", place.packed, place.back).code == 4
    assert place.daf("unpack", "--force", place.packed, place.back).code == 0


def test_strings_are_what_is_written(place: Place) -> None:
    scalars = "{yes: {type: Int8, value: 3}}"
    place.tree(f"daf: {{version: [1, 0], axes: {{c: [1.10, no, 0x10, 12:30:00, '2']}}, scalars: {scalars}}}\n")
    back = place.unpack()
    assert (back / "axes/c.txt").read_text() == "1.10\nno\n0x10\n12:30:00\n2\n"
    assert (back / "scalars/yes.json").read_bytes() == b'{"type":"Int8","value":3}\n'


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"type":"Bool","value":"1"}', "which is not a valid Bool"),
        (b'{"type":"String","value":"\\ud800"}', "which is not a valid String"),
        (b'{"type":"Int8","value":1e0}', "which is not a valid Int8"),
        (b"[" * 100_000, "is not a JSON object"),
        (b'{"type":"Int8","type":"Int8","value":1}', "a key occurs twice"),
    ],
)
def test_scalars_that_are_none(place: Place, raw: bytes, said: str) -> None:
    place.builder.raw("scalars/s.json", raw)
    done = place.daf("check", place.store)
    assert done.code == 4
    assert said in done.out
    assert place.daf("pack", place.store, place.packed).code == 4
    assert place.daf("pack", "--keep", place.store, place.packed).code == 0
    assert differences(place.store, place.unpack()) == ""


def test_a_bool_descriptor_that_promises_values(place: Place) -> None:
    place.builder.version = (1, 1)
    place.builder.sparse("vectors/cell/b", "Bool", "UInt32", {"nzind": [1]}, [True])
    os.unlink(place.store / "vectors/cell/b.nzval")
    assert "b.nzval is missing" in place.daf("check", place.store).out


def test_a_store_that_changes_while_it_is_packed(place: Place) -> None:
    place.builder.dense("vectors/cell/v", "Int8", [1, 2])
    text = Packing.text

    def changed(packing: Packing) -> bytes:
        place.builder.raw("vectors/cell/v.data", b"34")
        return text(packing)

    with mock.patch.object(Packing, "text", changed):
        done = place.daf("pack", place.store, place.packed)
    assert done.code == 4
    assert "v.data: changed while it was read; nothing was written" in done.sentence
    assert not place.packed.exists()


def test_links_and_pipes_are_refused(place: Place) -> None:
    for make in (os.mkfifo, lambda path: os.symlink("daf.json", path)):
        make(place.store / "odd")
        done = place.daf("pack", place.store, place.packed)
        assert done.code == 4
        assert "odd: is neither a file nor a directory" in done.sentence
        os.unlink(place.store / "odd")


INITS = {
    "flow": (HEAD + "{a: 1}\n...\n", "--- !core/asdf-1.1.0 {a: 1, daf: "),
    "empty": (HEAD + "{}\n...\n", "--- !core/asdf-1.1.0 \ndaf:\n"),
    "comments": (HEAD + "# one\na: 1 # two\n# end\n...\n", "# one\na: 1 # two\n"),
    "no tree": ("#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n", "#ASDF_STANDARD 1.6.0\n%YAML 1.1\n"),
    "CRLF": ((HEAD + "a: 1\n...\n").replace("\n", "\r\n"), "a: 1\r\ndaf:\r\n  version: [1, 0]\r\n"),
}


@pytest.mark.parametrize("name", INITS)
def test_an_empty_store_beside_what_is_there(place: Place, name: str) -> None:
    text, expected = INITS[name]
    place.packed.write_bytes(text.replace("--- !core/asdf-1.1.0\n{", "--- !core/asdf-1.1.0 {").encode())
    done = place.daf("init", place.packed)
    assert done.code == 0, done.err
    assert expected.encode() in place.packed.read_bytes()
    assert place.daf("check", place.packed).code == 0
    with asdf.open(place.packed) as file:
        assert file["daf"]["version"] == [1, 0]


def test_another_thing_at_the_key_is_not_replaced(place: Place) -> None:
    place.tree("daf: [1, 2]\n")
    before = place.packed.read_bytes()
    done = place.daf("init", place.packed)
    assert (done.code, place.packed.read_bytes()) == (2, before)
    assert done.sentence.endswith("has another value at 'daf'")


def test_aliases_without_end_are_not_followed(place: Place) -> None:
    bombs = "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 30))
    array = "!core/ndarray-1.1.0 {source: 0, datatype: int8, byteorder: little, shape: *b29}"
    place.tree(f"b0: &b0 [1]\n{bombs}daf: {{version: [1, 0], axes: {{r: [a]}}, vectors: {{r: {{v: {array}}}}}}}\n")
    done = place.daf("check", place.packed)
    assert done.code == 4


@pytest.mark.parametrize("version", ["[2, 0]", "[1, 2]", "[0, 0]"])
def test_regression_a_store_of_another_version_is_refused(place: Place, version: str) -> None:
    """By everything that reads it: another version may mean other things by the same files (section 3)."""
    place.tree(f"daf:\n  version: {version}\n  axes:\n    cell: [a, b]\n")
    sentence = f"has version {version.replace(' ', '')}; only [1,0] and [1,1] are supported"
    for words in (["unpack", place.packed, place.back], ["check", place.packed]):
        done = place.daf(*words)
        assert (done.code, sentence in done.err) == (4, True)
    assert not place.back.exists()
    document = open_document(str(place.packed), writable=True)
    view = registry.find("views", "daf")(document)
    assert not view.present()
    with pytest.raises(InvalidStoreError, match="only"):
        check_alone("daf", view, document)
    document.close()


def test_regression_a_scalar_may_have_other_keys(place: Place) -> None:
    """Other readers ignore them; the bytes come back as they were."""
    place.builder.raw("scalars/x.json", b'{"type":"Int8","value":1,"unit":"m"}\n')
    place.pack()
    assert differences(place.store, place.unpack()) == ""
    assert place.daf("check", place.store).code == place.daf("check", place.packed).code == 0


@pytest.mark.parametrize("tree", [" !core/asdf-1.1.0\n", "\n", " null\n"])
def test_a_store_is_added_to_a_null_tree(place: Place, tree: str) -> None:
    place.packed.write_text(HEAD.partition("--- ")[0] + f"---{tree}...\n")
    assert place.daf("init", place.packed).code == 0
    with asdf.open(place.packed) as file:
        assert file["daf"]["version"] == [1, 0]

"""Stores packed into a file and back: every byte, every directory; and what the asdf library makes of the file."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.commands import command
from support.daf_stores import Builder, differences, generated, sample, tree_of
from support.mounts import environment_in

import asdffs.features.daf
from asdffs.cli.main import main


def make(name: str, folder: Path) -> Path:
    if name.startswith("generated"):
        return generated(folder / "store.daf", (1, int(name[-1])))
    return sample(name, folder)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["full_v1.0", "minimal", "generated 1.0", "generated 1.1"])
def test_every_byte_comes_back(name: str, tmp_path: Path) -> None:
    store, packed, back = make(name, tmp_path), tmp_path / "x.asdf", tmp_path / "back.daf"
    environment = environment_in(tmp_path)
    assert command("daf", "pack", store, packed, environment=environment).code == 0
    assert command("daf", "unpack", packed, back, environment=environment).code == 0
    assert differences(store, back) == ""
    assert tree_of(store) == tree_of(back)
    for place in (store, packed):
        done = command("daf", "check", place, environment=environment)
        assert done.code == 0, done.out
    assert command("check", "--deep", "--schema", packed, environment=environment).out.endswith("nothing wrong\n")


def test_the_asdf_library_sees_ordinary_arrays(tmp_path: Path) -> None:
    store, packed = generated(tmp_path / "s.daf"), tmp_path / "x.asdf"
    assert command("daf", "pack", store, packed, environment=environment_in(tmp_path)).code == 0
    with asdf.open(packed) as file:
        daf = file["daf"]
        raw = (store / "matrices/cell/cell/m_Int16.data").read_bytes()
        matrix = daf["matrices"]["cell"]["cell"]["m_Int16"]
        assert matrix.shape == (5, 5)
        assert np.array_equal(matrix, np.frombuffer(raw, "<i2").reshape((5, 5), order="F"))
        assert daf["vectors"]["cell"]["text"] == ["", "yes", "1", "a: b", "🧬"]
        assert daf["vectors"]["cell"]["nan"].view("<u8")[0] == 0x7FF8_0000_0000_1234
        assert daf["vectors"]["cell"]["s_Float64"]["nzind"].tolist() == [2, 5]
        assert daf["scalars"]["u64"]["value"] == str((1 << 64) - 1)
        assert daf["axes"]["long"]["n"] == 100_000
        assert list(daf["axes"]["cell"]) == [f"c{n}" for n in range(5)]
        assert daf["vectors"]["empty"]["d_Float32"].shape == (0,)


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_what_the_asdf_library_rewrites_is_the_same_store(compression: str | None, tmp_path: Path) -> None:
    store, packed, again = generated(tmp_path / "s.daf", (1, 1)), tmp_path / "x.asdf", tmp_path / "y.asdf"
    environment = environment_in(tmp_path)
    assert command("daf", "pack", store, packed, environment=environment).code == 0
    with asdf.open(packed) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.write_to(again, all_array_compression=compression)
    assert command("daf", "unpack", again, tmp_path / "back.daf", environment=environment).code == 0
    assert differences(store, tmp_path / "back.daf") == ""


def test_what_the_asdf_library_edits_counts(tmp_path: Path) -> None:
    packed, again, back = tmp_path / "x.asdf", tmp_path / "y.asdf", tmp_path / "back.daf"
    environment = environment_in(tmp_path)
    store = tmp_path / "s.daf"
    store.mkdir()
    builder = Builder(store)
    builder.axis("cell", ["a", "b", "c"])
    builder.axis("gene", ["g", "h"])
    builder.raw("scalars/spelled.json", b'{"value":1,"type":"int64"}')
    builder.dense("vectors/cell/old", "Int32", [1, 2, 3])
    assert command("daf", "pack", store, packed, environment=environment).code == 0
    matrix = np.arange(6, dtype=">f4").reshape(3, 2)  # rows first, big-endian
    with asdf.open(packed) as file:
        daf = file["daf"]
        daf["scalars"]["spelled"]["value"] = 2
        daf["scalars"]["new"] = {"type": "Float64", "value": 0.5}
        daf["scalars"]["whole"] = {"type": "Float32", "value": 3}
        daf["scalars"]["flag"] = {"type": "Bool", "value": 1}
        daf["matrices"]["cell"]["gene"]["m"] = matrix
        daf["vectors"]["cell"]["inline"] = np.array([7, 8, 9], "i8")
        del daf["vectors"]["cell"]["old"]
        file.set_array_storage(daf["vectors"]["cell"]["inline"], "inline")
        file.write_to(again)
    assert command("daf", "unpack", again, back, environment=environment).code == 0
    assert (back / "scalars/spelled.json").read_bytes() == b'{"type":"Int64","value":2}\n'
    assert (back / "scalars/new.json").read_bytes() == b'{"type":"Float64","value":0.5}\n'
    assert (back / "scalars/whole.json").read_bytes() == b'{"type":"Float32","value":3.0}\n'
    assert (back / "scalars/flag.json").read_bytes() == b'{"type":"Bool","value":1}\n'
    assert (back / "matrices/cell/gene/m.data").read_bytes() == matrix.astype("<f4").tobytes(order="F")
    assert (back / "vectors/cell/inline.data").read_bytes() == np.array([7, 8, 9], "<i8").tobytes()
    assert not (back / "vectors/cell/old.data").exists()
    assert command("daf", "check", back, environment=environment).code == 0


@pytest.mark.parametrize("packed", [False, True])
def test_python_reads_a_directory_and_a_file_alike(packed: bool, tmp_path: Path) -> None:
    root, path = tmp_path / "s.daf", tmp_path / "x.asdf"
    root.mkdir()
    builder = Builder(root)
    builder.axis("cell", ["a", "b", "c"])
    builder.axis("gene", ["g", "h"])
    builder.scalar("n", "UInt64", (1 << 64) - 1)
    builder.scalar("x", "Float64", 1e-5)
    builder.scalar("flag", "Bool", 1)
    builder.dense("vectors/cell/age", "Float32", [1, 2, 3])
    builder.dense("vectors/cell/name", "String", ["x", "", "z"])
    builder.sparse("vectors/cell/marker", "Bool", "UInt32", {"nzind": [2]}, None)
    builder.sparse("vectors/cell/words", "String", "Int32", {"nzind": [3]}, ["w"])
    builder.dense("matrices/cell/gene/m", "Int16", np.arange(6).reshape(3, 2))
    builder.sparse("matrices/cell/gene/UMIs", "Float64", "UInt32", {"colptr": [1, 2, 3], "rowval": [3, 1]}, [5, 7])
    builder.sparse("matrices/gene/cell/t", "String", "UInt32", {"colptr": [1, 1, 1, 2], "rowval": [2]}, ["here"])
    assert command("daf", "pack", root, path, environment=environment_in(tmp_path)).code == 0
    with asdffs.features.daf.open(path if packed else root) as store:
        assert store.version == (1, 0)
        assert store.scalars == {"n": (1 << 64) - 1, "x": 1e-5, "flag": True}
        assert list(store.axes["gene"]) == ["g", "h"]
        vectors = store.vectors["cell"]
        assert set(vectors) == {"age", "name", "marker", "words"}
        age = vectors["age"]
        assert age.dtype == "<f4"
        assert age.tolist() == [1, 2, 3]
        assert not age.flags.writeable
        assert list(vectors["name"]) == ["x", "", "z"]
        assert vectors["marker"].tolist() == [False, True, False]
        assert list(vectors["words"]) == ["", "", "w"]
        matrices = store.matrices["cell", "gene"]
        assert matrices["m"].tolist() == [[0, 1], [2, 3], [4, 5]]
        assert matrices["UMIs"].toarray().tolist() == [[0, 7], [0, 0], [5, 0]]
        assert store.matrices["gene", "cell"]["t"].tolist() == [["", "", ""], ["", "", "here"]]
        assert store.parts("cell", "gene", "UMIs")["colptr"].tolist() == [1, 2, 3]
        with pytest.raises(KeyError):
            vectors["nothing"]
    assert age.tolist() == [1, 2, 3], "it outlives the store"


def test_large_contents_are_copied_whole_pages_at_a_time(tmp_path: Path) -> None:
    root, path = tmp_path / "s.daf", tmp_path / "x.asdf"
    root.mkdir()
    builder = Builder(root)
    builder.axis("long", [str(n) for n in range(1 << 20)])
    builder.dense("vectors/long/x", "Int32", np.arange(1 << 20))
    assert command("daf", "pack", root, path, environment=environment_in(tmp_path)).code == 0
    with asdffs.open(path) as document:
        sizes = {block.size: block for block in document.blocks}
        large = sizes[4 << 20]
        assert (large.offset + large.header.full_size) % 65536 == 0
        assert large.read_at(4, 4) == b"\1\0\0\0"
        assert os.path.getsize(path) < (4 << 20) + sum(sizes) - (4 << 20) + 300_000


def test_a_store_is_added_to_what_a_file_has(tmp_path: Path) -> None:
    path = tmp_path / "x.asdf"
    asdf.AsdfFile({"meta": {"a": 1}, "data": np.arange(4)}).write_to(path)
    text = path.read_bytes()
    environment = environment_in(tmp_path)
    assert command("daf", "init", path, "--format", "1.0", environment=environment).code == 0
    assert command("daf", "check", path, environment=environment).code == 0
    tree = text[: text.index(b"\n...")]
    assert path.read_bytes().startswith(tree + b"\ndaf:\n  version: [1, 0]\n")
    with asdf.open(path) as file:
        assert file["data"].tolist() == [0, 1, 2, 3]
    done = command("daf", "init", path, environment=environment)
    assert done.code == 2
    assert done.sentence.endswith("already has a FilesDaf store")


def test_init_makes_what_a_client_makes(tmp_path: Path) -> None:
    path, back = tmp_path / "x.asdf", tmp_path / "b.daf"
    environment = environment_in(tmp_path)
    assert command("daf", "init", path, environment=environment).code == 0
    assert command("daf", "unpack", path, back, environment=environment).code == 0
    assert tree_of(back) == {
        "daf.json": b'{"version":[1,0]}\n',
        **dict.fromkeys(("scalars", "axes", "vectors", "matrices")),
    }


def test_regression_directories_of_a_new_store_were_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure the names in them could be missing, although ``--sync`` had returned."""
    store, packed, synced = make("full_v1.0", tmp_path), tmp_path / "a.asdf", []
    assert command("daf", "pack", store, packed, environment=environment_in(tmp_path)).code == 0
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["daf", "unpack", "--sync", str(packed), str(tmp_path / "b.daf")]) == 0
    directories = {path.relative_to(tmp_path / "b.daf") for path in (tmp_path / "b.daf").rglob("*") if path.is_dir()}
    found = {path.rsplit(".tmp/", 1)[1] for path in synced if ".tmp/" in path}
    assert {str(path) for path in directories} <= found
    assert any(path.endswith(".tmp") for path in synced)

"""Arrays that other processes use: pickles, lazy arrays of dask, and files that changed meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asdf
import dask.array
import numpy as np
import pytest
from support.clusters import cluster
from support.mounts import environment_in
from support.s3_server import CREDENTIALS, s3_server
from support.samples import odd_file
from support.web_server import WebServer

import asdffs
from asdffs.document.arrays import reference
from asdffs.errors import AsdffsError

pytestmark = pytest.mark.long

DTYPES = ["?", "<i1", ">i2", "<u4", ">u8", "<f4", ">f8", "<c8", ">c16", "S5", ">U3", "f2"]


def values(dtype: str, shape: tuple[int, ...] = (40, 3, 7)) -> np.ndarray:
    numbers = np.random.default_rng(5).integers(0, 100, shape)
    return numbers.astype(dtype)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    tree = {"cube": values("<i4"), "deep": {"list": [values(">f8"), np.arange(5)]}, "scalar": np.array(7.5)}
    asdf.AsdfFile(tree).write_to(tmp_path / "data.asdf")
    return tmp_path / "data.asdf"


@pytest.mark.parametrize("compression", [None, "zlib", "lz4", "bzp2"])
def test_every_datatype_is_equal_in_asdf_arrays_dask_and_pickles(tmp_path: Path, compression: str | None) -> None:
    made = {f"t{number}": values(dtype) for number, dtype in enumerate(DTYPES)}
    made |= {"turned": np.asfortranarray(values("<f4")), "steps": values("<i4", (40, 30))[::3, ::-2]}
    asdf.AsdfFile(made).write_to(tmp_path / "data.asdf", all_array_compression=compression)
    with asdffs.open(tmp_path / "data.asdf") as document:
        for name, expected in made.items():
            array = document.arrays[name]
            again = pickle.loads(pickle.dumps(array))
            lazy = array.to_dask(chunks=(7, *expected.shape[1:-1], 2))
            assert again.dtype == lazy.dtype == array.dtype
            for found in (array[...], again[...], lazy.compute(), np.asarray(again)):
                assert np.array_equal(found, expected), name
            for index in (np.s_[3], np.s_[1:30:4, ..., -1], np.s_[::-1], np.s_[..., [0, 1]], np.s_[:0]):
                assert np.array_equal(again[index], expected[index]), (name, index)
                assert np.array_equal(lazy[index].compute(), expected[index]), (name, index)
    assert np.array_equal(lazy.compute(), expected)  # the document is closed; dask opens the file itself


def test_chunks_are_whole_rows(path: Path) -> None:
    with asdffs.open(path) as document:
        assert document.arrays["cube"].to_dask().chunks == ((40,), (3,), (7,))
        assert document.arrays["cube"].to_dask(chunks=(15, -1, -1)).chunks == ((15, 15, 10), (3,), (7,))
        assert float(document.arrays["scalar"].to_dask().compute()) == 7.5
        one, two = (document.arrays["deep/list/0"].to_dask(chunks=5) for _ in range(2))
        assert one.name == two.name != document.arrays["cube"].to_dask(chunks=5).name


def test_a_file_that_changed_is_an_error_and_never_a_mixture(path: Path) -> None:
    with asdffs.open(path, "r+") as document:
        lazy = document.arrays["cube"].to_dask(chunks=(10, -1, -1))
        kept = pickle.dumps(document.arrays["deep/list/1"])
        assert lazy.sum().compute() == values("<i4").sum()
        document.arrays["cube"][0] = 7
        document.commit()
    with pytest.raises(AsdffsError, match="was changed since the array 'cube' was made lazy"):
        lazy.sum().compute()
    with pytest.raises(AsdffsError, match="'deep/list/1' was made lazy"):
        pickle.loads(kept)[...]
    with asdffs.open(path) as document:
        assert document.arrays["cube"].to_dask().max().compute() == 99
    new = path.with_suffix(".new")
    asdf.AsdfFile({"other": np.arange(3)}).write_to(new)
    with asdffs.open(path) as document:
        lazy = document.arrays["cube"].to_dask()
        new.replace(path)
    with pytest.raises(AsdffsError, match="was changed"):
        lazy.compute()


def test_elements_in_another_file(tmp_path: Path) -> None:
    array = values("<i4")
    asdf.AsdfFile({"a": array}).write_to(tmp_path / "main.asdf", all_array_storage="external")
    with asdffs.open(tmp_path / "main.asdf") as document:
        lazy = document.arrays["a"].to_dask()
        assert np.array_equal(lazy.compute(), array)
        (outside,) = tmp_path.glob("main0*.asdf")
        with asdffs.open(outside, "r+") as other:
            other.blocks[0].write_at(0, b"\x07")
    with pytest.raises(AsdffsError, match="was changed"):
        lazy.compute()


def test_masks_and_inline_arrays(tmp_path: Path) -> None:
    head = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
    (tmp_path / "a.asdf").write_bytes(
        head + b"a: !core/ndarray-1.0.0 {data: [1, null, 3], datatype: int16, shape: [3]}\n...\n"
    )
    with asdffs.open(tmp_path / "a.asdf") as document:
        assert document.arrays["a"].to_dask().compute()[[0, 2]].tolist() == [1, 3]
        assert pickle.loads(pickle.dumps(document.arrays["a/mask"]))[...].tolist() == [False, True, False]


def _sum(array: object, answers: object) -> None:
    answers.put(int(np.asarray(array).sum()))


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_open_the_file_themselves(path: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    with asdffs.open(path) as document:
        array = pickle.loads(pickle.dumps(document.arrays["cube"]))
        assert array[...].sum() == values("<i4").sum()  # this process has it open now
        answers = context.SimpleQueue()
        process = context.Process(target=_sum, args=(array, answers))
        process.start()
        assert answers.get() == values("<i4").sum()
        process.join()
        assert process.exitcode == 0
        assert array[0, 0, 0] == values("<i4")[0, 0, 0]


def test_few_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "_MOST", 3)
    found = []
    for number in range(10):
        asdf.AsdfFile({"a": np.full(100, number)}).write_to(tmp_path / f"{number}.asdf")
        with asdffs.open(tmp_path / f"{number}.asdf") as document:
            found.append(document.arrays["a"].reference())
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(8) as pool:
        sums = list(pool.map(lambda number: int(found[number % 10][...].sum()), range(200)))
    assert sums == [100 * (number % 10) for number in range(200)]
    assert len(os.listdir("/proc/self/fd")) <= before + 3 * 2


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "odd.asdf").write_bytes(odd_file())
    with asdffs.open(tmp_path / "odd.asdf") as document:
        array = document.arrays["data"].reference()
    (tmp_path / "odd.asdf").unlink()
    with pytest.raises(AsdffsError, match="cannot be opened"):
        array[...]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with s3_server({f"{number}.asdf": _file(tmp_path, number) for number in range(6)}) as s3:
        yield environment_in(tmp_path) | CREDENTIALS | {"AWS_ENDPOINT_URL": s3.endpoint, "NO_PROXY": "127.0.0.1"}


def _file(folder: Path, number: int) -> bytes:
    asdf.AsdfFile({"a": np.full((300, 50), number, "<f8")}).write_to(folder / "one.asdf")
    return (folder / "one.asdf").read_bytes()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_workers_sum_files_of_an_object_store(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cluster").mkdir()
    documents = [asdffs.open(f"s3://bucket/{number}.asdf") for number in range(6)]
    lazy = [document.arrays["a"].to_dask(chunks=(100, -1)) for document in documents]
    for document in documents:
        document.close()
    with (
        cluster(tmp_path / "cluster", environment) as started,
        Client(started.address, set_as_default=False) as client,
    ):
        total = client.compute(dask.array.stack(lazy).sum()).result(timeout=60)
    assert total == sum(number * 15000 for number in range(6))


def test_a_url_with_a_signature_is_used_as_a_whole_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with WebServer().running() as server:
        url = server.put("/a.asdf", _file(tmp_path, 3)) + "?X-Amz-Signature=secret"
        with asdffs.open(url) as document:
            array = pickle.loads(pickle.dumps(document.arrays["a"]))
        reference.open_files.close()
        assert array[5, :2].tolist() == [3, 3]
        assert {request.path for request in server.requests} == {"/a.asdf?X-Amz-Signature=secret"}
        assert "secret" not in repr(array)
        server.put("/a.asdf", _file(tmp_path, 4))
        reference.open_files.close()
        with pytest.raises(AsdffsError, match="was changed since") as caught:
            array[5, :2]
        assert "secret" not in str(caught.value)
        with asdffs.open(url) as document:
            assert document.arrays["a"].reference()[5, :2].tolist() == [4, 4]


def test_a_remote_file_that_this_process_had_open_before_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with WebServer().running() as server:
        url = server.put("/a.asdf", _file(tmp_path, 3))
        with asdffs.open(url) as document:
            old = document.arrays["a"].reference()
        assert old[0, 0] == 3
        server.put("/a.asdf", _file(tmp_path, 4))
        with asdffs.open(url) as document:
            new = document.arrays["a"].reference()
        assert new[0, 0] == 4
        with pytest.raises(AsdffsError, match="was changed since"):
            old[0, 0]
        assert new[0, 1] == 4

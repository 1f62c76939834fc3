"""Catalogues of object stores, and of files that the workers of a dask cluster read: the rows of one process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.clusters import Cluster, cluster
from support.commands import Done, command
from support.mounts import environment_in
from support.s3_server import CREDENTIALS, S3, s3_server
from support.samples import odd_file

from asdffs.features.catalog.store import open_catalog

pytestmark = pytest.mark.long

FILES_OF_KILLED = 200

Call = Callable[..., Done]
COUNT = 24
QUERY = 'meta.kind == "b" and meta.number > 10'


def content(number: int) -> bytes:
    import io

    import asdf

    tree = {
        "meta": {"number": number, "kind": "ab"[number % 2], "list": [number, 1.5]},
        "data": np.arange(1000) * number,
    }
    file = io.BytesIO()
    asdf.AsdfFile(tree).write_to(file, all_array_compression="zlib" if number % 3 else None)
    return file.getvalue()


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    found = {f"data/night {number % 3}/{number}.asdf": content(number) for number in range(COUNT)}
    found |= {"data/odd.ASDF": odd_file(), "data/broken.asdf": b"nonsense", "data/cut.asdf": content(1)[:-600]}
    return found | {"data/notes.txt": b"hello", "data/.hidden.asdf": content(0), "other/é #1.asdf": content(7)}


@pytest.fixture(scope="module")
def s3(objects: dict[str, bytes]) -> Iterator[S3]:
    with s3_server(objects) as server:
        yield server


@pytest.fixture
def environment(tmp_path: Path, s3: S3) -> dict[str, str]:
    own = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "AWS_ENDPOINT_URL": s3.endpoint, "NO_PROXY": "127.0.0.1"}
    return environment_in(tmp_path) | CREDENTIALS | own


@pytest.fixture
def call(environment: dict[str, str]) -> Call:
    return partial(command, environment=environment)


@pytest.fixture
def folder(tmp_path: Path, objects: dict[str, bytes]) -> Path:
    """The same files on the disk."""
    for key, raw in objects.items():
        path = tmp_path / "files" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return tmp_path / "files"


def rows_of(catalog: Path, root: str) -> dict[str, object]:
    """Everything that a catalogue says of each file, by its path below ``root``; not its identity."""
    found: dict[str, object] = {}
    with open_catalog(str(catalog), writable=False) as opened:
        columns = [(path, chunk, values) for chunk, _ in opened.chunks() for path, values in opened.columns_of(chunk)]
    with sqlite3.connect(catalog) as sql:
        facts = "id, path, size, standard, format, container, error, left_out, chunk, place"
        for number, path, *rest, chunk, place in sql.execute(f"SELECT {facts} FROM files").fetchall():
            values = {name: repr(values[place]) for name, at, values in columns if at == chunk and place in values}
            arrays = sql.execute(
                "SELECT path, source, shape, datatype, compression, offset FROM arrays WHERE file = ?", (number,)
            )
            blocks = sql.execute(
                "SELECT number, offset, size, stored, compression, error FROM blocks WHERE file = ?", (number,)
            )
            name = path.decode().removeprefix(root).replace("%20", " ")
            rest = [str(one).replace(path.decode(), "") for one in rest]
            found[name] = (rest, values, sorted(map(repr, arrays)), sorted(map(repr, blocks)))
    sql.close()
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestPrefixes:
    def test_a_prefix_has_the_rows_of_a_directory(self, call: Call, folder: Path, tmp_path: Path) -> None:
        assert call("index", "--catalog", tmp_path / "local.db", folder / "data").code == 0
        done = call("index", "--catalog", tmp_path / "s3.db", "s3://bucket/data/", "--json")
        assert (done.code, '"found": 27' in done.out) == (0, True), done
        local, remote = (
            rows_of(tmp_path / "local.db", f"{folder}/data"),
            rows_of(tmp_path / "s3.db", "s3://bucket/data"),
        )
        assert len(remote) == COUNT + 3
        assert remote == local

    def test_only_what_changed_is_read_again(self, call: Call, s3: S3, tmp_path: Path) -> None:
        catalog = tmp_path / "s3.db"
        assert ", 27 read" in call("index", "--catalog", catalog, "s3://bucket/data").out
        assert ", 0 read" in call("index", "--catalog", catalog, "s3://bucket/data").out
        s3.client.put_object(Bucket="bucket", Key="data/new.asdf", Body=content(99))
        try:
            assert ", 1 read" in call("index", "--catalog", catalog, "s3://bucket/data").out
            s3.client.put_object(Bucket="bucket", Key="data/new.asdf", Body=content(98))
            assert ", 1 read" in call("index", "--catalog", catalog, "s3://bucket/data").out
            found = call("find", "--catalog", catalog, "meta.number > 90", "s3://bucket/data")
            assert found.out == "s3://bucket/data/new.asdf\n"
        finally:
            s3.client.delete_object(Bucket="bucket", Key="data/new.asdf")
        assert "1 removed" in call("index", "--catalog", catalog, "s3://bucket/data").out

    def test_what_is_found_can_be_opened(self, call: Call) -> None:
        assert call("index", "s3://bucket").code == 0
        found = call("find", QUERY, "s3://bucket/data").out.splitlines()
        assert len(found) == 7
        assert call("get", "meta.kind", found[0]).out == "b\n"
        assert call("find", "meta.number == 7", "s3://bucket/other").out == "s3://bucket/other/%C3%A9%20%231.asdf\n"
        assert call("get", "meta.number", "s3://bucket/other/%C3%A9%20%231.asdf").out == "7\n"

    def test_single_files_and_what_is_refused(self, call: Call, s3: S3) -> None:
        url = "s3://bucket/data/odd.ASDF"
        assert "1 file, 1 read" in call("index", url).out
        web = f"{s3.endpoint}/bucket/data/odd.ASDF"
        for words, code, sentence in (
            (
                ("index", "s3://nothing/data"),
                3,
                "s3://nothing/data: the files cannot be listed: does not exist (404)",
            ),
            (("index", "https://example.org/data"), 2, "is on a web server, which lists no files"),
            (("index", f"{web}?X-Amz-Signature=secret"), 2, "a catalogue keeps no URL with a query"),
            (("index", "--dask", "tcp://127.0.0.1:1", url), 3, "the dask scheduler does not answer"),
            (("index", "--dask", "nonsense", "--jobs", "2", url), 2, "not allowed with"),
        ):
            done = call(*words)
            assert sentence in done.err, done
            assert "=secret" not in done.err
            assert done.code == code or code == 3, done


@pytest.fixture
def workers(tmp_path: Path, environment: dict[str, str]) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", environment) as started:
        yield started


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestCluster:
    def test_two_workers_give_the_rows_of_one_process(self, call: Call, workers: Cluster, tmp_path: Path) -> None:
        assert call("index", "--catalog", tmp_path / "one.db", "--jobs", 1, "s3://bucket/data").code == 0
        done = call("index", "--catalog", tmp_path / "two.db", "--dask", workers.address, "s3://bucket/data")
        assert (done.code, ", 27 read" in done.out) == (0, True), done
        one, two = (rows_of(tmp_path / f"{name}.db", "s3://bucket/data") for name in ("one", "two"))
        assert two == one

    def test_a_killed_workers_files_are_read_by_another(
        self, call: Call, environment: dict[str, str], workers: Cluster, tmp_path: Path
    ) -> None:
        """Killed in the middle: enough files that no worker is done at once."""
        folder = tmp_path / "many"
        for number in range(FILES_OF_KILLED):
            (folder / str(number % 7)).mkdir(parents=True, exist_ok=True)
            (folder / str(number % 7) / f"{number}.asdf").write_bytes(content(number % 5))
        assert call("index", "--catalog", tmp_path / "one.db", "--jobs", 1, folder).code == 0
        command = [sys.executable, "-c", SLOW, workers.address, str(tmp_path / "two.db"), str(folder)]
        index = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert index.stdout is not None
        with index, index.stdout as lines:
            assert lines.readline() == "written\n"
            workers.workers[0].kill()
            assert lines.readline() == f"{FILES_OF_KILLED}\n"
        assert index.returncode == 0
        assert rows_of(tmp_path / "two.db", str(folder)) == rows_of(tmp_path / "one.db", str(folder))


#: ``asdffs index --dask`` with small chunks, which says when the first one is written.
SLOW = """
import sys
from asdffs.features.catalog import indexing
from asdffs.features.catalog.indexing import cluster_way
from asdffs.features.catalog.store import open_catalog
indexing.FILES = 5
address, path, folder = sys.argv[1:]
catalog = open_catalog(path, writable=True)
def note(done, total):
    if done == 5:
        print("written", flush=True)
if __name__ == "__main__":
    with cluster_way(address, None) as way:
        print(indexing.update(catalog, [folder.encode()], way, note).read, flush=True)
"""

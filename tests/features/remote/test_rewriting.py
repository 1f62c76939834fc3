"""``asdffs set s3://...``: one PUT or a multipart upload with ``If-Match``, on an S3 server on loopback."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asdf
import numpy as np
import pytest
from support.commands import command
from support.fits_files import with_blocks
from support.mounts import environment_in
from support.s3_server import CREDENTIALS

from asdffs.errors import AsdffsError, StaleFileError
from asdffs.features.remote import change_object
from asdffs.features.remote.rewriting import LEAST, WHOLE, _ranges

pytestmark = pytest.mark.long

botocore = pytest.importorskip("botocore", reason="botocore is not installed")
moto = pytest.importorskip("moto", reason="moto is not installed")

Application = Callable[[dict[str, Any], Callable[..., Any]], Any]
KEPT = {
    "ContentType": "application/asdf",
    "Metadata": {"telescope": "Roman"},
    "Tagging": "project=wfi&night=3",
    "CacheControl": "no-cache",
}


class Bucket:
    """``s3://bucket`` on loopback.  ``asked``: method and query of each request.  ``refused``: which one is refused.

    moto takes ``If-Match`` with PUT, and not with what completes an upload; a layer before it does.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.asked: list[str] = []
        self.refused = -1
        self.client: Any = None

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        ours = environ.get("HTTP_USER_AGENT", "").startswith("Botocore")
        if ours:
            self.asked.append(f"{environ['REQUEST_METHOD']} {environ['QUERY_STRING'].partition('=')[0]}")
            if len(self.asked) - 1 == self.refused:
                start("403 Forbidden", [("Content-Type", "text/xml")])
                return [b"<Error><Code>AccessDenied</Code></Error>"]
            if environ["REQUEST_METHOD"] == "POST" and (wanted := environ.get("HTTP_IF_MATCH")):
                key = environ["PATH_INFO"].encode("latin-1").decode().removeprefix("/bucket/")
                if self.client.head_object(Bucket="bucket", Key=key)["ETag"] != wanted:
                    start("412 Precondition Failed", [("Content-Type", "text/xml")])
                    return [b"<Error><Code>PreconditionFailed</Code></Error>"]
        return self._application(environ, start)

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket="bucket", Key=key, Body=body, **KEPT)
        self.asked.clear()

    def get(self, key: str) -> bytes:
        found: bytes = self.client.get_object(Bucket="bucket", Key=key)["Body"].read()
        return found

    def uploads(self) -> list[Any]:
        return self.client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    import boto3
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *of: Any) -> None:
            pass

    found = Bucket(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, found, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        **{name.lower(): value for name, value in CREDENTIALS.items()},
    )
    client.create_bucket(Bucket="bucket")
    found.client = client
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint, "NO_PROXY": "127.0.0.1"}.items():
            patch.setenv(name, value)
        yield found
    client.close()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def content(size: int, blocks: int = 3) -> bytes:
    """A file with ``blocks`` blocks of together ``size`` bytes."""
    chance = np.random.default_rng(4)
    tree = {f"a{number}": chance.integers(0, 255, size // blocks, "u1") for number in range(blocks)}
    file = io.BytesIO()
    asdf.AsdfFile({"title": "first", **tree}).write_to(file, pad_blocks=True)
    return file.getvalue()


def run(tmp_path: Path, *words: object) -> Any:
    kept = ("AWS_ENDPOINT_URL", "NO_PROXY", "XDG_CACHE_HOME")
    environment = environment_in(tmp_path) | {name: os.environ[name] for name in kept}
    return command(*words, environment=environment | CREDENTIALS)


def check(new: bytes, old: bytes, title: str) -> None:
    """The new file has the title, and all else as the old one; its index is right."""
    with asdf.open(io.BytesIO(new), lazy_load=False) as found, asdf.open(io.BytesIO(old), lazy_load=False) as before:
        assert found["title"] == title
        for name in before.tree:
            if name.startswith("a") and name[1:].isdigit():
                assert np.array_equal(found[name], before[name]), name


@pytest.mark.parametrize("size", [3_000, WHOLE + 100, 3 * LEAST + 12_345])
@pytest.mark.parametrize("title", ["other", "x" * 20_000])
def test_an_object_is_changed(tmp_path: Path, bucket: Bucket, size: int, title: str) -> None:
    """Small and large, in place and with a larger tree; what others know of the object stays."""
    old = content(size)
    bucket.put("night/1 é.asdf", old)
    done = run(tmp_path, "set", f"title={title}", "s3://bucket/night/1%20%C3%A9.asdf")
    assert done.code == 0, done.err
    assert done.out.startswith("s3://bucket/night/1%20%C3%A9.asdf: title: first -> ")
    new = bucket.get("night/1 é.asdf")
    check(new, old, title)
    (tmp_path / "new.asdf").write_bytes(new)
    assert run(tmp_path, "check", "--deep", tmp_path / "new.asdf").out.endswith("nothing wrong\n")
    head = bucket.client.head_object(Bucket="bucket", Key="night/1 é.asdf")
    assert {name: head[name] for name in KEPT if name != "Tagging"} == {
        k: v for k, v in KEPT.items() if k != "Tagging"
    }
    tags = bucket.client.get_object_tagging(Bucket="bucket", Key="night/1 é.asdf")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"project": "wfi", "night": "3"}
    assert not bucket.uploads()
    assert not list((tmp_path / "cache/asdffs").glob("changing-*"))


def test_a_large_object_moves_little(tmp_path: Path, bucket: Bucket) -> None:
    """Of 60 MiB, the first part of 5 MiB and the metadata are moved; the store copies the rest."""
    bucket.put("large.asdf", content(60 << 20))
    assert run(tmp_path, "set", "title=other", "s3://bucket/large.asdf").code == 0
    asked = [one for one in bucket.asked if not one.startswith("HEAD")]
    assert asked == ["GET tagging", "POST uploads", "GET ", *["PUT uploadId"] * 3, "POST uploadId"]


@pytest.mark.parametrize("size", [3_000, 3 * LEAST])
def test_somebody_else_changes_it(tmp_path: Path, bucket: Bucket, size: int) -> None:
    """A change in between is refused, and what the other one wrote stays."""
    bucket.put("shared.asdf", content(size))

    def change(path: str) -> None:
        assert run(tmp_path, "set", "title=mine", path).code == 0
        bucket.put("shared.asdf", content(5_000))

    with pytest.raises(StaleFileError, match="was changed in the store meanwhile"):
        change_object("s3://bucket/shared.asdf", change)
    assert bucket.get("shared.asdf") == content(5_000)
    assert not bucket.uploads()


@pytest.mark.parametrize("size", [3_000, 3 * LEAST])
def test_any_request_is_refused(tmp_path: Path, bucket: Bucket, size: int) -> None:
    """After each failure the object is the old one, and no upload is left, unless its removal was refused."""
    old = content(size)
    for number in range(20):
        bucket.put("one.asdf", old)
        bucket.refused = number
        done = run(tmp_path, "set", "title=new", "s3://bucket/one.asdf")
        bucket.refused = -1
        if number >= len(bucket.asked):
            check(bucket.get("one.asdf"), old, "new")
            assert done.code == 0
            break
        assert done.code != 0
        assert "Traceback" not in done.err
        assert "->" not in done.out
        assert bucket.get("one.asdf") == old
        assert not bucket.uploads()
    assert number > 2


def test_copies_of_killed_commands_go(tmp_path: Path, bucket: Bucket) -> None:
    """The next command removes what a killed one left, and not the copy of one that is running."""
    bucket.put("x.asdf", content(3_000))
    cache = tmp_path / "cache/asdffs"

    def change(path: str) -> None:
        (cache / "changing-dead").mkdir()
        (cache / "changing-dead/copy.asdf").write_bytes(b"x")
        assert run(tmp_path, "set", "title=other", "s3://bucket/x.asdf").code == 0
        assert not (cache / "changing-dead").exists()
        assert os.path.exists(path)

    change_object("s3://bucket/x.asdf", change)
    assert not list(cache.glob("changing-*"))


def test_nothing_to_change_and_a_dry_run(tmp_path: Path, bucket: Bucket) -> None:
    old = content(3_000)
    bucket.put("same.asdf", old)
    assert run(tmp_path, "set", "title=first", "s3://bucket/same.asdf").out.endswith("nothing to change\n")
    assert "+title: new" in run(tmp_path, "set", "-n", "title=new", "s3://bucket/same.asdf").out
    assert run(tmp_path, "set", "--where", 'title == "x"', "title=new", "s3://bucket/same.asdf").code == 0
    assert not any(one.startswith(("PUT", "POST")) for one in bucket.asked)
    assert bucket.get("same.asdf") == old
    assert run(tmp_path, "rename", "title", "name", "s3://bucket/same.asdf").code == 0
    assert run(tmp_path, "unset", "name", "s3://bucket/same.asdf").code == 0
    assert b"first" not in bucket.get("same.asdf")


def test_only_the_object_that_is_named_is_changed(tmp_path: Path, bucket: Bucket) -> None:
    """No slash and no query is dropped; long names work, and a dry run names the object."""
    for key in ("dbl.asdf", "/dbl.asdf", "q", "q?v=1.asdf"):
        bucket.put(key, content(3_000))
    for url in ("s3://bucket//dbl.asdf", "s3://bucket/q?v=1.asdf", "s3://bucket/dbl.asdf?versionId=old"):
        done = run(tmp_path, "set", "title=new", url)
        assert done.code == 2, done
    assert {bucket.get(key) for key in ("dbl.asdf", "/dbl.asdf", "q", "q?v=1.asdf")} == {content(3_000)}
    assert run(tmp_path, "set", "title=new", "s3://bucket/q%3Fv=1.asdf").code == 0
    check(bucket.get("q?v=1.asdf"), content(3_000), "new")
    bucket.put(f"{'n' * 400}.asdf", content(3_000))
    done = run(tmp_path, "set", "-n", "title=new", f"s3://bucket/{'n' * 400}.asdf")
    assert (done.code, "changing-" in done.out, f"--- s3://bucket/{'n' * 400}.asdf" in done.out) == (0, False, True)


def test_what_is_refused(tmp_path: Path, bucket: Bucket) -> None:
    for url, reason in (
        ("gs://bucket/x.asdf", "only objects in S3"),
        ("https://127.0.0.1:1/x.asdf", "only objects in S3"),
        ("s3://bucket/none.asdf", "does not exist (404)"),
    ):
        done = run(tmp_path, "set", "title=x", url)
        assert done.code != 0
        assert reason in done.err, done.err
        assert ("asdffs repack" in done.err) == ("only" in reason)
    nobody = environment_in(tmp_path) | {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "HOME": str(tmp_path)}
    nobody |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    done = command("set", "title=x", "s3://bucket/text.asdf", environment=nobody)
    assert (done.code, "there are no credentials for S3" in done.err) == (8, True)
    bucket.put("text.asdf", b"no ASDF file")
    done = run(tmp_path, "set", "title=x", "s3://bucket/text.asdf")
    assert (done.code, "s3://bucket/text.asdf" in done.err, "changing-" in done.err) == (4, True, False)
    done = run(tmp_path, "set", "none.below=x", "s3://bucket/text.asdf", "--record", tmp_path / "r.jsonl")
    assert "a record is of local files" in done.err
    bucket.put("cal.fits", with_blocks())
    if len(with_blocks()) > WHOLE:
        with pytest.raises(AsdffsError, match="inside another one"):
            change_object("s3://bucket/cal.fits", lambda path: None)


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (5, 6), (0, 1 << 30), (7, (1 << 30) + 9), (1, 5 << 40)])
def test_ranges_cover_all_and_are_not_small(start: int, stop: int) -> None:
    found = list(_ranges(start, stop))
    assert [one for pair in found for one in pair] == sorted(one for pair in found for one in pair)
    assert sum(last - first for first, last in found) == stop - start
    assert all(last - first <= 1 << 30 for first, last in found)
    assert len(found) < 2 or min(last - first for first, last in found) >= LEAST

"""Remote files on servers that people use: an S3 server (moto), nginx, and Python's, which cannot send parts."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.fits_files import DATA, DQ, write_fits
from support.mounts import LIMIT, asdffs, environment_in
from support.remote_files import arrays, make
from support.s3_server import CREDENTIALS, KEY, SECRET, s3_server
from support.web_server import WebServer

from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import MissingFileError, RemoteError
from asdffs.scheduling import SerialCalls
from asdffs.storage.urls import RemoteOptions

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def opened(url: str, remote: RemoteOptions) -> Document:
    return open_document(url, writable=False, settings=Settings(scheduler=SerialCalls(), remote=remote))


def check_file(url: str, remote: RemoteOptions) -> None:
    with opened(url, remote) as document:
        for name, array in arrays().items():
            assert np.array_equal(document.arrays[name], array)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an S3 server with ``s3://bucket/d/data.asdf`` and ``s3://bucket/jw.fits``."""
    folder = tmp_path_factory.mktemp("s3")
    raw = make(folder / "data.asdf")
    write_fits(folder / "jw.fits")
    objects = {"d/data.asdf": raw, "public.asdf": raw, "jw.fits": (folder / "jw.fits").read_bytes()}
    with s3_server(objects, public="public.asdf") as server:
        yield server.endpoint


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestS3:
    def test_files(self, s3: str) -> None:
        check_file("s3://bucket/d/data.asdf", RemoteOptions(endpoint=s3))
        with opened("s3://bucket/jw.fits", RemoteOptions(endpoint=s3)) as document:
            assert np.array_equal(document.arrays["data"], DATA)
            assert np.array_equal(document.arrays["dq"], DQ)

    def test_anonymous_and_endpoint_of_the_environment(self, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        check_file("s3://bucket/public.asdf", RemoteOptions(anonymous=True))
        with pytest.raises(RemoteError, match="access is denied"):
            opened("s3://bucket/d/data.asdf", RemoteOptions(anonymous=True))

    def test_what_is_not_there(self, s3: str) -> None:
        for name in ("bucket/nothing.asdf", "nothing/data.asdf"):
            with pytest.raises((MissingFileError, RemoteError)) as caught:
                opened(f"s3://{name}", RemoteOptions(endpoint=s3, timeout=LIMIT))
            assert f"s3://{name}: does not exist (404)" in str(caught.value)

    def test_commands(self, s3: str, tmp_path: Path) -> None:
        environment = {**environment_in(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        url = "s3://bucket/d/data.asdf"
        done = asdffs("get", "meta.observer", url, "--endpoint", s3, environment=environment)
        assert (done.returncode, done.stdout) == (0, "Ada\n")
        done = asdffs("repack", url, tmp_path / "local.asdf", "--endpoint", s3, environment=environment)
        assert done.returncode == 0, done.stderr
        done = asdffs("diff", "--endpoint", s3, url, tmp_path / "local.asdf", environment=environment)
        assert done.returncode == 0, done.stdout
        done = asdffs("explode", "--endpoint", s3, url, tmp_path / "parts", environment=environment)
        assert done.returncode == 0, done.stderr
        assert sorted(path.name for path in (tmp_path / "parts").iterdir())[0] == "data.asdf"
        done = asdffs("check", "--endpoint", s3, "s3://bucket/jw.fits", url, environment=environment)
        assert done.returncode == 0, done.stdout
        nobody = {**environment, **CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "NO_PROXY": "127.0.0.1"}
        done = asdffs("set", "meta.observer=Eve", url, environment=nobody)
        assert (done.returncode, done.stderr) == (8, f"asdffs: {url}: the server cannot be reached\n")
        done = asdffs("edit", url, environment=environment)
        assert (done.returncode != 0, "asdffs repack" in done.stderr) == (True, True)
        done = asdffs("cache", "--clear", environment=environment)
        removed, left = done.stdout.splitlines()
        assert (done.returncode, left) == (0, f"{tmp_path}/cache/asdffs: 0 bytes in 0 files")
        assert re.fullmatch(r".*: removed \d{5,} bytes in 2 files", removed)


@pytest.mark.parametrize(
    ("scheme", "folder", "end"), [("gs", "/bucket", ""), ("az", "/account/bucket", "/account"), ("s3", "/bucket", "")]
)
def test_stores_with_an_endpoint(
    scheme: str, folder: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the stores have in common, without credentials: where a file is, its version, and parts of it."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    with WebServer().running() as server:
        raw = make(tmp_path / "data.asdf")
        server.put(f"{folder}/d/data.asdf", raw)
        options = RemoteOptions(anonymous=True, endpoint=server.url + end, timeout=LIMIT)
        check_file(f"{scheme}://bucket/d/data.asdf", options)
        assert all(request.headers.get("if-match") == server.tag(raw) for request in server.requests[1:])
        assert not any("authorization" in request.headers for request in server.requests)
        with pytest.raises(MissingFileError, match="does not exist"):
            opened(f"{scheme}://bucket/d/none.asdf", options)


def test_nginx(tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(nginx).exists():
        pytest.skip("needs nginx")
    make(tmp_path / "data.asdf")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; user root;\nevents {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body;\n"
        f"server {{ listen 127.0.0.1:{port}; root {tmp_path}; }} }}\n"
    )
    server = subprocess.Popen([nginx, "-e", tmp_path / "log", "-c", tmp_path / "nginx.conf"])
    try:
        check_file(f"http://127.0.0.1:{port}/data.asdf", RemoteOptions(timeout=LIMIT))
    finally:
        server.terminate()
        server.wait(LIMIT)


def test_a_server_that_sends_only_whole_files(tmp_path: Path) -> None:
    make(tmp_path / "data.asdf")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *of: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))
    ) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_address[1]}/data.asdf"
            check_file(url, RemoteOptions(timeout=LIMIT))
            told = list[tuple[int, int]]()
            options = RemoteOptions(cache=False, downloaded=lambda *facts: told.append(facts))
            with opened(url, options) as document:
                assert np.array_equal(document.arrays["b"], arrays()["b"])
                counters = document.requests()
            size = (tmp_path / "data.asdf").stat().st_size
            assert told[-1] == (size, size)
            assert counters is not None
            assert (counters["requests"], counters["hits"] > 0) == (2, True)
            assert counters["received"] == size
        finally:
            server.shutdown()
            thread.join()

"""Sources and references that lead to web servers: from remote files to their own, from local files to named ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.commands import Call
from support.mounts import LIMIT
from support.remote_files import arrays, make
from support.web_server import Answer, Request, WebServer

from asdffs.document.document import Document
from asdffs.document.linked_files import place_of
from asdffs.document.opening import Settings, open_document
from asdffs.errors import InvalidArrayError, NotFollowedError
from asdffs.storage.urls import RemoteOptions
from asdffs.workflows.checking import check_document

HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
PATIENT = RemoteOptions(timeout=LIMIT)
NAME = "a"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    """A server with ``/d/e.asdf``, a file with arrays of its own."""
    with WebServer().running() as found:
        found.put("/d/e.asdf", make(tmp_path / "e.asdf"))
        yield found


@pytest.fixture
def other(tmp_path: Path) -> Iterator[WebServer]:
    """Another server, which nobody names."""
    with WebServer().running() as found:
        found.put("/d/e.asdf", make(tmp_path / "e.asdf"))
        yield found


def leading(uri: str) -> bytes:
    """A file whose array ``a`` has the source ``uri``, and whose ``b`` is a reference to the array in that file."""
    array = f"{{source: '{uri}', datatype: int32, byteorder: little, shape: [512, 512]}}"
    return f"{HEAD}a: !core/ndarray-1.1.0 {array}\nb: {{$ref: '{uri}#/a'}}\n...\n".encode()


def opened(path: str | Path, remote: RemoteOptions = PATIENT) -> Document:
    return open_document(str(path), writable=False, settings=Settings(remote=remote))


def assert_followed(document: Document) -> None:
    for name in "ab":
        assert np.array_equal(document.arrays[name][...], arrays()[NAME])
        assert np.array_equal(document.arrays[name][3:5, ::7], arrays()[NAME][3:5, ::7])


def findings(document: Document) -> list[str]:
    return [f"{one.level.name}: {one.sentence}" for one in check_document(document, deep=True)]


def levels(document: Document) -> list[str]:
    return [one.split(":")[0] for one in findings(document)]


@pytest.mark.parametrize("uri", ["e.asdf", "./e.asdf", "../d/e.asdf", "/d/e.asdf", "{url}/d/e.asdf", "%65.asdf"])
def test_a_remote_file_leads_to_its_own_server(server: WebServer, uri: str) -> None:
    url = server.put("/d/m.asdf", leading(uri.format(url=server.url)))
    with opened(url) as document:
        assert_followed(document)
        assert findings(document) == []


def test_files_in_a_row(server: WebServer) -> None:
    """Each URI is relative to the file that has it; a ring ends."""
    server.put(
        "/x/y/second.asdf", HEAD.encode() + b"b: {$ref: '../../d/e.asdf#/a'}\nc: {$ref: '../m.asdf#/c'}\n...\n"
    )
    text = b"b: {$ref: 'y/second.asdf#/b'}\nc: {$ref: 'y/second.asdf#/c'}\n...\n"
    with opened(server.put("/x/m.asdf", HEAD.encode() + text)) as document:
        assert np.array_equal(document.arrays["b"][...], arrays()[NAME])
        assert "c" not in document.arrays
        [ring] = findings(document)
        assert "it leads in a circle" in ring


@pytest.mark.parametrize(
    "uri", ["{other}/d/e.asdf", "//{place}/d/e.asdf", "https:{rest}/d/e.asdf", "file:///d/e.asdf"]
)
def test_a_remote_file_leads_nowhere_else(server: WebServer, other: WebServer, uri: str) -> None:
    place = other.url.removeprefix("http://")
    uri = uri.format(other=other.url, place=place, rest=server.url.removeprefix("http:"))
    url = server.put("/d/m.asdf", leading(uri))
    with opened(url, PATIENT._replace(follow=(place,))) as document:
        for name in "ab":
            with pytest.raises(NotFollowedError, match="is not followed"):
                document.arrays[name][...]
        assert levels(document) == ["NOTE", "NOTE"]
    assert other.requests == []


def test_a_local_file_leads_to_a_server_that_is_named(server: WebServer, tmp_path: Path) -> None:
    path = tmp_path / "a.asdf"
    path.write_bytes(leading(f"{server.url}/d/e.asdf"))
    place = server.url.removeprefix("http://")
    with opened(path) as document:
        for name in "ab":
            with pytest.raises(NotFollowedError, match=f"is on the server {place}, and is not followed"):
                document.arrays[name][...]
        notes = findings(document)
        assert levels(document) == ["NOTE", "NOTE"]
        assert all(f"is on the server {place}, and is not followed" in one for one in notes)
    assert server.requests == []
    with opened(path, PATIENT._replace(follow=("example.org", place))) as document:
        assert_followed(document)
        assert findings(document) == []


def test_a_server_leads_to_no_other(server: WebServer, other: WebServer, tmp_path: Path) -> None:
    """Its redirects neither, because a file has chosen the place that redirects."""

    def elsewhere(request: Request) -> Answer | None:
        return Answer(status=302, headers={"Location": f"{other.url}/d/e.asdf"}) if "/away" in request.path else None

    server.fault = elsewhere
    path = tmp_path / "a.asdf"
    path.write_bytes(leading(f"{server.url}/away.asdf"))
    url = server.put("/d/m.asdf", leading("/away.asdf"))
    for place in (str(path), url):
        with opened(place, PATIENT._replace(follow=(server.url.removeprefix("http://"),))) as document:
            with pytest.raises(InvalidArrayError, match="redirects to another one, which is not followed"):
                document.arrays["a"][...]
            assert levels(document) == ["ERROR", "ERROR"]
    assert other.requests == []


def test_user_and_password_go_to_the_same_server(server: WebServer) -> None:
    url = server.put("/d/m.asdf", leading("e.asdf")).replace("http://", "http://ada:secret@")
    with opened(url + "?signature=secret") as document:
        assert_followed(document)
        assert "secret" not in str(findings(document))
    login = "Basic " + base64.b64encode(b"ada:secret").decode()
    assert {one.headers.get("authorization") for one in server.requests} == {login}
    assert not any("signature" in one.path for one in server.requests if "e.asdf" in one.path)


def test_other_users_get_no_linked_file(server: WebServer) -> None:
    url = server.put("/d/m.asdf", leading("e.asdf"))
    settings = Settings(remote=PATIENT, others=0)
    with (
        open_document(url, writable=False, settings=settings) as document,
        pytest.raises(InvalidArrayError, match="other users may use the mount"),
    ):
        document.arrays["a"][...]


def test_many_linked_files_need_few_descriptors(server: WebServer) -> None:
    """``check`` looks at each, however many there are, and closes it."""
    raw = server.objects["/d/e.asdf"]
    lines = []
    for number in range(300):
        server.put(f"/d/{number}.asdf", raw)
        array = f"{{source: {number}.asdf, datatype: int32, byteorder: little, shape: [512, 512]}}"
        lines.append(f"- !core/ndarray-1.1.0 {array}\n")
    with opened(server.put("/d/m.asdf", f"{HEAD}all:\n{''.join(lines)}...\n".encode())) as document:
        assert findings(document) == []


def test_commands(server: WebServer, tmp_path: Path, call: Call) -> None:
    path = tmp_path / "a.asdf"
    path.write_bytes(leading(f"{server.url}/d/e.asdf"))
    place = server.url.removeprefix("http://")
    done = call("check", path)
    assert done.code == 0
    assert f"is on the server {place}, and is not followed" in done.out
    done = call("check", "--follow", place, path)
    assert (done.code, done.out) == (0, f"{path}: nothing wrong\n")
    done = call("show", path, "a[0:2, 0:2]")
    assert done.code == 4
    assert done.sentence.endswith("--follow HOST[:PORT], or -o follow= of a mount, follows those on that server")
    done = call("show", "--follow", place, path, "a[0:2, 0:2]")
    assert done.code == 0, done.err
    done = call("check", "--follow", "http://x/", path)
    assert done.code == 2
    assert "give the name of a server, or HOST:PORT" in done.sentence


@pytest.mark.parametrize(
    ("uri", "base", "place"),
    [
        ("e.asdf", "s3://bucket/d/m.asdf", "s3://bucket/d/e.asdf"),
        ("/e.asdf?x=1#f", "https://u:p@h:1/d/m.asdf?secret", "https://u:p@h:1/e.asdf?x=1"),
        ("e.asdf", "http://[::1]:80/m.asdf", "http://[::1]:80/e.asdf"),
        ("s3://other/e.asdf", "s3://bucket/m.asdf", None),
        ("http://h/e.asdf", "https://h/m.asdf", None),
        ("http://h?@evil/e.asdf", "http://h/m.asdf", None),
        ("http://h@evil/e.asdf", "http://h/m.asdf", None),
        ("http://h:99999/e.asdf", "http://h/m.asdf", None),
        ("e f.asdf", "http://h/m.asdf", None),
        ("", "http://h/m.asdf", "http://h/m.asdf"),
        ("s3://bucket/e.asdf", "/d/m.asdf", None),
        ("http://H:8080/e.asdf", "/d/m.asdf", "http://H:8080/e.asdf"),
        ("http://h/e.asdf", "/d/m.asdf", None),
        ("file://h:8080/e.asdf", "/d/m.asdf", None),
    ],
)
def test_places(uri: str, base: str, place: str | None) -> None:
    if place is None:
        with pytest.raises(NotFollowedError):
            place_of(uri, base, ("h:8080", "bucket"))
    else:
        assert place_of(uri, base, ("h:8080", "bucket")) == place

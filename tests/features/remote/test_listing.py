"""Listings of object stores: they end, whatever a server sends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from support.web_server import Answer, Request, WebServer

from asdffs.errors import RemoteError
from asdffs.features.remote import object_stores
from asdffs.features.remote.object_stores import Prefix
from asdffs.storage.urls import RemoteOptions

OBJECT = """<Contents><Key>d/{}.asdf</Key><LastModified>2021-01-01T00:00:00.000Z</LastModified><ETag>"1"</ETag>
<Size>5</Size></Contents>"""


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer().running() as found:
        yield found


def page(request: Request, objects: str, *, more: bool) -> Answer:
    """A page of a listing, as S3 sends it.  ``more``: whether it says that another one follows."""
    following = f"<NextContinuationToken>{request.number}</NextContinuationToken>" if more else ""
    text = f"<IsTruncated>{str(more).lower()}</IsTruncated>{following}{objects}"
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return Answer(200, body=f'<ListBucketResult xmlns="{space}">{text}</ListBucketResult>'.encode())


def prefix(server: WebServer) -> Prefix:
    return Prefix("s3://bucket/d", RemoteOptions(endpoint=server.url, anonymous=True, timeout=1))


def test_pages_follow_each_other(server: WebServer) -> None:
    server.fault = lambda request: page(request, OBJECT.format(request.number), more=request.number < 3)
    assert [name for name, _ in prefix(server).objects()] == [f"{number}.asdf" for number in range(4)]


def test_regression_pages_without_objects_end(server: WebServer) -> None:
    server.fault = lambda request: page(request, "", more=True)
    with pytest.raises(RemoteError, match="cannot be listed: the server does not answer"):
        list(prefix(server).objects())


def test_regression_objects_without_end_are_refused(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "MOST_OBJECTS", 100)
    numbers = count()
    server.fault = lambda request: page(request, "".join(OBJECT.format(next(numbers)) for _ in range(10)), more=True)
    with pytest.raises(RemoteError, match="more than 100; give a longer prefix"):
        list(prefix(server).objects())

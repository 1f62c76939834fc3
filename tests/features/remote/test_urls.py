"""URLs: what is one, what is secret in it, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from asdffs.errors import UsageError
from asdffs.features.remote.object_stores import identity_of
from asdffs.storage.urls import RemoteOptions, is_remote, local_path, parse_url, shown_url


@pytest.mark.parametrize("text", ["https://h/a", "HTTP://h/a", "s3://b/k", "gs://b/k", "az://c/k"])
def test_remote_ones(text: str) -> None:
    assert is_remote(text)
    assert parse_url(text).scheme == text.partition(":")[0].lower()


@pytest.mark.parametrize("text", ["/a", "a", "file:///a", "https:a", "ftp://h/a", "s3:", "./https://h/a", ""])
def test_others(text: str) -> None:
    assert not is_remote(text)


def test_secrets_are_not_shown_and_not_lost() -> None:
    text = "https://me:secret@host:8443/d/a%20b.asdf?X-Amz-Signature=secret&x=1#part"
    url = parse_url(text)
    assert url.shown == shown_url(text) == "https://host:8443/d/a%20b.asdf"
    assert url.text == text.partition("#")[0]
    assert (url.host, url.name, url.is_web) == ("host", "a%20b.asdf", True)
    assert not parse_url("s3://bucket/key").is_web


def test_regression_every_parameter_tells_which_file_it_is() -> None:
    """Also those by which some servers sign: ``sr`` and ``st`` choose what others send."""
    names = ("uri", "sr", "st", "se", "Policy", "Expires", "X-Amz-Signature", "sig", "a=b&uri")
    texts = ["https://h/file", *(f"https://h/file?{name}={value}" for name in names for value in "12")]
    texts += [
        "https://h/file?uri=1&uri=2",
        "https://h/file?uri=2&uri=1",
        "https://me:a@h/file",
        "https://me:b@h/file",
    ]
    assert len({identity_of(parse_url(text), RemoteOptions()) for text in texts}) == len(texts)


def test_regression_the_object_store_tells_which_file_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(**options: Any) -> str:
        return identity_of(parse_url("s3://bucket/key"), RemoteOptions(**options))

    found = [identity(), identity(endpoint="http://a"), identity(endpoint="http://b"), identity(region="cn-north-1")]
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.setenv(name, "http://c")
        found.append(identity())
    assert len(set(found)) == len(found)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):  # new each hour
        monkeypatch.setenv(name, "secret")
    assert identity(timeout=5) == found[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https:///a?secret", "has no host"),
        ("https://u:secret@host?secret", "no path"),
        ("s3:///k?secret", "no bucket"),
        ("s3://bucket/", "no path"),
        ("https://host:port/a?secret", "not valid"),
        ("https://u:secret@[host/a?secret", "not valid"),
        ("https://host/a b?secret", "encode them"),
        ("https://host/a\n?secret", "encode them"),
    ],
)
def test_bad_ones_are_refused_without_their_secrets(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_url(text)
    assert "secret" not in str(caught.value)
    assert "secret" not in shown_url(text)


def test_file_urls_are_local() -> None:
    assert local_path("file:///a/b%20c.asdf") == "/a/b c.asdf"
    assert local_path("file://localhost/a") == "/a"
    assert local_path("file:name") == "file:name"  # a file may have that name
    assert local_path("/a%20b") == "/a%20b"
    with pytest.raises(UsageError, match="not a file on this machine"):
        local_path("file://elsewhere/a")

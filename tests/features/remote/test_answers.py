"""What an answer says, against what was asked: one table for all clients."""

from __future__ import annotations

import contextlib
import random
from email.message import Message

import pytest

from asdffs.features.remote.object_stores import StoreTransport
from asdffs.features.remote.transport import LARGEST, Fetched, RequestError, Trouble, Validator, checked, tag_of
from asdffs.features.remote.web import date_of, seconds_of, stated, wanted_of
from asdffs.storage.urls import RemoteOptions, parse_url

KNOWN = Validator(1000, '"one"', None)
LONG = "9" * 5000


def headers(*lines: str) -> Message:
    found = Message()
    for line in lines:
        name, _, value = line.partition(": ")
        found[name] = value
    return found


@pytest.mark.parametrize(
    ("status", "lines", "wanted"),
    [
        (206, ["Content-Range: bytes 100-199/1000", "Content-Length: 100"], 100),
        (206, ["Content-Range: bytes 100-199/1000"], 100),
        (206, ["Content-Range: bytes 100-199/*", "Content-Length: 100"], 100),
        (206, ["Content-Range: bytes 100-299/1000", "Content-Length: 200"], 100),  # the first 100 are right
        (206, ["Content-Range: bytes 100-149/150"], 50),  # another version, which is found out later
        (206, ["Content-Range: bytes 100-149/1000"], "other bytes"),
        (206, ["Content-Range: bytes 100-149/*"], "other bytes"),
        (206, ["Content-Range: bytes 99-199/1000"], "other bytes"),
        (206, ["Content-Range: bytes 100-199/150"], "other bytes"),
        (206, ["Content-Range: bytes 100-99/1000"], "other bytes"),
        (206, ["Content-Range: bytes 100-199/1000", "Content-Length: 101"], "other bytes"),
        (206, ["Content-Range: bytes 100--5/1000"], "other bytes"),
        (206, ["Content-Range: bytes */1000"], "other bytes"),
        (206, [f"Content-Range: bytes 100-199/{LONG}"], "other bytes"),
        (206, [f"Content-Range: bytes 100-199/{LARGEST + 1}"], "not a number, or above"),
        (206, ["Content-Length: 100"], "other bytes"),
        (200, ["Content-Length: 1000"], "cannot send parts"),
        (200, [], "cannot send parts"),
        *(
            (200, [f"Content-Length: {text}"], "not a number, or above")
            for text in ("abc", "-5", "+5", "9" * 40, LONG)
        ),
        (200, ["Content-Length: abc", "Transfer-Encoding: chunked"], "cannot send parts"),
    ],
)
def test_what_is_read_of_an_answer(status: int, lines: list[str], wanted: int | str) -> None:
    """It was asked for the bytes from 100 to 200 of a file of 1000."""
    try:
        found = wanted_of(stated(status, headers(*lines), 100), 100, 200, KNOWN)
    except RequestError as err:
        assert isinstance(wanted, str), err.sentence
        assert wanted in err.sentence
    else:
        assert found == wanted


@pytest.mark.parametrize("count", [2000, pytest.param(200_000, marks=pytest.mark.long)])
def test_any_headers_are_understood_or_refused(count: int) -> None:
    rng = random.Random(5)
    words = [
        *"bytes -/*,;:=+\x1b\xff\t0123456789",
        " ",
        "bytes ",
        "100",
        "199",
        "-",
        "/",
        "1000",
        LONG,
        "",
        "GMT",
        "Jan",
        "W/",
    ]
    names = ("Content-Range", "Content-Length", "Transfer-Encoding", "ETag", "Last-Modified", "Retry-After")
    for _ in range(count):
        start = rng.choice([0, 100])
        lines = {
            name: "".join(rng.choices(words, k=rng.randrange(9))) for name in rng.sample(names, rng.randrange(7))
        }
        if rng.random() < 0.5:
            lines["Content-Range"] = (
                f"bytes {start}-{rng.choice([99, 100, 199, 999])}/{rng.choice(['*', 150, 1000, LARGEST])}"
            )
        found = headers(*(f"{name}: {text}" for name, text in lines.items()))
        assert (seconds_of(found["Retry-After"]) or 0) >= 0
        with contextlib.suppress(RequestError):
            answer = stated(rng.choice([200, 206]), found, start)
            assert 0 <= wanted_of(answer, start, start + 100, KNOWN) <= 100
            assert answer.start == start < (answer.stop or 0) <= LARGEST


def test_only_what_was_asked_for_is_used() -> None:
    content = memoryview(bytes(50))
    assert checked(Fetched(0, content, KNOWN), 0, 50).content == content
    for start, stop, size in (
        (0, 49, 1000),
        (0, 51, 1000),
        (1, 50, 1000),
        (0, 50, 49),
        (0, 50, -1),
        (0, 50, LARGEST + 1),
    ):
        with pytest.raises(RequestError):
            checked(Fetched(0, content, KNOWN._replace(size=size)), start, stop)


def test_tags_and_dates_that_count() -> None:
    assert [tag_of(text) for text in ('"a"', 'W/"a"', "a", "", '"\x1b]0;"', '"' + "e" * 60000 + '"', None)] == [
        '"a"',
        'W/"a"',
        "a",
        None,
        None,
        None,
        None,
    ]
    assert date_of("Fri, 01 Jan 2021 00:00:00 GMT") == 1609459200
    for text in ("31 Dec 9999 23:59:59 -2359", "01 Jan 1969 00:00:00 GMT", "31 Dec 99999999 23:59:59 GMT", "x", None):
        assert date_of(text) is None


def test_regression_control_characters_around_seconds() -> None:
    """Python strips more from a text than it allows around a number."""
    found = [seconds_of(text) for text in ("3", " 3 ", "3\x1d", "\x1c3", "\x1d", "-3", "3.5", None)]
    assert found == [3, 3, 3, 3, None, None, None, None]


def test_regression_a_panic_of_the_library_is_a_sentence() -> None:
    """A tag that no header can have: it is no longer sent, but others may panic as well."""
    store = StoreTransport(
        parse_url("s3://bucket/key"), RemoteOptions(endpoint="http://127.0.0.1:9", anonymous=True), 1
    )
    with pytest.raises(RequestError, match="the request failed") as caught:
        store.get(0, 10, Validator(1000, '"\x1b"', None))
    assert caught.value.trouble is Trouble.BUSY

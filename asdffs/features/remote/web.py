"""Requests of a file on a web server: redirects, logins, and what each answer must have.

The first request follows redirects; later ones go to where they led.  That place may be a URL that expires, so a
refusal makes this module follow the redirects once more.  User and password of a URL go only to the server that the
URL names, and no header tells a server the URL of another one.

What an answer says about the file and about itself is checked against what was asked before it is used:

* A length is a number without a sign, of at most 15 digits; a file has at most ``LARGEST`` bytes.
* A part begins where it was asked to begin, and ends within the file.  ``Content-Length``, if there is one, is the
  length of that part.  ``Content-Range: bytes FIRST-LAST/*`` does not tell the size: for the first answer it is not
  known, and for others it is that of the version that was opened.
* Of an answer that is longer than what was asked for, only what was asked for is read.
* An ETag that cannot be sent back (``tag_of``), or a date that is not between 1970 and 2262, counts as not stated.
"""

from __future__ import annotations

import contextlib
import re
import string
from collections.abc import Callable, Iterator
from email.message import Message
from email.utils import formatdate, parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from asdffs.features.remote.connections import Answer, Deadline, answered, login_of
from asdffs.features.remote.transport import (
    CUT,
    LARGEST,
    NO_PARTS,
    OTHER_BYTES,
    TOO_LONG,
    Fetched,
    Head,
    RequestError,
    Trouble,
    Validator,
    checked,
    refusal_of,
    tag_of,
)
from asdffs.storage.urls import WEB, Url

_EXPIRED: Final = (400, 401, 403, 404, 410)
_MOVED: Final = (301, 302, 303, 307, 308)
#: The most redirects that are followed, one after the other.
_REDIRECTS: Final = 10
#: Bytes of a whole file that are read at a time.
_PIECE: Final = 1 << 20
#: Times in nanoseconds have 63 bits: until 2262.
_LAST_DATE: Final = (1 << 63) / 1e9
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_RANGE: Final = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)")


class WebTransport:
    """A ``Transport`` of the file at ``url``, a web server.

    ``seconds``: the longest silence of an answer; answers that go on take longer (``connections``).  ``redirects``:
    whether the server may lead to another one.
    """

    def __init__(self, url: Url, seconds: float, *, redirects: bool = True) -> None:
        self._named = _Place(_plain(url.text), login_of(url.text))
        self._redirects = redirects
        self._place = self._named
        self._seconds = seconds

    def head(self, length: int, seconds: float) -> Head:
        """Return the first ``length`` bytes of the file, or fewer, within ``seconds``.  Raises ``RequestError``."""
        with self._asked(self._named, _range(0, length), Deadline(seconds, length)) as (answer, found):
            validator = found.validator()
            if found.size is None:
                return Head(Fetched(0, memoryview(b""), validator), ranges=False, sized=False)
            if not found.part and found.size > length:
                return Head(Fetched(0, memoryview(b""), validator), ranges=False)
            count = min(length, found.size, found.size if found.stop is None else found.stop)
            return Head(Fetched(0, _content(answer, found, count), validator), ranges=found.part)

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        place = self._place
        try:
            return self._part(place, start, stop, known)
        except RequestError as err:
            if err.trouble is not Trouble.REFUSED or err.status not in _EXPIRED or place == self._named:
                raise
        return self._part(self._named, start, stop, known)

    def whole(self, write: Callable[[memoryview], None], most: int) -> Validator:
        """Call ``write`` for all bytes of the file in order, at most ``most``; return the version.

        Raises ``RequestError``.
        """
        with self._asked(self._place, {}, Deadline(self._seconds, most)) as (answer, found):
            done, buffer = 0, memoryview(bytearray(_PIECE))
            while count := answer.read_into(buffer):
                check_whole(found, done + count, most, ended=False)
                write(buffer[:count])
                done += count
            check_whole(found, done, most, ended=True)
            return found.validator()._replace(size=done)

    def _part(self, place: _Place, start: int, stop: int, known: Validator | None) -> Fetched:
        headers = {**_range(start, stop), **_condition(known)}
        with self._asked(place, headers, Deadline(self._seconds, stop - start), start) as (answer, found):
            count = wanted_of(found, start, stop, known)
            return checked(Fetched(start, _content(answer, found, count), found.validator(known)), start, stop)

    @contextlib.contextmanager
    def _asked(
        self, place: _Place, headers: dict[str, str], deadline: Deadline, start: int = 0
    ) -> Iterator[tuple[Answer, Stated]]:
        """Return an answer with bytes, wherever redirects lead, and what it says.  Raises ``RequestError``."""
        for _ in range(_REDIRECTS + 1):
            with answered(place.text, place.headers(headers), deadline) as answer:
                if answer.status not in _MOVED:
                    if answer.status not in (200, 206):
                        raise refusal_of(answer.status, seconds_of(answer.headers.get("Retry-After")))
                    found = stated(answer.status, answer.headers, start)
                    self._place = place
                    yield answer, found
                    return
                before, place = place, place.moved(answer.headers.get("Location", ""))
                if not self._redirects and urlsplit(place.text)[:2] != urlsplit(before.text)[:2]:
                    raise RequestError(Trouble.REFUSED, "the server redirects to another one, which is not followed")
        raise RequestError(Trouble.REFUSED, f"the server redirects more than {_REDIRECTS} times")


class _Place:
    """Where a file is asked for: a URL without user and password, and the header that states these, or None."""

    def __init__(self, text: str, login: str | None) -> None:
        self.text = text
        self._login = login

    def headers(self, others: dict[str, str]) -> dict[str, str]:
        """Return the headers for a request."""
        return others if self._login is None else {**others, "Authorization": self._login}

    def moved(self, location: str) -> _Place:
        """Return where a redirect leads: never from https to http.  Raises ``RequestError``."""
        try:
            after, before = urlsplit(urljoin(self.text, location)), urlsplit(self.text)
            text = _plain(urlunsplit(after))
        except ValueError as err:
            raise RequestError(Trouble.REFUSED, "the server redirects to a URL that is not valid") from err
        if after.scheme not in WEB or not after.hostname or (before.scheme == "https" and after.scheme != "https"):
            sentence = "the server redirects to a URL that is not https, which is not followed"
            raise RequestError(Trouble.REFUSED, sentence)
        return _Place(text, self._login if after[:2] == before[:2] else None)


def _plain(text: str) -> str:
    """Return a URL without user, password and fragment, in ASCII.  Raises ``ValueError``."""
    parts = urlsplit(text)
    _ = parts.port  # raises if it is none
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))
    return quote(plain, safe=string.punctuation)


def _range(start: int, stop: int) -> dict[str, str]:
    return {"Range": f"bytes={start}-{stop - 1}"}


def _condition(known: Validator | None) -> dict[str, str]:
    """Return the header by which a server refuses to send another version than ``known``."""
    if known is not None and known.is_strong:
        return {"If-Match": known.tag or ""}
    if known is not None and known.modified is not None:
        return {"If-Unmodified-Since": formatdate(known.modified, usegmt=True)}
    return {}


def _content(answer: Answer, found: Stated, count: int) -> memoryview:
    """Return the first ``count`` bytes of an answer.  Raises ``RequestError`` if it is longer or shorter."""
    content = memoryview(bytearray(count))
    if answer.read_into(content) != count:
        raise RequestError(Trouble.BUSY, CUT)
    if found.stop == found.start + count and answer.read_into(memoryview(bytearray(1))):
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    return content


class Stated(NamedTuple):
    """What an answer with the bytes ``start`` to ``stop`` says.  ``stop`` and ``size`` are None if it does not.

    ``part``: whether it is an answer to a request for a part.
    """

    start: int
    stop: int | None
    size: int | None
    tag: str | None
    modified: float | None
    part: bool

    def validator(self, known: Validator | None = None) -> Validator:
        """Return the version.  Its size, if it is not stated, is that of ``known``, else 0."""
        size = self.size if self.size is not None else known.size if known is not None else 0
        return Validator(size, self.tag, self.modified)


def stated(status: int, headers: Message, start: int) -> Stated:
    """Return what the answer of a web server to a request for the bytes from ``start`` says.

    ``status``: 200 or 206.  Raises ``RequestError``.
    """
    length = None if "chunked" in headers.get("Transfer-Encoding", "").lower() else _length(headers)
    about = tag_of(headers.get("ETag")), date_of(headers.get("Last-Modified"))
    if status != 206:
        return Stated(0, length, length, *about, part=False)
    found = _RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if found is None:
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    first, stop = int(found[1]), int(found[2]) + 1
    size = None if found[3] == "*" else int(found[3])
    if max(size or 0, stop) > LARGEST:
        raise RequestError(Trouble.REFUSED, TOO_LONG)
    if first != start or not first < stop <= (stop if size is None else size) or length not in (None, stop - first):
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    return Stated(first, stop, size, *about, part=True)


def wanted_of(found: Stated, start: int, stop: int, known: Validator | None) -> int:
    """Return how many bytes of the answer to read: those from ``start`` to ``stop``, or to the end of the file.

    Raises ``RequestError`` if the answer has fewer, or is no part.
    """
    if not found.part or found.stop is None:
        raise RequestError(Trouble.NO_RANGES, NO_PARTS)
    wanted = min(stop, found.validator(known).size)
    if found.stop < wanted:
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    return wanted - start


def date_of(text: str | None) -> float | None:
    """Return the seconds since 1970 of a date, None without one that counts."""
    try:
        stamp = parsedate_to_datetime(text or "").timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return stamp if 0 < stamp < _LAST_DATE else None


def seconds_of(text: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header; None without one.  A date counts as no statement."""
    stripped = (text or "").strip()
    return float(stripped) if stripped.isdecimal() else None


def check_whole(found: Stated, count: int, most: int, *, ended: bool) -> None:
    """Raise ``RequestError`` unless ``count`` bytes of a whole file are as many as the answer says, at most ``most``.

    ``ended``: whether no more come.
    """
    if found.part:
        raise RequestError(Trouble.BUSY, OTHER_BYTES)
    if found.stop is not None and ended and count < found.stop:
        raise RequestError(Trouble.BUSY, CUT)
    if count > (most if found.stop is None else found.stop):
        end = "and does not say how many; allow more by whole_max" if found.stop is None else "as it said"
        raise RequestError(Trouble.REFUSED, f"the server sends more than {found.stop or most} bytes, {end}")


def _length(headers: Message) -> int | None:
    text = headers.get("Content-Length")
    if text is None:
        return None
    found = _NUMBER.fullmatch(text.strip())
    if found is None or int(found[0]) > LARGEST:
        raise RequestError(Trouble.REFUSED, TOO_LONG)
    return int(found[0])

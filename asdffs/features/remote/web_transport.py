"""Requests of a file on a web server: redirects, logins, and what each answer must have.

The first request follows redirects; later ones go to where they led.  That place may be a URL that expires, so a
refusal makes this module follow the redirects once more.  User and password of a URL go only to the server that the
URL names, and no header tells a server the URL of another one.
"""

from __future__ import annotations

import contextlib
import string
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Final
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from asdffs.features.remote.answers import (
    Stated,
    check_whole,
    checked,
    seconds_of,
    stated,
    wanted_of,
)
from asdffs.features.remote.connections import Answer, Deadline, answered, login_of
from asdffs.features.remote.transport import (
    CUT,
    OTHER_BYTES,
    Fetched,
    Head,
    RequestError,
    Trouble,
    Validator,
    refusal_of,
)
from asdffs.storage.urls import WEB, Url

_EXPIRED: Final = (400, 401, 403, 404, 410)
_MOVED: Final = (301, 302, 303, 307, 308)
#: The most redirects that are followed, one after the other.
_REDIRECTS: Final = 10
#: Bytes of a whole file that are read at a time.
_PIECE: Final = 1 << 20


class WebTransport:
    """A ``Transport`` of the file at ``url``, a web server.

    ``seconds``: the longest silence of an answer; answers that go on take longer (``connections``).
    """

    def __init__(self, url: Url, seconds: float) -> None:
        self._named = _Place(_plain(url.text), login_of(url.text))
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
                place = place.moved(answer.headers.get("Location", ""))
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

"""The first request to a web server: follows redirects, and brings the head of the file.

Later requests go to where the redirects led, so each costs one round trip.  obstore follows redirects as well, but it
sends the URL, with a secret query, to the next server as the referrer.  This module sends none; and it sends the user
and password of a URL only to the server that the URL names.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import functools
import http.client
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from asdffs.storage.remote.transport import (
    NO_ANSWER,
    NOT_REACHED,
    Fetched,
    RequestError,
    Trouble,
    Validator,
    refusal_of,
)
from asdffs.storage.remote.urls import WEB, Url

_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class Head:
    """What the first request brought.  ``fetched``: the head; ``url``: where the file is; ``login``: for its server.

    ``ranges``: whether the server sends parts of files; if not, ``fetched`` has no bytes.
    """

    def __init__(self, fetched: Fetched, url: str, login: str | None, *, ranges: bool) -> None:
        self.fetched = fetched
        self.url = url
        self.login = login
        self.ranges = ranges


def fetch_head(url: Url, length: int, seconds: float) -> Head:
    """Return the first ``length`` bytes of the file at ``url``, or fewer.  Raises ``RequestError``.

    ``seconds``: how long the server may be silent.
    """
    plain, login = without_login(url.text)
    with _answer(plain, login, {"Range": f"bytes=0-{length - 1}"}, seconds) as answer:
        same = urlsplit(answer.geturl())[:2] == urlsplit(plain)[:2]
        return _read(answer, length, login if same else None)


def fetch_part(
    place: str, login: str | None, part: tuple[int, int], known: Validator | None, seconds: float
) -> Fetched:
    """Return a part (start and stop) of the file at ``place``, with the login for its server.

    ``known``: the version that is wanted.  ``seconds``: as of ``fetch_head``.  Raises ``RequestError``.
    """
    headers = {"Range": f"bytes={part[0]}-{part[1] - 1}"}
    if known is not None and known.is_strong:
        headers["If-Match"] = known.tag or ""
    elif known is not None and known.modified is not None:
        headers["If-Unmodified-Since"] = email.utils.formatdate(known.modified, usegmt=True)
    with _answer(place, login, headers, seconds) as answer:
        found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if answer.status != HTTPStatus.PARTIAL_CONTENT or found is None:
            raise RequestError(Trouble.NO_RANGES, "the server cannot send parts of the file")
        start, last, size = map(int, found.groups())
        wanted = min(max(0, last + 1 - start), part[1] - part[0])
        content = answer.read(wanted)
        if len(content) != wanted:
            raise RequestError(Trouble.BUSY, "the connection ended before all bytes were sent")
        return Fetched(start, memoryview(content), _validator(answer.headers, size))


@contextlib.contextmanager
def _answer(place: str, login: str | None, headers: dict[str, str], seconds: float) -> Iterator[Any]:
    """Return the answer to a request, to be read inside the block.  Raises ``RequestError``, there as well."""
    request = urllib.request.Request(place, headers={**headers, "User-Agent": "asdffs"})
    if login is not None:
        request.add_unredirected_header("Authorization", login)
    try:
        with _opener(login).open(request, timeout=seconds) as answer:
            yield answer
    except urllib.error.HTTPError as err:
        with err:
            raise refusal_of(err.code, _seconds(err.headers.get("Retry-After"))) from err
    except (urllib.error.URLError, OSError, http.client.HTTPException) as err:
        raise _as_request_error(err) from err


@functools.lru_cache(8)
def _opener(login: str | None) -> urllib.request.OpenerDirector:
    """Return what follows redirects, and reads the certificates of the system only once."""
    return urllib.request.build_opener(_Redirects(login), _Secure())


class _Secure(urllib.request.HTTPSHandler):
    """Opens https URLs with certificates that are read when the first one needs them."""

    def __init__(self) -> None:
        urllib.request.AbstractHTTPHandler.__init__(
            self
        )  # that of HTTPSHandler reads them at once from Python 3.12 on

    @functools.cached_property
    def _certificates(self) -> Any:
        import ssl

        return ssl.create_default_context()

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """See ``HTTPSHandler``."""
        return self.do_open(http.client.HTTPSConnection, req, context=self._certificates)


def without_login(text: str) -> tuple[str, str | None]:
    """Return a URL without user and password, and the header that states these; None without them."""
    parts = urlsplit(text)
    if parts.username is None:
        return text, None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    login = "Basic " + base64.b64encode(pair.encode()).decode()
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), login


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http, and with the login only to the same server."""

    def __init__(self, login: str | None) -> None:
        self._login = login

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """See ``HTTPRedirectHandler``."""
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in WEB or (before.scheme == "https" and after.scheme != "https"):
            fp.close()
            raise RequestError(
                Trouble.REFUSED, "the server redirects to a URL that is not https, which is not followed"
            )
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None and self._login is not None and before[:2] == after[:2]:
            found.add_unredirected_header("Authorization", self._login)
        return found


def _read(answer: Any, length: int, login: str | None) -> Head:
    """Return what ``answer`` brings.  ``login``: what was sent to its server."""
    headers, place = answer.headers, answer.geturl()
    found = _RANGE.fullmatch(headers.get("Content-Range", ""))
    ranges = answer.status == 206 and found is not None
    if found is not None and ranges:
        start, last, size = map(int, found.groups())
        wanted = max(0, last + 1 - start)
    else:
        start = 0
        size = wanted = int(headers.get("Content-Length") or 0)
    validator = _validator(headers, size)
    content = answer.read(min(wanted, length)) if ranges or wanted <= length else b""
    if (ranges or wanted <= length) and len(content) != min(wanted, length):
        raise RequestError(Trouble.BUSY, "the connection ended before all bytes were sent")
    return Head(Fetched(start, memoryview(content), validator), place, login, ranges=ranges)


def _validator(headers: Any, size: int) -> Validator:
    modified = email.utils.parsedate_to_datetime(headers["Last-Modified"]).timestamp() if _dated(headers) else None
    return Validator(size, headers.get("ETag") or None, modified)


def _dated(headers: Any) -> bool:
    try:
        return email.utils.parsedate_to_datetime(headers.get("Last-Modified") or "") is not None
    except (ValueError, TypeError):
        return False


def _seconds(stated: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header; None without one.  A date counts as no statement."""
    return float(stated) if stated is not None and stated.strip().isdecimal() else None


def _as_request_error(error: Exception) -> RequestError:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return RequestError(Trouble.BUSY, NO_ANSWER)
    if isinstance(reason, socket.gaierror):
        lasting = reason.errno == socket.EAI_NONAME  # a machine without a network has another one
        return RequestError(Trouble.REFUSED if lasting else Trouble.BUSY, "the name of the server is not known")
    if isinstance(reason, http.client.IncompleteRead):
        return RequestError(Trouble.BUSY, "the connection ended before all bytes were sent")
    if isinstance(reason, OSError) and "CERTIFICATE" in str(reason):
        return RequestError(Trouble.REFUSED, "the certificate of the server cannot be verified")
    return RequestError(Trouble.BUSY, NOT_REACHED)

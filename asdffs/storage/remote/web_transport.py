"""Requests of a file on a web server, at the place to which its redirects led.

That place may be a URL that expires.  So a refusal makes this module follow the redirects once more.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from asdffs.storage.remote.options import RemoteOptions
from asdffs.storage.remote.stores import check_installed, shared_origin
from asdffs.storage.remote.transport import Fetched, RequestError, StoreTransport, Trouble, Validator, checked
from asdffs.storage.remote.urls import Url
from asdffs.storage.remote.web_head import Head, fetch_head, fetch_part

_EXPIRED: Final = (400, 401, 403, 404, 410)
#: The most servers that are known.
_MOST: Final = 64
#: Servers, by process, that sent a file from the place that was named, without redirects.
_direct: Final[dict[tuple[int, str], None]] = {}


def open_web(url: Url, length: int, options: RemoteOptions, seconds: float) -> tuple[Head, WebTransport]:
    """Return the first ``length`` bytes of a file on a web server, and what makes the other requests of it.

    The first file of a server is asked for by ``fetch_head``, which follows redirects.  If there were none, the next
    files are asked for on the connections that are open already, which spares a round trip or more.  Raises
    ``RequestError``, ``NotSupportedError``.
    """
    check_installed(url)
    shared = shared_origin(url)
    known = shared is not None and (os.getpid(), shared) in _direct
    head = (_head_by_store(url, length, options, seconds) if known else None) or fetch_head(url, length, seconds)
    if shared is not None and not known and head.ranges and head.url == url.text:
        _direct[os.getpid(), shared] = None
        while len(_direct) > _MOST:
            _direct.pop(next(iter(_direct)), None)
    return head, WebTransport(url, options, seconds, head)


def _head_by_store(url: Url, length: int, options: RemoteOptions, seconds: float) -> Head | None:
    """Return the head by the shared store; None if that fails, because ``fetch_head`` knows better why."""
    try:
        fetched = checked(StoreTransport(url, options, seconds).get(0, length, None), 0, length)
    except RequestError:
        return None
    return Head(fetched, url.text, None, ranges=True)


class WebTransport:
    """A ``Transport`` of the file at ``url``, a web server.  ``head``: what the first request brought.

    ``seconds``: the longest time that one request may take.
    """

    def __init__(self, url: Url, options: RemoteOptions, seconds: float, head: Head) -> None:
        self._url = url
        self._options = options
        self._seconds = seconds
        self._lock = threading.Lock()
        self._head = head
        self._made: StoreTransport | None = None

    def get(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        store = self._store()
        try:
            return store.get(start, stop, known)
        except RequestError as err:
            same = self._head.url == self._url.text
            if err.trouble is not Trouble.REFUSED or err.status not in _EXPIRED or same:
                raise
        return self._again(store).get(start, stop, known)

    def get_again(self, start: int, stop: int, known: Validator | None) -> Fetched:
        """See ``Transport``."""
        head = self._head
        return fetch_part(head.url, head.login, (start, stop), known, self._seconds)

    def get_whole(self, write: Any) -> Validator:
        """See ``Transport``."""
        return self._store().get_whole(write)

    def _store(self) -> StoreTransport:
        """Return the requests to where the redirects led; they take a while to prepare, and the head may be all."""
        with self._lock:
            if self._made is None:
                place = self._url._replace(text=self._head.url, scheme=self._head.url.partition(":")[0].lower())
                self._made = StoreTransport(place, self._options, self._seconds, login=self._head.login)
            return self._made

    def _again(self, refused: StoreTransport) -> StoreTransport:
        """Follow the redirects again, unless another thread has done so.  Raises ``RequestError``."""
        with self._lock:
            if self._made is refused:
                self._head, self._made = fetch_head(self._url, 1, self._seconds), None
        return self._store()

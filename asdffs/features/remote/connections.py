"""Connections to web servers, each answer with a deadline; they are kept for the next request.

* An answer has one end in all: ``seconds`` from its request on, and a second more for each ``SLOWEST`` bytes that
  arrive, up to the bytes that were asked for; but never more than ``seconds`` from now on.  Connection, proxy, TLS,
  headers and body count together, also if they come byte by byte.  Only the system, which looks up names, has a time
  of its own.
* An answer never holds more bytes than were asked for, and headers as ``http.client`` bounds them.
* A connection is used again only if its last answer was read to its end.  One that the server closed meanwhile is
  replaced by a new one.
* Nothing is sent that is not in ``headers``: no referrer, no cookies.  Redirects are the caller's.

Connections belong to the process that made them.  Threads: any, each with answers of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import io
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from asdffs.features.remote.environment import proxy_to
from asdffs.features.remote.transport import (
    CUT,
    NO_ANSWER,
    NOT_REACHED,
    RequestError,
    Trouble,
)

#: The slowest server that is waited for, in bytes a second.
SLOWEST: Final = 32 << 10
#: Seconds to wait for one address of a server; it may have several.
_CONNECT: Final = 10.0
#: The most connections that are kept, for all servers together.
_KEPT: Final = 64
_PORTS: Final = {"http": 80, "https": 443}
#: Connections without a request, by process, scheme, server and proxy; the one used last is at the end.
_idle: Final[dict[tuple[Any, ...], list[_Connection]]] = {}


@atexit.register
def close_idle() -> None:
    """Close the connections without a request."""
    while _idle:
        for connection in _idle.popitem()[1]:
            connection.close()


class Deadline:
    """The end of the wait for an answer with at most ``most`` bytes.  At no time are more than ``seconds`` left."""

    def __init__(self, seconds: float, most: int) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._most = most

    def note(self, count: int) -> None:
        """Note that so many bytes arrived."""
        more = min(count, self._most)
        self._most -= more
        self._end = min(self._end + more / SLOWEST, time.monotonic() + self._seconds)

    def left(self) -> float:
        """Return the seconds that are left.  Raises ``TimeoutError`` if there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class Answer:
    """The answer of a server, to be read once."""

    def __init__(self, connection: _Connection, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self._connection = connection
        self._response = response

    def read_into(self, buffer: memoryview) -> int:
        """Fill ``buffer``, or as much of it as there are bytes; return how many.  Raises ``RequestError``."""
        done = 0
        with _failures():
            while done < len(buffer) and (count := self._response.readinto(buffer[done:])):
                done += count
        return done

    def close(self) -> None:
        """Keep the connection for another request if the answer was read to its end, else close it."""
        if self._response.isclosed() and not self._response.will_close:
            self._connection.keep()
        else:
            self._response.close()
            self._connection.close()


@contextlib.contextmanager
def answered(place: str, headers: dict[str, str], deadline: Deadline) -> Iterator[Answer]:
    """Return the answer to a GET request, to be read inside the block.  Raises ``RequestError``."""
    with _failures():
        answer = _asked(place, headers, deadline)
    try:
        yield answer
    finally:
        answer.close()


def _asked(place: str, headers: dict[str, str], deadline: Deadline) -> Answer:
    """Return an answer, by a connection that was kept if there is one."""
    while True:
        connection = _connection(place)
        kept = connection.sock is not None
        try:
            return Answer(connection, connection.ask(place, headers, deadline))
        except BaseException as err:
            connection.close()
            if not kept or isinstance(err, TimeoutError) or not isinstance(err, OSError):
                raise  # else the server closed it meanwhile


class _Connection(http.client.HTTPConnection):
    """A connection to a server, or to the proxy to it.  ``proxy``: its URL, or None."""

    def __init__(self, key: tuple[Any, ...], scheme: str, host: str, port: int, proxy: str | None) -> None:
        via = urlsplit(proxy or "")
        super().__init__(via.hostname or host, (via.port or 80) if via.hostname else port)
        self._key = key
        self._secure = scheme == "https"
        self._server = host
        self._by_proxy = bool(via.hostname) and not self._secure
        self._login = _basic(via.username, via.password) if via.username else None
        self.default_port = _PORTS[scheme]  # else the header Host would state it, which some signatures do not allow
        if via.hostname and self._secure:
            self.set_tunnel(host, port, {"Proxy-Authorization": self._login} if self._login else {})

    def ask(self, place: str, headers: dict[str, str], deadline: Deadline) -> http.client.HTTPResponse:
        """Send a GET request for ``place``, and return the answer once its headers are here."""
        self._deadline = deadline
        self.response_class = functools.partial(_Response, deadline=deadline)  # type: ignore[assignment]
        parts = urlsplit(place)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if self._by_proxy:
            target = f"http://{parts.netloc}{target}"
            login = {"Proxy-Authorization": self._login} if self._login else {}
            headers = {**headers, "Host": parts.netloc, **login}
        if self.sock is not None:
            self.sock.settimeout(deadline.left())
        self.request("GET", target, headers={**headers, "User-Agent": "asdffs"})
        return self.getresponse()

    def connect(self) -> None:
        """Connect, by the proxy if there is one, and agree on TLS: within the deadline."""
        self.sock = _connected(self.host, self.port, self._deadline)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tunnel_host:  # type: ignore[attr-defined]
            self._tunnel()  # type: ignore[attr-defined]
        self.sock.settimeout(self._deadline.left())
        if self._secure:
            self.sock = certificates().wrap_socket(self.sock, server_hostname=self._server)

    def keep(self) -> None:
        """Keep the connection for another request."""
        _idle.setdefault(self._key, []).append(self)
        while sum(map(len, list(_idle.values()))) > _KEPT:
            with contextlib.suppress(KeyError, IndexError, StopIteration):  # other threads take and keep
                key = next(iter(_idle))
                (_idle[key] or _idle.pop(key)).pop(0).close()


class _Response(http.client.HTTPResponse):
    """A response whose headers and body come before a deadline."""

    def __init__(self, sock: socket.socket, *of: Any, deadline: Deadline, **more: Any) -> None:
        super().__init__(sock, *of, **more)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, deadline))


class _Timed(io.RawIOBase):
    """The bytes of a connection until a deadline."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)  # as long as it is open, so is the connection
        self._deadline = deadline

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Return the number of bytes that were read, 0 at the end."""
        self._sock.settimeout(self._deadline.left())
        count = self._raw.readinto(buffer) or 0
        self._deadline.note(count)
        return count

    def close(self) -> None:
        """Close it, but not the connection."""
        self._raw.close()
        super().close()


@functools.cache
def certificates() -> Any:
    """Return the certificates of the system, which are read when the first https URL needs them."""
    import ssl

    return ssl.create_default_context()


def _basic(user: str | None, password: str | None) -> str:
    from base64 import b64encode

    return "Basic " + b64encode(f"{unquote(user or '')}:{unquote(password or '')}".encode()).decode()


def login_of(text: str) -> str | None:
    """Return the header that states user and password of a URL, None without them."""
    parts = urlsplit(text)
    return None if parts.username is None else _basic(parts.username, parts.password)


def _connection(place: str) -> _Connection:
    """Return a connection for ``place``: one that was kept, or a new one, which connects when it is asked."""
    parts = urlsplit(place)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = proxy_to(parts.scheme, f"{host}:{port}")
    key = os.getpid(), parts.scheme, host, port, proxy
    try:
        return _idle[key].pop()
    except (KeyError, IndexError):
        return _Connection(key, parts.scheme, host, port, proxy)


def _connected(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Connect to the first address of ``host`` that answers.  Raises ``OSError``."""
    failure: OSError = OSError()
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        found = socket.socket(family, kind, protocol)
        try:
            found.settimeout(min(_CONNECT, deadline.left()))
            found.connect(address)
            return found
        except OSError as err:
            found.close()
            failure = err
            deadline.left()
    raise failure


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Turn what goes wrong in the block into ``RequestError``."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as err:
        raise _as_request_error(err) from err


def _as_request_error(error: Exception) -> RequestError:
    if isinstance(error, TimeoutError):
        return RequestError(Trouble.BUSY, NO_ANSWER)
    if isinstance(error, socket.gaierror):
        lasting = error.errno == socket.EAI_NONAME  # a machine without a network has another one
        return RequestError(Trouble.REFUSED if lasting else Trouble.BUSY, "the name of the server is not known")
    if isinstance(error, http.client.IncompleteRead):
        return RequestError(Trouble.BUSY, CUT)
    if isinstance(error, OSError) and "CERTIFICATE" in str(error):
        return RequestError(Trouble.REFUSED, "the certificate of the server cannot be verified")
    if isinstance(error, OSError):
        return RequestError(Trouble.BUSY, NOT_REACHED)
    if isinstance(error, http.client.HTTPException):
        return RequestError(Trouble.BUSY, "the server sends no proper answer")
    return RequestError(Trouble.REFUSED, "the name of the server, or what it sends, is not valid")

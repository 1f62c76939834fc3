"""Lets only the user's own browser in: everything that reaches the application went through ``Guard``.

| a request                                       | is refused, because                                      |
|-------------------------------------------------|----------------------------------------------------------|
| for another host than the one that we listen on | a name of an attacker may lead to loopback (rebinding)   |
| of another page, as Origin or Sec-Fetch-Site say | that page would act for the user (CSRF), or read answers |
| without the token                               | on a machine that forwards the port, others reach it     |

Other users of this machine cannot connect at all: the kernel tells whose the other end of a connection is (proc(5)),
and ``Listener`` closes theirs before they take a place or can say anything.

The token is in the URL that ``asdffs view`` prints.  A request with it gets a cookie and the URL without the token,
so the token stays out of the history.  Other users see the arguments of processes, so the browser is started with a
URL without the token: the first request of this user for the page is taken for that browser's.  The content security
policy lets the page load only its own files.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import secrets
import socket
import stat
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_COOKIE: Final = "asdffs"
#: What stands in the page for the nonce of an answer: style sheets and the editor's styles have it.
NONCE: Final = "{{nonce}}"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{{nonce}}'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_SAME: Final = ("same-origin", "none")
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
#: An IPv4 address in the second table.
_MAPPED: Final = "0000000000000000FFFF0000"
#: A closed socket has no user, and is shown as one of root.
_ESTABLISHED: Final = "01"


class Guard:
    """An ASGI application in front of ``app``.

    ``port``: where it listens, on loopback.  ``token``: see above.  ``awaits``: whether a browser was started.
    """

    def __init__(self, app: App, token: str, port: int, *, awaits: bool) -> None:
        self._app = app
        self._token = token
        self._port = port
        self._awaits = awaits
        self._secret = secrets.token_urlsafe(24)
        self._cookie = f"{_COOKIE}-{port}"
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on.  Sockets of other kinds than HTTP are not answered."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            scope["nonce"] = secrets.token_urlsafe(18)
            await self._answer(scope, receive, _with_headers(send, scope["nonce"]))

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reason = self._reason(scope, headers)
        if reason:
            await _send(send, 403, reason)
        elif self._is_known(headers):
            await self._app(scope, receive, send)
        elif scope["path"] == "/" and self._admits(scope, headers):
            cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
            await _send(send, 303, "", [(b"location", b"./"), (b"set-cookie", cookie.encode())])
        else:
            await _send(send, 403, "the token is missing; open the whole URL that was printed")

    def _reason(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> str:
        """Return why the request is refused, whatever it knows; empty if it is not."""
        host = headers.get("host", "")
        if not self._is_own(host):
            return "this host name is not the one of the page"
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins(host):
            return "the request comes from another page"
        # a link in another page may lead here; it may not load anything, or send anything
        linked = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET" and scope["path"] == "/"
        if headers.get("sec-fetch-site", "none") not in _SAME and not linked:
            return "the request comes from another page"
        if scope["method"] not in ("GET", "HEAD") and origin is None:
            return "a change needs the header Origin, which every browser sends"
        return ""

    def _is_own(self, host: str) -> bool:
        return host in self._hosts

    def _origins(self, host: str) -> tuple[str, ...]:
        """Return what ``Origin`` may be in a request of the page itself."""
        return (f"http://{host}",)

    def _is_known(self, headers: dict[str, str]) -> bool:
        # by hand: a strict parser gives up at a cookie of another program on this machine
        pairs = (one.strip().partition("=") for one in headers.get("cookie", "").split(";"))
        return any(name == self._cookie and _is_same(value, self._secret) for name, _, value in pairs)

    def _admits(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> bool:
        """Return whether the request has the token, or is the one that the started browser is awaited to make."""
        if _is_same(_asked(scope), self._token):
            return True
        awaited = self._awaits and headers.get("sec-fetch-site", "none") == "none"
        if not awaited or user_of(tuple(scope["client"]), self._port) != os.geteuid():
            return False
        self._awaits = False
        return True


class ProxyGuard(Guard):
    """The guard of a page behind Jupyter's proxy, which listens on a socket in a directory of this user.

    Jupyter asked for its own token, and its host name is the page's.  Requests of other pages are refused all the
    same.
    """

    def __init__(self, app: App) -> None:
        super().__init__(app, secrets.token_urlsafe(24), 0, awaits=False)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on, when all of it is here: the proxy fails if it may not send the rest."""
        await super().__call__(scope, await _received(receive) if scope["type"] == "http" else receive, send)

    def _is_own(self, host: str) -> bool:
        return True

    def _origins(self, host: str) -> tuple[str, ...]:
        return (f"http://{host}", f"https://{host}")  # Jupyter may be behind TLS

    def _is_known(self, headers: dict[str, str]) -> bool:
        return True


def _is_same(stated: str, known: str) -> bool:
    return hmac.compare_digest(stated.encode(), known.encode())


def _asked(scope: MutableMapping[str, Any]) -> str:
    """Return the token in the URL; empty without one."""
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


def _with_headers(send: Send, nonce: str) -> Send:
    """Return a ``send`` that adds the headers of every answer; the policy has ``nonce``."""
    policy = (b"content-security-policy", _POLICY.replace(NONCE, nonce).encode())

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), policy, *_HEADERS]
        await send(message)

    return sending


async def _received(receive: Receive) -> Receive:
    """Read the whole request, which Jupyter holds in memory anyway, and return what yields it again."""
    messages = [await receive()]
    while messages[-1].get("more_body"):
        messages.append(await receive())
    waiting = iter(messages)

    async def next_message() -> Message:
        return next(waiting, None) or await receive()

    return next_message


async def _send(send: Send, status: int, sentence: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    body = sentence.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *headers]})
    await send({"type": "http.response.body", "body": body})


def are_known() -> bool:
    """Return whether the system tells whose a connection is."""
    return os.path.exists(_TABLES[0])


def user_of(peer: tuple[str, int], port: int) -> int | None:
    """Return the user of the IPv4 address ``peer``, which is connected to ``port`` of 127.0.0.1; None if unknown."""
    wanted = [_shown(*peer), _shown("127.0.0.1", port), _ESTABLISHED]
    for local, remote, state, user in _sockets():
        if [local.removeprefix(_MAPPED), remote.removeprefix(_MAPPED), state] == wanted:
            return user
    return None


def _shown(address: str, port: int) -> str:
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"


def _sockets() -> Iterator[tuple[str, str, str, int]]:
    """Yield the local and the remote address, the state and the user of each TCP socket."""
    for table in filter(os.path.exists, _TABLES):
        with open(table) as lines:
            next(lines)
            for line in lines:
                words = line.split()
                yield words[1], words[2], words[3], int(words[7])


def _is_abandoned(path: str) -> bool:
    """Return whether ``path`` is a socket of this user on which nobody listens."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        return False
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(0)
        return other.connect_ex(path) == errno.ECONNREFUSED


class SocketListener(socket.socket):
    """A Unix socket at ``path`` that closes connections of other users at once.  Raises ``OSError``.

    It takes the place of the socket file of a killed process, but not of one that still listens.
    """

    def __init__(self, path: str, waiting: int) -> None:
        super().__init__(socket.AF_UNIX)
        self._path = path
        try:
            if _is_abandoned(path):
                os.unlink(path)
            before = os.umask(0o177)
            try:
                self.bind(path)
            finally:
                os.umask(before)
            self.listen(waiting)
        except OSError as err:
            super().close()
            err.filename = path
            raise

    def close(self) -> None:
        """Remove the socket file, once: another process may have made one since; and close the socket."""
        if self.fileno() >= 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)
        super().close()

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection of this user or root.  Raises ``BlockingIOError``."""
        while True:
            connection, peer = super().accept()
            _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user in (os.geteuid(), 0):
                return connection, peer
            connection.close()


class Listener(socket.socket):
    """A socket on loopback that closes connections of other users at once.  Raises ``OSError``.

    Where the system does not tell whose a connection is, all are accepted.
    """

    def __init__(self, port: int, waiting: int) -> None:
        super().__init__()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(("127.0.0.1", port))
            self.listen(waiting)
        except OSError as err:
            self.close()
            err.filename = f"port {port}"
            raise
        self.port: int = self.getsockname()[1]

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection of this user or root, and its address.  Raises ``BlockingIOError``."""
        while True:
            connection, peer = super().accept()
            if not are_known() or user_of(peer, self.port) in (os.geteuid(), 0):
                return connection, peer
            connection.close()

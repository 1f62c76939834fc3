"""A web server on loopback that does what real servers do wrong, as a test tells it."""

from __future__ import annotations

import contextlib
import hashlib
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class Request:
    """A request as the server got it.  ``first``, ``last``: of the range, inclusive; None without one."""

    method: str
    path: str
    headers: dict[str, str]
    number: int
    first: int | None = None
    last: int | None = None


@dataclass
class Answer:
    """What is sent instead of the right answer.

    ``status``: e.g. 503; ``headers``; ``body``; ``cut``: bytes of the body that are sent before the connection ends;
    ``wait``: an event to wait for before anything is sent; ``ranges``: False ignores the range; ``closed``: the
    connection ends after it, and it does not say so; ``framing``: ``chunked`` or ``closed``, instead of a length.
    """

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    wait: threading.Event | None = None
    ranges: bool = True
    closed: bool = False
    framing: str = "length"


Fault = Callable[[Request], Answer | None]


class WebServer:
    """Serves ``objects``, by their paths.  ``requests``: all so far.  ``fault(request)``: an answer, or None."""

    def __init__(self, host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> None:
        """``context``: of a server for https."""
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.sent = 0
        self.fault: Fault = lambda request: None
        self.strong = True
        self.dated = True
        self.changed = time.time() - 1000
        self._lock = threading.Condition()
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "http" if context is None else "https"
        if context is not None:
            plain = self._server.socket  # a client that goes away during the handshake ends only its own thread
            self._server.socket = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return "{}://{}:{}".format(self._scheme, *self._server.server_address)

    def put(self, path: str, raw: bytes) -> str:
        """Serve ``raw`` at ``path``; return the URL."""
        self.objects[path] = raw
        return self.url + path

    def tag(self, raw: bytes) -> str:
        mark = f'"{hashlib.sha256(raw).hexdigest()[:16]}"'
        return mark if self.strong else f"W/{mark}"

    @contextlib.contextmanager
    def running(self) -> Iterator[WebServer]:
        self._thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def note(self, handler: BaseHTTPRequestHandler) -> Request:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            request = Request(handler.command, handler.path, headers, len(self.requests))
            self.requests.append(request)
            self._lock.notify_all()
        return request

    def await_requests(self, count: int) -> None:
        """Return when the server has got that many requests."""
        with self._lock:
            assert self._lock.wait_for(lambda: len(self.requests) >= count, 60)

    def count(self, sent: int) -> None:
        with self._lock:
            self.sent += sent

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *of: object) -> None:
                pass

            def do_GET(self) -> None:
                with contextlib.suppress(ConnectionError):
                    _answer(server, self)

            do_HEAD = do_GET  # noqa: N815

        return Handler


def _answer(server: WebServer, handler: BaseHTTPRequestHandler) -> None:
    request = server.note(handler)
    raw = server.objects.get(unquote(handler.path.partition("?")[0]))
    found = None if raw is None else _range(request, len(raw))
    answer = server.fault(request) or Answer()
    if answer.wait is not None:
        answer.wait.wait()
    if answer.status is not None:
        body = answer.body or b""
        return _send(server, handler, answer.status, {**_of(body), **answer.headers}, body, None)
    if raw is None:
        return _send(server, handler, 404, _of(b""), b"", None)
    headers = {"ETag": server.tag(raw), "Accept-Ranges": "bytes"}
    if server.dated:
        headers["Last-Modified"] = formatdate(server.changed, usegmt=True)
    wanted = request.headers.get("if-match")
    if wanted is not None and wanted != server.tag(raw):
        return _send(server, handler, 412, _of(b""), b"", None)
    status, body = 200, raw
    if found is not None and answer.ranges:
        first, last = found
        if first >= len(raw):
            return _send(server, handler, 416, {**_of(b""), "Content-Range": f"bytes */{len(raw)}"}, b"", None)
        status, body = 206, raw[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{min(last, len(raw) - 1)}/{len(raw)}"
    body = answer.body or body
    told = {"length": {"Content-Length": str(len(body))}, "chunked": {"Transfer-Encoding": "chunked"}, "closed": {}}
    headers = {**told[answer.framing], **headers, **answer.headers}
    handler.close_connection |= answer.closed or answer.framing == "closed"
    if answer.framing == "chunked":
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return _send(server, handler, status, headers, body, answer.cut)


def _of(body: bytes) -> dict[str, str]:
    return {"Content-Length": str(len(body))}


def _range(request: Request, size: int) -> tuple[int, int] | None:
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
    if found is None:
        return None
    first, last = found.groups()
    if first:
        request.first, request.last = int(first), int(last) if last else size - 1
    else:
        request.first, request.last = max(0, size - int(last)), size - 1
    return request.first, request.last


def _send(
    server: WebServer,
    handler: BaseHTTPRequestHandler,
    status: int,
    headers: dict[str, str],
    body: bytes,
    cut: int | None,
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command == "HEAD":
        return
    part = body if cut is None else body[:cut]
    server.count(len(part))
    handler.wfile.write(part)
    if cut is not None:
        handler.wfile.flush()
        handler.close_connection = True

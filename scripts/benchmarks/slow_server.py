"""A web server on loopback that answers each request after a delay, as a distant one does.

Usage: python -m benchmarks.slow_server FOLDER SECONDS.  It prints its URL, and serves the files in FOLDER, also
parts of them.  A new connection costs the delay once more, as the handshake of TCP does.  Bandwidth is not limited,
and there is no slow start.  ``GET /.counters`` returns ``{"requests": N, "sent": BYTES}`` since the last call.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PIECE = 1 << 20
_counters = {"requests": 0, "sent": 0}
_lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD.  ``folder`` and ``delay`` (seconds) are set by ``main``."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder = Path()
    delay = 0.0
    is_new = True

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Send a file, a part of it, a list of the files, or the counters."""
        if self.path == "/.counters":
            with _lock:
                found = dict(_counters)
                _counters.update(requests=0, sent=0)
            self._send_text(json.dumps(found))
            return
        time.sleep(self.delay * (2 if self.is_new else 1))
        self.is_new = False
        if self.path == "/":
            names = sorted(path.name for path in self.folder.iterdir())
            self._send_text("".join(f'<a href="{name}">{name}</a>\n' for name in names))
        else:
            self._send_file(self.folder / self.path.lstrip("/"))

    do_HEAD = do_GET  # noqa: N815

    def _send_text(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def _send_file(self, path: Path) -> None:
        try:
            file = open(path, "rb")  # noqa: SIM115
        except OSError:
            self.send_error(404)
            return
        with file:
            status = os.fstat(file.fileno())
            first, last = _range(self.headers.get("Range", ""), status.st_size)
            part = "Range" in self.headers
            self.send_response(206 if part else 200)
            if part:
                self.send_header("Content-Range", f"bytes {first}-{last}/{status.st_size}")
            self.send_header("Content-Length", str(last + 1 - first))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Last-Modified", formatdate(status.st_mtime, usegmt=True))
            mark = hashlib.sha256(f"{path} {status.st_mtime_ns} {status.st_size}".encode()).hexdigest()[:16]
            self.send_header("ETag", f'"{mark}"')
            self.end_headers()
            with _lock:
                _counters["requests"] += 1
            if self.command == "GET":
                self._send_bytes(file.fileno(), first, last + 1)

    def _send_bytes(self, fd: int, start: int, stop: int) -> None:
        self.wfile.flush()
        while start < stop:
            try:
                count = os.sendfile(self.connection.fileno(), fd, start, min(_PIECE, stop - start))
            except OSError:  # the client has enough
                self.close_connection = True
                return
            start += count
            with _lock:
                _counters["sent"] += count


def _range(stated: str, size: int) -> tuple[int, int]:
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", stated)
    if found is None:
        return 0, size - 1
    if not found[1]:
        return max(0, size - int(found[2])), size - 1
    return int(found[1]), min(int(found[2] or size), size - 1)


def main() -> None:
    Handler.folder, Handler.delay = Path(sys.argv[1]), float(sys.argv[2])
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

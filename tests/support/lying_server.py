"""A web server on loopback whose answers are chosen at random: right, odd but allowed, or lies.

Bytes of the object are always sent as what they are: from the place that the answer states.  All else may be wrong.
"""

from __future__ import annotations

import contextlib
import random
import re
import socketserver
import threading
from collections.abc import Iterator

#: What follows the bytes of an answer that does not end.
ENDLESS = bytes(1 << 16)
#: Seconds between two bytes of a slow answer.
DRIP = 0.05
NUMBERS = ("-5", "abc", "9" * 40, "9" * 5000, "1e9", "0x10", "", "18446744073709551616", "15000000000000")
ODD_HEADERS = (
    ("ETag", '"\x1b]0;owned\x07"'),
    ("ETag", '"\xff\xfe"'),
    ("ETag", '"' + "e" * 60000 + '"'),
    ("Last-Modified", "Fri, 31 Dec 9999 23:59:59 -2359"),
    ("Last-Modified", "Mon, 01 Jan 0001 00:00:00 GMT"),
    ("Content-Encoding", "gzip"),
    ("X", "y" * 70000),
    ("Retry-After", "9" * 400),
)


class LyingServer(socketserver.ThreadingTCPServer):
    """Serves ``raw`` at every path whose first part is a seed.  ``referrers``: the headers that told another URL."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, raw: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.raw = raw
        self.referrers: list[str] = []
        self.over = threading.Event()
        self.counts: dict[str, int] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients go away."""

    @contextlib.contextmanager
    def running(self) -> Iterator[LyingServer]:
        thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(socketserver.StreamRequestHandler):
    server: LyingServer

    def handle(self) -> None:
        while (line := self.rfile.readline()) and self._answer(line.split()[1].decode()):
            pass

    def _answer(self, path: str) -> bool:
        """Answer a request; return whether the connection stays."""
        headers = dict[str, str]()
        while line := self.rfile.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        if "referer" in headers:
            self.server.referrers.append(headers["referer"])
        seed = next(part for part in path.split("/") if part.isdecimal())
        with self.server.lock:
            number = self.server.counts[seed] = self.server.counts.get(seed, -1) + 1
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", ""))
        rng, size = random.Random(f"{seed} {number}"), len(self.server.raw)
        part = None if found is None else (int(found[1]), min(int(found[2]) + 1, size))
        return self._send(path, rng, part, honest=rng.random() < 0.6)

    def _send(self, path: str, rng: random.Random, part: tuple[int, int] | None, *, honest: bool) -> bool:
        size = len(self.server.raw)
        whole = part is None or (not honest and rng.random() < 0.15)
        start, stop = (0, size) if part is None or whole else part
        status, told, framing, ending = (200 if whole else 206), f"bytes {start}-{stop - 1}/{size}", "length", "right"
        more = [("ETag", '"one"'), ("Last-Modified", "Fri, 01 Jan 2021 00:00:00 GMT")]
        if not honest:
            framing = rng.choice(["length"] * 3 + ["chunked", "chunked", "closed", "closed", "number", "both"])
            ending = rng.choice(["right"] * 6 + ["cut", "more", "endless", "drip", "silent"])
            start, stop, status, told = _lie(rng, start, stop, size, status, told)
            more = rng.choice(
                [more] * 5 + [[one, *more] for one in ODD_HEADERS] + [[("ETag", '"two"'), more[1]], more[1:], []]
            )
            if rng.random() < 0.1:
                more = [
                    *more,
                    ("Location", rng.choice([path + "x", path, "http://127.0.0.1:1/" + path, "//[::1", ""])),
                ]
                status = rng.choice([301, 302, 307])
        body = memoryview(self.server.raw)[start:stop]  # answers that hang hold nothing
        length = rng.choice(NUMBERS) if framing == "number" else str(len(body))
        reason = "OK" if honest else "\x1b[31m"
        head = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in more)]
        head += [f"Content-Range: {told}"] if status == 206 else []
        head += [f"Content-Length: {length}"] if framing in ("length", "number", "both") else []
        head += ["Transfer-Encoding: chunked"] if framing in ("chunked", "both") else []
        self.wfile.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        return self._write(rng, body, ending, chunked=framing in ("chunked", "both")) and framing != "closed"

    def _write(self, rng: random.Random, view: memoryview, ending: str, *, chunked: bool) -> bool:
        """Write a body; return whether it ended as it should."""
        if ending in ("cut", "drip", "silent"):
            view = view[: rng.randrange(len(view) + 1)]
        for place in range(0, len(view), 9000):
            self._piece(view[place : place + 9000], chunked=chunked)
        if ending == "more":
            self._piece(memoryview(ENDLESS)[: rng.randrange(1, 60000)], chunked=chunked)
        while ending == "endless" and not self.server.over.is_set():
            self._piece(memoryview(ENDLESS), chunked=chunked)
        while ending == "drip" and not self.server.over.wait(DRIP):
            self._piece(memoryview(b"x"), chunked=chunked)
        if ending == "silent":
            self.server.over.wait()
        if chunked and ending != "cut":
            self.wfile.write(b"0\r\n\r\n")
        return ending in ("right", "more")

    def _piece(self, piece: memoryview, *, chunked: bool) -> None:
        if chunked:
            self.wfile.write(b"%x\r\n" % len(piece))
        self.wfile.write(piece)
        if chunked:
            self.wfile.write(b"\r\n")


def _lie(rng: random.Random, start: int, stop: int, size: int, status: int, told: str) -> tuple[int, int, int, str]:
    """Return the bytes that are sent, the status, and the ``Content-Range``."""
    kind = rng.choice(["right"] * 4 + ["star", "star", "moved", "short", "long", "size", "number", "none", "status"])
    if kind == "status":
        return start, stop, rng.choice([100, 204, 403, 404, 416, 429, 500, 503, 999]), told
    if status == 200:
        return start, stop, status, told
    if kind == "moved":
        start = rng.randrange(size)
    if kind in ("moved", "long"):
        stop = rng.randrange(start, size) + 1
    if kind == "short":
        stop = rng.randrange(start, stop) + 1 if stop > start else stop
    told = f"bytes {start}-{stop - 1}/{size}"
    if kind == "star":
        told = f"bytes {start}-{stop - 1}/*"
    if kind == "size":
        told = f"bytes {start}-{stop - 1}/{rng.choice([size + 1, stop, size * 7, max(1, start)])}"
    if kind == "number":
        told = f"bytes {start}-{stop - 1}/{rng.choice(NUMBERS)}"
    if kind == "none":
        told = rng.choice(
            ["", "bytes", f"bytes */{size}", f"bytes {stop}-{start}/{size}", f"items {start}-{stop}/{size}"]
        )
    return start, stop, status, told

"""``asdffs view`` as a process, and requests to it as a browser sends them, or as an attacker would."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Page:
    """A page at ``url``, with the token, by ``process``.  ``expected``: its exit code, if a test sets it."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self.process = process
        self.expected: int | None = None
        self.port = urlsplit(url).port or 0
        self.origin = f"http://127.0.0.1:{self.port}"
        self.cookie = ""
        answer = self.request("GET", url.removeprefix(self.origin))
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request; headers are named with _ for -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Cookie": self.cookie} if self.cookie else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            found = connection.getresponse()
            return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())

    def get(self, path: str, /, **query: object) -> Answer:
        words = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
        return self.request("GET", f"/api/{path}?{words}")

    def save(self, text: bytes, version: str) -> Answer:
        return self.request("PUT", "/api/text", text, Origin=self.origin, If_Match=version)


@contextlib.contextmanager
def viewed(
    file: Path | str, environment: dict[str, str], *options: str, code: int = 0, browser: bool = False
) -> Iterator[Page]:
    """Run ``asdffs view FILE``; interrupt it at the end, and check its exit code."""
    options = options if browser else ("--no-browser", *options)
    command = [sys.executable, "-m", "asdffs", "view", *options, str(file)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    page = Page(process.stdout.readline().strip(), process)
    try:
        yield page
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == (code if page.expected is None else page.expected), out + err
    assert "Traceback" not in err, err

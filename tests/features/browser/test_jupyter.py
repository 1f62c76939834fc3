"""The page behind Jupyter's own server: started by it, behind its login, its requests as from its own pages only."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
from support.mounts import environment_in
from support.page_client import Answer
from support.processes import until

pytest.importorskip("jupyter_server_proxy", reason="jupyter-server-proxy is not installed")
pytestmark = [pytest.mark.long, pytest.mark.feature("catalog")]

TOKEN = "a-token"


class Jupyter:
    """A Jupyter server at ``port``, whose directory has one file."""

    def __init__(self, port: int, folder: Path) -> None:
        self.host = f"127.0.0.1:{port}"
        self.folder = folder

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        sent = {"Authorization": f"token {TOKEN}"} | {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request(method, path, body, sent)
        found = connection.getresponse()
        answer = Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        connection.close()
        return answer

    def is_up(self) -> bool:
        try:
            return self.ask("/api/status").status == 200
        except OSError:
            return False


@pytest.fixture
def jupyter(tmp_path: Path) -> Iterator[Jupyter]:
    (tmp_path / "nights").mkdir()
    asdf.AsdfFile({"meta": {"telescope": "X"}, "data": np.eye(4)}).write_to(tmp_path / "nights/a.asdf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = environment_in(tmp_path) | {name: str(tmp_path / name) for name in names}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ("server", "--no-browser", "--allow-root", "--port", str(port), f"--IdentityProvider.token={TOKEN}")
    command = [Path(sys.executable).with_name("jupyter"), *words]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(command, cwd=tmp_path / "nights", env=environment, stdout=log, stderr=log)
    found = Jupyter(port, tmp_path / "nights")
    try:
        until(found.is_up)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def test_the_page_is_below_jupyters_url(jupyter: Jupyter) -> None:
    page = jupyter.ask("/asdffs/")
    assert (page.status, b'src="./page.js"' in page.body) == (200, True)
    assert jupyter.ask("/asdffs/page.js").status == 200
    (file,) = json.loads(jupyter.ask("/asdffs/api/files").body)["files"]
    assert file["name"].endswith("/nights/a.asdf")
    assert b"telescope: X" in jupyter.ask(f"/asdffs/api/text?file={file['name']}").body
    assert jupyter.ask("/asdffs/api/files", Authorization="token wrong").status in (302, 403)


def test_other_pages_are_refused(jupyter: Jupyter) -> None:
    assert jupyter.ask("/asdffs/api/shelf").status == 200
    for words in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        answer = jupyter.ask("/asdffs/api/text", "PUT", b"x", **({"Origin": f"http://{jupyter.host}"} | words))
        assert (answer.status, answer.body) == (403, b"the request comes from another page"), words
    assert jupyter.ask("/asdffs/api/text", "PUT", b"x").status == 403


def test_a_page_that_was_killed_is_started_again(jupyter: Jupyter) -> None:
    """Jupyter starts it at the same path, where the socket of the killed process still is."""
    assert jupyter.ask("/asdffs/api/shelf").status == 200
    (page,) = (pid for pid in processes() if b"--socket" in pid.read_bytes() and str(jupyter.folder) in cwd_of(pid))
    os.kill(int(page.parent.name), signal.SIGKILL)
    until(lambda: jupyter.ask("/asdffs/api/shelf").status == 200)


def processes() -> Iterator[Path]:
    """The command line of each process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            path.read_bytes()
            yield path


def cwd_of(command_line: Path) -> str:
    try:
        return str((command_line.parent / "cwd").readlink())
    except OSError:
        return ""

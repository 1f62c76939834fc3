"""Secrets of URLs in the list of processes, and URLs from the environment."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.commands import command
from support.mounts import LIMIT, environment_in
from support.remote_files import make
from support.web_server import Answer, WebServer

from asdffs.cli.secrets import _hidden


@pytest.mark.parametrize(
    ("word", "hidden"),
    [
        ("https://me:word@host/a?sig=x&b", "https://*******@host/a?*******"),
        ("HTTP://host/a@b?c@d", "HTTP://host/a@b?***"),
        ("https://host?sig", "https://host?***"),
        ("--endpoint=https://me:word@host", "--endpoint=https://*******@host"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("a?b://c?d", "a?b://c?d"),
        ("v", "v"),
    ],
)
def test_what_is_hidden_of_a_word(word: str, hidden: str) -> None:
    assert _hidden(word.encode()).decode() == hidden


def test_regression_no_process_shows_secrets_while_a_server_is_asked(tmp_path: Path) -> None:
    """The process is not started again for that: its words are overwritten."""
    answer = threading.Event()
    with WebServer().running() as server:
        url = server.put("/d/data.asdf", make(tmp_path / "data.asdf")) + "?X-Signature=hush"
        server.fault = lambda request: Answer(wait=answer)
        words = [sys.executable, "-P", "-m", "asdffs", "get", "meta.observer", url.replace("://", "://me:hush@")]
        with subprocess.Popen(words, env=environment_in(tmp_path), stdout=subprocess.PIPE) as process:
            server.await_requests(1)
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            answer.set()
            assert process.communicate(timeout=LIMIT)[0] == b"Ada\n"
        assert b"hush" not in b" ".join(shown) + environment
        assert shown[-2] == words[-1].replace("me:hush", "*" * 7).replace("X-Signature=hush", "*" * 16).encode()
        assert server.requests[0].path.endswith("=hush")


def test_a_url_of_the_environment(tmp_path: Path) -> None:
    with WebServer().running() as server:
        url = server.put("/d/data.asdf", make(tmp_path / "data.asdf")) + "?X-Signature=hush"
        environment = {**environment_in(tmp_path), "PLACE": url, "WRONG": "/a.asdf"}
        done = command("get", "meta.observer", "env://PLACE", environment=environment)
        assert (done.code, done.out) == (0, "Ada\n")
        for name in ("WRONG", "NONE"):
            done = command("get", "v", f"env://{name}", environment=environment)
            assert (done.code, done.out) == (2, "")
            assert (
                done.err == f"asdffs: env://{name}: the environment variable {name} has no URL; set and export it\n"
            )

"""Commands on many remote files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import command
from support.web_server import Answer, Request, WebServer

COUNT = 20


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with WebServer().running() as found:
        yield found


def put(server: WebServer, number: int) -> str:
    return server.put(f"/f{number}.asdf", b"#ASDF 1.0.0\n%%YAML 1.1\n---\nn: %d\n...\n" % number)


@pytest.mark.parametrize("words", [("get", "n"), ("grep", "n")])
def test_many_files_are_asked_for_at_the_same_time(words: tuple[str, ...], server: WebServer, tmp_path: Path) -> None:
    """No answer comes before all files were asked for."""
    urls = [put(server, number) for number in range(COUNT)]
    urls[7] = server.url + "/nothing.asdf"
    all_asked = threading.Event()

    def fault(request: Request) -> Answer:
        if len(server.requests) == COUNT:
            all_asked.set()
        return Answer(wait=all_asked)

    server.fault = fault
    local = tmp_path / "local.asdf"
    local.write_bytes(server.objects["/f0.asdf"])
    done = command(*words, *urls[:10], local, *urls[10:], environment=dict(os.environ))
    assert done.code == 3
    assert "/nothing.asdf: does not exist (404)" in done.err
    found = [line.replace(": n: ", "\t").split("\t") for line in done.out.splitlines()]
    expected = [[url, str(number)] for number, url in enumerate(urls) if number != 7]
    assert found == [*expected[:9], [str(local), "0"], *expected[9:]]
    assert len(server.requests) == COUNT


def test_more_files_than_are_asked_for_at_a_time(server: WebServer) -> None:
    urls = [put(server, number) for number in range(100)]
    done = command("get", "n", *urls, environment=dict(os.environ))
    assert (done.code, done.err) == (0, "")
    assert done.out == "".join(f"{url}\t{number}\n" for number, url in enumerate(urls))
    assert len(server.requests) == 100

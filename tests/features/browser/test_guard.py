"""features/browser/guard without a server: what is answered before the application is asked."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from asdffs.features.browser.guard import Guard, Message, Receive, Send, SocketListener


def status_of(method: str, headers: dict[str, str]) -> int:
    """The status of a request with the cookie of the page; 200 if it reaches the application."""
    answers: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: Message) -> None:
        answers.append(message)

    async def receive() -> Message:
        raise AssertionError("the guard reads no body")

    def scope(method: str, headers: dict[str, str]) -> Message:
        raw = [(name.encode(), value.encode()) for name, value in {"host": "localhost:80", **headers}.items()]
        return {"type": "http", "method": method, "path": "/", "query_string": b"token=t", "headers": raw}

    async def both() -> None:
        guard = Guard(app, "t", 80, awaits=False)
        await guard(scope("GET", {}), receive, send)
        cookie = dict(answers[0]["headers"])[b"set-cookie"].decode().partition(";")[0]
        answers.clear()
        await guard(scope(method, {"cookie": cookie, **headers}), receive, send)

    asyncio.run(both())
    return int(answers[0]["status"])


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_change_needs_the_origin_of_the_page(method: str) -> None:
    assert status_of(method, {}) == 403
    assert status_of(method, {"origin": "http://evil.example"}) == 403
    assert status_of(method, {"origin": "https://localhost:80"}) == 403
    assert status_of(method, {"origin": "http://localhost:80"}) == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_look_does_not(method: str) -> None:
    assert status_of(method, {}) == 200
    assert status_of(method, {"origin": "null"}) == 403


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "page")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(path)  # and not removed, as by SIGKILL
    with SocketListener(path, 4) as listener:
        assert (tmp_path / "page").stat().st_mode & 0o777 == 0o600
        with pytest.raises(OSError, match="in use"):
            SocketListener(path, 4)
        assert listener.getsockname() == path, "one that listens is left alone"
        assert (tmp_path / "page").exists()
    assert not (tmp_path / "page").exists()
    (tmp_path / "page").write_text("a file")
    listener.close()
    assert (tmp_path / "page").exists(), "it is another one's"
    with pytest.raises(OSError, match="in use"):
        SocketListener(path, 4)
    assert (tmp_path / "page").read_text() == "a file"

"""How long an answer may take, and which connections are used again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from support.web_server import WebServer

from asdffs.features.remote import connections
from asdffs.features.remote.connections import SLOWEST, Deadline, answered


class Clock:
    """The module ``time``, whose time a test sets."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(connections, "time", clock)
    return clock


@pytest.fixture
def server() -> Iterator[WebServer]:
    with WebServer().running() as found:
        yield found


def test_what_arrives_gives_more_time(clock: Clock) -> None:
    deadline = Deadline(10, 100 * SLOWEST)
    clock.now += 4
    assert deadline.left() == 6
    deadline.note(3 * SLOWEST)
    assert deadline.left() == 9
    deadline.note(50 * SLOWEST)
    assert deadline.left() == 10, "never more than at the beginning"


def receive(deadline: Deadline, clock: Clock, count: int) -> None:
    """So many bytes come every half second, for ever."""
    while True:
        clock.now += 0.5
        deadline.note(count)
        deadline.left()


@pytest.mark.parametrize(("count", "most", "seconds"), [(1, 100 * SLOWEST, 11), (SLOWEST, 4 * SLOWEST, 15)])
def test_regression_a_drip_has_an_end(clock: Clock, count: int, most: int, seconds: float) -> None:
    """Single bytes give no more time, and bytes that nobody asked for neither: such as headers without end."""
    deadline = Deadline(10, most)
    with pytest.raises(TimeoutError):
        receive(deadline, clock, count)
    assert clock.now < 1000 + seconds


def test_a_connection_is_used_again_only_after_the_whole_answer(server: WebServer) -> None:
    url = server.put("/a", bytes(100))
    sockets = []
    for count in (100, 100, 50, 100):
        with answered(url, {}, Deadline(60, 100)) as answer:
            assert answer.read_into(memoryview(bytearray(count))) == count
            sockets.append(answer._connection)
    assert sockets[0] is sockets[1] is sockets[2]
    assert sockets[2] is not sockets[3]


def test_few_connections_are_kept(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connections.close_idle()
    monkeypatch.setattr(connections, "_KEPT", 2)
    url = server.put("/a", b"abc")
    with contextlib.ExitStack() as stack:
        answers = [stack.enter_context(answered(url, {}, Deadline(60, 3))) for _ in range(4)]
        for answer in answers:
            assert answer.read_into(memoryview(bytearray(3))) == 3
        assert not connections._idle
    assert sum(map(len, connections._idle.values())) == 2

"""How requests are received, how threads sleep and are woken, and which files the kernel reads itself.

A pipe stands for /dev/fuse: it gives one request after the other, or none.  An ioctl(2) that is refused is one of no
device.
"""

from __future__ import annotations

import logging
import os
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import LIMIT
from support.requests import request

from asdffs.errors import MountError
from asdffs.mount.answers import ANSWER
from asdffs.mount.protocol import Header, Init, Name, Opcode
from asdffs.mount.session import SIGNALS, Passthrough, RequestBuffer, RequestQueue, Session

NO_MORE = memoryview(b"")


class Pipe:
    """Both ends of what stands for the device."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)  # each write is one read
        self.session = Session(self.reader)

    def end(self) -> None:
        os.close(self.reader)
        os.close(self.writer)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.end()


def test_requests_are_received_one_by_one(pipe: Pipe) -> None:
    buffer = RequestBuffer()
    assert not pipe.session.receive(buffer)
    for name in ("first", "second"):
        os.write(pipe.writer, request(Opcode.LOOKUP, 5, Name(name), process=9))
    for name in (b"first", b"second"):
        assert pipe.session.receive(buffer)
        assert buffer.header == Header(41 + len(name), Opcode.LOOKUP, 77, 5, 0, 0, 9)
        assert bytes(buffer.body) == name + b"\0"
    assert not pipe.session.receive(buffer)
    assert not pipe.session.gone


def test_other_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = os.pipe()
    session = Session(reader)
    os.close(reader)
    os.close(writer)
    with caplog.at_level(logging.ERROR):
        assert not session.receive(RequestBuffer())
        assert not session.send(b"")
    assert "a request cannot be received: Bad file descriptor" in caplog.text
    assert "an answer could not be sent: Bad file descriptor" in caplog.text


class Device(Session):
    """What is received comes from a pipe; what is sent goes into ``sent``."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self.sent = b""

    def send(self, *parts: bytes) -> bool:
        self.sent = b"".join(parts)
        return True


def test_the_first_request_is_answered(pipe: Pipe) -> None:
    device = Device(pipe.reader)
    os.write(pipe.writer, request(Opcode.INIT, 0, Init(7, 40, 131_072, 0, NO_MORE)))
    device.begin("libfuse 3")
    assert struct.unpack_from("=III", device.sent, ANSWER.size) == (7, 40, 131_072)


def test_a_library_that_negotiates_itself_is_refused(pipe: Pipe) -> None:
    for first in (b"", request(Opcode.LOOKUP, 1, Name("a"))):  # INIT waits since the mount, if nobody took it
        if first:
            os.write(pipe.writer, first)
        with pytest.raises(MountError, match="libfuse 9 talks to the kernel while it mounts"):
            Device(pipe.reader).begin("libfuse 9")


def test_an_old_kernel_is_refused(pipe: Pipe) -> None:
    os.write(pipe.writer, request(Opcode.INIT, 0, Init(7, 12, 0, 0, NO_MORE)))
    with pytest.raises(MountError, match=r"speaks version 7\.12"):
        Device(pipe.reader).begin("libfuse 3")


class Empty:
    """The part of a session that a queue asks when it sleeps."""

    def __init__(self, fd: int) -> None:
        self.fd = fd


@pytest.fixture
def queue() -> Iterator[RequestQueue]:
    reader, writer = os.pipe()
    session: Session = Empty(reader)  # type: ignore[assignment]
    yield RequestQueue(session)
    os.close(reader)
    os.close(writer)


def sleepers(queue: RequestQueue, count: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=queue.wait, args=(queue.poller(),), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_regression_the_end_wakes_every_thread(queue: RequestQueue) -> None:
    """The wake of a stop was consumed by one thread; another one slept on, and the mount did not end."""
    before = sleepers(queue, 5)
    queue.end()
    after = sleepers(queue, 5)
    for thread in [*before, *after]:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in [*before, *after])


@pytest.mark.parametrize("number", SIGNALS)
def test_regression_a_signal_that_does_not_interrupt_the_sleep_ends_it(
    queue: RequestQueue, number: signal.Signals
) -> None:
    """As one that comes just before the main thread sleeps; here another thread gets the signal."""
    stopped: list[bool] = []
    rescue = threading.Timer(LIMIT, queue.end)
    rescue.start()
    with queue.ended_by_signals(lambda: stopped.append(True)):
        threads = sleepers(queue, 3)
        threading.Timer(0.01, lambda: signal.pthread_kill(threading.get_ident(), number)).start()
        assert queue.wait(queue.poller()) is False
        for thread in threads:
            thread.join(LIMIT)
    assert rescue.is_alive(), "it slept until the test ended it"
    rescue.cancel()
    assert not any(thread.is_alive() for thread in threads)
    assert stopped == [True]


def test_a_wake_is_consumed(queue: RequestQueue) -> None:
    queue.wake()
    assert queue.wait(queue.poller()) is True
    assert queue.poller().poll(0) == [], "another thread would sleep"
    (asleep,) = sleepers(queue, 1)
    queue.wake()
    asleep.join(LIMIT)
    assert not asleep.is_alive()


def test_the_first_open_decides_for_all_that_overlap(tmp_path: Path) -> None:
    device = os.open(tmp_path, os.O_RDONLY)
    given: list[int] = []

    class Kernel(Passthrough):
        def _give(self, file: int) -> int:
            given.append(file)
            return len(given) - 1

    kernel = Kernel(lambda: device)
    assert [kernel.opened(7, 3), kernel.opened(7, 4), kernel.opened(8, 5)] == [0, 0, 1]
    kernel.closed(7)
    assert kernel.opened(7, 6) == 0, "it is open without a number"
    kernel.closed(7)
    kernel.closed(7)
    assert kernel.opened(7, 9) == 2
    assert given == [3, 5, 9]
    for inode in (7, 8):
        kernel.closed(inode)
    os.close(device)


def test_a_refusal_is_told(tmp_path: Path) -> None:
    device = os.open(tmp_path, os.O_RDONLY)
    kernel = Passthrough(lambda: device)
    assert kernel.opened(7, device) == 0
    assert kernel.facts == {"passthrough": "off: Inappropriate ioctl for device"}
    kernel.closed(7)
    os.close(device)

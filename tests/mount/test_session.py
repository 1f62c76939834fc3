"""How requests are received.  A pipe stands for /dev/fuse: it gives one request after the other."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator

import pytest
from support.requests import request

from asdffs.errors import MountError
from asdffs.mount.answers import ANSWER
from asdffs.mount.protocol import Header, Init, Name, Opcode
from asdffs.mount.session import RequestBuffer, Session

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

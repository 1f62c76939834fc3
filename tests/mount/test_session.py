"""How requests are received.  An eventfd, which gives 8 bytes at a time, stands for /dev/fuse."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from asdffs.mount import session
from asdffs.mount.session import RequestBuffer, _Device


@pytest.fixture
def fd() -> Iterator[int]:
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    yield fd
    os.close(fd)


def test_requests_are_received_one_by_one(fd: int) -> None:
    device, buffer = _Device(fd), RequestBuffer()
    assert not device.receive(buffer)
    os.eventfd_write(fd, 7)
    assert device.receive(buffer)
    assert (buffer.fuse.size, int.from_bytes(buffer.request[:8], "little")) == (8, 7)
    assert not device.receive(buffer)
    assert not device.exited()


def test_the_memory_grows_if_the_kernel_needs_more(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is EINVAL, as that of an eventfd for less than 8 bytes."""
    monkeypatch.setattr(session, "_PAGES", 0)
    monkeypatch.setattr(session, "_HEADER_ROOM", 2)
    device, buffer = _Device(fd), RequestBuffer()
    os.eventfd_write(fd, 9)
    assert device.receive(buffer)
    assert len(buffer.request) == 8
    assert int.from_bytes(buffer.request, "little") == 9
    monkeypatch.setattr(session, "_LARGEST", 4)
    with pytest.raises(OSError, match="refuses to send"):
        buffer.grow()


def test_other_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    device = _Device(1 << 20)
    with caplog.at_level(logging.ERROR):
        assert not device.receive(RequestBuffer())
    assert "a request cannot be received: Bad file descriptor" in caplog.text

"""A kernel that asks one request after the other: a file stands for /dev/fuse, and has the answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asdffs.mount.answering import Answerer
from asdffs.mount.answers import ANSWER, ENTRY
from asdffs.mount.loop import Loop
from asdffs.mount.operations import Operations
from asdffs.mount.protocol import HEADER, REQUESTS, Header, Layout, Name, Opcode
from asdffs.mount.session import RequestBuffer, Session
from asdffs.vfs.areas import Areas
from asdffs.vfs.inodes import ROOT

UNIQUE = 77


def request(opcode: int, node: int = ROOT, value: Any = None, *, process: int = 0, user: int = 0) -> bytes:
    """The bytes of a request."""
    body = packed(REQUESTS[Opcode(opcode)], value) if value is not None else b""
    header = Header(HEADER.numbers.size + len(body), opcode, UNIQUE, node, user, user, process)
    return packed(HEADER, header) + body


def packed(layout: Layout[Any], value: tuple[Any, ...]) -> bytes:
    """The bytes of a structure."""
    names = len(value) - layout.names - layout.rest
    strings = [os.fsencode(one) + b"\0" for one in value[names : names + layout.names]]
    return b"".join((layout.numbers.pack(*value[:names]), *strings, *map(bytes, value[names + layout.names :])))


def received(raw: bytes, buffer: RequestBuffer | None = None) -> RequestBuffer:
    """A request as a session receives it."""
    buffer = buffer or RequestBuffer()
    buffer.memory[: len(raw)] = raw
    buffer.header = HEADER.parse(buffer.view)
    buffer.body = buffer.view[HEADER.numbers.size : len(raw)]
    return buffer


class Client:
    """Asks for what is in ``areas``, in the thread of the test, which leads the loop."""

    def __init__(
        self,
        areas: Areas,
        loop: Loop,
        queue: Path,
        *,
        is_helper: Callable[[int], bool] = lambda pid: False,
        users: tuple[int, ...] | None = None,
    ) -> None:
        self.fd = os.open(queue, os.O_RDWR | os.O_CREAT)
        loop._leader = threading.get_ident()
        self.answerer = Answerer(Session(self.fd), Operations(areas, loop, is_helper), loop.lock, users)
        self._taken = 0

    def ask(self, opcode: int, node: int = ROOT, value: Any = None, *, process: int = 0, user: int = 0) -> bytes:
        """The content of the answer.  Raises ``OSError``."""
        found = self.answer(request(opcode, node, value, process=process, user=user))
        assert found is not None
        if found[0]:
            raise OSError(found[0], os.strerror(found[0]))
        return found[1]

    def answer(self, raw: bytes) -> tuple[int, bytes] | None:
        """Errno and content of the answer; None without one."""
        self.answerer.answer(received(raw))
        found = os.pread(self.fd, 4 << 20, self._taken)
        self._taken += len(found)
        if not found:
            return None
        length, code, unique = ANSWER.unpack_from(found)
        assert (length, unique) == (len(found), UNIQUE)
        return -code, found[ANSWER.size :]

    def node(self, path: str) -> int:
        """The number of the node at ``path``."""
        number = ROOT
        for name in filter(None, path.split("/")):
            number = int(ENTRY.unpack_from(self.ask(Opcode.LOOKUP, number, Name(name)))[0])
        return number

    def end(self) -> None:
        self.answerer.close()
        os.close(self.fd)

"""A TCP relay on loopback that counts the bytes of all answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_PIECE = 1 << 18


class Relay:
    """Passes connections on to ``port``.  ``received``: bytes that came from there."""

    def __init__(self, port: int) -> None:
        self.received = 0
        self._lock = threading.Lock()
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Relay]:
        self._start(self._accept)
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in self._threads:
                thread.join(60)
            for connection in self._open:
                connection.close()

    def _start(self, work: object, *of: object) -> None:
        thread = threading.Thread(target=work, args=of, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # it was closed
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            self._start(self._pass, client, server, False)
            self._start(self._pass, server, client, True)

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if counted:
                    with self._lock:
                        self.received += len(piece)
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

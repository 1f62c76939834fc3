"""Lets only this user and root connect to a port on loopback: the kernel tells whose the other end is (proc(5)).

Other users are refused when they connect, before they take a place or can say anything.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
#: An IPv4 address in the second table.
_MAPPED: Final = "0000000000000000FFFF0000"
#: A closed socket has no user, and is shown as one of root.
_ESTABLISHED: Final = "01"


def are_known() -> bool:
    """Return whether the system tells whose a connection is."""
    return os.path.exists(_TABLES[0])


def user_of(peer: tuple[str, int], port: int) -> int | None:
    """Return the user of the IPv4 address ``peer``, which is connected to ``port`` of 127.0.0.1; None if unknown."""
    wanted = [_shown(*peer), _shown("127.0.0.1", port), _ESTABLISHED]
    for local, remote, state, user in _sockets():
        if [local.removeprefix(_MAPPED), remote.removeprefix(_MAPPED), state] == wanted:
            return user
    return None


def _shown(address: str, port: int) -> str:
    return f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{port:04X}"


def _sockets() -> Iterator[tuple[str, str, str, int]]:
    """Yield the local and the remote address, the state and the user of each TCP socket."""
    for table in filter(os.path.exists, _TABLES):
        with open(table) as lines:
            next(lines)
            for line in lines:
                words = line.split()
                yield words[1], words[2], words[3], int(words[7])


class Listener(socket.socket):
    """A socket on loopback that closes connections of other users at once.  Raises ``OSError``.

    Where the system does not tell whose a connection is, all are accepted.
    """

    def __init__(self, port: int, waiting: int) -> None:
        super().__init__()
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind(("127.0.0.1", port))
            self.listen(waiting)
        except OSError:
            self.close()
            raise
        self.port: int = self.getsockname()[1]

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection of this user or root, and its address.  Raises ``BlockingIOError``."""
        while True:
            connection, peer = super().accept()
            if not are_known() or user_of(peer, self.port) in (os.geteuid(), 0):
                return connection, peer
            connection.close()

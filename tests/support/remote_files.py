"""Files for the web server of the tests, and what it was asked for."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np

from support.web_server import Request, WebServer

#: Arrays of 1 MiB.
NAMES = ("a", "b", "c")


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.integers(0, 1000, (512, 512)).astype("<i4") for name in NAMES}


def make(path: Path) -> bytes:
    """Write a file with three arrays of 1 MiB, one of them compressed; return its bytes."""
    tree = {"meta": {"observer": "Ada", "number": 7}, **arrays()}
    file = asdf.AsdfFile(tree)
    file.set_array_compression(file["c"], "zlib")
    file.write_to(path)
    return path.read_bytes()


def ranges(server: WebServer) -> list[tuple[int, int]]:
    """What was asked for since the last call: start and stop."""
    found = [(one.first or 0, (one.last if one.last is not None else -1) + 1) for one in server.requests]
    server.requests.clear()
    return found


def refusing(status: int, times: int = 1, after: int = 0) -> object:
    """A fault: the next ``times`` requests after the first ``after`` ones end with ``status``."""
    from support.web_server import Answer

    seen = list[Request]()

    def fault(request: Request) -> Answer | None:
        seen.append(request)
        return Answer(status=status, body=b"secret words") if after < len(seen) <= after + times else None

    return fault

"""Processes that are not our children, and waiting for what they do."""

from __future__ import annotations

import contextlib
import inspect
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT = 120  #: Seconds that nothing in a test takes; a hang fails the test.


def pids_with(mark: str) -> list[int]:
    """Processes that have ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def children_of(pid: int) -> list[int]:
    """Processes that any thread of ``pid`` started and that still run. A thread may end while this looks."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, file.read_text().split())
    return found


def memory(pid: int, field: str = "VmRSS") -> int:
    """Return the memory of a process in bytes: ``VmRSS`` now, ``VmHWM`` at most until now (proc(5), ``status``)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def bytes_of(pid: int, field: str) -> int:
    """Return how many bytes a process has read or written (proc(5), ``io``): ``rchar``, ``wchar``."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def wait_for(pid: int) -> None:
    """Until that process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(LIMIT * 1000), f"waited {LIMIT} s for process {pid} to end"
    os.close(process)


def until(condition: Callable[[], bool], what: str = "") -> None:
    """Ask again and again, for ``LIMIT`` seconds at most, until ``condition`` is true.

    ``what``: what is waited for, said if it does not come; without it, the lines of the test that ask.
    """
    end = time.monotonic() + LIMIT
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"waited {LIMIT} s for: {what or text_of(condition)}"
        pause.wait(0.005)


def text_of(condition: Callable[[], bool]) -> str:
    """Return the lines of the test that have ``condition``."""
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):  # it is not a function of a test
        return repr(condition)

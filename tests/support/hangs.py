"""Ends a test that hangs, and tells where: the stacks of its daemons and of the test itself.

A test that waits for a request to its mount cannot be interrupted: the kernel lets only SIGKILL through.  So a thread
watches the clock.  It writes down the stacks, ends the daemons, which makes the kernel give up their mounts, and then
interrupts the test.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from support.mounts import LIMIT
from support.processes import pids_with, until

#: Seconds that no test takes, however busy the machine is; several waiting helpers may come to their end in one test.
LONGEST = 5 * LIMIT


def _interrupt(number: int, frame: FrameType | None) -> None:
    pytest.fail("took too long; what its daemons were doing is above", pytrace=True)


@contextlib.contextmanager
def ended_if_it_hangs(folder: Path, longest: float = LONGEST) -> Iterator[None]:
    """End what runs inside the block after ``longest`` seconds.  ``folder``: that of the test's daemons."""
    before = signal.signal(signal.SIGUSR2, _interrupt)
    timer = threading.Timer(longest, _end, (folder, threading.main_thread().ident))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR2, before)


def _end(folder: Path, thread: int) -> None:
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        print(f"== the test\n{file.read()}")
    for pid in pids_with(str(folder)):
        with contextlib.suppress(OSError):  # it may end by itself meanwhile
            print(f"== {pid}: {stacks_of(pid, folder)}")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    signal.pthread_kill(thread, signal.SIGUSR2)


def stacks_of(pid: int, folder: Path) -> str:
    """What the threads of a daemon are doing, which it writes into its log.  ``folder``: that of its test."""
    catches = 1 << (signal.SIGUSR1 - 1)
    status = Path(f"/proc/{pid}/status").read_text()
    if not int(status.partition("SigCgt:")[2].split()[0], 16) & catches:
        return "does not tell"  # a helper, or a program of the test
    logs = {log: log.stat().st_size for log in folder.rglob("log*") if log.is_file()}
    os.kill(pid, signal.SIGUSR1)
    told: list[str] = []

    def has_told() -> bool:
        told[:] = [text for log, size in logs.items() if (text := log.read_bytes()[size:].decode(errors="replace"))]
        return any(text.rstrip().endswith("in <module>") for text in told)

    with contextlib.suppress(AssertionError):  # what it had told until then is better than nothing
        until(has_told)
    return "".join(told)

"""Real ``asdffs watch`` processes for tests, ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.mounts import LIMIT, Mounted, environment_in
from support.processes import text_of


@dataclass
class Watched(Mounted):
    """``point``: the directory; ``tree``: the file with the tree.  ``said``: what the watch printed, at its end."""

    process: subprocess.Popen[str] | None = None
    code: int | None = None
    said: str = field(default="")

    @property
    def tree(self) -> Path:
        return self.point / self.file.name

    def block(self, number: int) -> Path:
        return self.point / f"{self.file.stem}{number:04d}.asdf"

    @property
    def error(self) -> str:
        path = self.point / ".asdffs" / "error"
        return path.read_text() if path.exists() else ""

    def until_said(self, text: str) -> None:
        """Wait for a line with ``text``."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = ""
        while text not in line:
            line = self.process.stdout.readline()
            assert line, self.said
            self.said += line

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the watch does."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert self.process is not None
            assert self.process.poll() is None, "the watch ended"
            assert time.monotonic() < end, f"waited {LIMIT} s for: {text_of(condition)}\n{self.error}"
            select.select([], [], [], 0.01)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the watch see only the end of what is done inside the block."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def watched(file: Path, *options: object, code: int | None = 0, end: int = signal.SIGTERM) -> Iterator[Watched]:
    """Watch ``w-NAME`` beside ``file``; at the end send the signal ``end``, and check the exit code (None: any)."""
    watch = Watched(file, file.parent / f"w-{file.name}", environment_in(file.parent))
    command = [sys.executable, "-m", "asdffs", "watch", watch.point, file, *options]
    watch.process = subprocess.Popen(
        list(map(str, command)), env=watch.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert watch.process.stdout is not None
    try:
        first = watch.process.stdout.readline()
        while first and not first.startswith("watching "):
            watch.said += first
            first = watch.process.stdout.readline()
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.send_signal(end)
        try:
            watch.said += watch.process.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            watch.process.kill()
            watch.said += watch.process.communicate()[0]
        watch.code = watch.process.returncode
    assert code is None or watch.code == code, (watch.code, watch.said)

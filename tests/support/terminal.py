"""Programs in a terminal: tmux runs them; a test types when the screen shows what it waits for."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pty
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from asdffs.cli.main import main
from support.mounts import LIMIT, run
from support.processes import text_of

#: Each terminal has a server of its own.
_NUMBERS = itertools.count()


class Terminal:
    """One program in a terminal of its own, 200 columns and 40 lines."""

    def __init__(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        sizes = ("COLUMNS", "LINES")  # of the terminal of the tests, which programs take for that of this one
        self._environment = {name: value for name, value in (environment).items() if name not in sizes}
        self._socket = f"asdffs-{os.getpid()}-{next(_NUMBERS)}"
        self._status = folder / "terminal-status"
        self._status.unlink(missing_ok=True)
        self._output = self._open_output(folder / "terminal-output")
        status = f"echo $? > {self._status}.new; mv {self._status}.new {self._status}"
        size = ("-x", "200", "-y", "40")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-c", str(folder), *size, f"{command}; {status}")
        self._tmux("pipe-pane", "-O", f"exec cat > {folder / 'terminal-output'}")

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._tmux("kill-server")
        os.close(self._output)

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return self._tmux("capture-pane", "-p")

    @property
    def pid(self) -> int:
        """The shell that runs the program."""
        return int(self._tmux("display-message", "-p", "#{pane_pid}"))

    def see(self, *texts: str) -> str:
        """Wait until one of ``texts`` is on the screen; which."""
        found: list[str] = []

        def shown() -> bool:
            screen = self.screen
            found.extend(text for text in texts if text in screen)
            return bool(found)

        self.until(shown, f"one of {texts} on the screen")
        return found[0]

    def until(self, condition: Callable[[], bool], what: str = "") -> None:
        """Wait for something that the program does.  ``what``: see ``processes.until``."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, f"waited {LIMIT} s for: {what or text_of(condition)}\n{self.screen}"
            self._wait_for_output()

    def type(self, *keys: str) -> None:
        """Type keys by tmux's names."""
        self._tmux("send-keys", *keys)

    def write(self, text: str) -> None:
        """Type text as it is."""
        self._tmux("send-keys", "-l", text)

    def end(self) -> int:
        """Wait for the end of the program; its exit status."""
        self.until(self._status.exists)
        return int(self._status.read_text())

    def _open_output(self, path: Path) -> int:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def _wait_for_output(self) -> None:
        """Until the program writes something; at most a moment, for what was written just before."""
        if select.select([self._output], [], [], 0.25)[0]:
            os.read(self._output, 1 << 16)

    def _tmux(self, *words: str) -> str:
        return run("tmux", "-L", self._socket, *words, env=self._environment).stdout


def on_terminal(command: list[str], where: dict[str, str], folder: Path) -> str:
    """What a command writes to a terminal."""
    screen, terminal = os.openpty()
    with subprocess.Popen(command, env=where, cwd=folder, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        said = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
            while piece := os.read(screen, 65536):
                said += piece
    os.close(screen)
    return said.decode(errors="surrogateescape")


def asdffs_on_terminal(words: list[str], where: dict[str, str], folder: Path) -> str:
    """What ``asdffs WORDS`` writes to a terminal: in a fork of this process, which need not import it again."""
    child, screen = pty.fork()
    if not child:
        _become(words, where, folder)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the command has ended
        while piece := os.read(screen, 65536):
            said += piece
    os.waitpid(child, 0)
    os.close(screen)
    return said.decode(errors="surrogateescape")


def _become(words: list[str], where: dict[str, str], folder: Path) -> NoReturn:
    try:
        os.environ.clear()
        os.environ.update(where)
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
        logging.getLogger().handlers[:] = []
        main(words)
    except SystemExit:
        pass
    except BaseException:  # noqa: BLE001  # the test sees it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

"""Whether the program behind a request is dead or dying, as far as that can be known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from unittest import mock

import pytest

from asdffs.mount.caller import is_dying

#: Waits until it may go on; with the signals given blocked.
CODE = "import signal, sys; signal.pthread_sigmask(0, [int(sys.argv[1])]); print(flush=True); sys.stdin.read()"


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", CODE, str(int(signal.SIGQUIT))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_living(program: subprocess.Popen[bytes]) -> None:
    assert not is_dying(program.pid)
    assert not is_dying(os.getpid())
    assert not is_dying(0), "in another PID namespace"


def test_a_signal_that_waits_and_is_blocked_kills_nobody(program: subprocess.Popen[bytes]) -> None:
    program.send_signal(signal.SIGQUIT)
    assert not is_dying(program.pid)


def test_dead(program: subprocess.Popen[bytes]) -> None:
    program.kill()
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    assert is_dying(program.pid), "not waited for yet"
    program.wait()
    assert is_dying(program.pid)


def test_regression_a_program_that_proc_hides_was_taken_for_dead(program: subprocess.Popen[bytes]) -> None:
    with mock.patch("builtins.open", side_effect=FileNotFoundError):
        assert not is_dying(program.pid)


@pytest.mark.parametrize(
    ("masks", "dying"),
    [
        ({"SigPnd": signal.SIGKILL}, True),
        ({"ShdPnd": signal.SIGKILL}, True),
        ({"ShdPnd": signal.SIGQUIT}, True),
        ({"ShdPnd": signal.SIGQUIT, "SigCgt": signal.SIGQUIT}, False),
        ({"ShdPnd": signal.SIGSEGV, "SigIgn": signal.SIGSEGV}, False),
        ({"ShdPnd": signal.SIGCHLD}, False),
        ({"ShdPnd": signal.SIGALRM}, False),
    ],
)
def test_what_is_pending(masks: dict[str, signal.Signals], dying: bool) -> None:
    lines = [b"State:\tD (disk sleep)\n"]
    lines += [b"%s:\t%016x\n" % (name.encode(), 1 << (number - 1)) for name, number in masks.items()]
    with mock.patch("builtins.open", mock.mock_open(read_data=b"".join(lines))):
        assert is_dying(os.getpid()) is dying

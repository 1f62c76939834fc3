"""Signals that end a command: no traceback, whenever they come (what they leave: crash/test_killed_commands)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.mounts import ASDFFS, environment_in, run
from support.samples import odd_file

from asdffs import interrupts
from asdffs.cli.process import EndedError

#: Stops the interpreter where a module of asdffs begins to be imported, and sends a signal there.
STOPPING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests with SIGINT ignored
stop = sys.argv.pop(1)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == stop:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Finder())
from asdffs.__main__ import main
sys.exit(main())
"""


MODULES = ["asdffs.cli", "asdffs.cli.main", "asdffs.cli.commands.info", "asdffs.document.opening"]


@pytest.mark.parametrize("module", MODULES)
def test_an_interrupt_while_it_starts_prints_nothing(tmp_path: Path, module: str) -> None:
    (tmp_path / "a.asdf").write_bytes(odd_file())
    done = run(sys.executable, "-c", STOPPING, module, "info", tmp_path / "a.asdf", env=environment_in(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) in [(130, "", ""), (-signal.SIGINT, "", "")]


def test_a_signal_goes_to_the_editor_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.asdf").write_bytes(odd_file())
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/^value: 1$/value: 2/' \"$1\"\nkill -TERM $PPID\nexec tail -f /dev/null\n")
    editor.chmod(0o755)
    done = run(*ASDFFS, "edit", tmp_path / "a.asdf", env={**environment_in(tmp_path), "EDITOR": str(editor)})
    assert done.returncode == 7
    assert "ended by the signal SIGTERM" in done.stderr
    assert b"value: 2\n" in (tmp_path / "a.asdf.rejected-1.yaml").read_bytes()
    assert [path.name for path in tmp_path.glob(".*asdffs-*")] == []


def _noted(*errors: BaseException, waiting: bool = False) -> list[str]:
    """Note ``errors`` in a critical section; the moments that were reached."""
    reached = ["begun"]
    with interrupts.critical():
        with interrupts.interruptible() if waiting else interrupts.whole():
            for error in errors:
                interrupts.note(error)
                reached.append("noted")
            interrupts.check()
        reached.append("whole")
        try:
            interrupts.check()
        finally:
            reached_at_last.extend(reached)
    return reached


reached_at_last: list[str] = []


@pytest.mark.parametrize(
    ("errors", "waiting", "kind", "reached"),
    [
        ([EndedError(15)], False, EndedError, ["begun", "noted", "whole"]),
        ([EndedError(15), KeyboardInterrupt()], False, KeyboardInterrupt, []),
        ([EndedError(1)], True, EndedError, []),
    ],
)
def test_when_a_critical_command_is_ended(
    errors: list[BaseException], waiting: bool, kind: type[BaseException], reached: list[str]
) -> None:
    """After a whole change; at once by a second signal, and where it only waits."""
    reached_at_last.clear()
    with pytest.raises(kind):
        _noted(*errors, waiting=waiting)
    assert reached_at_last == reached
    interrupts.check()


def test_a_command_that_never_checks_is_ended_at_its_end() -> None:
    def run() -> None:
        with interrupts.critical(), interrupts.critical():
            interrupts.note(EndedError(signal.SIGHUP))

    with pytest.raises(EndedError):
        run()


def test_cleaning_up_is_finished_however_many_signals_come() -> None:
    """strace sends one to each thread of explode: the third was raised while temporary files were removed."""
    steps = []

    def clean_up() -> None:
        with interrupts.critical():
            interrupts.note(EndedError(signal.SIGTERM))
            with interrupts.cleaning():
                for _ in range(3):
                    interrupts.note(EndedError(signal.SIGTERM))
                    steps.append("removed")
            steps.append("done")

    def go_on() -> None:
        with interrupts.critical():
            interrupts.note(EndedError(signal.SIGHUP))
            interrupts.note(EndedError(signal.SIGHUP))
            steps.append("never")

    for work in (clean_up, go_on):
        with pytest.raises(EndedError):
            work()
    assert steps == ["removed"] * 3 + ["done"]

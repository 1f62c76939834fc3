"""Every command on every odd file: a documented exit code, a sentence that names the file, and an end.

``python -m support.odd_files`` prints what they say.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.commands import command
from support.mounts import environment_in
from support.odd_files import COMMANDS, GOOD, NAMES, ODD, run

from asdffs.cli.arguments import command_names
from asdffs.printable import printable

#: Commands that are about no file, serve until they are ended, or are about a mount.
OTHERS = {"mount", "view", "ls", "cache", "doctor", "help"}
#: What may be wrong with a whole file is the output of ``check``, and a row of ``index``.
QUIET = {"check", "daf", "index", "find"}


def test_no_command_is_forgotten() -> None:
    assert {words[0] for words in COMMANDS} == set(command_names()) - OTHERS


@pytest.mark.sampled(17)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("odd", [*ODD, *NAMES])
def test_every_command_on_every_odd_file(odd: str, words: tuple[str, ...], tmp_path: Path) -> None:
    row = run(words, odd, tmp_path)
    assert 0 <= row.done.code <= 9, row
    assert "Traceback" not in row.done.err + row.done.out
    lines = row.done.err.splitlines()
    assert all(line.startswith("asdffs: ") for line in lines), lines
    errors = [line for line in lines if not line.startswith("asdffs: warning: ")]
    assert len(errors) <= 1, errors
    if errors and row.done.code > 1:
        named = "" if "source" in odd and words[0] == "implode" else printable(os.path.basename(row.path))
        assert named in errors[0]  # a source of an exploded form is a file of its own
    if row.done.code > 1 and words[0] not in QUIET:
        assert errors or row.done.code == 8, row


def test_regression_others_go_on(tmp_path: Path) -> None:
    """Each command over several files answers for the good one, and ends with the largest code."""
    (tmp_path / "good.asdf").write_bytes(GOOD)
    (tmp_path / "bad.asdf").write_bytes(b"hello\n")
    for words, said in (
        (("info",), "good.asdf: 730 bytes"),
        (("check",), "good.asdf: nothing wrong"),
        (("get", "value"), "good.asdf\t1"),
        (("grep", "exposure"), "good.asdf: meta.exposure: 12.5"),
        (("refs",), "data"),
        (("set", "--string", "meta.observer=Grace"), "3 files: 1 changed"),
        (("set", "--jobs", "2", "value=7"), "3 files: 1 changed"),
        (("rename", "value", "other"), "3 files: 1 changed"),
    ):
        files = [tmp_path / name for name in ("bad.asdf", "missing.asdf", "good.asdf")]
        done = command(*words, *files, environment=environment_in(tmp_path))
        assert (done.code, said in done.out) == (4, True), (words, done)
        assert command(*words, *files[1:], environment=environment_in(tmp_path)).code == 3, words

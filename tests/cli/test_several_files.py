"""``info``, ``edit``, ``repack`` and ``upgrade`` of several files: one that fails is told and stops nothing."""

from __future__ import annotations

import json
import logging
import sqlite3
import struct
import threading
import weakref
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.commands import Call, command
from support.drafts import block_36, draft
from support.mounts import environment_in
from support.samples import check_saved, odd_file

from asdffs.cli.printing import CommandFormatter
from asdffs.cli.results import for_each
from asdffs.errors import MissingFileError
from asdffs.failures import Failure, attempt


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment={**environment_in(tmp_path), "VISUAL": "sed -i 's/^value: 1$/value: 2/'"})


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three, of which the second is no ASDF file."""
    names = [tmp_path / name for name in ("a.asdf", "b.asdf", "c.asdf")]
    for name in names:
        name.write_bytes(odd_file())
    names[1].write_bytes(b"no")
    return names


def test_info(files: list[Path], call: Call) -> None:
    done = call("info", *files)
    assert (done.code, done.out.count("ASDF 1, file format 1.0.0")) == (4, 2)
    assert f"{files[1]}: offset 0: not an ASDF file" in done.err
    found = json.loads(call("info", "--json", *files).out)
    assert [one["file"] for one in found] == [str(files[0]), str(files[2])]
    assert json.loads(call("info", "--json", files[0]).out) == found[0]
    assert call("info", "--map", files[0], files[2]).out.count("tree") >= 2


def test_edit(files: list[Path], call: Call) -> None:
    done = call("edit", *files)
    assert (done.code, done.out) == (4, f"{files[0]}: the tree is saved\n{files[2]}: the tree is saved\n")
    check_saved(files[0], 2)
    check_saved(files[2], 2)


def test_repack_into_a_directory(files: list[Path], tmp_path: Path, call: Call) -> None:
    (tmp_path / "new").mkdir()
    done = call("repack", "--json", "--compression", "zlib", *files, tmp_path / "new")
    assert done.code == 4
    assert [one["file"] for one in json.loads(done.out)] == [f"{tmp_path}/new/a.asdf", f"{tmp_path}/new/c.asdf"]
    assert files[0].read_bytes() == odd_file()
    found = call("info", "--json", tmp_path / "new/c.asdf").json["blocks"]
    assert {block["compression"] for block in found} == {"zlib"}


def test_upgrade_into_a_directory(tmp_path: Path, call: Call) -> None:
    (tmp_path / "new").mkdir()
    old = [tmp_path / "a.asdf", tmp_path / "b.asdf"]
    for path in old:
        path.write_bytes(draft(b"a: 1\n", block_36(b"plain")))
    assert call("upgrade", "--check", *old).code == 0
    done = call("upgrade", *old, tmp_path / "new")
    assert (done.code, done.out.count("ASDF 1.6.0, 1 blocks")) == (0, 2)
    assert [call("get", "a", tmp_path / "new" / path.name).out for path in old] == ["1\n", "1\n"]


def test_several_files_need_a_directory(files: list[Path], tmp_path: Path, call: Call) -> None:
    for words in (("repack", *files), ("upgrade", *files, tmp_path / "new")):
        done = call(*words)
        assert (done.code, "is no directory, and there are several files" in done.sentence) == (2, True)
    assert files[2].read_bytes() == odd_file()


def test_regression_a_source_without_a_block(files: list[Path], tmp_path: Path, call: Call) -> None:
    """It ended ``check``, ``info`` and ``explode`` with a traceback."""
    (tmp_path / "tree.asdf").write_bytes(odd_file(blocks=[]))
    files[1].write_bytes(odd_file(blocks=[]).replace(b"source: 0", b"source: tree.asdf"))
    sentence = f"its source {tmp_path}/tree.asdf has no block that can be read"
    done = call("check", *files)
    assert (done.code, done.err) == (4, "")
    assert f"{files[1]}: error: line 9: data (tree.asdf): {sentence}" in done.out
    assert f"{files[2]}: nothing wrong" in done.out
    assert sentence in call("info", files[1]).out
    assert call("explode", files[1], tmp_path / "parts").code == 0


class OwnError(Exception):
    """Of a library that nobody knows."""


def test_whatever_is_raised_is_the_line_of_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    def raising(err: Exception) -> Callable[[], str]:
        def work() -> str:
            raise err

        return work

    expected = {
        MissingFileError("is gone"): (3, "is gone"),
        PermissionError(13, "Permission denied"): (8, "Permission denied"),
        MemoryError(): (8, "needs more memory than there is"),
        RecursionError("maximum"): (4, "is nested too deep"),
        sqlite3.OperationalError("locked"): (8, "the catalogue cannot be used (OperationalError: locked)"),
        zlib.error("invalid"): (4, "has content that cannot be read (error: invalid)"),
        struct.error("unpack"): (4, "has content that cannot be read (error: unpack)"),
        OverflowError("large"): (4, "has content that cannot be read (OverflowError: large)"),
        OwnError("\x1b]0;\n"): (1, "an internal error (OwnError: \\x1b]0;\\n); -v shows where; please report it"),
    }
    for err, (code, sentence) in expected.items():
        taken: list[str] = []
        files = [("a", lambda: "A"), ("b", raising(err)), ("c", lambda: "C")]
        assert for_each(files, lambda file, answer, taken=taken: taken.append(answer) or 0) == code
        assert taken == ["A", "C"]
        assert capsys.readouterr().err.startswith(f"asdffs: b: {sentence}"), err
    assert for_each(((name, raising(err)) for name, err in zip("abcd", expected, strict=False)), lambda *_: 0) == 8
    with pytest.raises(BrokenPipeError):
        for_each([("a", raising(BrokenPipeError()))], lambda *_: 0)


def test_v_shows_where_an_unexpected_error_arose(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        raise OwnError("\x1b]0;\nforged")

    with caplog.at_level(logging.INFO, "asdffs.failures"):
        assert for_each([("a", work)], lambda *_: 0) == 1
    (record,) = caplog.records
    record.exc_text = None  # which pytest has formatted
    said = CommandFormatter().format(record)
    assert "in work" in said
    assert "OwnError: \\x1b]0;" in said
    assert all(line.startswith(("asdffs: ", "  ")) for line in said.splitlines())


def test_a_failure_keeps_no_frame_alive() -> None:
    """A cursor in one would lock a catalogue until the garbage collector runs."""
    held = threading.Event()
    alive = weakref.ref(held)

    def work(kept: object) -> None:
        try:
            raise OwnError("inner")
        except OwnError as err:
            raise MissingFileError("outer") from err

    def run(held: object) -> Failure | None:
        return attempt(partial(work, held))  # frames refer to their callers, too

    found = run(held)
    del held
    assert isinstance(found, Failure)
    assert alive() is None

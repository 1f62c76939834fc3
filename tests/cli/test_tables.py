"""The tables of errno and exit codes are complete; info; help."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.mounts import asdffs, environment_in
from support.samples import DATA, odd_file, put, write_sample

from asdffs import errors
from asdffs.cli.arguments import command_names, make_parsers
from asdffs.cli.main import main
from asdffs.cli.mount_options import parse_options, usages
from asdffs.cli.results import EXIT_CODES, ExitCode, exit_code_of
from asdffs.errors import UsageError
from asdffs.mount.answers import ERRNO, errno_of
from asdffs.mount.options import MountOptions, fuse_options

CLASSES = [
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.AsdffsError) and found.__module__ == "asdffs.errors"
]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_an_errno_and_an_exit_code(kind: type[errors.AsdffsError]) -> None:
    assert kind in ERRNO
    assert kind in EXIT_CODES
    assert errno_of(kind("x")) > 0
    assert exit_code_of(kind("x")) != ExitCode.OK


def test_tables_name_no_other_class() -> None:
    assert set(ERRNO) == set(EXIT_CODES) == set(CLASSES)


def test_sentences_name_the_place() -> None:
    error = errors.InvalidTreeError("why", path="f.asdf", line=3, column=4, block=5, offset=6)
    assert str(error) == "f.asdf: line 3, column 4, block 5, offset 6: why"
    assert str(errors.NotAsdfError("why")) == "why"


def test_exit_codes_are_in_the_help() -> None:
    text = make_parsers(command_names(), None)[0].format_help()
    assert all(re.search(rf"(?m)(?:^  |[:;] ){code.value} [a-z]", text) for code in ExitCode)


def test_the_help_of_mount_has_each_option(tmp_path: Path) -> None:
    told = asdffs("mount", "--help", environment=environment_in(tmp_path)).stdout.partition("options for -o")[2]
    for usage in usages():
        name = usage.partition("=")[0]
        assert re.search(rf"\b{name}\b", told), name


def test_help_is_one_screen() -> None:
    assert len(make_parsers(command_names(), None)[0].format_help().splitlines()) <= 40


@pytest.mark.parametrize(
    ("words", "same"), [(["help"], ["--help"]), (["help", "repack"], ["repack", "--help"]), (["unmount"], ["umount"])]
)
def test_words_that_people_try(words: list[str], same: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for argv in (words, same):
        try:
            code = main(argv)
        except SystemExit as end:
            code = end.code or 0
        printed.append((code, *capsys.readouterr()))
    assert printed[0] == printed[1]


def test_options() -> None:
    options = parse_options(["rw,allow_other", "fsname=a b", "ro,nodev,noatime"])
    assert options == MountOptions(read_only=True, allow_other=True, fsname="a b", kernel=("noatime",))
    with pytest.raises(UsageError, match="'sparkle'"):
        parse_options(["ro,sparkle"])
    with pytest.raises(UsageError, match="'ro=1'"):
        parse_options(["ro=1"])
    told = fuse_options(options, "/x/a,b\\c", libfuse2=True)
    assert {"default_permissions", "noatime"} <= set(told)
    assert "fsname=/x/a\\,b\\\\c" in fuse_options(MountOptions(), "/x/a,b\\c", libfuse2=False)


def test_info_json(tmp_path: Path) -> None:
    path = tmp_path / "data.asdf"
    write_sample(path, pad_blocks=True)
    done = asdffs("info", "--json", path, environment=environment_in(tmp_path))
    facts = json.loads(done.stdout)
    assert facts["size"] == path.stat().st_size
    assert facts["standard"] == "1.6.0"
    assert facts["newline"] == "LF"
    assert facts["index"] == "valid"
    assert facts["tree"]["end"] + facts["padding"] == facts["blocks"][0]["offset"]
    assert {array["path"]: array["source"] for array in facts["arrays"]} == {
        "big": 0,
        "little": 1,
        "bytes": 2,
        "last": 3,
    }
    assert [block["data_size"] for block in facts["blocks"]] == [16384, 20000, 777, 2000]
    assert all(block["has_checksum"] and block["compression"] == "none" for block in facts["blocks"])


@pytest.mark.parametrize(
    ("whole", "index"),
    [(odd_file(), "valid"), (odd_file(index="absent"), "absent"), (odd_file(index="stale"), "invalid")],
)
def test_info_states_the_index(tmp_path: Path, whole: bytes, index: str) -> None:
    path = put(tmp_path, whole)
    done = asdffs("info", "-v", path, environment=environment_in(tmp_path))
    assert f"index     {index}" in done.stdout
    assert f" {len(DATA)} " in done.stdout
    assert path.read_bytes() == whole


def test_info_of_a_damaged_block_shows_the_rest(tmp_path: Path) -> None:
    path = put(tmp_path, odd_file(index="absent")[:-60])
    done = asdffs("info", path, environment=environment_in(tmp_path))
    assert done.returncode == 0
    assert "data" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["nonsense"], 2), (["info", "missing"], 3), (["mount", "a"], 2)]
)
def test_bad_command_lines(tmp_path: Path, arguments: list[str], code: int) -> None:
    done = asdffs(*arguments, environment=environment_in(tmp_path))
    assert done.returncode == code
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_help_opens_the_manual_page_of_this_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, where man is; the pages are below the prefix of the environment."""
    page = tmp_path / "share/man/man1/asdffs-repack.1"
    page.parent.mkdir(parents=True)
    page.write_text(".TH ASDFFS-REPACK 1\n")
    run: list[object] = []
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(os, "execv", lambda program, words: run.extend((Path(program).name, *words)))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert main(["help", "repack"]) == 0
    assert run == ["man", "man", "-l", str(page)]
    assert main(["help", "nothing"]) == 2

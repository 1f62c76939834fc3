"""Nothing in a file, and no name, is obeyed by a terminal, or forges a line of output or log."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import asdffs, environment_in, mounted
from support.samples import block_bytes
from support.terminal import on_terminal

from asdffs.cli.saying import SafeFormatter
from asdffs.errors import AsdffsError
from asdffs.printable import printable

KEY = "\x1b]0;pwned\x07\nx.asdf: nothing wrong\u202e\x9b"
YAML_KEY = '"' + KEY.replace("\x1b", "\\e").replace("\x07", "\\a").replace("\n", "\\n").replace("\u202e", "\\u202e")
YAML_KEY = YAML_KEY.replace("\x9b", "\\x9b") + '"'
ARRAY = "!core/ndarray-1.0.0 {source: %d, datatype: int8, byteorder: big, shape: [4]}\n"
FORBIDDEN = ("\x1b]0", "\x07", "\u202e", "\x9b", "\nx.asdf: nothing wrong")
#: Of a terminal's table: rich has the styles, and no operating system command.
COMMANDS = [
    ["info", "x.asdf"],
    ["check", "x.asdf"],
    ["check", "--json", "x.asdf"],
    ["diff", "x.asdf", "y.asdf"],
    ["diff", "--values", "x.asdf", "y.asdf"],
    ["upgrade", "--check", "x.asdf"],
    ["tree", "x.asdf"],
    ["tree", "--outline", "x.asdf"],
    ["grep", "ok", "x.asdf", "\x1b]0;pwned\x07.asdf"],
    ["get", "v", "y.asdf", "\x1b]0;pwned\x07.asdf"],
    ["set", "-n", "v=2", "\x1b]0;pwned\x07.asdf"],
    ["set", "v=\x1b]0;pwned\x07", "\x1b]0;pwned\x07.asdf"],
    ["unset", "\x1b]0;pwned", "y.asdf"],
    ["info", "--map", "\x1b]0;pwned\x07.asdf"],
    ["info", "\x1b]0;pwned\x07.asdf"],
    ["check", "no\x1b]0;pwned\x07\nx.asdf: nothing wrong"],
    ["explode", "\x1b]0;pwned\x07.asdf", "parts\x1b]0;\u202e"],
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    body = f'{YAML_KEY}: {ARRAY % 5}ok{YAML_KEY[1:-1] and ""}: {ARRAY % 0}? {YAML_KEY[:-1]}2"\n: {YAML_KEY}\n'
    (tmp_path / "x.asdf").write_bytes(tree_file(body, [block_bytes(b"abcd")]))
    (tmp_path / "y.asdf").write_bytes(tree_file("v: 1\n", []))
    (tmp_path / "\x1b]0;pwned\x07.asdf").write_bytes(tree_file("v: 1\n", [block_bytes(b"abcd")]))
    return tmp_path


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2])[:14])
def test_commands(folder: Path, command: list[str]) -> None:
    where = {**environment_in(folder), "EDITOR": "sed -i s/ok/'['/"}
    done = subprocess.run(
        [sys.executable, "-m", "asdffs", *command], env=where, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr, done
    for said in (done.stdout, done.stderr, on_terminal([sys.executable, "-m", "asdffs", *command], where, folder)):
        assert not any(sign in said.replace("\r", "") for sign in FORBIDDEN), said


@pytest.mark.mount
def test_the_log_and_the_error_of_a_mount(folder: Path) -> None:
    with mounted(folder / "x.asdf", code=7) as mount:
        text = mount.tree.read_text()
        with pytest.raises(OSError, match="Bad message"):
            mount.tree.write_text(text.replace("...\n", f"{YAML_KEY}: 2\n...\n"))
        assert "is in line" in mount.error
        said = mount.error + "".join(log.read_text() for log in (folder / "state").rglob("log*"))
    assert not any(sign in said for sign in FORBIDDEN), said


def test_errors_and_records() -> None:
    assert str(AsdffsError(f"is {KEY}", path="a\nb")) == (
        r"a\nb: is \x1b]0;pwned\x07\nx.asdf: nothing wrong\u202e\x9b"
    )
    record = logging.LogRecord("x", logging.INFO, "", 0, "is %s", (KEY,), None)
    assert SafeFormatter("%(message)s").format(record) == r"is \x1b]0;pwned\x07\nx.asdf: nothing wrong\u202e\x9b"


def test_what_is_safe_stays() -> None:
    text = "tab\tünï ☃ \udcff 'quoted' \\n"
    assert printable(text) == text
    assert printable(text, terminal=True) == "tab\tünï ☃ \\xff 'quoted' \\n"


def test_no_unsafe_character_is_printable() -> None:
    """``printable`` returns text as it is if ``str.isprintable`` says so."""
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        assert not character.isprintable() or printable(character, terminal=True) == character
    assert printable("a\x1b\u202e\udcff", terminal=True) == r"a\x1b\u202e\xff"


def test_check_in_a_pipe_keeps_names_that_are_not_utf8(folder: Path) -> None:
    """As a program would read them back."""
    name = b"\xff.asdf"
    (folder / "y.asdf").rename(folder / "\udcff.asdf")
    done = subprocess.run(
        [sys.executable, "-m", "asdffs", "check", name],
        cwd=folder,
        env=environment_in(folder),
        capture_output=True,
        check=False,
    )
    assert done.stdout == name + b": nothing wrong\n"
    assert asdffs("check", "x.asdf", environment=environment_in(folder), cwd=folder).returncode == 4

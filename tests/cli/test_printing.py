"""Nothing in a file, and no name, is obeyed by a terminal, or forges a line of output or log."""

from __future__ import annotations

import ast
import logging
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.arrays import tree_file
from support.mounts import ASDFFS, asdffs, environment_in, mounted, run
from support.samples import block_bytes, odd_file
from support.terminal import asdffs_on_terminal

import asdffs as package
from asdffs.cli import printing
from asdffs.cli.arguments import command_names
from asdffs.cli.printing import SafeFormatter
from asdffs.errors import AsdffsError
from asdffs.printable import as_word, printable

KEY = "\x1b]0;pwned\x07\nx.asdf: nothing wrong\u202e\x9b"
YAML_KEY = '"' + KEY.replace("\x1b", "\\e").replace("\x07", "\\a").replace("\n", "\\n").replace("\u202e", "\\u202e")
YAML_KEY = YAML_KEY.replace("\x9b", "\\x9b") + '"'
ARRAY = "!core/ndarray-1.0.0 {source: %d, datatype: int8, byteorder: big, shape: [4]}\n"
HOSTILE = "\x1b]0;pwned\x07\nx.asdf:\xa0nothing\xa0wrong\u202e'.asdf"
PWNED = "\x1b]0;pwned\x07.asdf"
FORBIDDEN = ("\x1b]0", "\x07", "\u202e", "\x9b", "\nx.asdf: nothing wrong", "\nx.asdf:\xa0nothing")
#: ``x`` and ``p`` are names; a ``+`` becomes a space.
_WORDS = """
info x.asdf; check x.asdf; check --json x.asdf; diff x.asdf y.asdf; diff --values x.asdf y.asdf;
upgrade --check x.asdf; tree x.asdf; tree --outline x.asdf; grep ok x.asdf {p}; get v y.asdf {p};
set -n v=2 {p}; info --map {p}; info {p}; set -n v=2 {x}; diff --text {x} x.asdf; tree --yaml {x};
get --yaml . {x}; get w {x} x.asdf; refs {x} -o new; refs --check {x}; index --catalog new {x};
export --erofs new {x}; export --check {x};
find --catalog c.db --columns v,w,z v; find --catalog c.db --csv --columns v,w,z v;
find --catalog c.db --csv --sql SELECT+path,value+FROM+value;
find --catalog c.db --json --columns v,w,z v; find --catalog c.db -0 v; rename v u {x}; undo {x};
edit {x}; recover {x}; block {x} 0; block {x} 9; show {x}; show {x} w; show {x} text; repack {x};
repack {x} x.asdf; upgrade {x} x.asdf; implode {x} new; watch --once parts {x}; daf check {x};
daf unpack {x} new; daf pack {x} new; mount {x} nope{x}; mount {x} {x}; umount {x};
view --port 99999 {x}; cache; ls; doctor; help {x}
"""
#: Of a terminal's table: rich has the styles, and no operating system command.
COMMANDS = [
    ["set", "v=\x1b]0;pwned\x07", "\x1b]0;pwned\x07.asdf"],
    ["unset", "\x1b]0;pwned", "y.asdf"],
    ["check", "no\x1b]0;pwned\x07\nx.asdf: nothing wrong"],
    ["check", "-v", HOSTILE, "-\x1b]0;pwned\x07"],
    ["explode", "\x1b]0;pwned\x07.asdf", "parts\x1b]0;\u202e"],
    *([word.format(x=HOSTILE, p=PWNED) for word in words.split()] for words in _WORDS.split(";")),
]


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Elsewhere nobody even looks how far it is, however long it takes."""
    monkeypatch.setattr(printing, "_QUIET", 0)
    before = set(threading.enumerate())
    with printing.shown(lambda: pytest.fail("looked at"), "writing x.asdf"):
        assert set(threading.enumerate()) <= before
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    body = f'{YAML_KEY}: {ARRAY % 5}ok{YAML_KEY[1:-1] and ""}: {ARRAY % 0}? {YAML_KEY[:-1]}2"\n: {YAML_KEY}\n'
    (tmp_path / "x.asdf").write_bytes(tree_file(body, [block_bytes(b"abcd")]))
    (tmp_path / "y.asdf").write_bytes(tree_file("v: 1\n", []))
    (tmp_path / "\x1b]0;pwned\x07.asdf").write_bytes(tree_file("v: 1\n", [block_bytes(b"abcd")]))
    text = "!core/ndarray-1.0.0 {source: 0, datatype: [ascii, 4], byteorder: big, shape: [4]}"
    body = (
        f"v: 1\nw: {YAML_KEY}\n{YAML_KEY}: {YAML_KEY}\nz: [{YAML_KEY}]\ntext: {text}\ndaf: {{version: {YAML_KEY}}}\n"
    )
    (tmp_path / HOSTILE).write_bytes(tree_file(body, [block_bytes(b"\x1b]0;" * 4)]))
    asdffs("index", "--catalog", "c.db", HOSTILE, environment=environment_in(tmp_path), cwd=tmp_path)
    return tmp_path


def test_every_command_has_a_line() -> None:
    assert {words[0] for words in COMMANDS} == set(command_names())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2])[:14])
def test_commands(folder: Path, command: list[str]) -> None:
    where = {**environment_in(folder), "EDITOR": "sed -i s/ok/'['/"}
    command = [word.replace("+", " ") for word in command]
    said = asdffs_on_terminal(command, where, folder)
    assert said or command[0] in ("ls", "set", "watch"), command
    assert "Traceback" not in said
    assert not any(sign in said.replace("\r", "") for sign in FORBIDDEN), said
    if "--csv" in command or "-0" in command or command[:2] == ["block", HOSTILE]:
        return  # a program that reads them wants them as they are
    done = asdffs(*command, environment=where, cwd=folder)
    for printed in (done.stdout, done.stderr):
        assert not any(sign in printed for sign in FORBIDDEN), printed


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
    command = [*ASDFFS, "check", name]
    done = subprocess.run(command, cwd=folder, env=environment_in(folder), capture_output=True, check=False)
    assert done.stdout == name + b": nothing wrong\n"
    assert asdffs("check", "x.asdf", environment=environment_in(folder), cwd=folder).returncode == 4


# -- commands that messages propose -------------------------------------------------


@pytest.mark.parametrize(
    "name", ["it's", "a b", "-x", "a\nb", "\x1b]0;\x07$'\\\\'", "ü\u202e\x9b", "\udcff\udc9b", "$(touch no)"]
)
def test_a_word_of_a_proposed_command_is_the_name(name: str) -> None:
    word = as_word(name)
    assert word == printable(word, terminal=True)
    done = run("bash", "-c", f"printf %s {word}", env={"LC_ALL": "C.UTF-8"}, text=False)
    assert os.fsdecode(done.stdout) == name


#: A command in a message: what is filled in must be a word for the shell.
PROPOSED = re.compile(
    r"(?:'|: |-p )(?:sudo )?(?:asdffs|rm|mkdir|u?mount|fuser|chmod|mv|cp)\b[^';]*\0|-p \0|pip [^;]*\0"
)
#: Words of our own.
OWN = {"command", "owner['command']", "codec.extra", "extra"}


def test_all_messages_quote_what_they_propose() -> None:
    found = []
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(node, ast.JoinedStr):
                continue
            text = "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            filled = [ast.unparse(part.value) for part in node.values if isinstance(part, ast.FormattedValue)]
            for match in PROPOSED.finditer(text):
                value = filled[text.count("\0", 0, match.end() - 1)]
                found.append(value)
                assert value in OWN or value.startswith(("as_word(", "as_words(")), f"{path}:{node.lineno}: {value}"
    assert len(found) > 8


def test_sentences_that_propose_commands(tmp_path: Path) -> None:
    """Pasted into a shell they are about the file, whatever its name is."""
    where, name = environment_in(tmp_path), "it's; touch pwned &.asdf"
    (tmp_path / name).write_bytes(odd_file()[:-4] + b"??")
    for words, proposed in (
        (["repack", name], ["asdffs", "check", name]),
        (["mount", name, f"missing {name}"], ["mkdir", "-p", f"missing {name}"]),
        (["explode", name, "."], ["asdffs", "explode", name, "it's_ touch pwned &"]),
    ):
        said = asdffs(*words, environment=where, cwd=tmp_path).stderr
        assert shlex.join(proposed) in said, (words, said)

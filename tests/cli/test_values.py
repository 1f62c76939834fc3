"""``asdffs get``, ``set``, ``unset``, ``rename`` and ``undo``, on one file and on many."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
import pytest
import yaml
from support.commands import Call, Done
from support.mounts import ASDFFS, LIMIT, environment_in, mounted, run
from support.processes import until
from support.samples import odd_file, put

DEEP = bool(os.environ.get("ASDFFS_DEEP"))
TREE = {"meta": {"observer": "Ada Lovelace", "exposure": {"time": 107.5, "type": "WFI_IMAGE"}}, "items": [1, 2, 3]}


@pytest.fixture
def night(tmp_path: Path) -> Path:
    return made(tmp_path / "night.asdf")


def made(path: Path, number: int = 0) -> Path:
    asdf.AsdfFile(TREE | {"number": number, "data": np.arange(10)}).write_to(path)
    return path


def many(folder: Path, count: int) -> list[Path]:
    return [made(folder / f"f{number:03d}.asdf", number) for number in range(count)]


# -- get --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "options", "printed"),
    [
        ("meta.observer", [], "Ada Lovelace"),
        ("/meta/exposure/time", [], "107.5"),
        ("items[-1]", [], "3"),
        ("items", [], "[1, 2, 3]"),
        ("meta.exposure", [], "{time: 107.5, type: WFI_IMAGE}"),
        ("items", ["-p", "number"], "[1, 2, 3]\n0"),
        (
            "data",
            ["--raw"],
            "!core/ndarray-1.1.0\n  source: 0\n  datatype: int64\n  byteorder: little\n  shape: [10]",
        ),
        ("nope", ["--default", "none"], "none"),
    ],
)
def test_a_value_is_printed(call: Call, night: Path, path: str, options: list[str], printed: str) -> None:
    assert call("get", path, night, *options) == Done(0, printed + "\n", "")


def test_json_and_yaml(call: Call, night: Path) -> None:
    assert call("get", "--json", "meta", night).json == TREE["meta"]
    assert call("get", "--json", "meta.observer", "-p", "items", night).json == {
        "meta.observer": "Ada Lovelace",
        "items": [1, 2, 3],
    }
    assert yaml.safe_load(call("get", "--yaml", "meta", night).out) == TREE["meta"]
    assert call("get", "--json", "nope", night).json is None


def test_several_files_are_a_table(call: Call, tmp_path: Path) -> None:
    files = many(tmp_path, 3)
    assert call("get", "number", *files).out == "".join(f"{path}\t{n}\n" for n, path in enumerate(files))
    two = call("get", "number", "-p", "meta.exposure.type", "--where", "number > 0", *files)
    assert two.out.splitlines() == [
        "FILE\tnumber\tmeta.exposure.type",
        *(f"{files[n]}\t{n}\tWFI_IMAGE" for n in (1, 2)),
    ]
    assert call("get", "--json", "number", *files).json == [
        {"file": str(path), "value": number} for number, path in enumerate(files)
    ]


def test_what_is_missing_is_named_and_the_rest_printed(call: Call, tmp_path: Path) -> None:
    files = many(tmp_path, 2)
    assert call("set", "only=1", files[1]).code == 0
    done = call("get", "only", *files)
    sentence = f"{files[0]}: only: there is no such value; the tree has no key 'only'"
    assert (done.code, done.sentence) == (1, sentence)
    assert done.out == f"{files[0]}\t\n{files[1]}\t1\n"
    done = call("get", "only", files[1], tmp_path / "gone.asdf")
    assert (done.code, done.sentence) == (
        3,
        f"{tmp_path}/gone.asdf: cannot be opened: No such file or directory",
    )


# -- change -----------------------------------------------------------------------


def test_only_the_value_changes(call: Call, night: Path) -> None:
    before = night.read_bytes()
    assert call("set", 'meta.observer:="Grace Hopper"', night).out == (
        f"{night}: meta.observer: Ada Lovelace -> Grace Hopper\n"
    )
    with asdf.open(night) as file:
        assert file["meta"]["observer"] == "Grace Hopper"
        assert np.array_equal(file["data"], np.arange(10))
    changed = night.read_bytes()
    assert changed.partition(b"...")[0] == before.partition(b"...")[0].replace(b"Ada Lovelace", b"Grace Hopper")
    assert call("set", "meta.observer=Grace Hopper", night).out == f"{night}: nothing to change\n"
    assert night.read_bytes() == changed, "a second run changes nothing"


def test_every_kind_of_change(call: Call, night: Path) -> None:
    assert call("set", "--string", "items[0]=1.50", "-p", "meta.exposure.time=1", night).code == 0
    assert call("set", "--create", "new.deep.value:={a: [1, x]}", "-p", "items[3]=4", night).code == 0
    assert call("rename", "meta.exposure", "exp", night).code == 0
    assert call("rename", "meta.exp.type", "meta.exp.kind", night).code == 0
    assert call("unset", "meta.observer", "-p", "number", night).code == 0
    with asdf.open(night) as file:
        tree = {key: file[key] for key in ("meta", "items", "new")}
        assert tree == {
            "meta": {"exp": {"time": "1", "kind": "WFI_IMAGE"}},
            "items": ["1.50", 2, 3, 4],
            "new": {"deep": {"value": {"a": [1, "x"]}}},
        }
        assert "number" not in file
    assert call("check", night).code == 0


def test_a_shared_value_is_refused(call: Call, tmp_path: Path) -> None:
    path = put(tmp_path, odd_file().replace(b"value: 1\n", b"value: &v 1\nother: *v\n"))
    done = call("set", "value=2", path)
    assert done.code == 2
    assert "is shared: line 9 has an alias to it; --shared changes it in all these places" in done.sentence
    assert call("set", "--shared", "value=2", path).code == 0
    assert call("get", "other", path).out == "2\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["set", "meta.x.y=1"], 1, "meta has no key 'x'; --create makes the missing mappings"),
        (["set", "meta"], 2, "'=' and a value are missing here; write PATH=VALUE"),
        (["set", "meta:={"], 2, "the value '{' is not valid YAML; use --string for text"),
        (
            ["set", "items=[1, 2]"],
            2,
            "begins with [ is YAML: write 'items:=[1, 2]', or --string for text",
        ),
        (["set", "--string", "number:=1"], 2, "--string takes VALUE as text, and ':=' as YAML"),
        (["set", ":=1"], 2, "path '', character 1: a key, or a number in brackets, is missing here"),
        (["set", "number=1e999"], 2, "the number 1e999 is larger than any float"),
        (["set", "a..b=1"], 2, "path 'a..b=1', character 3: a key, or a number in brackets, is missing here"),
        (["set", "items.x=1"], 1, "this is a sequence, so a number must follow, not 'x'"),
        (["unset", "nope"], 1, "nope: there is no such value; the tree has no key 'nope'"),
        (["unset", "."], 2, "the root of the tree cannot be removed"),
        (["rename", "meta", "items"], 2, "items already exists"),
        (["rename", "meta.observer", "items.x"], 2, "is in another mapping"),
        (["set", "--where", "number >", "number=1"], 2, "character"),
        (["set", "meta.observer:=N # 2"], 2, "has a comment; use --string, or quote it"),
        (["get", "--where", "number = 1", "number"], 2, "write '==' to compare"),
        (["get", "--where", "number > 99", "number"], 1, "the condition holds for no file"),
        (["get", "observer"], 1, "observer: there is no such value; the tree has no key 'observer'"),
        (["get", "meta.observer.x"], 1, "meta.observer.x: there is no such value"),
        (["set", "meta.observer:="], 2, "the value is empty; write null"),
        (["set", "meta.observer:=2020-13-45"], 2, "the value '2020-13-45' is not valid YAML; use --string for text"),
        (["set", "number=1", "meta.observer=Eve"], 2, "is not a file; another value is set by -p meta.observer=Eve"),
        (["set", "--jobs", "0", "number=1"], 2, "--jobs 0: give a number of processes from 1 on"),
    ],
)
def test_what_is_refused(call: Call, night: Path, words: list[str], code: int, sentence: str) -> None:
    before = night.read_bytes()
    done = call(*words, night)
    assert done.code == code
    assert sentence in done.sentence
    assert night.read_bytes() == before


def test_a_record_of_nothing_is_not_kept(call: Call, night: Path) -> None:
    """The command can be given again after a mistake."""
    record = night.parent / "r.jsonl"
    assert call("set", "--record", record, "--where", "number > 99", "number=1", night).code == 0
    assert call("set", "--record", record, "nope.x=1", night).code == 1
    assert not record.exists()
    done = call("undo", record)
    assert (done.code, done.sentence) == (3, f"{record}: cannot be opened: No such file or directory")


def test_a_dry_run_prints_the_difference(call: Call, night: Path) -> None:
    before = night.read_bytes()
    done = call("set", "--dry-run", "items:=[4]", night)
    assert "-items: [1, 2, 3]\n+items: [4]\n" in done.out
    assert (done.code, night.read_bytes()) == (0, before)


# -- many files -------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_failure_stops_nothing(tmp_path: Path, call: Call, jobs: int) -> None:
    files = many(tmp_path, 6)
    files[2].write_bytes(b"not ASDF at all")
    files[4].unlink()
    words = ["set", "meta.observer=Grace", *files, "-j", jobs, "--where", "not number == 5"]
    done = own_process(tmp_path, *words) if jobs > 1 else call(*words)
    assert done.code == 4
    errors = [line for line in done.err.splitlines() if "set in 6 files" not in line]  # how far it is, if it is slow
    assert [line.split(":")[1].strip() for line in errors] == [str(files[2]), str(files[4])]
    assert done.out.splitlines()[-1] == "6 files: 3 changed, 0 already so, 1 not selected, 2 failed"
    assert call("get", "meta.observer", *(files[n] for n in (0, 1, 3, 5))).out.count("Grace") == 3
    again = call("set", "--json", "meta.observer=Grace", *files).json
    assert [one["changed"] for one in again] == [False, False, False, False, False, True]


def own_process(folder: Path, *words: object) -> Done:
    done = run(*ASDFFS, *words, env=environment_in(folder))
    return Done(done.returncode, done.stdout, done.stderr)


def test_what_was_recorded_is_undone(tmp_path: Path, call: Call) -> None:
    files = many(tmp_path, 3)
    before = [text_of(path) for path in files]
    observer = call("get", "meta.observer", files[1]).out
    record = tmp_path / "changes.jsonl"
    assert call("set", "--record", record, "meta.observer=Grace", "--create", "-p", "a.b=1", *files).code == 0
    done = call("set", "--record", record, "meta.observer=Eve", *files)
    assert (done.code, done.sentence) == (2, f"{record}: already exists; give --record another name")
    assert call("set", "a.b=2", files[1]).code == 0
    done = call("undo", record)
    assert (done.code, done.sentence) == (
        2,
        f"{files[1]}: a.b: not what was set, because it was changed since; it stays",
    )
    assert done.out == "3 files: 2 changed, 0 already so, 1 failed\n"
    assert [text_of(files[n]) for n in (0, 2)] == [before[0], before[2]]
    assert call("get", "meta.observer", "-p", "a.b", files[1]).out.split() == [*observer.split(), "2"]
    assert call("set", "a.b=1", files[1]).code == 0
    assert call("undo", record).out == "3 files: 1 changed, 2 already so\n"
    assert [text_of(path) for path in files] == before
    assert call("undo", record) == Done(0, "3 files: 0 changed, 3 already so\n", "")
    assert call("set", "a.b=2", "--create", files[1]).code == 0
    assert call("get", "a.b", files[1]).out == "2\n"
    other = tmp_path / "data.fits"
    other.write_bytes(b"SIMPLE\n\x80")
    done = own_process(tmp_path, "undo", other)
    assert (done.code, done.sentence) == (2, f"{other}: line 1 is not a line that --record writes")
    done = own_process(tmp_path, "undo", files[0])
    assert (done.code, f"{files[0]}: there are no old bytes of it" in done.sentence) == (1, True)


def text_of(path: Path) -> bytes:
    return path.read_bytes().partition(b"\n...")[0]


@pytest.mark.long
def test_killed_in_the_middle(tmp_path: Path, call: Call) -> None:
    """Every file is old or new, and the record brings the old ones back."""
    rng = random.Random(7)
    for turn in range(50 if DEEP else 3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        files = many(folder, 30)
        before = [text_of(path) for path in files]
        record = folder / "changes.jsonl"
        words = ["set", "--record", record, "meta.observer=A much longer name than before", *files]
        command = [*ASDFFS, *map(str, words)]
        process = subprocess.Popen(command, env=environment_in(tmp_path), stdout=subprocess.DEVNULL)
        goal = rng.randrange(1, 2 * len(files))
        wait_for_record(process, record, goal)
        process.send_signal(signal.SIGKILL)
        process.wait()
        values = call("get", "--json", "meta.observer", *files).json
        assert {one["value"] for one in values} <= {"Ada Lovelace", "A much longer name than before"}
        done = {line["file"] for line in map(json.loads, record.read_text().splitlines()) if line["state"] == "done"}
        assert {one["file"] for one in values if one["value"] != "Ada Lovelace"} >= done
        call("undo", record)
        assert [text_of(path) for path in files] == before


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("meta.observer:=012", "meta.observer was text, and is a number now"),
        ("meta.observer:=2027-06-02", "meta.observer was text, and is a date now"),
        ("meta.observer:=N. N.: visitor", "meta.observer was text, and is a mapping now"),
        ("number=one", "number was a number, and is text now"),
        ("number=null", "number was a number, and is null now"),
        ("number=2027-06-02", "number was a number, and is a date now"),
        ("number:=1e3", "number was a number, and is text now; in YAML 1.1 this number is written 1000.0"),
        ("data=5", "data was an array, and is a number now; it still has the tag ndarray-1.1.0"),
        ("meta.observer=null", ""),
        ("meta.observer=012", ""),
        ("meta.observer=2027-06-02", ""),
        ("meta.observer=N. N.: visitor", ""),
        ("meta.observer:='012'", ""),
        ("meta.exposure.time=1", ""),
        ("number=1e3", ""),
    ],
)
def test_a_change_that_may_not_be_meant_is_told(call: Call, tmp_path: Path, change: str, note: str) -> None:
    files = many(tmp_path, 2)
    done = call("set", change, files[0])
    assert (done.code, done.err) == (0, f"asdffs: {files[0]}: {note}\n" if note else "")
    (edit,) = call("set", "--json", change, files[1]).json[0]["edits"]
    assert note.startswith(f"{edit['path']} {edit['note']}" if edit["note"] else "")
    assert bool(edit["note"]) == bool(note)


def test_notes_about_many_files_are_one(call: Call, tmp_path: Path) -> None:
    files = many(tmp_path, 3)
    done = call("set", "meta.observer:=yes", *files)
    note = "meta.observer was text, and is a boolean now (and 2 more)"
    assert done.err == f"asdffs: {files[0]}: {note}\n"


def test_no_state_directory_is_made(tmp_path: Path, call: Call) -> None:
    """A change of one value keeps no drafts, also where the file grows into a new one."""
    files = many(tmp_path, 2)
    assert call("set", "meta.observer=" + "x" * 20_000, "--create", "-p", "a.b=1", *files).code == 0
    assert call("get", "a.b", files[1]).out == "1\n"
    assert not (tmp_path / "state").exists()


@pytest.mark.mount
def test_what_a_killed_mount_left_is_kept_before_a_value_is_set(night: Path, call: Call) -> None:
    with mounted(night, code=6) as mount:
        (mount.point / "notes").write_text("remember")
        mount.kill()
    done = call("set", "number=5", night)
    assert (done.code, "kept from the last mount: " in done.err) == (0, True)
    assert (night.parent / "night.asdf.leftover/notes").read_text() == "remember"


def test_an_item_of_a_flow_mapping_is_told_without_its_comma(night: Path, call: Call) -> None:
    assert call("set", "meta.more:={a: 1}", night).code == 0
    assert call("set", "meta.more.b=2", night).out == f"{night}: meta.more.b: added b: 2\n"


def test_read_only_file(night: Path, call: Call) -> None:
    night.chmod(0o444)
    done = call("set", "number=5", night)
    if os.getuid():
        assert done.code == 8
        assert done.sentence.startswith(f"{night}: Permission denied")
    else:
        assert done.code == 0, "root may"


@pytest.mark.mount
def test_a_mounted_file_is_changed_through_its_mount(night: Path, call: Call) -> None:
    with mounted(night) as mount:
        done = call("set", "number=5", night)
        assert done.code == 5
        assert f"change it there, in {mount.tree}, or first run 'asdffs umount {mount.file}'" in (done.sentence)
        assert call("get", "number", night).out == "0\n"


def wait_for_record(process: subprocess.Popen[bytes], record: Path, lines: int) -> None:
    until(lambda: process.poll() is not None or (record.exists() and record.read_bytes().count(b"\n") >= lines))


@contextlib.contextmanager
def leased(path: Path) -> Iterator[None]:
    """Nobody else can open the file for writing."""
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # it tells that somebody tries
    with open(path, "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        yield
    signal.signal(signal.SIGIO, before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted(tmp_path: Path, call: Call, jobs: int) -> None:
    """Ctrl-C goes to all processes; each completes its file.  The last file cannot be opened until then."""
    files = many(tmp_path, 60)
    record = tmp_path / "changes.jsonl"
    words = ["set", "-j", jobs, "--record", record, "meta.observer=Grace", *files]
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    command = [*ASDFFS, *map(str, words)]
    with leased(files[-1]), subprocess.Popen(command, env=environment_in(tmp_path), **more) as process:
        until(lambda: record.exists() and record.read_bytes().count(b"done") >= 2)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not list(tmp_path.glob(".*journal*"))
    changed = call("get", "meta.observer", *files).out.count("Grace")
    assert 2 <= changed < len(files)
    assert changed == record.read_text().count('"done"')


@pytest.mark.parametrize(
    "words",
    [
        ["set", "number=\udcff"],
        ["set", "--string", "number=\udcff"],
        ["set", "number:={k: \udcff}"],
        ["set", "\udcff=1"],
        ["rename", "number", "\udcff"],
    ],
)
def test_words_that_are_not_utf8_are_refused(call: Call, tmp_path: Path, words: list[str]) -> None:
    file = made(tmp_path / "f.asdf")
    before = file.read_bytes()
    done = call(*words, file)
    assert done.code == 2
    assert re.search("is not UTF-8|YAML has no way to write", done.sentence)
    assert file.read_bytes() == before


def test_values_that_yaml_would_change_are_refused(call: Call, tmp_path: Path) -> None:
    file = made(tmp_path / "f.asdf")
    for value, words in (("# x", "has a comment"), ("#2", "has a comment"), ("l1\nl2", "has line breaks")):
        done = call("set", f"meta.observer:={value}", file)
        assert (done.code, words in done.sentence) == (2, True)
    assert call("set", "--string", "meta.observer=l1\nl2", file).code == 0
    assert call("get", "--json", "meta.observer", file).json == "l1\nl2"


def test_a_scheme_that_is_not_known(call: Call) -> None:
    done = call("get", "n", "ftp://host/a.asdf")
    sentence = "ftp://host/a.asdf: ftp:// is none of https://, http://, s3://, gs://, az://, file://"
    assert (done.code, done.sentence) == (2, sentence)


def test_get_with_the_file_first(call: Call, tmp_path: Path) -> None:
    file = made(tmp_path / "f.asdf")
    done = call("get", file, "number")
    sentence = f"{file}: is a file; the path of the value comes first: asdffs get PATH FILE"
    assert (done.code, done.sentence) == (2, sentence)


def test_a_terminal_that_lacks_a_character(tmp_path: Path) -> None:
    file = made(tmp_path / "f.asdf")
    file.write_bytes(file.read_bytes().replace(b"Ada Lovelace", "Ada Lové".encode().ljust(12)))
    environment = {**environment_in(tmp_path), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-P", "-m", "asdffs", "get", "meta.observer", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert done.stdout.strip() == rb"Ada Lov\xe9"

"""``asdffs tree`` and ``asdffs grep``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import asdf
import numpy as np
import pytest
import yaml
from support.commands import Call, Done
from support.mounts import environment_in
from support.terminal import on_terminal

TREE = {
    "meta": {"observer": "Ada Lovelace", "exposure": {"type": "WFI_IMAGE", "steps": [1, 2]}},
    "note": "2027-06-01",
}


@pytest.fixture
def night(tmp_path: Path) -> Path:
    path = tmp_path / "night.asdf"
    asdf.AsdfFile(TREE | {"data": np.arange(10)}).write_to(path)
    return path


def test_the_text_is_as_it_is_in_the_file(call: Call, night: Path) -> None:
    text = night.read_bytes().partition(b"\n...\n")[0].decode()
    assert call("tree", night).out == f"{text}\n...\n"
    assert call("tree", night, "meta.exposure").out == "steps: [1, 2]\ntype: WFI_IMAGE\n"


def test_other_forms(call: Call, night: Path) -> None:
    wanted = TREE["meta"]
    assert call("tree", "--json", night, "meta").json == wanted
    assert yaml.safe_load(call("tree", "--yaml", night, "meta").out) == wanted
    assert call("tree", "--json", "--depth", 1, night, "meta").json == {
        "exposure": "{2 keys}",
        "observer": "Ada Lovelace",
    }
    lines = call("tree", "--outline", night).out.splitlines()
    assert "data: int64 [10], block 0" in lines
    assert lines[lines.index("meta:") :][:3] == ["meta:", "  exposure:", "    steps: [1, 2]"]
    assert call("tree", "--outline", night, "note").out == ".: 2027-06-01\n"


def test_the_outline_on_a_terminal(night: Path, tmp_path: Path) -> None:
    shown = on_terminal(
        [sys.executable, "-m", "asdffs", "tree", str(night), "meta"],
        {**environment_in(tmp_path), "TERM": "xterm"},
        tmp_path,
    )
    assert "\x1b[1mobserver\x1b[0m: \x1b[36mAda Lovelace\x1b[0m" in shown


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [(["nope"], 1, "the tree has no key 'nope'"), (["--depth", "0"], 2, "give a number of levels from 1 on")],
)
def test_what_tree_refuses(call: Call, night: Path, words: list[str], code: int, sentence: str) -> None:
    done = call("tree", night, *words)
    assert (done.code, sentence in done.sentence) == (code, True)


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["WFI"], ["meta.exposure.type: WFI_IMAGE"]),
        (["-i", "wfi|lovelace"], ["meta.exposure.type: WFI_IMAGE", "meta.observer: Ada Lovelace"]),
        (["expos"], ["meta.exposure: {2 keys}"]),
        (["^2$"], ["meta.exposure.steps[1]: 2"]),
        (["-F", "2027-06"], ["note: 2027-06-01"]),
        (["-c", "A"], ["10"]),
    ],
)
def test_matches(call: Call, night: Path, words: list[str], lines: list[str]) -> None:
    done = call("grep", *words, night)
    found = [line for line in done.out.splitlines() if not line.startswith(("history", "asdf_library"))]
    if words[0] == "-c":
        assert int(done.out) == len(json.loads(call("grep", "--json", words[1], night).out))
    else:
        assert sorted(found) == sorted(lines)


def test_several_files(call: Call, night: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.asdf"
    asdf.AsdfFile({"note": "nothing"}).write_to(other)
    assert call("grep", "-l", "WFI", night, other).out == f"{night}\n"
    assert call("grep", "WFI", night, other).out == f"{night}: meta.exposure.type: WFI_IMAGE\n"
    (one,) = call("grep", "--json", "WFI", other, night).json
    assert one == {"file": str(night), "path": "meta.exposure.type", "value": "WFI_IMAGE"}
    assert call("grep", "never", night, other) == Done(1, "", "")
    done = call("grep", "WFI", tmp_path / "gone", night)
    assert (done.code, done.out) == (3, f"{night}: meta.exposure.type: WFI_IMAGE\n")
    assert call("grep", "(a*", night).code == 2


def test_a_file_that_cannot_have_a_match_is_not_parsed(call: Call, night: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.asdf"
    broken.write_bytes(b"#ASDF 1.0.0\n%YAML 1.1\n---\n{a: [Lovelace\n...\n")
    assert call("grep", "Hopper", night, broken) == Done(1, "", "")
    done = call("grep", "-c", "Ada", night, broken)
    assert (done.code, done.out, done.err) == (0, f"{night}:1\n{broken}:0\n", "")
    assert call("grep", "Lovelace", night, broken).code == 4

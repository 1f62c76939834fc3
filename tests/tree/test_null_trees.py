"""A tree that is null is an empty mapping, as the asdf library reads it."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import asdf
import pytest
from support.tree_texts import HEAD

import asdffs
from asdffs.cli.main import main
from asdffs.tree.snippets import parse_value
from asdffs.tree.tape import Tape
from asdffs.tree.value_edits import set_value

START = HEAD[: HEAD.index("---") + 3]
TREES = ["", " !core/asdf-1.1.0", " !core/asdf-1.1.0  # none", " ~  # none", " null", " NULL", " ''", " &a"]


def read(text: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with asdf.open(io.BytesIO(text.encode())) as file:
            return dict(file.tree)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_values_can_be_added(tree: str, newline: str) -> None:
    text = f"{START}{tree}\n...\n".replace("\n", newline)
    assert read(text) == {}
    edit = set_value(Tape(text), ("a", "b"), parse_value("1"), create=True)
    assert edit is not None
    assert {key: value for key, value in read(edit.apply(text)).items() if key == "a"} == {"a": {"b": 1}}


def test_what_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "n.asdf"
    path.write_text(f"{START} !core/asdf-1.1.0\n...\n")
    with asdffs.open(path) as document:
        assert (document.values.plain(), len(document.values)) == ({}, 0)
    for words in (["get", "--json", "."], ["tree", "--json"]):
        assert main([*words, str(path)]) == 0
        assert json.loads(capsys.readouterr().out) == {}

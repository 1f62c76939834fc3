"""``scripts/interop --suites`` finds what differs, keeps what tests write, and its table is in the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import asdf
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
WRITER = """
import asdf, io

def test_writes(tmp_path):
    for place in (tmp_path / "a.asdf", tmp_path / "b.asdf", io.BytesIO()):
        asdf.AsdfFile({"a": 1}).write_to(place)
    with asdf.open(tmp_path / "a.asdf", mode="rw") as file:
        file["a"] = 2
        file.update()
    (tmp_path / "by hand.asdf").write_bytes(b"#ASDF 1.0.0\\n%YAML 1.1\\n--- {a: 3}\\n...\\n")
    with asdf.open(tmp_path / "by hand.asdf"):
        pass
"""


@pytest.fixture
def suites(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    from scripts import interop_suites

    return interop_suites


def test_a_file_is_compared_and_edited(suites: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "files" / "data.asdf"
    path.parent.mkdir()
    record = np.zeros(2, [("x", "i4"), ("y", "f8", (2,))])
    tree = {"n": 1, "a": np.arange(5), "b": [np.ma.masked_array([1, 2], [0, 1]), {"c": record}], "d": np.ones(3)}
    file = asdf.AsdfFile(tree)
    file.set_array_storage(tree["d"], "inline")
    file.write_to(path)
    whole = path.read_bytes()
    assert suites.judge(path, tmp_path) == suites.Result(5, [], edited=True)
    assert path.read_bytes() == whole
    real = suites.read

    def wrong(path: Path, *, core: bool) -> object:
        found = real(path, core=core)
        found.leaves["a",][3] = 9
        found.leaves["n",] = 2
        return found

    with monkeypatch.context() as patched:
        patched.setattr(suites, "read", wrong)
        result = suites.judge(path, tmp_path)
    assert result.arrays == 4
    assert result.differences[:2] == ["value n: 1 for 2", "array a: int64 (5,) for int64 (5,)"]
    assert {suites.reason_of(f"written test.py: {one}") for one in result.differences} == {suites.UNEXPLAINED}
    place = whole.index(b"\xd3BLK") + 60
    path.write_bytes(whole[:place] + b"\x07" + whole[place + 1 :])
    (told,) = suites.judge(path, tmp_path).differences
    assert told.startswith("check: its checksum is")


def test_what_tests_write_and_open_is_kept_once(tmp_path: Path) -> None:
    (tmp_path / "test_writer.py").write_text(WRITER)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "scripts.interop_capture"]
    command += ["--asdf-capture", str(tmp_path / "kept"), f"--basetemp={tmp_path / 'tmp'}", "test_writer.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout
    listed = json.loads((tmp_path / "kept" / "files.json").read_text())
    assert listed["skipped"] == {}
    kept = [(one["verb"], (tmp_path / "kept" / one["file"]).read_bytes()[-10:]) for one in listed["files"]]
    assert kept == [("written", b"\na: 1\n...\n"), ("written", b"\na: 2\n...\n"), ("opened", b"{a: 3}\n...\n"[-10:])]


def test_the_page_has_a_row_for_each_suite(suites: ModuleType) -> None:
    page = suites.PAGE.read_text()
    made = page.partition(suites.BEGIN)[2].partition(suites.END)[0]
    counted = re.findall(r"^\| ([\w-]+) \| [\d.]+ \| [^|]+ \| (\d+) \| \d+ \| (\d+) \|$", made, re.MULTILINE)
    assert [name for name, _, _ in counted] == [suite.name for suite in suites.SUITES]
    assert all(0 < int(edited) <= int(files) for _, files, edited in counted)
    assert suites.UNEXPLAINED not in made
    assert suites.with_table(page, made) == page

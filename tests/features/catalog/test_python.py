"""``asdffs.find``: the catalogue from Python."""

from __future__ import annotations

from pathlib import Path

import asdf
import numpy as np
import pandas
import pytest
from support.mounts import asdffs as command
from support.mounts import environment_in

import asdffs
from asdffs.errors import AsdffsError

pytestmark = pytest.mark.long

FLAT = 'meta.type == "FLAT"'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(6):
        meta = {"type": "FLAT" if number % 2 else "DARK", **({"time": number} if number != 3 else {})}
        path = tmp_path / "archive" / f"{number % 3}" / f"{number}.asdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        asdf.AsdfFile({"meta": meta, "data": np.arange(number)}).write_to(path)
    return tmp_path / "archive"


def test_paths_and_columns(folder: Path) -> None:
    found = asdffs.find(FLAT, folder, fresh=True)
    assert found == [str(folder / "0" / "3.asdf"), str(folder / "1" / "1.asdf"), str(folder / "2" / "5.asdf")]
    assert asdffs.find(FLAT) == found
    assert asdffs.find(FLAT, folder / "1", str(folder / "2")) == found[1:]
    table = asdffs.find(FLAT, columns=["meta.time", "meta.type"])
    assert table == {"file": found, "meta.time": [None, 1, 5], "meta.type": ["FLAT"] * 3}
    assert pandas.DataFrame(table)["meta.time"].sum() == 6
    assert len(asdffs.find()) == 6
    assert asdffs.find("meta.time > 99", columns=["meta.time"]) == {"file": [], "meta.time": []}


def test_the_same_catalogue_as_the_command(folder: Path, tmp_path: Path) -> None:
    environment = environment_in(tmp_path)
    assert command("index", "--catalog", tmp_path / "c.db", folder, environment=environment).returncode == 0
    told = command("find", "--catalog", tmp_path / "c.db", FLAT, environment=environment).stdout.splitlines()
    assert asdffs.find(FLAT, catalog=tmp_path / "c.db") == told


def test_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AsdffsError):
        asdffs.find(FLAT, catalog=tmp_path / "none.db")
    asdffs.find(None, folder, fresh=True)
    with pytest.raises(AsdffsError, match="there is no such file or directory"):
        asdffs.find(FLAT, tmp_path / "none")
    with pytest.raises(AsdffsError, match="meta.type"):
        asdffs.find("meta.type ==")

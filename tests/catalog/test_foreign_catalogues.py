"""Catalogues that asdffs did not make, or not alone: nothing is changed, and nothing in them is run."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.commands import Done, command
from support.mounts import environment_in

from asdffs.document.scanning import read_text
from asdffs.workflows.catalog import indexing
from asdffs.workflows.catalog.schema import _OLD_SCHEMA, _SCHEMA

Call = Callable[..., Done]
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n--- !<tag:stsci.edu:asdf/core/asdf-1.1.0>\n"
THESES = "CREATE TABLE theses (title TEXT); INSERT INTO theses VALUES ('ten years of work');"


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.asdf").write_bytes(HEAD + b"{value: %d}\n...\n" % number)
    return folder


def sqlite(path: Path, script: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


@pytest.mark.parametrize(
    "script",
    [
        THESES,
        f"{THESES} PRAGMA user_version = 1",
        f"{THESES} PRAGMA user_version = 2",
        f"{_SCHEMA} {THESES} PRAGMA user_version = 2",
        f"{_SCHEMA} PRAGMA user_version = 2; PRAGMA application_id = 7",
        _SCHEMA.replace("standard TEXT", "standard TEXT CHECK (standard != 'x')") + "PRAGMA user_version = 2",
        f"PRAGMA journal_mode = WAL; {THESES}",
        "CREATE TABLE theses (title TEXT); DROP TABLE theses",
    ],
)
def test_regression_the_database_of_another_program_is_never_changed(
    tmp_path: Path, call: Call, folder: Path, script: str
) -> None:
    mine, good = tmp_path / "mine" / "mine.db", tmp_path / "good.db"
    mine.parent.mkdir()
    sqlite(mine, script)
    assert call("index", "--catalog", good, folder).code == 0
    before = mine.read_bytes()
    for words in (
        ("index", "--catalog", mine, folder),
        ("index", "--merge", "--catalog", mine, good),
        ("index", "--merge", "--catalog", good, mine),
        ("index", "--catalog", mine, "--to", "parquet", tmp_path / "set", folder),
        ("find", "--catalog", mine, "exists value"),
        ("find", "--fresh", "--catalog", mine, "exists value", folder),
        ("set", "--catalog", mine, "--where", "exists value", "value=9", folder),
    ):
        done = call(*words)
        assert (done.code, "is no catalogue" in done.sentence) == (8, True), done
        assert done.sentence.endswith("; name another file with --catalog")
        assert (mine.read_bytes(), [path.name for path in mine.parent.iterdir()]) == (before, ["mine.db"])


@pytest.mark.parametrize(("mark", "version"), [(0, 2), (0, 1), (0x61736466, 1), (0x61736466, 3)])
def test_an_older_catalogue_is_made_anew(tmp_path: Path, call: Call, folder: Path, mark: int, version: int) -> None:
    """Those of asdffs 0.2 have no mark, but exactly our tables."""
    old = tmp_path / "old.db"
    row = "INSERT INTO files VALUES (1, x'2f67', '', 1, '', '', '', '', '', 1, 0);"
    sqlite(old, f"{_OLD_SCHEMA} {row} PRAGMA user_version = {version}; PRAGMA application_id = {mark}")
    assert "another version; 'asdffs index DIR' makes it" in call("find", "--catalog", old, "exists value").sentence
    done = call("index", "--catalog", old, folder)
    assert (done.code, "is made anew: index all its directories again" in done.err) == (0, True), done
    assert call("index", "--catalog", old, folder).err == ""
    assert len(call("find", "--catalog", old, "not exists nothing").out.splitlines()) == 3


def test_an_empty_file_becomes_a_catalogue(tmp_path: Path, call: Call, folder: Path) -> None:
    (tmp_path / "new.db").touch()
    assert "is empty" in call("find", "--catalog", tmp_path / "new.db", "exists value").sentence
    assert call("index", "--catalog", tmp_path / "new.db", folder).code == 0


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TRIGGER t AFTER DELETE ON files BEGIN INSERT INTO files SELECT * FROM saved; END",
        "ALTER TABLE files RENAME TO old; CREATE VIEW files AS SELECT * FROM old",
        "CREATE TABLE more (a)",
        "CREATE INDEX more ON files (path) WHERE error = 'x'",
        "DROP TABLE arrays",
    ],
)
def test_regression_a_catalogue_with_foreign_tables_is_refused(
    tmp_path: Path, call: Call, folder: Path, script: str
) -> None:
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    sqlite(catalog, script)
    for words in (("index",), ("find", "exists value"), ("set", "--where", "exists value", "value=9")):
        done = call(words[0], "--catalog", catalog, *words[1:], folder)
        assert (done.code, "asdffs did not make" in done.sentence) == (8, True), done
    assert call("get", "value", folder / "1.asdf").out == "1\n"


@pytest.mark.parametrize("places", ["'x'", "x'00'", "-1", "1e300", str(1 << 62)])
def test_regression_a_number_of_places_that_lies_is_bounded(
    tmp_path: Path, call: Call, folder: Path, places: str
) -> None:
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    sqlite(catalog, f"UPDATE chunks SET places = {places}")
    for words in (
        ("find", "exists nothing"),
        ("find", "value > 0"),
        ("find", "value > 0 or exists nothing"),
        ("index",),
    ):
        done = call(words[0], "--catalog", catalog, *words[1:], folder)
        assert done.code in (0, 1, 8), done


def test_regression_damaged_pages_are_told(tmp_path: Path, call: Call, folder: Path) -> None:
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    raw = bytearray(catalog.read_bytes())
    raw[4096::37] = bytes(byte ^ 0x5A for byte in raw[4096::37])
    catalog.write_bytes(raw)
    for words in (("find", "value > 0"), ("index",)):
        done = call(words[0], "--catalog", catalog, *words[1:], folder)
        assert (done.code, "is damaged" in done.sentence) == (8, True), done


@pytest.mark.parametrize("place", ["archive/../private.asdf", "archive/link/private.asdf", "private.asdf"])
def test_regression_a_catalogue_selects_no_file_outside_of_the_directory(
    tmp_path: Path, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Another user, who may write the catalogue, adds a path just after the index."""
    catalog = tmp_path / "archive.db"
    (tmp_path / "private.asdf").write_bytes(HEAD + b"{value: 2}\n...\n")
    (folder / "link").symlink_to(tmp_path)
    row = "SELECT 99, CAST(? AS BLOB), '', 1, '', '', '', '', '', chunk, place FROM files WHERE place = 2"

    def update(*words: Any, **more: Any) -> Any:
        done = indexing.update(*words, **more)
        with closing(sqlite3.connect(catalog)) as connection, connection:
            connection.execute(f"INSERT INTO files {row}", (f"{tmp_path}/{place}",))
        return done

    monkeypatch.setattr("asdffs.cli.index.update", update)
    done = call("set", "--catalog", catalog, "--where", "value == 2", "value=9", folder)
    assert (done.code, call("get", "value", folder / "2.asdf").out) == (0, "9\n"), done
    assert call("get", "value", tmp_path / "private.asdf").out == "2\n"


def test_regression_the_condition_holds_for_the_file_that_is_changed(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program writes the file after the condition was asked, and before the file is locked."""

    def read(path: str) -> bytes:
        text = read_text(path)
        (folder / "2.asdf").write_bytes(HEAD + b"{value: 0}\n...\n")
        return text

    monkeypatch.setattr("asdffs.cli.value_files.read_text", read)
    done = call("set", "--where", "value == 2", "value=9", folder / "2.asdf")
    assert (done.code, done.out) == (0, f"{folder}/2.asdf: the condition does not hold\n")
    assert call("get", "value", folder / "2.asdf").out == "0\n"

"""Catalogues that asdffs did not make, or not alone: nothing is changed, and nothing in them is run."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.commands import Done, command
from support.mounts import environment_in

from asdffs.document.scanning import read_text
from asdffs.errors import AsdffsError
from asdffs.features.catalog import indexing
from asdffs.features.catalog import sqlite as catalog_file
from asdffs.features.catalog.chunks import pack_column, unpack_column
from asdffs.features.catalog.parquet import export
from asdffs.features.catalog.query import candidates
from asdffs.features.catalog.sqlite import _SCHEMA, _SCHEMA_3, _SCHEMA_4, _SCHEMA_5
from asdffs.features.catalog.store import WritableCatalog, open_catalog
from asdffs.tree.conditions import parse_condition

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
        assert (done.code, "is no catalogue" in done.sentence) == (4, True), done
        assert done.sentence.endswith("; name another file with --catalog")
        assert (mine.read_bytes(), [path.name for path in mine.parent.iterdir()]) == (before, ["mine.db"])


@pytest.mark.parametrize("places", ["a" * 3000, b"a" * 3000, 1 << 62, -1, 1.5, None])
def test_regression_a_number_of_places_that_is_none_took_gigabytes(places: Any) -> None:
    with pytest.raises(ValueError, match="no number of places"):
        unpack_column(pack_column([1, 2]), places)


@pytest.mark.parametrize(("mark", "version"), [(0, 2), (0, 1), (0x61736466, 1), (0x61736466, 3)])
def test_an_older_catalogue_is_made_anew(tmp_path: Path, call: Call, folder: Path, mark: int, version: int) -> None:
    """Those of asdffs 0.2 have no mark, but exactly our tables."""
    old = tmp_path / "old.db"
    row = "INSERT INTO files VALUES (1, x'2f67', '', 1, '', '', '', '', '', 1, 0);"
    sqlite(old, f"{_SCHEMA_3} {row} PRAGMA user_version = {version}; PRAGMA application_id = {mark}")
    assert "another version; 'asdffs index DIR' makes it" in call("find", "--catalog", old, "exists value").sentence
    done = call("index", "--catalog", old, folder)
    assert (done.code, "is made anew: index all its directories again" in done.err) == (0, True), done
    assert call("index", "--catalog", old, folder).err == ""
    assert len(call("find", "--catalog", old, "not exists nothing").out.splitlines()) == 3


@pytest.mark.parametrize(("schema", "version"), [(_SCHEMA_4, 4), (_SCHEMA_5, 5)])
def test_a_catalogue_with_later_tables_is_made_anew(
    tmp_path: Path, call: Call, folder: Path, schema: str, version: int
) -> None:
    old = tmp_path / "old.db"
    sqlite(old, f"{schema} PRAGMA user_version = {version}; PRAGMA application_id = {0x61736466}")
    done = call("index", "--catalog", old, folder)
    assert (done.code, "is made anew: index all its directories again" in done.err) == (0, True), done
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
        assert (done.code, "asdffs did not make" in done.sentence) == (4, True), done
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
        assert done.code in (0, 1, 4), done


def test_regression_damaged_pages_are_told(tmp_path: Path, call: Call, folder: Path) -> None:
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    raw = bytearray(catalog.read_bytes())
    raw[4096::37] = bytes(byte ^ 0x5A for byte in raw[4096::37])
    catalog.write_bytes(raw)
    for words in (("find", "value > 0"), ("index",)):
        done = call(words[0], "--catalog", catalog, *words[1:], folder)
        assert (done.code, "is damaged" in done.sentence) == (4, True), done


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("columns", "packed = x'00'"),
        ("columns", "packed = NULL || 'x'"),
        ("columns", "kinds = 'x'"),
        ("rare", "value = '['"),
        ("rare", "value = ''"),
        ("rare", "value = x'00'"),
        ("rare", "value = '[\"date\", 5]'"),
        ("rare", "place = place + 7000000000000000000"),
        ("rare", "place = 'x'"),
        ("rare", "kinds = 1e300"),
        ("weights", "weight = 'x'"),
        ("paths", "path = x'ff' || id"),
        ("files", "place = 'x'"),
        ("files", "path = 7"),
        ("files", "left_out = x'ff'"),
    ],
)
def test_any_change_of_a_table_is_told_or_harmless(
    tmp_path: Path, call: Call, folder: Path, table: str, change: str
) -> None:
    catalog = tmp_path / "archive.db"
    (folder / "own.asdf").write_bytes(HEAD + b"{own: {a: 1, b: x}, value: 5}\n...\n")
    assert call("index", "--catalog", catalog, folder).code == 0
    sqlite(catalog, f"PRAGMA ignore_check_constraints = 1; UPDATE OR IGNORE {table} SET {change}")
    (folder / "more.asdf").write_bytes(HEAD + b"{value: 6}\n...\n")
    for words in (
        ("find", "own.a == 1 or not exists own.b"),
        ("find", "value > 0 and own"),
        ("find", "--sql", "SELECT count(*), max(value) FROM scalar"),
        ("index", "--to", "parquet", tmp_path / "set", "--force"),
        ("index", "--merge", "--catalog", tmp_path / "all.db", catalog),
        ("index", folder),
    ):
        if "parquet" in words and find_spec("pyarrow") is None:
            continue
        done = call(words[0], "--catalog", catalog, *words[1:])
        assert done.code in (0, 1, 4), done


@pytest.mark.long
def test_regression_small_columns_do_not_take_all_memory(tmp_path: Path, call: Call, folder: Path) -> None:
    """Files of a few hundred kB: very many values, lists, or one text, which SQL and ``find`` unpack."""
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    for content in (b"[" + b"1," * (1 << 26) + b"1]", b"[" + b"[]," * (1 << 25) + b"[]]", b'["' + b'\\"' * (1 << 26)):
        with closing(sqlite3.connect(catalog)) as connection, connection:
            connection.execute("UPDATE columns SET packed = ?", (zlib.compress(content),))
            connection.execute("UPDATE chunks SET places = 1000")
        for words in (("find", "value > 0"), ("find", "--sql", "SELECT * FROM scalar")):
            script = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
            script += "from asdffs.cli.main import main; sys.exit(main(sys.argv[1:]))"
            command = [sys.executable, "-c", script, words[0], "--catalog", str(catalog), *words[1:]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, "is damaged" in done.stderr) == (4, True), done


def test_each_error_of_sqlite_has_its_exit_code(
    tmp_path: Path, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a file that must not grow, another program that writes: what the catalogue had stays."""
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, folder).code == 0
    words = ("find", "--catalog", catalog, "exists value")
    before = call(*words).out
    own = ", ".join(f"k{number}: {number}" for number in range(5000))
    (folder / "own.asdf").write_bytes(HEAD + f"{{own: {{{own}}}}}\n...\n".encode())

    def limited(path: str, parameters: str) -> sqlite3.Connection:
        connection = connected(path, parameters)
        connection.execute("PRAGMA max_page_count = 30")
        return connection

    connected = catalog_file._connected
    with monkeypatch.context() as patch:
        patch.setattr(catalog_file, "_connected", limited)
        done = call("index", "--catalog", catalog, folder)
    assert (done.code, "the disk is full" in done.sentence, call(*words).out) == (8, True, before), done
    monkeypatch.setattr(catalog_file, "_WAIT", 0.0)
    with closing(sqlite3.connect(catalog, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        for one in (words, ("index", "--catalog", catalog, folder)):
            done = call(*one)
            assert (done.code, done.sentence) == (5, f"{catalog}: is being written by another process")
    assert call(*words).out == before
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17)); "
    script += "from asdffs.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "index", "--catalog", str(catalog), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "SQLite says: disk I/O error" in ended.stderr) == (8, True), ended
    assert call(*words).out == before


@pytest.mark.parametrize("place", ["archive/../private.asdf", "archive/link/private.asdf", "private.asdf"])
def test_regression_a_catalogue_selects_no_file_outside_of_the_directory(
    tmp_path: Path, call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Another user, who may write the catalogue, adds a path just after the index."""
    catalog = tmp_path / "archive.db"
    (tmp_path / "private.asdf").write_bytes(HEAD + b"{value: 2}\n...\n")
    (folder / "link").symlink_to(tmp_path)
    row = "SELECT 99, CAST(? AS BLOB), '', 1, '', '', '', '', '', '', chunk, place FROM files WHERE place = 2"

    def update(*words: Any, **more: Any) -> Any:
        done = indexing.update(*words, **more)
        with closing(sqlite3.connect(catalog)) as connection, connection:
            connection.execute(f"INSERT INTO files {row}", (f"{tmp_path}/{place}",))
        return done

    monkeypatch.setattr("asdffs.features.catalog.commands.index.update", update)
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


class Nowhere:
    """A place for Parquet files."""

    def put(self, name: str, content: bytes) -> None:
        pass

    complete = abandon = lambda self: None


def test_a_mutant_of_a_catalogue_is_refused_or_harmless(tmp_path: Path, call: Call, folder: Path) -> None:
    """Bytes changed, above all in the heads of pages and cells: nothing ends but with an error of ours."""
    good, mutant, all_of_them = tmp_path / "good.db", tmp_path / "mutant.db", tmp_path / "all.db"
    (folder / "own.asdf").write_bytes(HEAD + b"{own: {a: 1, b: [x, 2026-01-01]}, value: 5}\n...\n")
    assert call("index", "--catalog", good, folder).code == 0
    raw, chance = good.read_bytes(), random.Random(7)
    condition = parse_condition("value > 0 and own.a == 1 or not exists own.b")

    def look(catalog: WritableCatalog) -> None:
        list(candidates(catalog, condition, [], [("own", "b", 0)]))
        export(catalog, [], Nowhere())
        for _ in catalog.select("SELECT * FROM scalar")[1]:
            pass

    def merge(catalog: WritableCatalog) -> None:
        catalog.merge(str(mutant))

    def update(catalog: WritableCatalog) -> None:
        os.utime(folder / "2.asdf")
        indexing.update(catalog, [os.fsencode(folder)], indexing.Way(1), lambda done, total: None)

    for _ in range(5000 if os.environ.get("ASDFFS_DEEP") else 50):
        content = bytearray(raw)
        for _ in range(chance.choice([1, 1, 2, 8])):
            page = chance.randrange(len(raw) // 4096) * 4096
            place = page + chance.choice(
                [chance.randrange(120), 4095 - chance.randrange(400), chance.randrange(4096)]
            )
            content[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        mutant.write_bytes(content)
        all_of_them.unlink(missing_ok=True)
        for path, way in ((mutant, look), (all_of_them, merge), (mutant, update)):
            with contextlib.suppress(AsdffsError), open_catalog(str(path), writable=way is not look) as catalog:
                way(catalog)

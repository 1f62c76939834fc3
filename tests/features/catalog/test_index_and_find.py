"""``index`` and ``find``: equal to opening every file, in archives as odd as they are."""

from __future__ import annotations

import csv
import io
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.commands import Done, command
from support.mounts import LIMIT, environment_in, run
from support.processes import until
from support.samples import DATA, MASK, block_bytes, odd_file, zlib_block

from asdffs.document.scanning import read_text
from asdffs.features.catalog import chunks
from asdffs.features.catalog.chunks import pack_column, unpack_column
from asdffs.features.catalog.store import open_catalog
from asdffs.tree.comparing import MISSING, Mark
from asdffs.tree.conditions import holds, parse_condition
from asdffs.tree.lookups import Values

Call = Callable[..., Done]
HEAD = b"#ASDF 1.0.0\n#ASDF_STANDARD 1.5.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
SCALARS = [
    "1",
    "1.5",
    "-3",
    "true",
    "no",
    "null",
    "text",
    "'1'",
    "2026-11-24",
    "2026-11-24 10:11:12",
    ".inf",
    '"a\\tb"',
]
KEYS = ["a", "b", "'odd key'", "c.d", "é", "e"]
CONDITIONS = [
    "a == 1",
    "a != 1",
    "a > 0 and not b.a == true",
    "exists b",
    "b",
    "not exists b.a",
    'a == "text" or e[1] < 2',
    "a in [1, 'text', true]",
    '"odd key" =~ "^t"',
    'a >= "2026-11-24"',
    '"c.d" == null',
    "é == 1.5",
    "missing.everywhere != 3",
    "e[0] == true and a",
]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")})


def random_tree(chance: random.Random, depth: int = 0) -> str:
    """A flow mapping with keys of ``KEYS``, or below it a scalar or a list."""
    kind = chance.randrange(4) if depth else 0
    if kind == 0 and depth < 3:
        keys = chance.sample(KEYS, chance.randrange(1, len(KEYS)))
        return "{" + ", ".join(f"{key}: {random_tree(chance, depth + 1)}" for key in keys) + "}"
    if kind == 1:
        return "[" + ", ".join(random_tree(chance, 3) for _ in range(chance.randrange(4))) + "]"
    return chance.choice(SCALARS)


def write(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(HEAD + random_tree(random.Random(seed)).encode() + b"\n...\n")


def by_opening(folder: Path, text: str) -> list[str]:
    """The files for which a condition holds, each opened by itself."""
    condition = parse_condition(text)
    return [str(path) for path in sorted(folder.rglob("*.asdf")) if Values(read_text(str(path))).hold(condition, str)]


@pytest.mark.parametrize("seed", range(3))
def test_find_is_equal_to_opening_each_file(
    tmp_path: Path, call: Call, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after files changed, came and went; with chunks of a few files, or of few bytes."""
    monkeypatch.setattr("asdffs.features.catalog.indexing.FILES", 7)
    for module in ("reading", "indexing") if seed == 1 else ():
        monkeypatch.setattr(f"asdffs.features.catalog.{module}.WEIGHT", 30_000)
    folder = tmp_path / "archive"
    chance = random.Random(seed)
    for number in range(40):
        write(folder / f"{number % 3}/{number}.asdf", seed * 1000 + number)
    for _ in range(3):
        done = call("index", folder)
        assert done.code == 0, done.err
        for text in CONDITIONS:
            found = call("find", text)
            expected = by_opening(folder, text)
            assert found.out.splitlines() == expected, text
            assert found.code == (0 if expected else 1)
        for number in chance.sample(range(40), 6):
            write(folder / f"{number % 3}/{number}.asdf", chance.randrange(10**6))
        (folder / f"1/{chance.choice([1, 4, 7])}.asdf").unlink(missing_ok=True)
        write(folder / f"new/{chance.randrange(10**6)}.asdf", chance.randrange(10**6))


def test_one_condition_on_many_is_that_condition_on_each() -> None:
    chance = random.Random(5)
    values = [1, 1.0, True, False, None, "text", "1", MISSING, 2.5, float("inf"), {"a": 1}, [], [1], Mark.FULL]
    for text in CONDITIONS:
        condition = parse_condition(text)
        columns = defaultdict[Any, list[Any]](lambda: [chance.choice(values) for _ in range(200)])
        each = condition.holds_each(columns.__getitem__)
        assert len(each) == 200
        for number, held in enumerate(each):
            assert held is holds(condition, partial(value_of, columns, number)), text


def value_of(columns: dict[Any, list[Any]], number: int, path: Any) -> Any:
    return columns[path][number]


def test_columns_keep_the_kinds_of_values() -> None:
    import datetime

    values = [1, 1.0, True, None, "", "é\n", MISSING, float("inf"), 10**30, datetime.date(2026, 11, 24)]
    values += [
        Mark.EMPTY,
        Mark.LEFT_OUT,
        datetime.datetime(2026, 11, 24, 1, 2, 3, 4),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    ]
    found = unpack_column(pack_column(values), len(values))
    assert [(type(value), value) for value in found] == [(type(value), value) for value in values]
    for damaged in (b"", b"nonsense", chunks.pack_column([1])[:-3]):
        with pytest.raises(ValueError, match="."):
            unpack_column(damaged, 1)


def test_regression_each_path_had_a_place_for_each_file(tmp_path: Path, call: Call) -> None:
    """Files with keys of their own, such as numbers of sources: 200 files of 5,000 keys took 2 GB."""
    write_own_keys(tmp_path / "a", files=20, keys=300)
    assert call("index", tmp_path / "a").code == 0
    with open_catalog(str(tmp_path / "cache/asdffs/catalog.sqlite"), writable=False) as catalog:
        ((chunk, files),) = catalog.chunks()
        places = [list(values) for path, values in catalog.columns_of(chunk) if path.startswith("own.")]
    assert (files, len(places), {len(one) for one in places}) == (20, 6000, {1})
    names = [f"{tmp_path}/a/{number}.asdf" for number in range(20)]
    for text, found in (
        ("own.k7_299 == 299", names[7:8]),
        ("own.k7_299 > 5 or own.k8_0 == 0", names[7:9]),
        ("own.k7_1 == 2 or own.none == 3", []),
        ("exists own and own", sorted(names)),
        ("not exists own.k3_5 and n < 5", [*names[:3], names[4]]),
    ):
        assert call("find", text).out.splitlines() == found, text
    rows = call("find", "--sql", "SELECT file, value FROM scalar WHERE path = 'own.k7_299'").out.splitlines()
    assert rows == ["file\tvalue", f"{names[7]}\t299"]
    assert call("find", "--columns", "own.k7_299,n", "own.k7_298 == 298").out.splitlines()[1:] == [
        f"{names[7]}\t299\t7"
    ]


def test_regression_paths_that_no_file_has_any_more_stayed(tmp_path: Path, call: Call) -> None:
    """A catalogue of files with keys of their own grew with every change of them."""
    counts = []
    for key in ("a", "b", "c"):
        for number in range(5):
            (tmp_path / f"{number}.asdf").write_bytes(HEAD + f"{{{key}{number}: 1, n: 2}}\n...\n".encode())
        assert call("index", "--catalog", tmp_path / "c.db", tmp_path).code == 0
        with closing(sqlite3.connect(tmp_path / "c.db")) as sql:
            counts += [len(sql.execute("SELECT * FROM paths").fetchall())]
    assert counts == [6, 6, 6]
    assert call("find", "--catalog", tmp_path / "c.db", "c3 == 1 or b3 == 1").out == f"{tmp_path}/3.asdf\n"


def test_a_chunk_ends_before_it_takes_much_memory(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after chunks are joined, and with several processes."""
    for module in ("reading", "indexing"):
        monkeypatch.setattr(f"asdffs.features.catalog.{module}.WEIGHT", 1 << 20)
    write_own_keys(tmp_path / "a", files=20, keys=300)
    for again in ((), (0, 5, 10, 15), (1, 6)):
        for number in again:
            os.utime(tmp_path / f"a/{number}.asdf")
        assert call("index", tmp_path / "a").code == 0
        with open_catalog(str(tmp_path / "cache/asdffs/catalog.sqlite"), writable=False) as catalog:
            chunks = catalog.use_of_chunks()
        assert sum(used for _, _, used, _ in chunks) == 20
        assert len(chunks) > 1
        assert max(weight for *_, weight in chunks) < 5 << 18
    assert call("find", "exists own and n >= 0").out.count("\n") == 20


def write_own_keys(folder: Path, *, files: int, keys: int) -> None:
    folder.mkdir()
    for number in range(files):
        own = ", ".join(f"k{number}_{key}: {key}" for key in range(keys))
        (folder / f"{number}.asdf").write_bytes(HEAD + f"{{n: {number}, own: {{{own}}}}}\n...\n".encode())


def test_only_what_changed_is_read(tmp_path: Path, call: Call) -> None:
    for number in range(5):
        write(tmp_path / f"a/{number}.asdf", number)
    facts = call("index", "--json", tmp_path / "a").json
    assert (facts["found"], facts["read"], facts["removed"]) == (5, 5, 0)
    assert call("index", "--json", tmp_path / "a").json["read"] == 0
    write(tmp_path / "a/3.asdf", 99)
    (tmp_path / "a/4.asdf").unlink()
    facts = call("index", "--json", tmp_path / "a").json
    assert (facts["found"], facts["read"], facts["removed"]) == (4, 1, 1)
    write(tmp_path / "a/5.asdf", 5)
    assert len(call("find", "not exists nothing").out.splitlines()) == 4
    assert len(call("find", "--fresh", "not exists nothing", tmp_path / "a").out.splitlines()) == 5
    assert call("find", "not exists nothing", tmp_path / "a/5.asdf").out == f"{tmp_path}/a/5.asdf\n"


def test_files_that_are_odd_have_rows_and_end_nothing(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "odd"
    write(folder / "good.asdf", 1)
    (folder / "empty.asdf").write_bytes(b"")
    (folder / "text.asdf").write_bytes(b"no ASDF at all\n" * 9)
    (folder / "tree.asdf").write_bytes(HEAD + b"a: [1, 2\n...\n")
    (folder / "cut.asdf").write_bytes(odd_file(blocks=[block_bytes(DATA), zlib_block(MASK)], index="absent")[:-9])
    (folder / "laughs.asdf").write_bytes(HEAD + laughs() + b"\n...\n")
    (folder / "long.asdf").write_bytes(HEAD + b"a: [" + b"1, " * 5000 + b"1]\nb: 1\n...\n")
    odd = os.fsencode(folder) + b"/\xff\n\xfe.asdf"
    with open(odd, "wb") as file:
        file.write(HEAD + b"b: 1\n...\n")
    (folder / "loop").symlink_to(folder)
    (folder / "dangling.asdf").symlink_to("nowhere")
    (folder / "link.asdf").symlink_to("good.asdf")
    os.mkfifo(folder / "pipe.asdf")
    (folder / "directory.asdf").mkdir()
    done = call("index", folder)
    assert done.code == 0
    assert "Traceback" not in done.err
    rows = call("find", "--json", "--sql", "SELECT path, error, left_out FROM file ORDER BY path").json
    found = {os.path.basename(row["path"]): row for row in rows}
    assert sorted(name for name, row in found.items() if row["error"]) == ["empty.asdf", "text.asdf", "tree.asdf"]
    assert found["laughs.asdf"]["left_out"] == '["."]'
    assert found["long.asdf"]["left_out"] == '["a"]'
    blocks = call("find", "--json", "--sql", "SELECT number, error FROM block WHERE error != ''").json
    assert blocks == [{"number": 1, "error": "the file ends inside this block"}]
    out = subprocess.run(
        [sys.executable, "-m", "asdffs", "find", "-0", "b == 1"],
        env=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        check=True,
    ).stdout
    assert out.split(b"\0") == [os.fsencode(folder / "long.asdf"), odd, b""]


def laughs() -> bytes:
    """A tree that is small as text, and has 10 ** 9 scalars."""
    lines = [b"a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    return b"\n".join(lines)


def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path, call: Call) -> None:
    write(tmp_path / "a/good.asdf", 1)
    (tmp_path / "a/closed").mkdir(mode=0)
    done = call("index", tmp_path / "a")
    assert done.code == 0
    assert "1 file, 1 read" in done.out
    if os.geteuid():
        assert "closed: Permission denied" in done.err
    assert "there is no such file" in call("index", tmp_path / "b").sentence


def test_values_tables_and_formats(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "1.asdf").write_bytes(odd_file().replace(b"value: 1", b'value: "a\\tb"'))
    (folder / "2.asdf").write_bytes(odd_file(blocks=[block_bytes(DATA), zlib_block(MASK)]))
    assert call("index", folder).code == 0
    table = call("find", "--columns", "value,meta.exposure,none", "exists meta").out
    assert table == (
        f"file\tvalue\tmeta.exposure\tnone\n{folder}/1.asdf\ta\\tb\t12.5\t\n{folder}/2.asdf\t1\t12.5\t\n"
    )
    rows = list(csv.reader(io.StringIO(call("find", "--csv", "--columns", "value", "exists meta").out)))
    assert rows == [["file", "value"], [f"{folder}/1.asdf", "a\tb"], [f"{folder}/2.asdf", "1"]]
    assert call("find", "--json", "exists meta").json == [f"{folder}/1.asdf", f"{folder}/2.asdf"]
    rows = call("find", "--json", "--columns", "value,none", "value == 1").json
    assert rows == [{"file": f"{folder}/2.asdf", "value": 1, "none": None}]
    arrays = call("find", "--json", "--sql", "SELECT * FROM array WHERE file LIKE '%2.asdf' ORDER BY path").json
    assert [(row["path"], row["shape"], row["datatype"], row["compression"]) for row in arrays] == [
        ("data", "25", "float32", "none"),
        ("mask", "40", "uint8", "zlib"),
    ]
    scalars = call("find", "--json", "--sql", "SELECT value FROM scalar WHERE path = 'value' ORDER BY file").json
    assert [row["value"] for row in scalars] == ["a\tb", 1]


def test_regression_a_signal_did_not_end_a_select(tmp_path: Path, call: Call) -> None:
    write(tmp_path / "a/1.asdf", 1)
    assert call("index", "--catalog", tmp_path / "c.db", tmp_path / "a").code == 0
    query = "WITH RECURSIVE t (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT count(*) FROM t"
    command = [sys.executable, "-m", "asdffs", "find", "--catalog", str(tmp_path / "c.db"), "--sql", query]
    with subprocess.Popen(command, env=environment_in(tmp_path), stderr=subprocess.PIPE) as process:
        until(lambda: "c.db" in run("ls", "-l", f"/proc/{process.pid}/fd").stdout)
        process.terminate()
        assert process.wait(LIMIT) == -signal.SIGTERM


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE files",
        "DELETE FROM files",
        "ATTACH DATABASE '/tmp/x' AS x",
        "PRAGMA query_only = 0",
        "SELECT load_extension('x')",
        "nonsense",
        "SELECT 1; DROP TABLE files",
    ],
)
def test_sql_only_reads(tmp_path: Path, call: Call, query: str) -> None:
    write(tmp_path / "a/1.asdf", 1)
    assert call("index", tmp_path / "a").code == 0
    before = (tmp_path / "cache/asdffs/catalog.sqlite").read_bytes()
    done = call("find", "--sql", query)
    assert done.code == 2, done.out
    assert "SQLite says" in done.sentence
    assert (tmp_path / "cache/asdffs/catalog.sqlite").read_bytes() == before


@pytest.mark.long
def test_a_killed_index_goes_on_where_it_was(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at some moment, the catalogue has whole chunks, and the next index reads the rest."""
    folder = tmp_path / "a"
    for number in range(300):
        write(folder / f"{number}.asdf", number)
    environment = environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    script = (
        "import sys; from asdffs.features.catalog import indexing; indexing.FILES = 10; "
        "from asdffs.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", script, "index", "--jobs", "1", folder], env=environment)
        catalog = tmp_path / "cache/asdffs/catalog.sqlite"
        before = rows_of(catalog)
        wait_for_rows(process, catalog, min(300, before + 40))
        process.kill()
        process.wait()
        assert rows_of(catalog) >= before
    known = rows_of(catalog)
    assert known >= 40
    facts = call("index", "--json", folder).json
    assert (facts["found"], facts["read"]) == (300, 300 - known)
    for text in CONDITIONS[:4]:
        assert call("find", text).out.splitlines() == by_opening(folder, text)


def wait_for_rows(process: subprocess.Popen[bytes], catalog: Path, count: int) -> None:
    until(lambda: process.poll() is not None or rows_of(catalog) >= count, f"{count} rows, or the end of the index")


def rows_of(catalog: Path) -> int:
    """Files in a catalogue, by SQLite alone."""
    try:
        with sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=30) as connection:
            found: int = connection.execute("SELECT count(*) FROM files").fetchone()[0]
            return found
    except sqlite3.OperationalError:
        return 0


def test_two_writers_and_readers_meanwhile(tmp_path: Path, call: Call) -> None:
    import fcntl

    write(tmp_path / "a/1.asdf", 1)
    assert call("index", tmp_path / "a").code == 0
    with open(tmp_path / "cache/asdffs/catalog.sqlite.lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = call("index", tmp_path / "a")
        assert done.code == 5
        assert "is being written by another process" in done.sentence
        assert call("find", "not exists nothing").code == 0


def test_several_processes_give_the_same_rows(tmp_path: Path, call: Call) -> None:
    for number in range(60):
        write(tmp_path / f"a/{number}.asdf", number)
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    assert call("index", "--jobs", "1", "--catalog", one, tmp_path / "a").code == 0
    done = subprocess.run(
        [sys.executable, "-m", "asdffs", "index", "--jobs", "3", "--catalog", two, tmp_path / "a"],
        env=environment_in(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{two}: 60 files, 60 read\n"), done.stderr
    query = "SELECT * FROM scalar ORDER BY file, path"
    rows = [call("find", "--csv", "--sql", query, "--catalog", path).out for path in (one, two)]
    assert rows[0] == rows[1]
    assert rows[0].count("\n") > 60


def test_parts_that_are_merged_are_the_whole(tmp_path: Path, call: Call) -> None:
    """Three parts, merged twice, also after a part changed: the rows of one index; each file is in one part."""
    folder, whole, merged = tmp_path / "a", tmp_path / "whole.db", tmp_path / "merged.db"
    for number in range(40):
        write(folder / f"{number}.asdf", number)
    (folder / "blocks.asdf").write_bytes(odd_file(blocks=[block_bytes(DATA), zlib_block(MASK)]))
    (folder / "broken.asdf").write_bytes(b"")
    parts = [tmp_path / f"part{number}.db" for number in (1, 2, 3)]
    for _ in range(2):
        counts = [
            call("index", "--json", "--part", f"{number}/3", "--catalog", part, folder).json["found"]
            for number, part in enumerate(parts, 1)
        ]
        assert (sum(counts), min(counts) > 0) == (42, True)
        assert call("index", "--merge", "--catalog", merged, *parts).out == f"{merged}: 42 files, 42 merged\n"
        assert call("index", "--catalog", whole, folder).code == 0
        for query in (
            "SELECT * FROM scalar ORDER BY 1, 2",
            "SELECT * FROM array ORDER BY 1, 2",
            "SELECT * FROM block ORDER BY 1, 2",
            "SELECT path, size, error FROM file ORDER BY path",
        ):
            rows = [call("find", "--csv", "--sql", query, "--catalog", path).out for path in (whole, merged)]
            assert rows[0] == rows[1]
            assert rows[0].count("\n") > 2
        for text in CONDITIONS:
            assert call("find", text, "--catalog", merged).out == call("find", text, "--catalog", whole).out
        write(folder / "7.asdf", 1234)
    assert call("index", "--part", "4/3", folder).sentence == "--part 4/3: give I/N, such as 3/8"
    assert call("index", "--merge", "--catalog", merged, tmp_path / "none.db").code == 3
    assert "takes the names of catalogues" in call("index", "--merge", "--part", "1/2", parts[0]).sentence


def test_names_of_files_from_a_list(tmp_path: Path, call: Call) -> None:
    for number in range(3):
        write(tmp_path / f"a/{number}.asdf", number)
    names = tmp_path / "names"
    names.write_text(f"{tmp_path}/a/0.asdf\n{tmp_path}/a/2.asdf\n")
    assert "2 files, 2 read" in call("index", "--files-from", names).out
    assert call("index").sentence == "give a directory, or --files-from"


def test_mistakes_are_told(tmp_path: Path, call: Call) -> None:
    done = call("find", "a == 1")
    assert done.code == 3
    assert "there is no catalogue; 'asdffs index DIR' makes it" in done.sentence
    (tmp_path / "bad.db").write_bytes(b"not a database" * 100)
    assert "is no catalogue" in call("find", "--catalog", tmp_path / "bad.db", "a == 1").sentence
    write(tmp_path / "a/1.asdf", 1)
    assert call("index", tmp_path / "a").code == 0
    assert call("find", "a = 1").code == 2
    assert "--fresh: name the directories" in call("find", "--fresh", "a == 1").sentence
    assert call("index", "--jobs", "0", tmp_path / "a").sentence == "--jobs 0: give a number from 1 to 1024"


LIES = (
    b"[1, 2, 3]",
    b"{}",
    b"5",
    b"null",
    b"[" * 200_000,
    b'[["date", 5]]',
    b"[[1, 2, 3]]",
    b"[" + b"[]," * 10**6 + b"[]]",
)


@pytest.mark.parametrize("packed", [b"", b"nonsense", b"cut", "text", *map(zlib.compress, LIES)])
def test_a_catalogue_that_lies_is_told(tmp_path: Path, call: Call, packed: bytes | str) -> None:
    write(tmp_path / "a/1.asdf", 1)
    catalog = tmp_path / "archive.db"
    assert call("index", "--catalog", catalog, tmp_path / "a").code == 0
    if packed == b"cut":
        packed = zlib.compress(b"[" + b"1," * 5000 + b"1]")[:-5]
    connection = sqlite3.connect(catalog)
    with connection:
        connection.execute("UPDATE columns SET packed = ?", (packed,))
    connection.close()
    connection = sqlite3.connect(catalog)
    names = [name for (name,) in connection.execute("SELECT path FROM paths")]
    connection.close()
    for name in names:
        done = call("find", "--catalog", catalog, f"exists {name}")
        assert done.code == 4
        assert "is damaged; remove it, and 'asdffs index DIR' makes it anew" in done.sentence
    done = call("find", "--csv", "--catalog", catalog, "--sql", "SELECT count(*) FROM scalar")
    assert "Traceback" not in done.err


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, call: Call) -> None:
    """A program writes one file again and again; after it stopped, one more index has its last value."""
    path = tmp_path / "a/1.asdf"
    write(path, 1)
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            path.write_bytes(HEAD + b"a: %d\n...\n" % number)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10):
            assert call("index", tmp_path / "a").code == 0
    finally:
        stop.set()
        thread.join()
    assert call("index", tmp_path / "a").code == 0
    value = Values(read_text(str(path))).find(("a",))
    assert value is not None
    assert call("find", f"a == {value.value}").out == f"{path}\n"


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    for number in range(200):
        write(tmp_path / f"a/{number}.asdf", number)
    process = subprocess.Popen(
        [sys.executable, "-m", "asdffs", "index", "--jobs", "2", tmp_path / "a"],
        env=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until((tmp_path / "cache/asdffs/catalog.sqlite").exists)
    process.send_signal(signal.SIGINT)
    process.wait(LIMIT)
    until(lambda: not is_alive(process.pid))


def is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


# -- chunks that are packed together ---------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_catalogue_of_many_changes_stays_as_small_as_a_new_one(
    tmp_path: Path, call: Call, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few files change at a time, and come and go; what is found is always what opening each file finds."""
    monkeypatch.setattr("asdffs.features.catalog.indexing.FILES", 10)
    folder, chance = tmp_path / "archive", random.Random(seed)
    for number in range(60):
        write(folder / f"{number}.asdf", number)
    for round_ in range(25):
        for number in chance.sample(range(60), chance.randrange(4)):
            path = folder / f"{number}.asdf"
            path.unlink(missing_ok=True) if chance.randrange(4) == 0 else write(path, chance.randrange(10**6))
        assert call("index", folder).code == 0
        text = CONDITIONS[round_ % len(CONDITIONS)]
        assert call("find", text).out.splitlines() == by_opening(folder, text), text
    with sqlite3.connect(tmp_path / "cache" / "asdffs" / "catalog.sqlite") as sql:
        places, used = sql.execute("SELECT (SELECT sum(places) FROM chunks), (SELECT count(*) FROM files)").fetchone()
        (half,) = sql.execute(
            "SELECT count(*) FROM chunks c WHERE (SELECT count(*) FROM files f WHERE f.chunk = c.chunk) <= 5"
        ).fetchone()
    sql.close()
    assert used == len(list(folder.glob("*.asdf")))
    assert places <= 2 * used + 10
    assert half <= 1


def test_kinds_of_columns() -> None:
    import datetime

    from asdffs.features.catalog.chunks import Kinds, kinds_of

    for value, kind in (
        (True, Kinds.BOOL),
        (1 << 53, Kinds.INT),
        (-(1 << 53) - 1, Kinds.LONG),
        (1 << 63, Kinds.HUGE),
        (1.5, Kinds.FLOAT),
        ("1", Kinds.TEXT),
        (datetime.date(2026, 1, 1), Kinds.TIME),
        (datetime.datetime(2026, 1, 1), Kinds.TIME),
        (Mark.FULL, Kinds.COLLECTION),
        (Mark.LEFT_OUT, Kinds.COLLECTION | Kinds.LEFT_OUT),
        (None, Kinds.NONE),
        (MISSING, Kinds.NONE),
    ):
        assert kinds_of([MISSING, value, None]) == kind, value
    assert kinds_of([True, 1, 1.5, "x"]) == Kinds.BOOL | Kinds.INT | Kinds.FLOAT | Kinds.TEXT


# -- changing what the catalogue finds -----------------------------------------------------


def test_set_changes_the_files_in_a_directory_for_which_the_condition_holds(tmp_path: Path, call: Call) -> None:
    folder = tmp_path / "archive"
    for number in range(30):
        write(folder / f"{number}.asdf", number)
    (folder / "broken.asdf").write_bytes(b"nonsense")
    assert call("index", folder).code == 0
    write(folder / "3.asdf", 1234)  # after the index
    for text in CONDITIONS:
        mark = f"mark{CONDITIONS.index(text)}"
        (folder / "broken.asdf").rename(tmp_path / "broken")
        expected = by_opening(folder, text)
        (tmp_path / "broken").rename(folder / "broken.asdf")
        done = call("set", "--where", text, f"{mark}=1", folder)
        assert done.code == 0, (text, done.err)
        assert "1 file cannot be read, and is left out" in done.err
        assert call("find", "--fresh", f"{mark} == 1", folder).out.splitlines() == expected, text


def test_set_finds_what_the_catalogue_left_out(tmp_path: Path, call: Call) -> None:
    """A list of 200 items is not in the catalogue: the file itself is asked."""
    many = ", ".join(map(str, range(200)))
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.asdf").write_bytes(HEAD + f"list: [{value}, {many}]\nvalue: 1\n...\n".encode())
    done = call("set", "--where", "list[0] == 2", "value=9", tmp_path)
    assert (done.code, "2 files: 1 changed" in done.out) == (0, True), done
    assert b"value: 1" in (tmp_path / "a.asdf").read_bytes()
    assert b"value: 9" in (tmp_path / "b.asdf").read_bytes()


def test_directories_of_set_unset_and_rename(tmp_path: Path, call: Call) -> None:
    folder, catalog = tmp_path / "archive", tmp_path / "my.db"
    for number in range(3):
        (folder / "sub").mkdir(parents=True, exist_ok=True)
        (folder / "sub" / f"{number}.asdf").write_bytes(HEAD + b"{a: %d, b: 1}\n...\n" % number)
    for words, code, sentence in (
        (("set", "a=1", folder), 2, f"{folder}: is a directory; --where selects files in it"),
        (("set", "--catalog", catalog, "a=1", folder / "sub" / "0.asdf"), 2, "--catalog is for directories"),
        (("set", "--where", "a ==", "a=1", folder), 2, "is expected here"),
        (("set", "--where", "a == 7", "a=1", folder), 0, ""),
    ):
        done = call(*words)
        assert (done.code, sentence in done.err) == (code, True), done
    assert call("unset", "--catalog", catalog, "--where", "a > 0", "b", folder).out.endswith(
        "2 changed, 0 already so\n"
    )
    assert catalog.exists()
    done = call(
        "rename", "--where", "exists b", "b", "c", folder, folder / "sub" / "0.asdf", folder / "sub" / "1.asdf"
    )
    assert (done.code, (folder / "sub" / "0.asdf").read_bytes()) == (0, HEAD + b"{a: 0, c: 1}\n...\n")
    assert (folder / "sub" / "2.asdf").read_bytes() == HEAD + b"{a: 2}\n...\n"

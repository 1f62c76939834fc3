"""Conditions: ``find``, ``get --where``, ``set --where`` and ``asdffs.find`` agree with a loop over ``asdf.open``."""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.commands import Done, command
from support.mounts import environment_in

import asdffs
from asdffs.errors import MissingFileError

Call = Callable[..., Done]
DEEP = bool(os.environ.get("ASDFFS_DEEP"))
HEAD = "#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"

# -- the archive ---------------------------------------------------------------------------

SCALARS = """1|1.0|-3|2.5|0|1e3|012|.inf|.nan|true|no|null|~|""|text|'1'|"a\\tb"|r12_cal|F158|F1.8|'a\\b'|'it''s'|rd+
12:30:45|2026-01-01|2026-01-01 10:00:00|2026-01-01T10:00:00Z|2026-01-01 11:00:00 +01:00|2026-01-01T09:59:59.5Z
2026-01-01T00:00:00+02:00|'2026-01-01'|!!int '12'|!!float 3|!!bool yes|!!null ''|!!str 12|!!timestamp 2026-01-01
!!float '.inf'|[]|{}|*one|*many"""
PLAIN = re.split(r"[|\n]", SCALARS)
KEYS = ["a", "b", "list", "7", '"0"', "odd key", "c.d", "km/s", "é", "~x"]
ARRAYS = [
    "!core/ndarray-1.1.0 {data: [1, 2], datatype: int64, shape: [2], byteorder: little}",
    "!core/ndarray-1.1.0 {data: [[1, 2, 3]], datatype: float32, shape: [1, 3], byteorder: big}",
]


def random_node(chance: random.Random, depth: int) -> str:
    kind = chance.random() if depth else 0
    if kind < 0.3 and depth < 3:
        keys = chance.sample(KEYS, chance.randrange(1, 7))
        return "{" + ", ".join(f"{key}: {random_node(chance, depth + 1)}" for key in keys) + "}"
    if kind < 0.45 and depth < 3:
        return "[" + ", ".join(random_node(chance, depth + 1) for _ in range(chance.randrange(4))) + "]"
    if kind < 0.5:
        return "[" + ", ".join(map(str, range(chance.choice([100, 101, 120])))) + "]"
    return chance.choice(ARRAYS) if kind < 0.57 else chance.choice(PLAIN)


#: Trees that few random ones are like.
ODD = [
    "a: {b: 1}\na: {list: 2}",  # the last one counts
    "a: 1\nb: {a: 2, a: 3}",
    "b: {<<: *many, b: 5}\na: *one",
    f"a: {'x' * 65_537}",
    "a: " + "[" + ", ".join(f"{{b: {n}}}" for n in range(101)) + "]",
    "",
]


def tree_of(number: int) -> str:
    chance = random.Random(number)
    body = ODD[number] if number < len(ODD) else "\n".join(f"{key}: {random_node(chance, 1)}" for key in KEYS[:7])
    rare = f"only: {{n{number}: {random_node(chance, 1)}}}\npair{number // 2}: {random_node(chance, 1)}"
    return f"{HEAD}one: &one 1\nmany: &many {{a: 1, list: [1, 2]}}\n{body}\n{rare}\n...\n"


def plain(value: Any, stated: Any) -> Any:
    """What ``asdf`` gives, as dicts, lists and scalars; of an array its keys that conditions here ask for.

    ``stated``: the same by ``asdf.util.load_yaml``.  It has the byteorder of values that are in the tree, which asdf
    reads in the order of the machine.
    """
    if isinstance(value, asdf.tags.core.NDArrayType):
        return {"datatype": value.dtype.name, "shape": list(value.shape), "byteorder": stated["byteorder"]}
    if isinstance(value, dict):
        return {str(key): plain(item, stated[key]) for key, item in value.items()}
    return list(map(plain, value, stated)) if isinstance(value, list) else value


# -- an evaluator of its own ---------------------------------------------------------------


class Missing:
    """There is no value at a path."""


def look_up(tree: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        if isinstance(tree, dict) and str(step) in tree:
            tree = tree[str(step)]
        elif (
            isinstance(tree, list)
            and re.fullmatch(r"0|-?[1-9]\d*", str(step))
            and -len(tree) <= int(step) < len(tree)
        ):
            tree = tree[int(step)]
        else:
            return Missing
    return tree


def instant(value: Any) -> Any:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)


def is_equal(value: Any, literal: Any) -> bool:
    if isinstance(value, datetime.date):
        try:
            return bool(isinstance(literal, str) and instant(value) == instant(literal))
        except ValueError:
            return False
    return bool(value == literal) and isinstance(value, bool) == isinstance(literal, bool)


def is_true(node: Any, tree: Any) -> bool:
    """Whether a condition, a tuple as ``conditions`` makes it, holds."""
    kind, *rest = node
    if kind in ("and", "or", "not"):
        held = [is_true(one, tree) for one in rest]
        return all(held) if kind == "and" else any(held) if kind == "or" else not held[0]
    value = look_up(tree, rest[0])
    if kind == "exists":
        return value is not Missing
    if kind == "true":
        return value is not Missing and bool(value)
    if kind == "in":
        return value is not Missing and any(is_equal(value, one) for one in rest[1])
    if kind in ("==", "!="):
        return (value is not Missing and is_equal(value, rest[1])) == (kind == "==")
    if kind == "=~":
        text = value.isoformat() if isinstance(value, datetime.date) else value
        return isinstance(text, str) and re.search(rest[1], text[:1000]) is not None
    return value is not Missing and is_ordered(kind, value, rest[1])


def is_ordered(kind: str, value: Any, literal: Any) -> bool:
    try:
        value, literal = (instant(value), instant(literal)) if isinstance(value, datetime.date) else (value, literal)
        if bool in (type(value), type(literal)) or not isinstance(value, (int, float, str, datetime.date)):
            return False
        found = {"<": value < literal, "<=": value <= literal, ">": value > literal, ">=": value >= literal}[kind]
        return bool(found)
    except (TypeError, ValueError):
        return False


# -- conditions ----------------------------------------------------------------------------

DATES = [
    "2026-01-01",
    "2026-01-01T10:00:00",
    "2026-01-01 11:00:00+01:00",
    "2026-01-01T10:00Z",
    "2025-12-31 23:30-01:00",
]
PATTERNS = [
    r"^F1\.8$",
    r"^r\d+",
    r"\d",
    r"a\\b",
    r"^2026-01-01T\d\d:00",
    "'",
    "^$",
    r"\"|s$",
    r"\bcal\b",
    "float|x{3}",
]
TEXTS = [
    "1",
    "text",
    "F158",
    "F1.8",
    "a\tb",
    r"a\b",
    "it's",
    'a"b',
    "12",
    "float32",
    "int64",
    "big",
    "",
    "no",
    r"r\d",
    *DATES,
]
NUMBERS = st.sampled_from([0, 1, 1.0, 2, 2.5, -3, 3, 5, 12, 10, 1000, 45045, 99, 100])
LITERALS = NUMBERS | st.sampled_from(TEXTS) | st.sampled_from([True, False, None])
OTHERS = ["shape", "datatype", "missing", 0, 5, 130, -1, -2, "00", "-1", "1"]


def paths_in(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of values, and of what is beside and below them."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:4]) if isinstance(tree, list) else ()
    for key, item in items:
        yield from paths_in(item, (*path, key))


def conditions(paths: list[tuple[str | int, ...]]) -> st.SearchStrategy[Any]:
    some = st.sampled_from(paths)
    path = some | st.tuples(some, st.sampled_from(OTHERS)).map(lambda pair: (*pair[0], pair[1]))
    leaves = st.one_of(
        st.tuples(st.sampled_from(["exists", "true"]), path),
        st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), path, LITERALS),
        st.tuples(st.just("=~"), path, st.sampled_from(PATTERNS)),
        st.tuples(st.just("in"), path, st.lists(LITERALS, min_size=1, max_size=3)),
    )
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        max_leaves=3,
    )


def path_text(path: tuple[str | int, ...], chance: random.Random) -> str:
    """A path in one of its forms."""
    steps = [str(step).replace("~", "~0").replace("/", "~1") for step in path]
    if chance.random() < 0.3 and not any(set("\"'=<>!()&|,[] ") & set(step) for step in steps):
        return "/" + "/".join(steps)
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif chance.random() < 0.3 or not re.fullmatch(r"[\wé-]+", step):
            text += (
                f"[{json.dumps(step)}]"
                if text and chance.random() < 0.5
                else ("." if text else "") + json.dumps(step)
            )
        else:
            text += ("." if text else "") + step
    return text


def literal_text(literal: Any, chance: random.Random) -> str:
    if isinstance(literal, list):
        return "[" + ", ".join(literal_text(one, chance) for one in literal) + "]"
    if not isinstance(literal, str):
        return json.dumps(literal)
    quote = chance.choice("\"'")
    return quote + re.sub(rf"\\{quote}|{quote}", rf"\\{quote}", literal) + quote


def text_of(node: Any, chance: random.Random) -> str:
    kind, *rest = node
    if kind in ("and", "or"):
        return f"({text_of(rest[0], chance)}) {kind} ({text_of(rest[1], chance)})"
    if kind == "not":
        return f"not ({text_of(rest[0], chance)})"
    path = path_text(rest[0], chance)
    if len(rest) == 1:
        return f"exists {path}" if kind == "exists" else path
    return f"{path} {kind} {literal_text(rest[1], chance)}"


# -- the oracle ----------------------------------------------------------------------------


class Archive:
    """A directory with files and their catalogue, and what ``asdf`` reads in each file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.catalog = folder, folder / "c.db"
        self.trees = {}
        for number in range(60 if DEEP else 16):
            path = folder / f"{number}.asdf"
            path.write_text(tree_of(number))
            with asdf.open(path) as file:
                self.trees[str(path)] = plain(file.tree, asdf.util.load_yaml(path, tagged=True))
        asdffs.find(None, folder, fresh=True, catalog=self.catalog)
        found = {
            path for tree in self.trees.values() for path in paths_in(tree) if path[:1] not in ((), ("asdf_library",))
        }
        self.conditions = conditions(sorted(found, key=repr))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return Archive(tmp_path_factory.mktemp("archive").resolve())


@settings(max_examples=1000 if DEEP else 40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_all_ways_agree_with_a_loop_over_asdf(archive: Archive, data: st.DataObject, seed: int) -> None:
    node = data.draw(archive.conditions)
    text = text_of(node, random.Random(seed))
    expected = sorted(path for path, tree in archive.trees.items() if is_true(node, tree))
    call = partial(command, environment=environment_in(archive.folder))
    assert asdffs.find(text, catalog=archive.catalog) == expected, text
    for words in (("find", text), ("find", "--fresh", text, archive.folder)):
        done = call(*words, "--catalog", archive.catalog)
        assert (sorted(done.out.splitlines()), done.code, done.err) == (expected, 0 if expected else 1, ""), text
    done = call("get", "many.a", "--where", text, *archive.trees)
    assert sorted(line.partition("\t")[0] for line in done.out.splitlines()) == expected, text


# -- what the catalogue does not know ------------------------------------------------------


@pytest.fixture
def call(tmp_path: Path) -> Call:
    return partial(command, environment=environment_in(tmp_path) | {"XDG_CACHE_HOME": str(tmp_path / "cache")})


LONG = "log: [" + ", ".join(map(str, range(101))) + "]"


def write(folder: Path, *trees: str) -> list[str]:
    """Write files with these trees, and return their paths."""
    folder.mkdir()
    for number, tree in enumerate(trees):
        (folder / f"{number}.asdf").write_text(f"{HEAD}{tree}\n...\n")
    return [str(folder / f"{number}.asdf") for number in range(len(trees))]


def test_no_file_is_read_if_the_catalogue_knows_the_answer(tmp_path: Path, call: Call) -> None:
    """The files are gone: who reads one would be told."""
    paths = write(tmp_path / "a", f"n: 1\n{LONG}\n", f"n: 2\nl: [1, 2]\nd: {ARRAYS[0]}", f"n: 3\nt: {'x' * 70_000}")
    assert call("index", tmp_path / "a").code == 0
    for path in paths:
        os.unlink(path)
    for text, numbers in (
        ("n > 1", [1, 2]),
        ("exists log or exists d or t", [0, 1, 2]),
        ("n == 2 and not exists log[5]", [1]),
        ("n > 0 or log[5] == 6", [0, 1, 2]),
        ("n < 1 and (log[-1] == 1 or d.shape[0] == 1 or t =~ 'x')", []),
        ("l == 1 or l[1] == 2 or /l/0 == 7", [1]),
    ):
        done = call("find", text)
        assert (done.out.splitlines(), done.err) == ([paths[number] for number in numbers], ""), text
    assert call("find", "--csv", "--columns", "n,l[0],/l/1", "n == 2").out == f"file,n,l[0],l.1\n{paths[1]},2,1,2\n"


def test_only_the_files_that_decide_are_read(tmp_path: Path, call: Call) -> None:
    opened: list[str] = []
    sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
    paths = write(tmp_path / "a", *(f"n: {number}\n{LONG if number < 8 else 'log: [1]'}" for number in range(20)))
    assert call("index", tmp_path / "a").code == 0
    opened.clear()
    assert call("find", "log[5] == 5 and n > 4").out.splitlines() == paths[5:8]
    assert sorted(os.path.basename(path) for path in opened if path.endswith(".asdf")) == [
        "5.asdf",
        "6.asdf",
        "7.asdf",
    ]


def test_a_file_that_must_be_read_and_cannot_is_told(tmp_path: Path, call: Call) -> None:
    paths = write(tmp_path / "a", f"n: 1\n{LONG}", f"n: 2\n{LONG}")
    assert call("index", tmp_path / "a").code == 0
    os.unlink(paths[0])
    done = call("find", "exists log[5]")
    assert (done.code, done.out.splitlines()) == (3, paths[1:])
    assert f"{paths[0]}: cannot be opened: No such file" in done.sentence
    with pytest.raises(MissingFileError, match="0.asdf"):
        asdffs.find("log[5] == 5", catalog=tmp_path / "cache/asdffs/catalog.sqlite")
    (tmp_path / "a/2.asdf").write_text("nonsense")
    done = call("find", "--fresh", "n == 2", tmp_path / "a")
    assert (done.code, done.out.splitlines()) == (0, paths[1:])
    assert "1 file cannot be read, and is left out" in done.err


def test_values_that_the_catalogue_does_not_have_are_shown(tmp_path: Path, call: Call) -> None:
    tree = f"a: 1\nm: {{x: 1, y: [.nan, 2027-06-01]}}\nl: [1, 2]\ne: []\nf: -.inf\nd: {ARRAYS[0]}\n{LONG}"
    (path,) = write(tmp_path / "a", tree)
    assert call("index", tmp_path / "a").code == 0
    columns = "m,l,e,f,log[-1],d.datatype,none"
    (row,) = call("find", "--json", "--columns", columns, "a == 1").json
    assert row == {"file": path, "m": {"x": 1, "y": [".nan", "2027-06-01"]}, "l": [1, 2], "e": [], "f": "-.inf"} | {
        "log[-1]": 100,
        "d.datatype": "int64",
        "none": None,
    }
    assert call("find", "--columns", "l,m", "a == 1").out.splitlines()[1].split("\t")[1:] == [
        "[1, 2]",
        '{"x": 1, "y": [".nan", "2027-06-01"]}',
    ]
    found = asdffs.find("a == 1", columns=["l", "log[-1]"], catalog=tmp_path / "cache/asdffs/catalog.sqlite")
    assert found == {"file": [path], "l": [[1, 2]], "log[-1]": [100]}


def test_regression_what_follows_too_many_scalars_was_missing(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asdffs.arrays.scalars.INDEXED", 500)
    many = ", ".join(f"a{n}: 1" for n in range(600))
    paths = write(tmp_path / "a", f"n: 1\nmany: {{{many}}}\nz: 5", "n: 2")
    assert call("index", tmp_path / "a").code == 0
    for text, numbers in (("z == 5", [0]), ("exists z", [0]), ("not exists z", [1]), ("exists many.a599", [0])):
        assert call("find", text).out.splitlines() == [paths[number] for number in numbers], text


def test_set_changes_what_the_file_itself_says(tmp_path: Path, call: Call) -> None:
    paths = write(tmp_path / "a", f"n: 1\n{LONG}", f"n: 1\nd: {ARRAYS[1]}", "n: 1")
    done = call(
        "set", "--where", 'log[-1] == 100 or /d/shape/1 == 3 and d.datatype == "float32"', "n=2", tmp_path / "a"
    )
    assert (done.code, "2 changed" in done.out) == (0, True), done
    assert call("get", "n", *paths).out.split() == [paths[0], "2", paths[1], "2", paths[2], "1"]
    done = call("set", "--where", "not exists /n", "n=9", *paths)
    assert "0 changed" in done.out
    assert "character 13: write n.m" in call("set", "--where", "not exists n/m", "n=9", *paths).sentence


def test_regression_an_empty_condition_selected_every_file(tmp_path: Path, call: Call) -> None:
    """As ``--where "$CONDITION"`` has it if the variable is not set."""
    paths = write(tmp_path / "a", "n: 1", "n: 2")
    for words in (
        ("set", "n=9", *paths),
        ("unset", "n", *paths),
        ("get", "n", *paths),
        ("set", "n=9", tmp_path / "a"),
    ):
        done = call(*words, "--where", "")
        assert (done.code, done.out) == (2, ""), words
    assert call("get", "n", *paths).out.split()[1::2] == ["1", "2"]


def test_values_of_ordered_mappings_are_found(tmp_path: Path, call: Call) -> None:
    paths = write(tmp_path / "a", "o: !!omap [a: 1, b: {c: 2}]", "o: !!omap\n- !!omap\n  a: 5", "o: {a: 1}")
    assert call("index", tmp_path / "a").code == 0
    for text, numbers in (("o.a == 1", [0, 2]), ("exists o.b.c", [0]), ("o[1].b.c == 2", [0]), ("o.a > 1", [1])):
        wanted = [paths[number] for number in numbers]
        assert call("find", text).out.splitlines() == wanted, text
        assert call("get", "o", "--where", text, *paths).out.count("asdf") == len(wanted), text

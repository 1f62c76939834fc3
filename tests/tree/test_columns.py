"""A column of a table is named or numbered in a path: both lead to the same place."""

from __future__ import annotations

import random

import pytest
import yaml

from asdffs.errors import MissingValueError
from asdffs.tree.locating import locate
from asdffs.tree.lookups import Values
from asdffs.tree.paths import parse_path
from asdffs.tree.tape import Tape

ASTROPY = b"t: {colnames: [ra, '1', flux], columns: [{unit: deg}, &a {unit: m}, {unit: Jy}]}\nu: {columns: [*a]}\n"
CORE = b"t:\n  columns:\n  - {name: ra, unit: deg}\n  - unit: Jy\n    name: flux\n  - {unit: s}\n"


@pytest.mark.parametrize(("text", "number"), [(ASTROPY, 2), (CORE, 1)])
def test_a_name_leads_to_the_same_place_as_the_number(text: bytes, number: int) -> None:
    tape = Tape(text)
    for rest in ("", ".unit", ".nothing"):
        named = locate(tape, parse_path(f"t.columns.flux{rest}"))
        counted = locate(tape, parse_path(f"t.columns[{number}]{rest}"))
        assert (named.row, named.path, named.missing) == (counted.row, counted.path, counted.missing)


def test_a_number_is_a_number() -> None:
    found = Values(ASTROPY).find(parse_path("t.columns.1.unit"))
    assert found is not None
    assert found.text == "m"


@pytest.mark.parametrize("path", ["t.columns.dec", "t.other.flux", "list.flux", "twice.columns.a"])
def test_other_words_are_no_numbers(path: str) -> None:
    text = CORE + b"list: [{name: flux}]\ntwice: {columns: [{name: a}, {name: a}]}\n"
    assert Values(text).find(parse_path(path)) is None
    if not path.startswith("t.other"):
        with pytest.raises(MissingValueError, match="this is a sequence, so a number must follow"):
            locate(Tape(text), parse_path(path))


@pytest.mark.parametrize("seed", range(30))
def test_random_tables(seed: int) -> None:
    chance = random.Random(seed)
    names = chance.sample(["a", "b c", "7", "x.y", "é", "-1", "null"], 4)
    columns = [{"value": number, **({"name": name} if seed % 2 else {})} for number, name in enumerate(names)]
    table = {"columns": columns, **({} if seed % 2 else {"colnames": names})}
    text = yaml.safe_dump({"t": table}, default_flow_style=chance.choice([True, False]), allow_unicode=True).encode()
    for number, name in enumerate(names):
        if name.lstrip("-").isdecimal():
            continue
        found = Values(text).find(("t", "columns", name, "value"))
        assert found is not None
        assert found.value == number


def test_regression_columns_of_an_ordered_mapping() -> None:
    text = b"!!omap\n- columns: [{name: x, unit: m}]\n"
    found = Values(text).find(("columns", "x", "unit"))
    assert found is not None
    assert found.text == "m"

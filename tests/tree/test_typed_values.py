"""What ``set PATH=VALUE`` makes of what was typed, read back by PyYAML."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from asdffs.errors import UsageError
from asdffs.tree.paths import format_path, parse_path, split_assignment
from asdffs.tree.snippets import typed_value
from asdffs.tree.tape import Tape
from asdffs.tree.value_edits import set_value

UTC = datetime.UTC if hasattr(datetime, "UTC") else datetime.timezone.utc  # noqa: UP017

EAST = datetime.timezone(datetime.timedelta(hours=12.5))


def made_of(typed: str, old: str = "~") -> Any:
    """The value that PyYAML reads after ``a=TYPED``, where ``a`` was ``old``."""
    text = f"a: {old}\nz: 1\n"
    edit = set_value(Tape(text.encode()), ("a",), typed_value(typed))
    found = yaml.safe_load(text if edit is None else edit.apply(text))
    assert list(found) == ["a", "z"]
    return found["a"]


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("1", 1), ("-12", -12), ("0", 0), ("1.5", 1.5), ("1.5e3", 1500.0), ("1e3", 1000.0), ("1E-3", 0.001),
        ("-0.0", -0.0), ("1.50", 1.5), ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0x1F", 31), (".inf", math.inf), ("-.inf", -math.inf), ("1e300", 1e300),
        ("true", True), ("false", False), ("null", None),
        ("2027-01-31", datetime.date(2027, 1, 31)),
        ("2027-01-31T12:30:45", datetime.datetime(2027, 1, 31, 12, 30, 45)),
        ("2027-01-31 12:30", datetime.datetime(2027, 1, 31, 12, 30)),
        ("2027-01-31T12:30+12:30", datetime.datetime(2027, 1, 31, 12, 30, tzinfo=EAST)),
        ("2027-01-31T12:30.5", "2027-01-31T12:30.5"),
        ("2027-01-31T12:30:45.5Z", datetime.datetime(2027, 1, 31, 12, 30, 45, 500000, UTC)),
        *((word, word) for word in (
            "", "01235", "12:30:45", "NO", "no", "yes", "on", "~", "1_000", "True", "NULL", "+1", "1.", ".5", "0o17",
            "0b1", "190:20:30", "2027-13-45", "2027-1-5", "1e", "--", "- a", "a: b", "a # b", "#", "*x", "&x",
            "<<", "=", "?", "%", "@", "`", "| a", "> a", " 1", "1 ", "M 33", "one, two", "] ", "}", "\u00e9", "NaN",
            "Infinity", ".NaN", "two\nlines", "\ttab", "2027-01-31T12:30:45+99:99",
        )),
    ],
)  # fmt: skip
def test_the_rule(typed: str, value: Any) -> None:
    found = made_of(typed)
    assert (type(found), repr(found)) == (type(value), repr(value))


def test_not_a_number() -> None:
    assert math.isnan(made_of(".nan"))


@pytest.mark.parametrize("typed", ["5", "1.5e3", "true", "null", "2027-01-31", "0x1F", ".inf", "", "word"])
@pytest.mark.parametrize("old", ["text", "'12'", '"x"', "!tag text"])
def test_text_stays_text(typed: str, old: str) -> None:
    text = f"a: {old}\nz: 1\n"
    edit = set_value(Tape(text.encode()), ("a",), typed_value(typed))
    assert edit is not None
    node = yaml.compose(edit.apply(text)).value[0][1]
    assert node.value == typed
    assert node.tag == ("!tag" if old.startswith("!tag") else "tag:yaml.org,2002:str")
    assert not edit.note


@pytest.mark.parametrize(
    ("old", "typed", "note"),
    [
        ("1", "2.5", ""), ("!!int '1'", "2", ""), ("2027-01-31", "2028-01-31", ""), ("true", "false", ""),
        ("1", "one", "was a number, and is text now"), ("1", "2027-01-31", "was a number, and is a date now"),
        ("2027-01-31", "5", "was a date, and is a number now"), ("true", "yes", "was a boolean, and is text now"),
        ("~", "1", "was null, and is a number now"), ("[1]", "5", "was a sequence, and is a number now"),
    ],
)  # fmt: skip
def test_another_change_of_type_is_told(old: str, typed: str, note: str) -> None:
    edit = set_value(Tape(f"a: {old}\nz: 1\n".encode()), ("a",), typed_value(typed))
    assert edit is not None
    assert edit.note == note


@given(st.text(max_size=12))
def test_any_text_is_itself_or_what_json_says(typed: str) -> None:
    if any(letter in "\r\x85\u2028\u2029" or "\ud800" <= letter <= "\udfff" for letter in typed):
        return
    if not typed.isprintable():
        return
    try:
        number = json.loads(typed, parse_constant=int)  # which refuses NaN and Infinity: JSON has none
    except ValueError:
        number = None
    if isinstance(number, float) and math.isinf(number):
        with pytest.raises(UsageError):
            typed_value(typed)
        return
    found = made_of(typed)
    if isinstance(number, (int, float)):
        assert found == number
    elif not isinstance(found, (int, float, datetime.date, type(None))):
        assert found == typed


@pytest.mark.parametrize("typed", ["1e999", "-1e999", "9" * 5000])
def test_numbers_that_nothing_can_hold_are_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="number"):
        typed_value(typed)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a=1", (("a",), "1", False)), ("a:=1", (("a",), "1", True)), ("a.b[0]:=[1]", (("a", "b", 0), "[1]", True)),
        ('"k:"=7', (("k:",), "7", False)), ('"k:":=7', (("k:",), "7", True)),
        ("dc:title=x", (("dc:title",), "x", False)),
        ("/a/b:=1", (("a", "b"), "1", True)), ("/a/b=:1", (("a", "b"), ":1", False)), ("a==b", (("a",), "=b", False)),
        ("a[0]:=1", (("a", 0), "1", True)), ("a=:=1", (("a",), ":=1", False)),
    ],
)  # fmt: skip
def test_assignments(word: str, expected: Any) -> None:
    assert split_assignment(word) == expected


@pytest.mark.parametrize("path", [("k:",), ("a", "k:", 0), ("dc:title",), (":",), ("k:", "b:")])
def test_a_path_that_is_printed_can_be_typed(path: tuple[str | int, ...]) -> None:
    written = format_path(path)
    assert parse_path(written) == path
    assert split_assignment(f"{written}=1") == (path, "1", False)
    assert split_assignment(f"{written}:=1") == (path, "1", True)


def test_a_path_of_an_older_record_is_read() -> None:
    assert parse_path("k:") == ("k:",)

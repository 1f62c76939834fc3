"""Conditions on values: what they mean, what is refused, and that no search takes long."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from asdffs.errors import UsageError
from asdffs.tree.conditions import MISSING, compile_pattern, parse_condition

VALUES = {
    ("a",): 1,
    ("b", "c"): "WFI_IMAGE",
    ("t",): True,
    ("n",): None,
    ("l", 0): 2.5,
    ("day",): datetime.date(2027, 6, 1),
    ("time",): datetime.datetime(2027, 6, 1, 12, 30),
}


def look_up(path: tuple[str | int, ...]) -> Any:
    return VALUES.get(path, MISSING)


@pytest.mark.parametrize(
    "text",
    [
        "a == 1",
        'a==1.0 and b.c == "WFI_IMAGE"',
        "not a > 2",
        "a in [1, 2]",
        'b.c =~ "^WFI_"',
        "exists b.c and not exists z",
        "z != 3",
        "t and t == true",
        "n == null and not n",
        "(a == 2 or l[0] >= 2) and t",
        "b.c in ['x', 'WFI_IMAGE']",
        '"a" == 1',
        'day == "2027-06-01" and day > "2027-05-31"',
        'time == "2027-06-01T12:30:00" and time == "2027-06-01 12:30:00" and time =~ "^2027-06-01T12"',
        'time in ["2027-06-01 12:30:00"] and time < "2027-06-01 13:00:00"',
    ],
)
def test_it_holds(text: str) -> None:
    assert parse_condition(text).holds(look_up)
    assert not parse_condition(f"not ({text})").holds(look_up)


@pytest.mark.parametrize(
    "text", ["a == true", "t == 1", 'a == "1"', "b.c > 3", "z == null", "z < 1", 'a =~ "1"', "a in []"]
)
def test_a_comparison_with_another_kind_is_false(text: str) -> None:
    try:
        condition = parse_condition(text)
    except UsageError:
        assert text == "a in []"
        return
    assert not condition.holds(look_up)


#: A wrong condition, and the character where it is wrong.
WRONG = {
    "": 1,
    "a ==": 5,
    "a = 1": 3,
    "a == 1 b": 8,
    "(a": 3,
    "a in 3": 6,
    "not": 4,
    "a == x": 6,
    "and": 1,
    "a =~ 3": 6,
    '__import__("os")': 11,
    "(" * 60 + "a": 52,
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_condition_is_refused_at_its_character(text: str) -> None:
    with pytest.raises(UsageError, match=rf"character {WRONG[text]}: "):
        parse_condition(text)


@pytest.mark.parametrize(
    "pattern", ["(x+)+", "(", "(?=x)x", "(a)\\1", ".*.*.*.*", "x" * 201, "((a|b)*c)*", "(?:(?:a{2})+b)*"]
)
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        compile_pattern(pattern)


def test_paths_of_a_condition() -> None:
    assert parse_condition("a == 1 and (exists b.c or not l[0])").paths() == {("a",), ("b", "c"), ("l", 0)}


def test_regression_a_json_pointer_in_a_condition_was_a_key_that_never_exists() -> None:
    condition = parse_condition('exists /b/c and (/a == 1 or /l/0 in [2]) and /b/c=~"^WFI" and not /n')
    assert condition.paths() == {("b", "c"), ("a",), ("l", "0"), ("n",)}
    for wrong, place in (("exists /a/~x", 11), ("/log[5] == 1", 5), ("meta/n == 1", 5), ("a..b == 1", 3)):
        with pytest.raises(UsageError, match=rf"condition .*, character {place}: "):
            parse_condition(wrong)


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        (r'x =~ "^F1\.8$"', "F158", False),
        (r'x =~ "^F1\.8$"', "F1.8", True),
        (r"x =~ '^r\d+$'", "r12", True),
        (r'x =~ "a\\b"', "a\\b", True),
        (r'x =~ "a\"b\'"', "a\"b'", True),
        (r'x == "a\b"', "a\\b", True),
        (r'x == "say \"no\""', 'say "no"', True),
        (r"x in ['it\'s', 'C:\dir']", "C:\\dir", True),
    ],
)
def test_regression_a_backslash_in_quotes_was_dropped(text: str, value: str, *, holds: bool) -> None:
    assert parse_condition(text).holds(lambda path: value) is holds

"""Conditions on values: what they mean, what is refused, and that no search takes long."""

from __future__ import annotations

import datetime
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from asdffs.errors import InvalidTreeError, UsageError
from asdffs.tree.comparing import MISSING, Mark
from asdffs.tree.conditions import holds, parse_condition
from asdffs.tree.patterns import Pattern

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
    assert holds(parse_condition(text), look_up)
    assert not holds(parse_condition(f"not ({text})"), look_up)


@pytest.mark.parametrize(
    "text", ["a == true", "t == 1", 'a == "1"', "b.c > 3", "z == null", "z < 1", 'a =~ "1"', "a in []"]
)
def test_a_comparison_with_another_kind_is_false(text: str) -> None:
    try:
        condition = parse_condition(text)
    except UsageError:
        assert text == "a in []"
        return
    assert not holds(condition, look_up)


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
    "a > 2027-06-01": 5,
    f"a == {'1' * 401}": 407,
    '__import__("os")': 11,
    "(" * 60 + "a": 52,
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_condition_is_refused_at_its_character(text: str) -> None:
    with pytest.raises(UsageError, match=rf"character {WRONG[text]}: "):
        parse_condition(text)


@pytest.mark.parametrize("pattern", ["(", "x{5,2}", "(?P<a>x)(?P<a>y)", "(" * 5000 + ")" * 5000])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match="regular expression"):
        Pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:a|aa)*b", "a" * 1000),
        ("(x+)+y", "x" * 60),
        ("a?" * 40 + "a" * 40, "a" * 40),
        (".*.*.*=x", "a" * 1500),
    ],
)
def test_a_search_that_takes_too_long_finds_nothing_out(pattern: str, text: str) -> None:
    assert Pattern(pattern).search(text) is None
    condition = parse_condition(f"x == 2 or x =~ '{pattern}'")
    assert condition.holds_each(lambda _: [text, 2, "nothing"]) == [None, True, False]
    with pytest.raises(InvalidTreeError, match="takes more than 1 s"):
        holds(condition, lambda _: text)


def test_a_search_leaves_timers_and_signals_as_they_were() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    assert Pattern("(x)\\1+").search("a" * 100_000 + "xx")
    assert Pattern("x$").search("a" * 100_000 + "x")
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(Pattern("x+").search, "axx").result()


def test_regression_a_json_pointer_in_a_condition_was_a_key_that_never_exists() -> None:
    condition = parse_condition('exists /b/c and (/a == 1 or /l/0 in [2]) and /b/c=~"^WFI" and not /n')
    assert holds(condition, look_up)
    for wrong, place in (("exists /a/~x", 11), ("/log[5] == 1", 5), ("meta/n == 1", 5), ("a..b == 1", 3)):
        with pytest.raises(UsageError, match=rf"condition .*, character {place}: "):
            parse_condition(wrong)


@pytest.mark.parametrize(
    ("text", "value", "found"),
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
def test_regression_a_backslash_in_quotes_was_dropped(text: str, value: str, *, found: bool) -> None:
    assert holds(parse_condition(text), lambda path: value) is found


NOON = datetime.datetime(2027, 6, 1, 12, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ('x == "2027-06-01T12:00:00+02:00"', NOON, True),
        ('x == "2027-06-01T10:00:00Z"', NOON, True),
        ('x == "2027-06-01 10:00"', NOON, True),  # UTC, as YAML 1.1 has it
        ('x in ["2027-06-01 05:00:00 -05:00"]', NOON, True),
        ('x > "2027-06-01T11:00"', NOON, False),
        ('x > "2027-06-01" and x > "2027-06" and x > "2027" and x < "2028"', NOON, True),
        ('x == "2027-06-01T00:00:00Z" and x == "2027-06-01"', datetime.date(2027, 6, 1), True),
        ('x =~ "T12:00:00[+]02:00$"', NOON, True),
        ('x == "text" or x < "text" or x > "text" or x == 5 or x < 5', NOON, False),
        ('x == "2027-06-01T12:00:00.5Z"', datetime.datetime(2027, 6, 1, 12, 0, 0, 500_000), True),
        ('x > "0001-01-01T00:00:00-14:00"', datetime.datetime.min, False),
    ],
)
def test_dates_are_instants(text: str, value: datetime.date, *, found: bool) -> None:
    assert holds(parse_condition(text), lambda path: value) is found


#: A condition, and whether it holds if nothing is known of ``u``, and something is at ``l`` that is not known.
DOUBTS = {
    "u": None,
    "exists u": None,
    "not u": None,
    "u == 1": None,
    "u != 1": None,
    "l": True,
    "exists l": True,
    "not exists l": False,
    "l =~ 'x'": None,
    "l in [1]": None,
    "l < 5": None,
    "u and a == 1": None,
    "u and a == 2": False,
    "u or a == 1": True,
    "u or a == 2": None,
    "not (u and a == 2)": True,
    "a == 1 and not l": False,
    "f == 1 or f": True,
    "f != 1 and not e": True,
}


@pytest.mark.parametrize("text", DOUBTS)
def test_what_is_not_known_is_neither_yes_nor_no(text: str) -> None:
    known = {"u": Mark.UNKNOWN, "l": Mark.LEFT_OUT, "f": Mark.FULL, "e": Mark.EMPTY, "a": 1}
    assert parse_condition(text).holds_each(lambda path: [known[str(path[0])]]) == [DOUBTS[text]]

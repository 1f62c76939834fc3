"""Values of plain scalars: most are read without PyYAML, and equal to what PyYAML reads."""

from __future__ import annotations

import datetime
import math
import random
from typing import Any

import pytest
import yaml

from asdffs.tree.values import plain_value

LETTERS = "0123456789+-._eExob:TZ ~nulltruefalsYN"
ODD = [
    "",
    "~",
    "1.",
    ".5",
    "1e5",
    "1.0e5",
    "1.0e+5",
    "012",
    "0b11",
    "0x1F",
    "1_000",
    "1:30",
    "190:20:30.15",
    "-0",
    "+1",
]
ODD += ["2026-11-24", "2026-11-24 10:11:12", "2026-13-45", ".inf", "-.INF", ".nan", "yes", "No", "1" * 30, "9" * 5000]


def by_pyyaml(text: str) -> Any:
    """The value by PyYAML; the text where PyYAML says that it is a number and cannot read it."""
    tag = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))
    if not tag.endswith(("int", "float", "bool", "null", "timestamp")):
        return text
    try:
        value = yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(tag, text))
        str(value)
    except (ValueError, KeyError, IndexError, TypeError):
        return text
    return value


def same(text: str) -> bool:
    value, expected = plain_value(text), by_pyyaml(text)
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(value, float) and math.isnan(value)
    return type(value) is type(expected) and value == expected


@pytest.mark.parametrize("text", ODD)
def test_odd_scalars(text: str) -> None:
    assert same(text)
    assert same(text), "and the second time, when it is remembered"


def test_random_scalars() -> None:
    chance = random.Random(28)
    for _ in range(20_000):
        text = "".join(chance.choice(LETTERS) for _ in range(chance.randrange(9)))
        assert same(text), text


def test_a_date_is_a_date() -> None:
    assert plain_value("2026-11-24") == datetime.date(2026, 11, 24)

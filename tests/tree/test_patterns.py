"""Whether a tree may have a match, from its bytes alone: never no where the search in its values finds one."""

from __future__ import annotations

import random
import re

import pytest
import yaml

from asdffs.cli.commands import grep
from asdffs.tree.patterns import Pattern, required

REQUIRED = {
    "WFI": "WFI",
    "^2027-0[1-6]": "2027-0",
    r"a\.b\dc": "a.b",
    "ab?c": "a",
    "ab*cde": "cde",
    "ab+c": "ab",
    "abc{0}d": "ab",
    "a|b": "",
    "(abc)": "",
    "[]x]yz": "yz",
    "two words": "words",
    "it's": "it",
    r"\bname\b": "name",
    r"a\nb": "a",
    ".*": "",
    r"\x41bc": "",
    r"\u0041bc": "",
    r"\101bc": "",
    r"\N{BULLET}abc": "",
    r"[\]A]bc": "bc",
    r"[^]a]bcd": "bcd",
    r"a\]b": "a]b",
}


@pytest.mark.parametrize("pattern", REQUIRED)
def test_what_every_match_has(pattern: str) -> None:
    assert required(pattern) == REQUIRED[pattern]


WORDS = [
    "a",
    "b",
    "ab",
    "aab",
    "it's",
    "x.y",
    "é",
    "\u017f",
    "K",
    "\u212a",
    "two words",
    "line\nend",
    "\t",
    "'",
    '"',
    "\\",
    "12",
    "~",
]
PIECES = [
    "a",
    "b",
    "ab",
    "'",
    r"\.",
    ".",
    "a?",
    "b*",
    "a+",
    "[ab]",
    "[^a]",
    " ",
    "é",
    "s",
    "k",
    "K",
    r"\n",
    r"\w",
    "12",
    "b{0,2}",
    r"\x61",
    r"\142",
    r"\u0061",
    r"[\]ab]",
    "[]b]",
    "b??",
    "a{1,2}?",
    "$",
]


def random_text(chance: random.Random) -> bytes:
    """A tree whose texts are in all styles that YAML has, folded, quoted and escaped, with aliases."""

    def value(depth: int) -> object:
        if depth and chance.random() < 0.4:
            return {one(): value(depth - 1) for _ in range(chance.randrange(3))}
        if depth and chance.random() < 0.3:
            return [value(depth - 1) for _ in range(chance.randrange(3))]
        return chance.choice([one(), one(), 12, 1.5, None, True])

    def one() -> str:
        return "".join(chance.choice(WORDS) for _ in range(1 + chance.randrange(4)))

    shared = value(1)
    tree = {"a": shared, "b": value(3), "c": shared}
    style = chance.choice([None, "'", '"', "|", ">"])
    text = yaml.dump(
        tree, default_style=style, width=chance.choice([5, 80]), allow_unicode=chance.random() < 0.5, encoding="utf-8"
    )
    return b"#ASDF 1.0.0\n%YAML 1.1\n---\n" + bytes(text) + b"...\n"


def test_a_tree_that_is_not_parsed_has_no_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 random trees and patterns: with and without the look at the bytes the matches are the same."""
    chance, skipped, matched = random.Random(5), 0, 0
    for _ in range(10_000):
        text = random_text(chance)
        pattern = Pattern(
            "".join(chance.choice(PIECES) for _ in range(1 + chance.randrange(3))), chance.choice([0, re.IGNORECASE])
        )
        found = list(grep._matches(text, pattern))
        skipped += not pattern.may_be_in(text)
        matched += bool(found)
        with monkeypatch.context() as patch:
            patch.setattr(Pattern, "may_be_in", lambda self, text: True)
            assert found == list(grep._matches(text, pattern)), (text, pattern)
    assert skipped > 1000
    assert matched > 1000

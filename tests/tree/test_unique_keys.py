"""A mapping may not have a key twice: what one pass over the events says is what PyYAML's own values say."""

from __future__ import annotations

import random

import pytest
import yaml

from asdffs.errors import InvalidTreeError
from asdffs.tree import rules
from asdffs.tree.rules import check_tree
from asdffs.tree.tape import Tape

LARGE = rules.LARGE

HEAD = b"#ASDF 1.0.0\n%YAML 1.1\n---\n"
#: The same key in several spellings, with and without quotes, and others that look like it.
KEYS = [
    "a",
    "'a'",
    '"a"',
    "1",
    "'1'",
    "0x1",
    "+1",
    "1.0",
    "true",
    "'true'",
    "yes",
    "True",
    "null",
    "~",
    "'~'",
    "'<<'",
    "longer key",
    "'longer key'",
    "1_000_000",
    "0",
    "2305843009213693951",  # another number with the same hash
]


def text_of(chance: random.Random, depth: int = 0) -> str:
    """A mapping in flow style, with mappings in it."""
    entries = []
    for _ in range(chance.randint(1, 4)):
        value = (
            text_of(chance, depth + 1) if depth < 3 and chance.random() < 0.5 else chance.choice(["x", "1", "'1'"])
        )
        entries.append(f"{chance.choice(KEYS)} : {value}")
    return "{" + ", ".join(entries) + "}"


def has_twice(node: yaml.Node) -> bool:
    """The oracle: whether a dict of this mapping, or of one in it, would have fewer entries."""
    if not isinstance(node, yaml.MappingNode):
        return False
    make = yaml.constructor.SafeConstructor()
    keys = [make.construct_object(key) for key, _ in node.value]
    return len({*keys}) < len(keys) or any(has_twice(value) for _, value in node.value)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("large", [LARGE, 2])
def test_a_key_that_is_there_twice_is_found(seed: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``large``: from how many keys on only their hashes are kept."""
    monkeypatch.setattr(rules, "LARGE", large)
    chance = random.Random(seed)
    seen = set()
    for _ in range(100):
        text = f"top: [{', '.join(text_of(chance) for _ in range(chance.randint(1, 3)))}]\n...\n"
        wanted = any(has_twice(node) for node in yaml.compose(text, Loader=yaml.SafeLoader).value[0][1].value)
        try:
            check_tree(Tape(HEAD + text.encode()), unique=True)
            found = False
        except InvalidTreeError as err:
            assert "already" in str(err), (text, err)
            found = True
        assert found == wanted, text
        seen.add(found)
    assert seen == {True, False}


@pytest.mark.parametrize("large", [LARGE, 10])
def test_a_mapping_with_a_key_twice_names_the_first_one(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LARGE", large)
    lines = [b"key%d: 1\n" % n for n in range(200)]
    lines.append(b"'key77': 2\n")
    with pytest.raises(InvalidTreeError, match=r"the key 'key77' is in line 81 already") as error:
        check_tree(Tape(HEAD + b"".join(lines) + b"...\n"), unique=True)
    assert error.value.line == 204


@pytest.mark.parametrize("large", [LARGE, 10])
def test_numbers_with_one_hash_are_compared_as_fast_as_others(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of each of these numbers is 0."""
    monkeypatch.setattr(rules, "LARGE", large)
    prime = (1 << 61) - 1
    assert hash(prime * 3) == 0
    tape = Tape(HEAD + b"".join(b"%d: x\n" % (prime * n) for n in range(50)) + b"...\n")
    check_tree(tape, unique=True)
    assert len({hash(rules.key_value(tape, key)) for key, _ in tape.pairs(0)}) == 50


@pytest.mark.parametrize("before", [b"a:: 1\n", b'"a:": 1\n', b"a: 1\n"])
def test_regression_a_mapping_as_a_key_looked_like_a_key_of_another_tree(before: bytes) -> None:
    check_tree(Tape(before), unique=True)
    for tree in (before + b"x:\n  ? a:\n  : 2\n", b"x:\n  ? a:\n  : 2\n"):
        with pytest.raises(InvalidTreeError, match="a mapping or sequence cannot be a key"):
            check_tree(Tape(tree), unique=True)

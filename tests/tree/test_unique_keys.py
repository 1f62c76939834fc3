"""A mapping may not have a key twice: what one pass over the events says is what PyYAML's own values say."""

from __future__ import annotations

import random

import pytest
import yaml

from asdffs.errors import InvalidTreeError
from asdffs.tree.events import read_tree

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


@pytest.mark.parametrize("seed", range(20))
def test_a_key_that_is_there_twice_is_found(seed: int) -> None:
    chance = random.Random(seed)
    seen = set()
    for _ in range(100):
        text = f"top: [{', '.join(text_of(chance) for _ in range(chance.randint(1, 3)))}]\n...\n"
        wanted = any(has_twice(node) for node in yaml.compose(text, Loader=yaml.SafeLoader).value[0][1].value)
        try:
            read_tree(HEAD + text.encode(), lambda _: False, unique=True)
            found = False
        except InvalidTreeError as err:
            assert "already" in str(err), (text, err)
            found = True
        assert found == wanted, text
        seen.add(found)
    assert seen == {True, False}

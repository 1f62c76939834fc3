"""A mapping may not have a key twice: what one pass over the events says is what PyYAML's own values say."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest
import yaml

from asdffs.errors import InvalidTreeError
from asdffs.tree import events
from asdffs.tree.events import LARGE, read_tree
from asdffs.tree.key_table import KeyTable

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
    monkeypatch.setattr(events, "LARGE", large)
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


def test_the_keys_of_a_large_mapping_take_little_memory() -> None:
    keys = {f"key{n}": 10 * n for n in range(LARGE)}
    table = KeyTable(keys)
    for number in range(LARGE, 50_000):
        key = f"key{number}"
        assert key not in table
        table[key] = keys[key] = 10 * number
    assert [*table.offsets] == [*keys.values()]
    assert [*table.hashes] == [*map(hash, keys)]
    assert all(key in table for key in keys)
    assert sum(f"other{n}" in table for n in range(50_000)) == 0
    assert sys.getsizeof(table._slots) + sys.getsizeof(table.offsets) + sys.getsizeof(table.hashes) < 40 * len(keys)


def test_many_keys_with_chosen_hashes_take_no_longer() -> None:
    """Whole numbers are their own hashes: these all have the same last bits."""
    table = KeyTable({number << 40: number for number in range(LARGE)})
    searched: list[int] = []

    class Counted(type(table._slots)):  # type: ignore[misc]
        def __getitem__(self, place: int) -> int:
            searched.append(place)
            return int(super().__getitem__(place))

    table._slots = Counted("I", table._slots)
    for number in range(LARGE, LARGE + 1000):
        table[number << 40] = number
    assert len(searched) < 3000


def test_a_large_mapping_with_a_key_twice_names_the_first_one() -> None:
    lines = [b"key%d: 1\n" % n for n in range(3 * LARGE)]
    lines.append(b"'key77': 2\n")
    with pytest.raises(InvalidTreeError, match=r"the key 'key77' is in line 81 already") as error:
        read_tree(HEAD + b"".join(lines) + b"...\n", lambda _: False, unique=True)
    assert error.value.line == 3 * LARGE + 4


def test_numbers_of_the_same_hash_are_read_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text with many of these must not take the time of many readings."""
    monkeypatch.setattr(events, "LARGE", 2)
    compared: list[bytes] = []
    compare = events._compare_keys

    def counted(text: bytes, go_on: Any) -> None:
        compared.append(text)
        compare(text, go_on)

    monkeypatch.setattr(events, "_compare_keys", counted)
    prime = (1 << 61) - 1
    text = b"".join(b"%d: x\n" % (prime * n) for n in range(20))
    reading = read_tree(HEAD + text + b"...\n", lambda _: False, unique=True)
    assert len(compared) == 1
    assert reading.entries is not None
    assert len(reading.entries.hashes) == 20

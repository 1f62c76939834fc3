"""tree/syntax: every reader of a tree says the same of a text that is not YAML."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asdffs.arrays.outline import read_outline
from asdffs.dialects.asdf_1 import PLUGIN as ASDF_1
from asdffs.errors import InvalidTreeError
from asdffs.tree.locating import locate
from asdffs.tree.rules import check_tree
from asdffs.tree.tape import Tape
from asdffs.tree.values import read_values

HEAD = b"#ASDF 1.0.0\n%YAML 1.1\n---\n"
READERS: dict[str, Callable[[bytes], object]] = {
    "values": read_values,
    "outline": lambda text: read_outline(text, ASDF_1),
    "locating": lambda text: locate(Tape(text), ("b",)),
    "validation": lambda text: check_tree(Tape(text), unique=True),
}


@pytest.mark.parametrize("reader", READERS)
def test_the_parser_is_quoted_with_its_line(reader: str) -> None:
    with pytest.raises(InvalidTreeError, match="did not find expected ',' or ']'") as caught:
        READERS[reader](HEAD + b"a: [1\nb: 2\n...\n")
    assert caught.value.line == 5


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("depth", [300, 900, 3000], ids=str)
def test_too_deep_is_told_whatever_the_parser_thinks(reader: str, depth: int) -> None:
    with pytest.raises(InvalidTreeError, match="nested more than 240 deep") as caught:
        READERS[reader](HEAD + b"a: " + b"[" * depth + b"]" * depth + b"\n...\n")
    assert caught.value.line == 4


@pytest.mark.parametrize("depth", [239, 240])
@pytest.mark.parametrize("tag", ["", "!t "], ids=["plain", "tagged"])
def test_240_collections_may_be_inside_each_other(depth: int, tag: str) -> None:
    """The root is one of them."""
    text = HEAD + b"a: " + (tag.encode() + b"[") * depth + b"]" * depth + b"\n...\n"
    if depth < 240:
        Tape(text)
    else:
        with pytest.raises(InvalidTreeError, match="nested more than 240 deep"):
            Tape(text)

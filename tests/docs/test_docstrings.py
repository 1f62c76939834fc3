"""The first line of a docstring is a sentence: of a function, what it does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import asdffs

PACKAGE = Path(asdffs.__file__).parent
#: How a fragment begins, such as "The bytes, fewer at the end." or "Whether it can be read.".
FRAGMENTS = {
    *("A", "All", "An", "As", "Bytes", "For", "How", "If", "In", "It", "Its", "Names", "Never", "None", "Not"),
    *("Nothing", "Of", "One", "Size", "Sizes", "That", "The", "There", "They", "This", "Those", "What", "Where"),
    *("Whether", "Who"),
}
PROPERTIES = {"property", "cached_property", "setter"}


def functions() -> Iterator[tuple[str, str]]:
    """Each function that is no property, and the first line of its docstring."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
                names = {getattr(one, "attr", getattr(one, "id", "")) for one in node.decorator_list}
                if not names & PROPERTIES:
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}", text.splitlines()[0]


def test_no_docstring_of_a_function_begins_as_a_fragment() -> None:
    found = list(functions())
    assert len(found) > 3000
    assert [one for one in found if one[1].split()[0].rstrip(".,:;") in FRAGMENTS] == []

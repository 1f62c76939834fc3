"""Columns of tables are named by ``colnames`` or by their own names; names that are not sure are not used."""

from __future__ import annotations

import pytest
from support.arrays import tree_file
from support.samples import block_bytes

from asdffs.arrays.outline import read_outline
from asdffs.dialects.asdf_1 import PLUGIN

IMAGE = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [4]}"
TWO = f"columns: [{{data: {IMAGE}}}, {IMAGE}]"


def names(body: str) -> list[str]:
    text = tree_file(body, [block_bytes(b"1234")]).partition(b"\xd3BLK")[0]
    outline = read_outline(text, PLUGIN, spans=False)
    return ["/".join(map(str, outline.shown_path(branch) or ())) for branch in outline.arrays]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"t: {{colnames: [a, 'b c'], {TWO}}}\n", ["t/columns/a/data", "t/columns/b c"]),
        (f"t: {{{TWO}, colnames: [a, b]}}\n", ["t/columns/a/data", "t/columns/b"]),
        (f"t: {{columns: [{{name: x, data: {IMAGE}}}]}}\n", ["t/columns/x/data"]),
        (f"t: {{colnames: [a, a], {TWO}}}\n", ["t/columns/0/data", "t/columns/1"]),
        (f"t: {{colnames: [a], {TWO}}}\n", ["t/columns/0/data", "t/columns/1"]),
        (f"t: {{colnames: [1, 2], {TWO}}}\n", ["t/columns/0/data", "t/columns/1"]),
        (f"t: {{colnames: {{a: 1}}, {TWO}}}\n", ["t/columns/0/data", "t/columns/1"]),
        (f"n: &n a\nt: {{colnames: [*n, b], {TWO}}}\n", ["t/columns/a/data", "t/columns/b"]),
        (f"t: {{columns: [{{name: x, data: {IMAGE}}}, {IMAGE}]}}\n", ["t/columns/0/data", "t/columns/1"]),
        (f"t: {{colnames: [a, b], columns: {{x: {IMAGE}}}}}\n", ["t/columns/x"]),
        (f"t: {{colnames: [a, b, c], columns: [1, {IMAGE}, 3]}}\n", ["t/columns/b"]),
    ],
)
def test_names(body: str, expected: list[str]) -> None:
    assert names(body) == expected

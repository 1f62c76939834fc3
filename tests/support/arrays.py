"""Files with every kind of array, and what the asdf library reads of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import asdf
import numpy as np
from asdf.tags.core.ndarray import NDArrayType

from support.samples import block_bytes, odd_file, zlib_block

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
OTHERS = ["complex64", "complex128", "bool8"]
_HEAD = "%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n"
RECORD = (
    "[{name: a, datatype: int16, byteorder: big}, {name: 'b c', datatype: float64, byteorder: little}, "
    "{name: t, datatype: [ascii, 3]}, {name: v, datatype: uint8, byteorder: big, shape: [2, 2]}]"
)
RECORD_SIZE = 2 + 8 + 3 + 4
#: Values that are exact in every number, and small enough for all of them.
VALUES = np.arange(120)


def number_tree() -> tuple[str, list[bytes]]:
    """Every datatype of numbers in both byteorders; text, and its blocks."""
    lines, blocks = [], []
    for datatype, order in itertools.product([*NUMBERS, *OTHERS], ("big", "little")):
        dtype = np.dtype("?" if datatype == "bool8" else datatype).newbyteorder(">" if order == "big" else "<")
        values = VALUES % 2 if datatype == "bool8" else VALUES - (60 if datatype.startswith(("i", "f", "c")) else 0)
        facts = f"source: {len(blocks)}, datatype: {datatype}, byteorder: {order}, shape: [4, 30]"
        lines.append(f"{datatype}_{order}: !core/ndarray-1.0.0 {{{facts}}}\n")
        blocks.append(block_bytes(values.astype(dtype).tobytes()))
    return "".join(lines), blocks


def shape_tree(number: int) -> tuple[str, list[bytes]]:
    """Ranks 0 to 6, columns first, negative strides, slices, masks, aliases: of one block, ``number``; its text."""
    common = f"source: {number}, datatype: int16, byteorder: little"
    tree = "meta: {exposure: 12.5, name: WFI, instrument: {name: 'a b', detector: 7}}\n"
    shapes = [[], [120], [4, 30], [2, 3, 20], [2, 3, 4, 5], [2, 3, 2, 2, 5], [2, 3, 2, 2, 1, 5]]
    tree += "".join(f"rank{n}: !core/ndarray-1.0.0 {{{common}, shape: {shape}}}\n" for n, shape in enumerate(shapes))
    views = {
        "columns": "shape: [4, 30], strides: [2, 8]",
        "columns3": "shape: [2, 3, 20], strides: [2, 4, 12]",
        "backwards": "shape: [120], strides: [-2], offset: 238",
        "mirrored": "shape: [4, 30], strides: [60, -2], offset: 58",
        "slice": "shape: [2, 10], strides: [120, 6], offset: 4",
        "transposed": "shape: [20, 2, 3], strides: [2, 120, 40]",
        "repeated": "shape: [5, 4], strides: [0, 2]",
        "overlapping": "shape: [10, 5], strides: [2, 2]",
        "nothing": "shape: [0, 7]",
        "window": "shape: [3, 5], offset: 14",
        "masked_by_value": "shape: [4, 30], mask: 7",
    }
    tree += "".join(f"{name}: !core/ndarray-1.0.0 {{{common}, {view}}}\n" for name, view in views.items())
    mask = f"!core/ndarray-1.0.0 {{source: {number + 1}, datatype: bool8, byteorder: little, shape: [10]}}"
    tree += f"masked_by_array: !core/ndarray-1.0.0 {{{common}, shape: [10], mask: {mask}}}\n"
    tree += "anchored: &anchor\n  deep:\n  - !core/ndarray-1.0.0 {" + f"{common}, shape: [7]" + "}\n"
    tree += "alias: *anchor\nreference: {$ref: '#/anchored/deep/0'}\n"
    tree += "from_the_end: !core/ndarray-1.0.0 {source: -1, datatype: uint8, byteorder: little, shape: [10]}\n"
    values = (VALUES - 60).astype("<i2").tobytes()
    return tree, [block_bytes(values), block_bytes(bytes([0, 1] * 5))]


def other_tree(number: int) -> tuple[str, list[bytes]]:
    """Texts, records, compressed, inline, and odd names; text, and blocks from ``number``."""
    tree = f"texts: !core/ndarray-1.0.0 {{source: {number}, datatype: [ascii, 4], byteorder: big, shape: [5]}}\n"
    for order in ("big", "little"):
        fact = f"source: {number + (1 if order == 'big' else 2)}, datatype: [ucs4, 3], byteorder: {order}, shape: [4]"
        tree += f"unicode_{order}: !core/ndarray-1.0.0 {{{fact}}}\n"
    tree += f"records: !core/ndarray-1.0.0 {{source: {number + 3}, datatype: {RECORD}, byteorder: big, shape: [6]}}\n"
    packed = f"source: {number + 4}, datatype: float32, byteorder: big, shape: [10, 50]"
    tree += f"packed: !core/ndarray-1.0.0 {{{packed}}}\n"
    tree += "inline: !core/ndarray-1.0.0 {data: [[1, 2, 3], [4, 5, 6]], datatype: int32, shape: [2, 3]}\n"
    tree += "short: !core/ndarray-1.0.0 [1.5, 2.5, .nan]\n"
    tree += "list:\n- 5\n- {'a/b': !core/ndarray-1.0.0 [1, 2]}\n- - !core/ndarray-1.0.0 [3]\n"
    tree += "'.': !core/ndarray-1.0.0 [4]\n'100%': !core/ndarray-1.0.0 [5]\n'ünï ☃': !core/ndarray-1.0.0 [6]\n"
    texts = np.array([b"a", b"bcde", b"", b"x y", b"zz"], "S4").tobytes()
    unicode = np.array(["é", "abc", "", "☃x"])
    records = np.zeros(6, [("a", ">i2"), ("b c", "<f8"), ("t", "S3"), ("v", "u1", (2, 2))])
    records["a"], records["b c"], records["t"] = (
        np.arange(6),
        np.arange(6) / 4,
        [b"q", b"rs", b"tuv", b"", b"w", b"x"],
    )
    records["v"] = np.arange(24).reshape(6, 2, 2)
    blocks = [texts, unicode.astype(">U3").tobytes(), unicode.astype("<U3").tobytes(), records.tobytes()]
    return tree, [*map(block_bytes, blocks), zlib_block(np.arange(500, dtype=">f4").tobytes())]


def write_all_kinds(path: Path) -> None:
    """One file with all of them."""
    numbers, blocks = number_tree()
    shapes, more = shape_tree(len(blocks))
    blocks += more
    others, rest = other_tree(len(blocks))
    blocks += [*rest, block_bytes(bytes(range(10)))]
    path.write_bytes(odd_file(tree=f"{_HEAD}{numbers}{shapes}{others}...\n", blocks=blocks, padding=b" " * 4000))


def tree_file(body: str, blocks: list[bytes], **options: object) -> bytes:
    """A file with this tree."""
    return odd_file(tree=f"{_HEAD}{body}...\n", blocks=blocks, **options)


def read_by_asdf(path: Path) -> dict[tuple[str | int, ...], np.ndarray]:
    """Every array of a file, by its path in the tree: masked arrays without their masks, and these."""
    with asdf.open(path, memmap=False, lazy_load=False, ignore_unrecognized_tag=True) as file:
        file.resolve_references()
        return {place: np.array(array) for place, array in _arrays(dict(file.tree), ())}


def _arrays(node: object, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], np.ndarray]]:
    if isinstance(node, NDArrayType):
        node = node[...] if node.shape else node._make_array()
    if isinstance(node, np.ma.MaskedArray):
        yield place, np.ma.getdata(node)
        yield (*place, "mask"), np.ma.getmaskarray(node)
    elif isinstance(node, np.ndarray):
        yield place, node
    elif isinstance(node, dict):
        for key, child in node.items():
            if key not in ("asdf_library", "history"):
                yield from _arrays(child, (*place, key))
    elif isinstance(node, (list, tuple)):
        for number, child in enumerate(node):
            yield from _arrays(child, (*place, number))


#: Arrays that cannot be shown: the text of each in the tree, where block 0 has 4096 bytes, and a part of the reason.
UNSHOWN = {
    "too large": ("{source: 0, datatype: int16, byteorder: big, shape: [6000]}", "bytes 0 to 12000 of block 0"),
    "no such block": ("{source: 9, datatype: int16, byteorder: big, shape: [5]}", "source is 9, and the file has 1"),
    "another file": ("{source: other.asdf, datatype: int16, byteorder: big, shape: [5]}", "'other.asdf' cannot be"),
    "unknown datatype": ("{source: 0, datatype: int17, byteorder: big, shape: [5]}", "datatype 'int17' is not known"),
    "an alias of one": ("{source: 0, datatype: *kind, byteorder: big, shape: [5]}", "datatype 'int24' is not known"),
    "no byteorder": ("{source: 0, datatype: int16, shape: [5]}", "byteorder is None; it must be big or little"),
    "no datatype": ("{source: 0, byteorder: big, shape: [3]}", ""),
    "no shape": ("{source: 0, datatype: int32, byteorder: big}", "its shape is missing or not valid"),
    "too few strides": ("{source: 0, datatype: int16, byteorder: big, shape: [5, 2], strides: [2]}", "2 axes and 1"),
    "too many strides": ("{source: 0, datatype: int16, byteorder: big, shape: [5], strides: [2, 2]}", "1 axes and 2"),
    "far strides": ("{source: 0, datatype: int16, byteorder: big, shape: [5], strides: [4000]}", "bytes 0 to 16002"),
    "before the block": ("{source: 0, datatype: int16, byteorder: big, shape: [5], strides: [-2]}", "bytes -8 to 2"),
    "negative offset": ("{source: 0, datatype: int16, byteorder: big, shape: [5], offset: -4}", ""),
    "negative shape": ("{source: 0, datatype: int16, byteorder: big, shape: [-5]}", "shape is missing or not valid"),
    "a star behind": ("{source: 0, datatype: int16, byteorder: big, shape: [7, '*']}", ""),
    "huge shape": ("{source: 0, datatype: int8, shape: [9223372036854775807, 9223372036854775807]}", "more bytes"),
    "huge and narrow": ("{source: 0, datatype: uint8, shape: [4611686018427387904, 4], strides: [0, 0]}", "more"),
    "odd offset": ("{source: 0, datatype: int8, shape: [5], offset: x}", "its offset is 'x', which is not valid"),
    "odd strides": ("{source: 0, datatype: int8, shape: [5], strides: [a]}", "its strides is ['a'], which is not"),
    "truth for a shape": ("{source: 0, datatype: int8, shape: [true]}", "which is not valid"),
    "text for a shape": ("{source: 0, datatype: int16, byteorder: big, shape: many}", "shape is 'many', which is"),
    "empty record": ("{source: 0, datatype: [], byteorder: big, shape: [5]}", "is not known"),
    "same names": (
        "{source: 0, shape: [5], datatype: [{name: a, datatype: int8}, {name: a, datatype: int8}]}", "the same name"
    ),
    "neither": ("{datatype: int16, byteorder: big, shape: [5]}", "it states neither a source nor data"),
    "a list as source": ("{source: [0], datatype: int16, byteorder: big, shape: [5]}", ""),
    "data of another shape": ("{data: [[1, 0], [0, 1]], datatype: float64, shape: [3, 2]}", ""),
    "ragged": ("[[1, 2], [3]]", "its data is not an array"),
    "mapping": ("{data: {a: 1}}", "a mapping in it"),
}  # fmt: skip

"""Statements of the format's documents, each tried on a small file: those of docs/statements.md without another test.

A case has the number of its row; ``tests/docs/test_pages.py`` checks the other rows.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import asdf
import numpy as np
import pytest
import yaml
from support.arrays import tree_file
from support.commands import command
from support.daf_stores import DTYPES, Builder
from support.drafts import DIRECTIVES, HEAD_2014, HEAD_2015, block_36, block_44, content, draft, opened
from support.mounts import environment_in
from support.samples import block_bytes, compressed_block, index_bytes
from support.tree_texts import HEAD, load

import asdffs
import asdffs.features.daf
from asdffs.errors import AsdffsError, DamagedFileError, InvalidArrayError, InvalidTreeError, NotPermittedError
from asdffs.features.daf.files import read_directory
from asdffs.features.daf.format import STRING
from asdffs.features.daf.properties import check_store
from asdffs.workflows.checking import Level, check_document

PAGE = Path(__file__).parents[2] / "docs" / "statements.md"
ITEMS = b"\0\1\2\3"
Case = Callable[[str, Path], None]
CASES: dict[str, Case] = {}


def states(*numbers: str) -> Callable[[Case], Case]:
    """Have a function try these statements; it gets the number and an empty directory."""

    def note(case: Case) -> Case:
        assert not CASES.keys() & set(numbers)
        CASES.update(dict.fromkeys(numbers, case))
        return case

    return note


class Form(NamedTuple):
    """What the documents L, A and B call a file: its text before the tree, an array of ``ITEMS``, and a block."""

    head: bytes
    array: bytes
    magic: bytes
    #: The header without the magic, from size, flags, allocated and used size.
    fields: Callable[[int, int, int, int], bytes]
    smallest: int

    def file(self, *blocks: bytes, body: bytes | None = None, padding: bytes = b"") -> bytes:
        return self.head + (self.array if body is None else body) + b"...\n" + padding + b"".join(blocks)

    def block(self, stored: bytes, *, slack: bytes = b"", size: int = 0, flags: int = 0, used: int = -1) -> bytes:
        """A block; ``used``: as its header says, of a stream."""
        size, used = size or self.smallest, len(stored) if used < 0 else used
        return self.magic + self.fields(size, flags, used + len(slack), used).ljust(size + 2, b"\7") + stored + slack


FORMS = {
    "L": Form(
        HEAD.encode(),
        b"a: !core/ndarray-1.1.0 {source: 0, datatype: uint8, byteorder: big, shape: [4]}\n",
        b"\xd3BLK",
        lambda size, *more: struct.pack(">HI4xQQQ16x", size, *more, more[-1]),
        48,
    ),
    "A": Form(
        HEAD_2015 + DIRECTIVES,
        b"a: !core/ndarray {source: 0, dtype: uint8, shape: [4]}\n",
        b"\xd3BLK",
        lambda size, *more: struct.pack(">HIQQQ8x", size, *more, more[-1]),
        36,
    ),
    "B": Form(
        HEAD_2014 + DIRECTIVES,
        b"a: !core/ndarray {source: 0, dtype: uint8, shape: [4]}\n",
        b"\x89BLK",
        lambda size, *more: struct.pack(">HIQQ8x", size, *more) + bytes(12),
        40,
    ),
}


def arrays(whole: bytes) -> dict[str, Any]:
    """Every array of a file with which nothing is wrong, as lists."""
    _, document = opened(whole)
    try:
        assert faults(whole) == []
        return {name: document.arrays[name][...].tolist() for name in document.arrays}
    finally:
        document.close()


def faults(whole: bytes) -> list[str]:
    """The sentences of ``check --deep`` but for notes."""
    _, document = opened(whole)
    try:
        return [one.sentence for one in check_document(document, deep=True) if one.level is not Level.NOTE]
    finally:
        document.close()


def blocks(whole: bytes) -> list[bytes]:
    _, document = opened(whole)
    try:
        return [block.read_at(0, 1 << 20) for block in document.blocks]
    finally:
        document.close()


def edited(whole: bytes, edit: Callable[[Any], object]) -> bytes:
    """The file after ``edit`` of its document."""
    folder, document = opened(whole)
    try:
        edit(document)
        document.finish()
    finally:
        document.close()
    return content(folder)


def saved(whole: bytes, change: Callable[[bytes], bytes]) -> bytes:
    return edited(whole, lambda document: document.commit_tree(change(bytes(document.tree.text()))))


# -- text and layout: L, A, B ----------------------------------------------------


@states("L5", "A3", "B7")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS))
    if number[0] == "L":
        whole += index_bytes([whole.index(form.magic)])
    for change in (b"more: lines\n", b"x: " + b"y" * 5000 + b"\n"):
        by_hand = whole.replace(b"...\n", change + b"...\n", 1)
        assert blocks(by_hand) == [ITEMS]
        assert blocks(edited(by_hand, lambda document: document.blocks.add(b"new"))) == [ITEMS, b"new"]


@states("L9", "A6", "A9", "B10", "B13")
def _(number: str, folder: Path) -> None:
    whole = saved(FORMS[number[0]].file(body=b"a: [1, two]\n"), lambda text: text.replace(b"two", b"three"))
    assert load(whole.decode())["a"] == [1, "three"]


@states("L17", "A1", "A13", "B5", "B17", "L39", "A32", "B33")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    head = form.head[: form.head.index(b"\n") + 1]
    assert blocks(head + form.block(ITEMS) + form.block(b"2")) == [ITEMS, b"2"]
    for between in (b" ", b"\n\n", bytes(9)):
        with pytest.raises(DamagedFileError, match="neither a tree nor a block"):
            opened(head + between + form.block(ITEMS))


@states("L21", "A11", "A16", "B15", "B20")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file().replace(b"\n", b"\r\n") + form.block(ITEMS)
    assert arrays(whole) == {"a": list(ITEMS)}
    found = saved(whole, lambda text: text.replace(b"...", b"x: 1\r\n..."))
    assert found[: found.index(form.magic)].count(b"\r\n") == whole.count(b"\r\n") + 1


#: What a save must not do to the text: numbers, what is replaced, by what, and a part of the sentence.
BAD_SAVES = [
    (["L22", "A12", "B16"], b"%YAML 1.1", b"%YAML 1.2", "must begin with the line '%YAML 1.1'"),
    (["A17", "B21"], b"%YAML 1.1\n", b"", "must begin with the line '%YAML 1.1'"),
    (["A15", "B19"], b"^", b"\xef\xbb\xbf", "byteorder marker"),
    (["A2", "A14", "B6", "B18"], rb"(?=\.\.\.\n)", b"x: \xe9\n", "not UTF-8"),
    (["A18", "B22"], rb"(?=\.\.\.\n)", b"--- {}\n", "second YAML document"),
    (["L25", "A19", "B23"], rb"--- \S+\n", b"", "did not find expected <document start>"),
    (["A20", "B24"], rb"\.\.\.\n", b"", "end marker missing"),
    (["A21", "B25"], rb"\.\.\.\n", b"x: 1 ...\n", "end marker missing"),
]


def refuse(old: bytes, new: bytes, sentence: str, number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS))
    assert re.search(old, whole, re.MULTILINE)
    with pytest.raises(InvalidTreeError, match=sentence):
        saved(whole, lambda text: re.sub(old, lambda _: new, text, count=1))


for numbers, *arguments in BAD_SAVES:
    states(*numbers)(partial(refuse, *arguments))


@states("L28", "A22", "B26")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    text = form.array + b"t: |\n  ...\n  text\nu: ....\nv: '...'\n"
    _, document = opened(form.file(form.block(ITEMS), body=text, padding=b"...\n...\n"))
    assert bytes(document.tree.text()).endswith(b"v: '...'\n...\n")
    document.close()


@states("A23", "A26", "B27", "B29")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS), padding=b" " * 100)
    longer = saved(whole, lambda text: text.replace(b"...\n", b"x: " + b"1" * 50 + b"\n...\n"))
    assert longer.index(form.magic) == whole.index(form.magic)
    assert saved(longer, lambda text: re.sub(b"x: 1+\n", b"", text)) == whole


@states("A25", "A30", "A31", "B28", "B32")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS), padding=b"\n...\n%YAML 1.1\n#ASDF 1.0.0\0" + form.magic[:3] * 50)
    assert blocks(whole) == [ITEMS]


@states("L44", "L46", "A36", "B35", "B119")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    for size in (form.smallest, 4090, (1 << 16) - 1):
        whole = form.file(form.block(ITEMS, size=size), form.block(b"2", size=size))
        assert blocks(whole) == [ITEMS, b"2"]
        assert (
            whole
            == edited(
                edited(whole, lambda document: document.blocks[0].write_at(1, b"x")),
                lambda document: document.blocks[0].write_at(1, ITEMS[1:2]),
            )[: len(whole)]
        )


@states("L45", "A35", "B36")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    small = form.magic + form.fields(form.smallest - 1, 0, 4, 4)[: form.smallest + 1] + ITEMS
    assert any("its header is damaged" in sentence for sentence in faults(form.file(small)))


@states("L47")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS, flags=1 << 30))
    assert arrays(whole) == {"a": list(ITEMS)}
    found = edited(whole, lambda document: document.blocks[0].write_at(0, b"x"))
    assert found[whole.index(form.magic) + 6 :][:4] == struct.pack(">I", 1 << 30)


@states("L52")
def _(number: str, folder: Path) -> None:
    for size, wrong in ((4, False), (3, True), (5, True)):
        (*found,) = faults(FORMS["L"].file(compressed_block(zlib.compress(ITEMS), b"zlib", size)))
        assert any("cannot be decoded" in sentence for sentence in found) is wrong


@states("L57", "A5", "A45", "B41")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    for used in (0, 1, 1 << 60):
        whole = form.file(form.block(b"first"), form.block(ITEMS, flags=1, used=used))
        assert blocks(whole) == [b"first", ITEMS]
        assert blocks(whole + b"more") == [b"first", ITEMS + b"more"]


@states("L58", "A46", "B42")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS, flags=1), form.block(b"behind"))
    assert blocks(whole) == [whole[whole.index(ITEMS + form.magic) :]]
    with pytest.raises(NotPermittedError, match="streamed"):
        edited(whole, lambda document: document.blocks.add(b"new"))


@states("L62", "L63", "L64", "A38", "A39", "A49", "A50", "A51", "B38", "B43", "B44")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    whole = form.file(form.block(ITEMS, slack=form.magic * 9), form.block(b"2", slack=b"\xff" * 7))
    assert blocks(whole) == [ITEMS, b"2"]
    found = edited(whole, lambda document: document.blocks[0].write_at(2, b"longer"))
    assert blocks(found) == [ITEMS[:2] + b"longer", b"2"]
    assert found.rindex(form.magic) == whole.rindex(form.magic)


@states("A4", "B8")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    found = edited(form.file(form.block(ITEMS), form.block(b"2")), lambda one: one.blocks[0].write_at(4, bytes(9999)))
    assert blocks(found) == [ITEMS + bytes(9999), b"2"]


@states("L86", "L88", "A88", "A89", "A92", "B45", "B46", "B48")
def _(number: str, folder: Path) -> None:
    form, call = FORMS[number[0]], partial(command, environment=environment_in(folder))
    (folder / "x.asdf").write_bytes(form.file(form.block(ITEMS), form.block(b"2")))
    assert call("explode", folder / "x.asdf", folder / "parts").code == 0
    main = folder / "parts/x.asdf"
    assert load(main.read_text())["a"]["source"] == "x0000.asdf"
    assert [blocks((folder / f"parts/x000{n}.asdf").read_bytes()) for n in (0, 1)] == [[ITEMS], [b"2"]]
    main.write_bytes(main.read_bytes().replace(b"...\n", b"by: hand\n...\n"))
    assert call("implode", main, folder / "out.asdf").code == 0
    whole = (folder / "out.asdf").read_bytes()
    assert (arrays(whole), blocks(whole)) == ({"a": list(ITEMS)}, [ITEMS, b"2"])
    assert b"by: hand\n" in whole


# -- the block index -------------------------------------------------------------


def indexed(index: Callable[[int], bytes]) -> bytes:
    """A file of one block, and what ``index`` makes of its offset."""
    whole = FORMS["L"].file(block_bytes(ITEMS))
    return whole + index(whole.index(b"\xd3BLK"))


@states("L70", "L84")
def _(number: str, folder: Path) -> None:
    assert faults(indexed(lambda offset: index_bytes([offset]))) == []
    for between in (b"   ", b"\0", b"\n", b"x"):
        whole = indexed(lambda offset, between=between: between + index_bytes([offset]))
        assert (blocks(whole), len(faults(whole))) == ([ITEMS], 1)


@states("L74")
def _(number: str, folder: Path) -> None:
    for line in (b"#ASDF  BLOCK INDEX", b"#asdf block index", b"# ASDF BLOCK INDEX"):
        whole = indexed(lambda offset, line=line: index_bytes([offset]).replace(b"#ASDF BLOCK INDEX", line))
        assert (blocks(whole), len(faults(whole))) == ([ITEMS], 1)


@states("L72")
def _(number: str, folder: Path) -> None:
    whole = edited(FORMS["L"].file(body=b"a: 1\n"), lambda document: document.blocks.add(ITEMS))
    assert b"BLOCK INDEX" in whole
    assert b"BLOCK INDEX" not in edited(whole, lambda document: document.blocks[0].remove())


# -- the drafts -------------------------------------------------------------------


def encoded(chunk: bytes) -> bytes:
    """A file with a block that begins with this chunk, and another one."""
    stored = b"---\n" + chunk + b"\n...\n" + zlib.compress(ITEMS)
    more = b"b: !core/ndarray {source: 1, dtype: uint8, shape: [2]}\n"
    return draft(FORMS["A"].array + more, block_36(stored, 4), block_36(b"\5\6"))


@states("A52", "B3")
def _(number: str, folder: Path) -> None:
    form = FORMS[number[0]]
    (folder / "x.asdf").write_bytes(form.file(form.block(ITEMS)))
    with asdffs.open(folder / "x.asdf", "r+") as document:
        elements = document.arrays["a"].mapped()
        document.blocks[0].write_at(1, b"\7")
        assert elements.tolist() == [0, 7, 2, 3]
        del elements


@states("A64")
def _(number: str, folder: Path) -> None:
    for chunk in (
        b"[[tile, {shape: [32, 32]}], zlib]",
        b"[[tile, {shape: [32, 32]}], [quantize, {quality: 4}], zlib]",
    ):
        (sentence,) = faults(encoded(chunk))
        assert "tile needs shape, original_shape and item_size" in sentence


@states("A68", "A69", "A70")
def _(number: str, folder: Path) -> None:
    for chunk in (b"[secret]", b"[zlib, [secret, {of: mine}]]"):
        _, document = opened(encoded(chunk))
        with pytest.raises(AsdffsError, match="'secret' is not known"):
            document.arrays["a"][...]
        assert document.arrays["b"][...].tolist() == [5, 6]
        document.commit_tree(document.tree.text().replace(b"...\n", b"x: 1\n...\n"))
        document.finish()
        document.close()


@states("A87")
def _(number: str, folder: Path) -> None:
    assert arrays(encoded(b"[zlib]")) == arrays(encoded(b"[[zlib, {level: 9}]]")) == {"a": list(ITEMS), "b": [5, 6]}


@states("B4", "B55", "B57", "B58", "B114", "B117")
def _(number: str, folder: Path) -> None:
    form = FORMS["B"]
    more = (
        b"u: !unit/defunit {name: foo, unit: !unit/unit m}\nx: !<tag:nobody.org:1/x> {a: !<tag:nobody.org:1/y> [1]}\n"
    )
    found = saved(form.file(form.block(ITEMS), body=form.array + more), lambda text: text.replace(b"foo", b"bar"))
    assert arrays(found) == {"a": list(ITEMS)}
    assert more.replace(b"foo", b"bar") in found


@states("B73", "B74")
def _(number: str, folder: Path) -> None:
    forms = {"1-1j": 1 - 1j, "1J": 1j, "-1": -1, "+1.5e3-2.5e-1I": 1500 - 0.25j, ".5i": 0.5j, "2e+1": 20}
    text = ", ".join(f"!core/complex '{form}'" for form in forms)
    assert arrays(draft(f"a: !core/ndarray [{text}]\n".encode())) == {"a": list(forms.values())}
    for wrong in ("1+1", "x", "1-1 j", "1jj"):
        assert len(faults(draft(f"a: !core/ndarray [!core/complex '{wrong}']\n".encode()))) == 1


@states("B60")
def _(number: str, folder: Path) -> None:
    _, document = opened(draft(b"b: {$ref: '#/a', more: 1}\na: !core/ndarray [1, 2]\nc: {$ref: '#/b'}\n"))
    assert [document.arrays[name][...].tolist() for name in "abc"] == [[1, 2]] * 3
    document.close()


# -- arrays: B and N ---------------------------------------------------------------


def array_file(number: str, array: str, *stored: bytes) -> bytes:
    """A file with the array ``a`` as the document of ``number`` writes it; ``array`` is written as today."""
    more = [block_44(one, magic=b"\x89BLK") if number[0] == "B" else block_bytes(one) for one in stored]
    if number[0] == "B":
        array = array.replace("datatype", "dtype").replace("-1.1.0", "").replace("-1.0.0", "")
        return draft(f"a: {array}\n".encode(), *more, head=HEAD_2014)
    return tree_file(f"a: {array}\n", more)


SIMPLE = "source: 0, datatype: uint8, byteorder: big"
BYTES = bytes(range(24))
#: Numbers, and arrays: as written, their block, their elements.
SHOWN: list[tuple[list[str], list[tuple[str, bytes, object]]]] = [
    (
        ["B76", "B87", "N21", "N22", "N23", "N24", "N25", "N26"],
        [
            ("[1, abc, 2.5]", b"", np.array(["1", "abc", "2.5"])),
            ("[1, !core/complex-1.0.0 1+1j, 2.5]", b"", np.array([1, 1 + 1j, 2.5])),
            ("[1, 2.5, true]", b"", np.array([1, 2.5, 1])),
            ("[[1, 2], [3, true]]", b"", np.array([[1, 2], [3, 1]])),
            ("[true, false]", b"", np.array([True, False])),
            ("[]", b"", np.array([])),
        ],
    ),
    (
        ["B95", "N40"],
        [
            (
                "{data: [1, 2], datatype: uint8, strides: [7], offset: 9, byteorder: little}",
                b"",
                np.array([1, 2], "u1"),
            )
        ],
    ),
    (["B96", "B97", "N42"], [(f"{{{SIMPLE}, shape: ['*', 5]}}", BYTES, np.arange(20, dtype="u1").reshape(4, 5))]),
    (
        ["B99", "B100", "B101", "N45", "N48"],
        [
            (f"{{{SIMPLE}, shape: [2, 3], offset: 4}}", BYTES, np.arange(4, 10, dtype="u1").reshape(2, 3)),
            (
                f"{{{SIMPLE}, shape: [2, 3], strides: [-12, 4], offset: 12}}",
                BYTES,
                np.array([[12, 16, 20], [0, 4, 8]], "u1"),
            ),
        ],
    ),
    (["N12"], [("{source: 0, datatype: [ascii, 0], byteorder: big, shape: [2]}", BYTES, np.zeros(2, "S0"))]),
]
#: Numbers, and arrays: as written, their block, what is told of them.
TOLD: list[tuple[list[str], list[tuple[str, bytes, str]]]] = [
    (
        ["B86"],
        [("{source: 0, datatype: [{name: x}], byteorder: big, shape: [2]}", BYTES, "the datatype None is not known")],
    ),
    (
        ["B94"],
        [
            ("{data: [1, 2], datatype: uint8, shape: [3]}", b"", "its data has the shape"),
            ("{data: [1.5], datatype: uint8, shape: [1]}", b"", "its datatype makes 1 of the value 1.5"),
            ("{data: [[1, 2]], datatype: uint8, shape: ['*', 3]}", b"", "its data has the shape (1, 2)"),
        ],
    ),
    (["B105"], [(f"{{{SIMPLE}, shape: [4], mask: !core/ndarray-1.1.0 [true, false]}}", BYTES, "does not fit")]),
    (["N10"], [("{data: [é], datatype: [ascii, 1], shape: [1]}", b"", "can't encode character")]),
    (["N38"], [(f"{{data: [1], {SIMPLE}, shape: [1]}}", BYTES, "a source or data, not both")]),
    (
        ["N37", "N44"],
        [
            ("{source: 0, datatype: uint8, shape: [4]}", BYTES, "demands a byteorder"),
            ("{source: 0, datatype: uint8, byteorder: middle, shape: [4]}", BYTES, "demands a byteorder"),
        ],
    ),
    (["B102"], [(f"{{{SIMPLE}, shape: [2, 3], strides: [3]}}", BYTES, "it has 2 axes and 1 strides")]),
]


def show(entries: list[tuple[str, bytes, Any]], number: str, folder: Path) -> None:
    for array, stored, wanted in entries:
        whole = array_file(number, f"!core/ndarray-1.1.0 {array}", stored)
        assert faults(whole) == []
        _, document = opened(whole)
        found = document.arrays["a"][...]
        document.close()
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist())


def tell(entries: list[tuple[str, bytes, str]], number: str, folder: Path) -> None:
    for array, stored, sentence in entries:
        (found,) = faults(array_file(number, f"!core/ndarray-1.1.0 {array}", stored))
        assert sentence in found


for statements, shown in SHOWN:
    states(*statements)(partial(show, shown))
for statements, told in TOLD:
    states(*statements)(partial(tell, told))


@states("B79", "B80", "B81", "B82", "N5", "N6", "N7", "N8")
def _(number: str, folder: Path) -> None:
    names = ["float16", "float32", "float64", "complex64", "complex128", "bool8"][number[0] == "B" :]
    names += [f"{sign}int{8 << power}" for sign in ("", "u") for power in range(4)]
    for name in [*names, "[ascii, 3]", "[ucs4, 2]"]:
        for byteorder, mark in (("big", ">"), ("little", "<")):
            dtype = np.dtype({"bool8": "?", "[ascii, 3]": "S3", "[ucs4, 2]": "U2"}.get(name, name)).newbyteorder(mark)
            wanted = np.array(["1", "10"]).astype(dtype) if dtype.kind in "SU" else np.arange(2).astype(dtype)
            facts = f"{{source: 0, datatype: {name}, byteorder: {byteorder}, shape: [2]}}"
            show([(facts, wanted.tobytes(), wanted)], number, folder)


@states("B90", "N36", "B91")
def _(number: str, folder: Path) -> None:
    whole = array_file(number, f"!core/ndarray-1.1.0 {{{SIMPLE.replace('0', '1', 1)}, shape: [2]}}", b"\7\7", b"\1\1")
    (folder / "an other.asdf").write_bytes(whole)
    for source in ("an%20other.asdf", "./x/../an%20other.asdf", f"file://{folder}/an%20other.asdf"):
        array = f"!core/ndarray-1.1.0 {{{SIMPLE.replace('0', source, 1)}, shape: [2]}}"
        (folder / "x.asdf").write_bytes(array_file(number, array, b"\3\3"))
        with asdffs.open(folder / "x.asdf") as document:
            assert document.arrays["a"][...].tolist() == [7, 7]
    (folder / "an other.asdf").write_bytes(array_file(number, "!core/ndarray-1.1.0 [1]"))
    with (
        asdffs.open(folder / "x.asdf") as document,
        pytest.raises(InvalidArrayError, match="' has no block"),
    ):
        document.arrays["a"][...]


@states("B106", "N4")
def _(number: str, folder: Path) -> None:
    """Those of the schema, smaller; those of 2014 are the same in the words of 2014."""
    schema = asdf.get_config().resource_manager["http://stsci.edu/schemas/asdf/core/ndarray-1.1.0"]
    stored = [bytes(range(256)) * 30, bytes([0, 1] * 8)]
    (folder / "external.asdf").write_bytes(tree_file("x: 1\n", [block_bytes(stored[0])]))
    examples = yaml.safe_load(schema)["examples"]
    assert len(examples) == 11
    for _, _, example in examples:
        for large, small in (("1024", "16"), ("256", "4"), ("8192", "128"), ("2099200", "520"), ("[64]", "[8]")):
            example = example.replace(large, small)
        array = example.strip().replace("\n", "\n  ")
        (folder / "x.asdf").write_bytes(array_file("N", array, *stored))
        with asdf.open(folder / "x.asdf", memmap=False, lazy_load=False) as file:
            wanted = np.ma.getdata(file["a"][...])
        (folder / "y.asdf").write_bytes(array_file(number, array, *stored))
        with asdffs.open(folder / "y.asdf") as document:
            found = document.arrays["a"][...]
        if wanted.dtype.kind == "U":  # the asdf library makes texts beside numbers wider than the longest one
            found = found.astype(wanted.dtype)
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


# -- FilesDaf: D ------------------------------------------------------------------


def store_in(folder: Path, number: int = 0) -> Builder:
    """An empty store with the axes ``cell`` (a, b, c) and ``gene`` (g, h)."""
    root = folder / f"{number}.daf"
    root.mkdir()
    builder = Builder(root)
    builder.axis("cell", ["a", "b", "c"])
    builder.axis("gene", ["g", "h"])
    return builder


def wrong(builder: Builder) -> dict[str, str]:
    """What ``daf check`` says, by file."""
    return {fault.path: fault.sentence for fault in check_store(read_directory(str(builder.root))) if not fault.kept}


def read(builder: Builder, value: Callable[[Any], Any]) -> Any:
    """A value of a store with which nothing is wrong."""
    assert wrong(builder) == {}
    with asdffs.features.daf.open(builder.root) as store:
        found = value(store)
        return found.toarray().tolist() if hasattr(found, "toarray") else getattr(found, "tolist", lambda: found)()


@states("D9", "D10")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    for path in ("what", "scalars/x.txt", "axes/x.csv", "vectors/cell/y.bin", "more/z.json"):
        builder.raw(path, b"?")
    builder.scalar("x", "Int8", 1)
    assert read(builder, lambda store: [dict(store.scalars), sorted(store.axes)]) == [{"x": 1}, ["cell", "gene"]]


@states("D11", "D12", "D17", "D18")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    for good in (b'{"version":[1,0]}', b'{"version":[1,0]}\n', b'{"version":[1,0],"more":"\xc3\xa9"}'):
        builder.raw("daf.json", good)
        assert read(builder, lambda store: store.version) == (1, 0)
    for bad in (b"[1,0]", b'{"version":[1.0,0]}', b'{"version":[1,0,0]}', b'{"version":[1,0],"more":"\xe9"}'):
        builder.raw("daf.json", bad)
        assert list(wrong(builder)) == ["daf.json"]


@states("D19", "D22", "D23", "D28", "D29")
def _(number: str, folder: Path) -> None:
    values = {
        "Bool": "0",
        "Int8": "-3",
        "UInt64": str(2**64 - 1),
        "Float32": "1.5",
        "Float64": "1e-5",
        "String": '"é"',
    }
    for count, (name, text) in enumerate(values.items()):
        builder = store_in(folder, count)
        builder.raw("scalars/x.json", f'{{"type":"{name}","value":{text}}}'.encode())
        assert read(builder, lambda store: store.scalars["x"]) == json.loads(text)
        beyond = {"Bool": "2", "Int8": "128", "UInt64": "-1", "String": "5"}.get(name, '"5"')
        for odd in ("null", "[1]", beyond):
            builder.raw("scalars/x.json", f'{{"type":"{name}","value":{odd}}}'.encode())
            assert list(wrong(builder)) == ["scalars/x.json"]


@states("D21", "D81", "D83")
def _(number: str, folder: Path) -> None:
    names = {name.lower(): name for name in (*DTYPES, STRING)} | {"Int": "Int64", "int": "Int64"}
    builder = store_in(folder)
    for alias, name in names.items():
        value = '"x"' if name == STRING else "1"
        builder.raw(f"scalars/{alias}.json", f'{{"type":"{alias}","value":{value}}}'.encode())
        builder.dense(f"vectors/cell/{alias}", name, [0, 1, 1])
        builder.json(f"vectors/cell/{alias}", {"format": "dense", "eltype": alias})
    assert len(read(builder, lambda store: list(store.scalars))) == len(names)
    for alias, name in names.items():
        found = read(builder, lambda store, alias=alias: store.vectors["cell"][alias].dtype)
        assert name == STRING or found == DTYPES[name]


@states("D34", "D35")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    for entries in ([], ["a\tb", "c/d", " é ", '"', "\x01"]):
        builder.raw("axes/cell.txt", "".join(f"{entry}\n" for entry in entries).encode())
        assert read(builder, lambda store: store.axes["cell"]) == entries


@states("D2", "D38", "D57")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    builder.json("vectors/cell/v", {"format": "dense", "eltype": "Int16"})
    builder.raw("vectors/cell/v.data", b"\1\0\0\1\xff\xff")
    builder.json("vectors/cell/s", {"format": "sparse", "eltype": "Int8", "indtype": "UInt32"})
    builder.raw("vectors/cell/s.nzind", b"\2\0\0\0\3\0\0\0")
    builder.raw("vectors/cell/s.nzval", b"\5\6")
    assert read(builder, lambda store: store.vectors["cell"]["v"]) == [1, 256, -1]
    assert read(builder, lambda store: store.vectors["cell"]["s"]) == [0, 5, 6]


@states("D41", "D42", "D49")
def _(number: str, folder: Path) -> None:
    builder, matrix = store_in(folder), np.array([[0, 1], [1, 1], [0, 0]])
    for name, dtype in DTYPES.items():
        builder.dense(f"vectors/cell/{name}", name, matrix[:, 1])
        builder.dense(f"matrices/cell/gene/{name}", name, matrix)
        assert (builder.root / f"matrices/cell/gene/{name}.data").read_bytes() == matrix.T.astype(dtype).tobytes()
    for name in DTYPES:
        assert read(builder, lambda store, name=name: store.vectors["cell"][name]) == [1, 1, 0]
        assert read(builder, lambda store, name=name: store.matrices["cell", "gene"][name]) == matrix.tolist()


@states("D37", "D46", "D53", "D82")
def _(number: str, folder: Path) -> None:
    """As FilesDaf writes them, whatever the tree says."""
    array = "!core/ndarray-1.1.0 {data: %s, datatype: %s, shape: %s}"
    (folder / "x.asdf").write_text(
        f"{HEAD}daf:\n  version: [1, 0]\n  axes: {{c: [a, b]}}\n  scalars: {{i: {{type: int, value: 7}}}}\n"
        f"  vectors: {{c: {{v: {array % ('[1, 2]', 'int16', '[2]')}, t: [x, y], s: {{format: sparse, shape: [2], "
        f"eltype: bool, nzind: {array % ('[2]', 'uint32', '[1]')}}}}}}}\n"
        f"  matrices: {{c: {{c: {{m: {array % ('[[1, 2], [3, 4]]', 'uint8', '[2, 2]')}}}}}}}\n...\n"
    )
    root = folder / "x.daf"
    assert command("daf", "unpack", folder / "x.asdf", root, environment=environment_in(folder)).code == 0
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert found == {
        "daf.json": b'{"version":[1,0]}\n',
        "axes/c.txt": b"a\nb\n",
        "scalars/i.json": b'{"type":"Int64","value":7}\n',
        "vectors/c/v.json": b'{"format":"dense","eltype":"Int16"}\n',
        "vectors/c/v.data": b"\1\0\2\0",
        "vectors/c/t.json": b'{"format":"dense","eltype":"String"}\n',
        "vectors/c/t.txt": b"x\ny\n",
        "vectors/c/s.json": b'{"format":"sparse","eltype":"Bool","indtype":"UInt32"}\n',
        "vectors/c/s.nzind": b"\2\0\0\0",
        "matrices/c/c/m.json": b'{"format":"dense","eltype":"UInt8"}\n',
        "matrices/c/c/m.data": b"\1\3\2\4",
    }


@states("D48")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    for eltype, size in (("Int8", 6), ("Float64", 48)):
        builder.json("matrices/cell/gene/m", {"format": "dense", "eltype": eltype})
        for more in (-1, 0, 1):
            builder.raw("matrices/cell/gene/m.data", bytes(size + more))
            assert bool(wrong(builder)) is (more != 0)


@states("D50", "D51")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    builder.dense("matrices/cell/gene/m", STRING, ["1", "2", "", "4", "5", "é"])
    assert read(builder, lambda store: store.matrices["cell", "gene"]["m"]) == [["1", "4"], ["2", "5"], ["", "é"]]
    builder.raw("matrices/cell/gene/m.txt", b"1\n2\n")
    assert "has 2 lines" in wrong(builder)["matrices/cell/gene/m.txt"]


def sparse_arrays() -> Iterator[tuple[str, dict[str, list[int]], list[Any] | None, Any]]:
    """Type, indices and values of each, and the whole array."""
    yield "Float32", {"nzind": [1, 3]}, [1.5, 2], [1.5, 0, 2]
    yield "Bool", {"nzind": [1, 3]}, None, [True, False, True]
    yield "Bool", {"nzind": [1, 3]}, [1, 0], [True, False, False]
    yield STRING, {"nzind": [1, 3]}, ["x", "y"], ["x", "", "y"]
    yield "Int8", {"colptr": [1, 2, 4], "rowval": [3, 1, 2]}, [7, 8, 9], [[0, 8], [0, 9], [7, 0]]
    yield "Bool", {"colptr": [1, 2, 4], "rowval": [3, 1, 2]}, None, [[False, True], [False, True], [True, False]]
    yield STRING, {"colptr": [1, 2, 4], "rowval": [3, 1, 2]}, ["x", "y", "z"], [["", "y"], ["", "z"], ["x", ""]]


@states("D58", "D59", "D62", "D69", "D71", "D72", "D73", "D74", "D75")
def _(number: str, folder: Path) -> None:
    builder = store_in(folder)
    for count, (eltype, parts, values, whole) in enumerate(sparse_arrays()):
        for indtype in ("UInt32", "UInt64"):
            place = "vectors/cell" if "nzind" in parts else "matrices/cell/gene"
            builder.sparse(f"{place}/{count}{indtype}", eltype, indtype, parts, values)

            def value(store: Any, name: str = f"{count}{indtype}", parts: Any = parts) -> Any:
                return (store.vectors["cell"] if "nzind" in parts else store.matrices["cell", "gene"])[name]

            assert read(builder, value) == whole
    builder.sparse("vectors/cell/v", "Float32", "UInt32", {"nzind": [1]}, None)
    assert wrong(builder) == {"vectors/cell/v.json": "v.nzval is missing"}


@pytest.mark.parametrize("number", CASES)
def test_statement(number: str, tmp_path: Path) -> None:
    CASES[number](number, tmp_path)


def test_each_case_has_its_row() -> None:
    rows = re.findall(r"^\| ([A-Z]\d+) \|.*test_statements\.py", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(CASES)

"""The outline of a tree: which branches there are, where arrays and their sources are written, what joins what.

Columns of tables are named by ``colnames`` or by their own names; names that are not sure are not used.
"""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import pytest
from support.arrays import tree_file
from support.calls import calls
from support.samples import ODD_FILES, block_bytes, odd_file
from support.yaml_trees import TreeWriter

from asdffs.arrays import outline as outlines
from asdffs.arrays.branch import Branch, Outline
from asdffs.arrays.outline import read_outline
from asdffs.dialects.asdf_1 import PLUGIN as ASDF_1
from asdffs.errors import InvalidTreeError
from asdffs.tree.tape import Tape
from asdffs.workflows.exploding import exploded_text

ARRAY = "!core/ndarray-1.0.0"
HEAD = "#ASDF 1.0.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n---\n"


def outline_of(body: str) -> Outline:
    return read_outline(f"{HEAD}{body}...\n".encode(), ASDF_1)


def paths(branch: Branch, path: str = "") -> list[str]:
    """Every path to an array."""
    own = [path] if branch.array is not None else []
    return own + [found for key, child in branch.children.items() for found in paths(child, f"{path}/{key}")]


TREES = {
    "nested": (f"a: {{b: [1, {ARRAY} [1]]}}\nc: {ARRAY} {{source: 1}}\n", ["/a/b/1", "/c"]),
    "alias": (f"a: &x {ARRAY} [1]\nb: *x\n", ["/a", "/b"]),
    "alias of a mapping": (f"a: &x {{y: {ARRAY} [1]}}\nb: [*x]\n", ["/a/y", "/b/0/y"]),
    "merge key": (f"a: &x {{y: {ARRAY} [1], z: {ARRAY} [2]}}\nb: {{<<: *x, z: 3}}\n", ["/a/y", "/a/z", "/b/y"]),
    "merge keys": (
        f"a: &x {{y: {ARRAY} [1]}}\nc: &w {{v: {ARRAY} [1]}}\nb: {{<<: [*x, *w]}}\n",
        ["/a/y", "/c/v", "/b/y", "/b/v"],
    ),
    "reference": (f"r: {{$ref: '#/a/0'}}\na: [{ARRAY} [1]]\n", ["/r", "/a/0"]),
    "reference to a reference": (f"r: {{$ref: '#/s'}}\ns: {{$ref: '#/a'}}\na: {ARRAY} [1]\n", ["/r", "/s", "/a"]),
    "escaped reference": (f"r: {{$ref: '#/a~1b/~0%20c'}}\na/b: {{'~ c': {ARRAY} [1]}}\n", ["/r", "/a/b/~ c"]),
    "reference to itself": (f"r: {{$ref: '#/r'}}\na: {ARRAY} [1]\n", ["/a"]),
    "references in a ring": (f"r: {{$ref: '#/s'}}\ns: {{$ref: '#/r'}}\na: {ARRAY} [1]\n", ["/a"]),
    "reference to what holds it": (f"a: {{r: {{$ref: '#/a'}}, b: {ARRAY} [1]}}\n", ["/a/b"]),
    "alias to what holds it": (f"a: &x {{r: *x, b: {ARRAY} [1]}}\n", ["/a/b"]),
    "reference elsewhere": (f"r: {{$ref: 'other.asdf#/a'}}\na: {ARRAY} [1]\n", ["/a"]),
    "mask as an array": (f"a: {ARRAY} {{source: 0, mask: {ARRAY} {{source: 1}}}}\n", ["/a", "/a/mask"]),
    "mask as a list": (f"a: {ARRAY} {{source: 0, mask: [true, false]}}\n", ["/a", "/a/mask"]),
    "reference without a slash": (f"r: {{$ref: '#a'}}\na: {ARRAY} [1]\n", ["/r", "/a"]),
    "an alias for a key": (f"k: &k name\n? *k\n: {ARRAY} [1]\n", ["/name"]),
    "a number and its text": (f"1: {ARRAY} [1]\n'1': {ARRAY} [2]\n", ["/1", "/'1'"]),
    "a key twice": (f"a: {ARRAY} [1]\na: 5\n", []),
    "other tags": ("a: !core/software-1.0.0 {name: x}\n", []),
}


@pytest.mark.parametrize("name", TREES)
def test_arrays_are_found(name: str) -> None:
    body, wanted = TREES[name]
    root = outline_of(body).root
    assert root is not None
    assert sorted(paths(root)) == sorted(wanted)
    assert root.holds or not wanted


def test_rings_of_references_below_each_other_end() -> None:
    """Two branches that refer into each other: one of the references is left out, or walking would not end."""
    body = f"a: {{r: {{$ref: '#/b'}}, x: {ARRAY} [1]}}\nb: {{r: {{$ref: '#/a'}}, y: {ARRAY} [2]}}\n"
    root = outline_of(body).root
    assert root is not None
    assert sorted(paths(root)) == ["/a/r/y", "/a/x", "/b/y"]


def test_a_bomb_of_aliases_takes_no_memory() -> None:
    body = f"a0: &a0 [{ARRAY} [1]]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    root = outline_of(body).root
    assert root is not None
    assert all(child.holds for child in root.children.values())


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sources_are_where_they_are_written(newline: str) -> None:
    """Whatever stands before them: characters of several bytes, other newlines, other styles."""
    body = (
        f"# ☃ 𝄞 a comment with source: 7\nnote: 'é𝄞: source: 1'\na: {ARRAY} {{shape: [1], source: 0}}   # stays\n"
        f"b: {ARRAY}\n  source:   1  # two\n  mask: {ARRAY} {{source: -1}}\n  shape: ['*']\n"
        f"c: &x {ARRAY} {{source: '2'}}\nd: *x\ne: {ARRAY} {{source: other.asdf}}\nf: {ARRAY} {{source: 9}}\n"
    )
    text = f"{HEAD}{body}...\n".replace("\n", newline)
    found = exploded_text(read_outline(text.encode(), ASDF_1), "-é", 3).decode()
    wanted = re.sub("source: 0}", 'source: "-%C3%A90000.asdf"}', text)
    wanted = wanted.replace("source:   1 ", 'source:   "-%C3%A90001.asdf" ').replace(
        "source: -1}", 'source: "-%C3%A90002.asdf"}'
    )
    assert found == wanted


def test_every_odd_file_explodes() -> None:
    for name, raw in ODD_FILES.items():
        if b"\n---" not in raw[:200]:
            continue  # it has no tree
        text = raw.partition(b"\n...")[0] + b"\n...\n"
        found = exploded_text(read_outline(text, ASDF_1), "x", 2)
        assert found == text.replace(b"source: 0", b"source: x0000.asdf").replace(
            b"source: 1", b"source: x0001.asdf"
        ), name


def test_what_is_no_yaml() -> None:
    for raw in (odd_file().partition(b"...")[0] + b"a: [\n...\n", b"#ASDF 1.0.0\n%YAML 1.1\n---\na: \xff\n...\n"):
        with pytest.raises(InvalidTreeError):
            read_outline(raw, ASDF_1)


FACTS = {
    "offset: 0x10": {"offset": 16},
    "offset: 010": {"offset": 8},
    "offset: 1_000": {"offset": 1000},
    "offset: 1:40": {"offset": 100},
    "offset: *n": {"offset": 7},
    "shape: *s": {"shape": (2, 3)},
    "strides: *s": {"strides": (2, 3)},
    "datatype: *d": {"datatype": [{"name": "x", "datatype": "int8"}]},
    "source: *n": {"source": 7},
    "<<: *m": {"source": 3, "shape": (2, 3), "offset": 5},
    "<<: *m, offset: 6": {"source": 3, "offset": 6},
    "offset: 6, <<: *m": {"source": 3, "offset": 6},
    "offset: '6'": {"odd": "offset is '6'"},
    "offset: -1": {"odd": "offset is -1"},
    "strides: [x]": {"odd": "strides is ['x']"},
}


@pytest.mark.parametrize("facts", FACTS)
def test_facts_of_arrays_are_read_as_the_asdf_library_reads_them(facts: str) -> None:
    """Numbers in every form of YAML 1.1, aliases, merge keys; what is not array_errors is told, not left out."""
    anchors = "n: &n 7\ns: &s [2, 3]\nd: &d [{name: x, datatype: int8}]\nm: &m {source: 3, shape: *s, offset: 5}\n"
    array = outline_of(f"{anchors}a: {ARRAY} {{{facts}}}\n").arrays[0].array
    assert array is not None
    for name, wanted in FACTS[facts].items():
        assert getattr(array, name) == wanted


def test_sources_with_anchors_aliases_and_merges_are_rewritten() -> None:
    body = f"m: &m {{source: 2, shape: [1]}}\na: {ARRAY} {{source: &s 0}}\nb: {ARRAY} {{source: *s }}\n"
    body += f"c: {ARRAY} {{<<: *m}}\nd: {ARRAY} {{<<: *m, offset: 1}}\n"
    found = exploded_text(outline_of(body), "x", 3).decode()
    wanted = (
        body.replace("source: 2", "source: x0002.asdf").replace("&s 0", "&s x0000.asdf").replace("*s ", "x0000.asdf ")
    )
    assert found == f"{HEAD}{wanted}...\n"


def test_one_alias_does_not_count_what_is_read_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what aliases stand for is limited, not what is written."""
    monkeypatch.setattr("asdffs.tree.tagged.REPLAYED", 20)
    array = "!core/ndarray-1.0.0 {source: 0, datatype: *t, byteorder: big, shape: [3]}"
    other = array.replace("*t", "int8")
    few = f"{HEAD}t: &t int8\na: {array}\n" + "".join(f"b{n}: {other}\n" for n in range(50)) + "...\n"
    assert len(read_outline(few.encode(), ASDF_1).arrays) == 51
    many = f"{HEAD}t: &t int8\n" + "".join(f"b{n}: {array}\n" for n in range(50)) + "...\n"
    with pytest.raises(InvalidTreeError, match="at most 20 values are read again"):
        read_outline(many.encode(), ASDF_1)


IMAGE = "!core/ndarray-1.0.0 {source: 0, datatype: uint8, byteorder: big, shape: [4]}"
TWO = f"columns: [{{data: {IMAGE}}}, {IMAGE}]"


def names(body: str) -> list[str]:
    text = tree_file(body, [block_bytes(b"1234")]).partition(b"\xd3BLK")[0]
    outline = read_outline(text, ASDF_1, spans=False)
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
        (f"t: !!omap [1: {IMAGE}, columns: [{{name: x, data: {IMAGE}}}]]\n", ["t/1", "t/columns/x/data"]),
    ],
)
def test_names(body: str, expected: list[str]) -> None:
    assert names(body) == expected


# -- metadata, which is read when it is asked for ---------------------------------------


def dump(branch: Branch) -> Any:
    """All of a branch.  One that a ``$ref`` leads to may be there several times."""
    below = [(key, dump(child)) for key, child in branch.children.items()]
    flags = (branch.mapping, branch.holds, branch.leads, branch.metadata, branch.nulls, branch.masked, branch.shared)
    text = (branch.tag, branch.path, branch.line, branch.span, branch.inline, branch.source, branch.reference)
    return text, flags, branch.array, branch.label, list(branch.scalars.items()), below


MERGED = "a: &x {n: 1, in: {m: 2}}\nmeta: {<<: *x, 'b\\n': [1, {c: 3}], o: !!omap [p: 1, q: {r: 2}]}\n"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(200))
def test_late_metadata_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The walk that looks at every row is the oracle."""
    text = TreeWriter(seed).text(1).replace("in0:", f"{MERGED}more:\n meta:" if seed % 2 else "meta:")
    late = read_outline(text.encode(), ASDF_1)
    monkeypatch.setattr(outlines._Walk, "_leads", lambda self, row: True)
    now = read_outline(text.encode(), ASDF_1)
    assert now.root is not None
    assert late.root is not None
    assert dump(late.root) == dump(now.root)
    assert [branch.path for branch in late.arrays] == [branch.path for branch in now.arrays]
    assert (late.text, late.prefix) == (now.text, now.prefix)


def test_metadata_that_nobody_asks_for_are_not_read() -> None:
    body = "".join(f"  k{n}: {{a: {n}, b: [1, {{c: x}}]}}\n" for n in range(500))
    tape = Tape(f"{HEAD}meta:\n{body}d: {ARRAY} {{source: 0}}\n...\n")
    root: list[Branch | None] = []
    found = calls(lambda: root.append(outlines.outline_of(tape, ASDF_1).root))
    ours = [name for name in found if name.startswith(("arrays/", "tree/"))]
    assert len([name for name in ours if "Tape.line." not in name]) < 100  # that is called once for each line
    assert root[0] is not None
    meta = root[0].children["meta"]
    assert meta.children["k7"].children["b"].children[1].scalars["c"].text == "x"
    assert meta.children["k8"].later is not None


@pytest.mark.parametrize("asked", [False, True])
def test_an_outline_that_is_taken_apart_leaves_no_garbage(asked: bool) -> None:
    """The tape of a large tree is large, and the garbage collector comes late."""
    tape = Tape(f"{HEAD}r:\n  meta: {{a: 1, b: {{c: [1, {{d: 2}}]}}}}\n  d: {ARRAY} {{source: 0}}\n...\n")
    outline, freed = outlines.outline_of(tape, ASDF_1), weakref.ref(tape)
    del tape
    assert outline.root is not None
    gc.disable()
    try:
        if asked:
            meta = outline.root.children["r"].children["meta"]
            assert meta.children["b"].children["c"].children[1].scalars["d"].text == "2"
            del meta
        outline.take_apart()
        del outline
        assert freed() is None
    finally:
        gc.enable()


def test_few_metadata_do_not_keep_the_tape_of_a_large_tree() -> None:
    values = ", ".join(map(str, range(40_000)))
    for body, late in ((f"meta: {{a: 1}}\nl: [{values}]\n", False), (f"meta: {{l: [{values}]}}\n", True)):
        tape = Tape(f"{HEAD}{body}...\n")
        outline = outlines.outline_of(tape, ASDF_1)
        assert outline.root is not None
        assert (outline.root.children["meta"].later is not None) == late

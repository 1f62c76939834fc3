"""tree/tape: every node that PyYAML composes is a row, with its text, its place, its tag and its value."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from support.tree_texts import texts
from support.yaml_trees import HEAD, TreeWriter

from asdffs.allocator import COLLECTIONS
from asdffs.errors import InvalidTreeError
from asdffs.tree.resolving import SCALAR_TAGS
from asdffs.tree.tape import ALIAS, FLOW_MAPPING, FLOW_SEQUENCE, MAPPINGS, SCALAR, StoppedError, Tape
from asdffs.tree.values import fault_at, scalar_value

#: ``@``: indentation of the key.  What is rare in files and easily read wrongly.
ODD = (
    "a: !!int '12'\nb: !!float 3\nc: !!null ''\nd: !!bool yes\ne: ! 12\nf: ! '12'\ng: !!str 12\n",
    "a: &x 1\nb: *x\nc: &y [*x, {k: *x}]\nd: {<<: {k: 1}, *x : 2}\ne: *y\n",
    "? a\n: 1\n? [b]\n: 2\n? |\n  c\n: 3\n?\n  - d\n: - 4\n",
    "a: |2-\n   x\n  y\nb: >+1\n  x\n\n c: |\n",
    "a:\n- |3\n     x\n    y\n- - >2\n    x\n-\n",
    "a: \U0001f52d\u00e9 # \u00e9\nb: 'it''s'\nc: \"\\x41\\u00e9\\\n  b\"\nd: one\n  two\n\n  three\n",
    "a: !!omap\n- !!omap\n  b: 1\n- c: 2\nd: !!set {e, f}\n",
    "a: !core/x-1.0.0\n\n  # comment\n  b: 1\nc: &n !core/y-1.0.0 {d: }\ne: !<tag:x,1:y> z\n",
    "{a, b: , c: [], d: {}, 'e': \"f\",\n  g: one\n  two}\n",
    "a: 1 # [\r\nb:\r\n  - x\r\n  -\r\n\r\nc: '\r\n  y'\r\n",
    "a: \x85  b\u2028c: 1\n",
    "a: ---x\nb:\n- - c\n",
    "- 1\n- [2]\n",
    "text\n",
    "",
)
LOADER = yaml.CSafeLoader


def composed(text: str) -> Any:
    """The oracle: the root as PyYAML composes it; None for a text that it refuses."""
    try:
        return yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError:
        return None


def refused(text: str) -> bool:
    """Whether PyYAML refuses a text; it composes nothing of one without a document, too."""
    try:
        yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError:
        return True
    return False


def children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def rows_of(tape: Tape, row: int) -> Iterator[int]:
    if tape.kind[row] in MAPPINGS:
        return (one for pair in tape.pairs(row) for one in pair)
    return tape.items(row) if tape.kind[row] != SCALAR else iter(())


def compare(tape: Tape, root: Any) -> int:
    """Assert that the rows are the nodes of ``root``; return their number."""
    rest, count, known = [(0, root)], 0, dict[int, Any]()
    while rest:
        row, node = rest.pop()
        count += 1
        if tape.kind[row] == ALIAS:
            assert known[tape.target(row)] is node
            continue
        known[row] = node
        assert tape.start[row] == node.start_mark.index
        assert tape.line(row) == node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            compare_scalar(tape, row, node)
        else:
            assert (tape.kind[row] in MAPPINGS) == isinstance(node, yaml.MappingNode)
            flow = tape.kind[row] in (FLOW_MAPPING, FLOW_SEQUENCE)
            assert flow == bool(node.flow_style)
            assert tape.has_alias(row) or tape.end[row] == last_end(node)
        inner, nodes = list(rows_of(tape, row)), children(node)
        assert len(inner) == len(nodes)
        assert [tape.next[one] for one in inner] == [*inner[1:], tape.next[row]][: len(inner)]
        rest += reversed(list(zip(inner, nodes, strict=True)))
    return count


def last_end(node: Any) -> int:
    """Where the last scalar or bracket of a node ends."""
    block = not isinstance(node, yaml.ScalarNode) and not node.flow_style
    return last_end(children(node)[-1]) if block else int(node.end_mark.index)


def compare_scalar(tape: Tape, row: int, node: Any) -> None:
    assert tape.scalar(row) == node.value
    assert tape.end[row] == node.end_mark.index
    maker = LOADER("")
    try:
        value = maker.construct_object(node)
        str(value)
    except (yaml.YAMLError, ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError):
        assert fault_at(tape, row) or node.tag not in SCALAR_TAGS
        return
    finally:
        maker.dispose()
    assert not fault_at(tape, row) or node.tag not in SCALAR_TAGS
    if node.tag in SCALAR_TAGS and not isinstance(value, bytes):
        assert repr(scalar_value(tape, row)) == repr(value)


def check(text: str) -> int:
    root = composed(text)
    if root is None:
        return 0
    tape = Tape(text.encode())
    assert compare(tape, root) == len(tape.kind)
    return len(tape.kind)


@pytest.mark.parametrize("tree", ODD)
def test_odd_trees(tree: str) -> None:
    root = composed(f"{HEAD}{tree}...\n")
    if root is not None:
        assert check(f"{HEAD}{tree}...\n") > 0
    else:
        assert tree == ""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(60))
def test_random_trees(seed: int) -> None:
    assert check(TreeWriter(seed).text(seed % 3)) > 5


@settings(max_examples=150)
@given(texts())
def test_random_texts(text: str) -> None:
    assert check(text) > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(20))
def test_texts_with_a_piece_out_of_place(seed: int) -> None:
    """What PyYAML composes, the tape has; what PyYAML refuses, the tape refuses."""
    chance = random.Random(seed)
    pieces = [
        "'",
        '"',
        "|2\n",
        ">\n",
        "{",
        "]",
        ": ",
        "? ",
        "- ",
        "&a ",
        "*a ",
        "!t ",
        "!!int ",
        "# ",
        "\n",
        "\t",
        "\u00e9",
    ]
    for tree in ODD:
        text = f"{HEAD}{tree}...\n"
        for _ in range(20):
            at = chance.randrange(len(HEAD), len(text))
            changed = text[:at] + chance.choice(pieces) + text[at + chance.choice((0, 0, 1, 3)) :]
            if composed(changed) is not None:
                check(changed)
            elif refused(changed):
                with pytest.raises(InvalidTreeError):
                    Tape(changed.encode())


def test_reading_stops_when_it_is_told_to() -> None:
    turns = iter((True, False))
    text = HEAD + "".join(f"k{n}: {n}\n" for n in range(10_000)) + "...\n"
    with pytest.raises(StoppedError):
        Tape(text.encode(), lambda: next(turns))


def test_a_row_takes_thirteen_bytes() -> None:
    tape = Tape((HEAD + "".join(f"k{n}: {n}\n" for n in range(5000)) + "...\n").encode())
    arrays = (tape.start, tape.end, tape.next)
    assert len(tape.kind) == 10_001
    assert sum(one.itemsize for one in arrays) + 1 == 13
    assert len(tape.tags) == 1


def test_plain_scalars_of_several_lines_are_folded_as_yaml_does() -> None:
    """Without PyYAML, which takes 10 us for each of them; trees of asdf have hundreds."""
    chance, count = random.Random(7), 0
    for _ in range(3000):
        words = [
            chance.choice(["a", "bc", "d e", "f\tg", "é", "#h", "i:j", "-", "'k", "1", "21:59:43"]) for _ in range(5)
        ]
        ends = [
            chance.choice([" ", "\n  ", " \n    ", "\n\n  ", " \t\n \n\t  ", "\r\n  ", "\r\n\r\n   ", "  "])
            for _ in range(5)
        ]
        text = chance.choice(["x", "1", "2001-12-14"])
        text += "".join(f"{end}{word}" for end, word in zip(ends, words, strict=True))
        for tree in (f"k: {text}\n", f"k: [{text}, 2]\n", f"k: !t {text}\n"):
            whole = f"{HEAD}{tree}...\n"
            if composed(whole) is not None:
                count += 1
                check(whole)
    assert count > 2000


@pytest.mark.parametrize("threshold", [700, *COLLECTIONS[:1]])
def test_the_events_of_a_text_do_not_wake_the_garbage_collector(threshold: int) -> None:
    text = b"".join(b"key%d: {a: 1, b: [x, 'y']}\n" % number for number in range(5000))
    woken: list[str] = []
    before = gc.get_threshold()
    gc.collect()

    def note(phase: str, _: object) -> None:
        woken.append(phase)

    gc.callbacks.append(note)
    gc.set_threshold(threshold, *before[1:])
    try:
        tape = Tape(text)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(note)
    assert len(tape.kind) == 40001
    assert len(woken) <= 4


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: &a 1\nb: &a 2\n" + "k: 1\n" * 100 + "x: ]\n", "line 2, column 4: the anchor '&a' already exists"),
        ("a: 1\n---\n" + "b: 1\n" * 60 + "x: ]\n", "line 2, column 1: a second YAML document begins here"),
        ("a: " + "[" * 300, "nested more than 240 deep"),
    ],
)
def test_the_first_of_two_faults_is_told(text: str, fault: str) -> None:
    with pytest.raises(InvalidTreeError, match=fault):
        Tape(text)


def test_regression_other_threads_run_while_lines_are_counted() -> None:
    """Threads change places between steps of Python only, so one call in C must not count all lines."""
    tape = Tape(b"\n" * 50_000 + b"a: 1\n")
    steps, before = [0], sys.gettrace()

    def note(*_: object) -> None:
        steps[0] += 1

    sys.settrace(note)  # called when a function begins and when a generator goes on
    try:
        line = tape.line(1)
    finally:
        sys.settrace(before)
    assert line == 50_001
    assert steps[0] >= 50  # a thousand lines take 0.1 ms

"""A changed text is checked as if all of it was read: what is left out has no array and leads to none.

Oracles: the same check without the text before, the outline of the whole tree, the whole text as bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.yaml_trees import HEAD, TreeWriter

from asdffs.arrays import rechecking, validation
from asdffs.arrays.branch import Branch
from asdffs.arrays.outline import read_outline
from asdffs.arrays.rechecking import (
    ByteOffsets,
    CheckedBefore,
    Entries,
    entries_of,
    find_indicators,
    plain_runs,
    without,
)
from asdffs.arrays.validation import check_text
from asdffs.dialects.asdf_1 import PLUGIN as ASDF1
from asdffs.errors import InvalidTreeError
from asdffs.tree import rules
from asdffs.tree.tape import Tape

#: What an editor may leave in a text: ends and beginnings of all that has both, and more.
SNIPPETS = (
    *['"', "'", "|", ">", "[", "]", "{", "}", "@", "`", ":", "#", "&", "*", "!", "%", "\\", "-", "?"],
    *("- ", "- a", "? ", ": ", "# ", "&x ", "*first", "*x", "!t ", "...\n", "---\n", "%TAG ! x:\n"),
    *("\n", "\r\n", "\x85", "\t", " ", "  ", "\u00b5", "\ufeff", "  more: 1\n", "x: 1\n", "x: 2\n"),
    *("k3: again\n", "'k3': 1\n", "0x1: 1\n", "1: 1\n", "x: 08\n", "x: 2020-99-99\n", "x: \u00b5\n", "x:\n"),
    *('x: "open\n', "x: 'open\n", "x: [1,\n", "x: {a: 1\n", "x: |\n", "x: >-\n  text\n", "x: 1 # [\n", 'x: # "\n'),
    *(
        "x: &x {a: 1}\n",
        "x: &y\n",
        "x: *first\n",
        "<<: *first\n",
        "? x\n",
        "? x\n: 1\n",
        "x: !core/ndarray-1.1.0 [1]\n",
    ),
)


def checked(text: str, before: CheckedBefore | None = None) -> Any:
    """What the check says, without what only describes how it was read."""
    try:
        found = check_text(
            text.encode("utf-8", "surrogatepass"),
            ASDF1,
            had_tree=True,
            before=text.encode("utf-8", "surrogatepass"),
            checked=before,
        )
    except InvalidTreeError as err:
        return str(err)
    if found.entries is not None:
        compare_entries(text.encode(), found.entries)
    return found.header, found.start, found.arrays


def compare_entries(text: bytes, entries: Entries) -> None:
    """Assert that these are the entries of the mapping of ``text`` that begins where they do."""
    whole = entries_of(Tape(text), ASDF1.is_ndarray, first_key=entries.offsets[0])
    assert whole is not None
    assert ([*entries.offsets], [*entries.hashes]) == ([*whole.offsets], [*whole.hashes])


def edited(text: str, rng: random.Random) -> str:
    """``text`` with a random change in one place: an insertion, a removal, a replacement, or lines moved."""
    at = rng.randrange(len(text))
    if rng.random() < 0.5:
        at = text.rfind("\n", 0, at) + 1
    length = rng.choice((0, 0, 0, 1, 3, 20, 200))
    if rng.random() < 0.3:
        length = max(0, text.find("\n", at + length) + 1 - at)
    return text[:at] + "".join(rng.choices(SNIPPETS, k=rng.choice((0, 1, 1, 2, 4)))) + text[at + length :]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(50))
def test_it_says_the_same_as_without_the_text_before(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(rules, "LARGE", 3)  # only the hashes of more keys are kept
    rng = random.Random(seed)
    text = TreeWriter(seed).text(depth=seed % 3)
    for number in range(12):
        before = check_text(text.encode(), ASDF1, had_tree=True)
        assert before.entries is not None
        new = edited(text, rng)
        known = CheckedBefore(text.encode, before.entries)
        assert checked(new, known) == checked(new), (seed, number)
        if not isinstance(checked(new), str) and len(new) < 100_000:
            text = new


@pytest.mark.parametrize("mark", [" ", "  ", "\ufeff"])
def test_regression_the_indentation_of_the_tree_counts(mark: str) -> None:
    """The first entry was moved, and the others were taken for entries of the same mapping."""
    text = f"{HEAD}first: 1\nsecond: 2\n...\n"
    entries = check_text(text.encode(), ASDF1, had_tree=True).entries
    assert entries is not None
    changed = text.replace("first", f"{mark}first")
    assert isinstance(checked(changed), str)
    assert checked(changed, CheckedBefore(text.encode, entries)) == checked(changed)


@pytest.mark.parametrize("indent", ["", "  ", "      "])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k1", "k1"),
        ("k500: [1, ", "k500: [2, "),
        ("k500: [1", "x: 1\nk500: [1"),
        ("k0: [1", "k0: [2"),
        ("k999: [1", "z: [1"),
    ],
)
def test_only_what_changed_is_read(old: str, new: str, indent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``indent``: the entries are in the tree itself, or in a mapping in it, as those of Roman are."""
    lines = [f"{indent}k{n}: [1, {{a: {n}}}, \u00b5]\n" for n in range(1000)]
    more = ("first: \u00b5\nroman:\n", "last: 1\n") if indent else ("", "")
    text = HEAD + more[0] + "".join(lines) + more[1] + "...\n"
    new = new.replace("\n", f"\n{indent}")
    entries = check_text(text.encode(), ASDF1, had_tree=True).entries
    assert entries is not None
    changed = text.replace(old, new)
    expected = checked(changed)
    lengths: list[int] = []

    def counted(text: bytes) -> Tape:
        lengths.append(len(text.split()))
        return Tape(text)

    monkeypatch.setattr(validation, "Tape", counted)
    assert checked(changed, CheckedBefore(text.encode, entries)) == expected
    assert len(lengths) == 1
    assert lengths[0] < 40


def test_regression_entries_that_an_array_has_by_an_alias_were_left_out() -> None:
    """The anchor is on what is around the mapping.  ``check`` and short saves took another datatype for the array."""
    before = "".join(f"  k{n}: {n}\n" for n in range(40))
    behind = "".join(f"  j{n}: {n}\n" for n in range(40))
    array = "!core/ndarray-1.1.0 {source: 0, datatype: *types, byteorder: big, shape: [3]}"
    text = f"{HEAD}types: &types\n- name: a\n{before}  datatype: float64\n{behind}last: {array}\n...\n"
    found = check_text(text.encode(), ASDF1, had_tree=True)
    assert found.entries is not None
    changed = text.replace("j39: 39", "j39: 40")
    assert checked(changed, CheckedBefore(text.encode, found.entries)) == checked(changed)


@pytest.mark.parametrize(("style", "indent", "end"), [("{{{}}}", " ", ","), ("\n{}", "  ", "")])
def test_regression_a_last_key_that_went_on_was_taken_for_the_old_one(style: str, indent: str, end: str) -> None:
    """So the same key could come again later."""
    entries = "".join(f"{indent}k{number}: 1{end}\n" for number in range(9))
    text = f"{HEAD}a: {style.format(f'{entries}{indent}? x{chr(10)}')}\n...\n"
    before = check_text(text.encode(), ASDF1, had_tree=True)
    assert before.entries is not None
    changed = text.replace("? x\n", f"? x\n{indent}  y\n")
    assert checked(changed, CheckedBefore(text.encode, before.entries)) == checked(changed)
    assert isinstance(checked(changed.replace("k3: 1", '"x y": 1')), str)


def facts(text: str) -> list[Any]:
    """All that the rules for arrays look at, and the paths to all arrays."""
    outline = read_outline(text.encode(), ASDF1, spans=False)

    def of(branch: Branch) -> Any:
        start, stop = branch.inline or (0, 0)
        mask = branch.children.get("mask")
        return (
            *(branch.path, branch.tag, branch.line, branch.array, branch.scalars.get("mask"), branch.nulls),
            *(outline.text[start:stop] if branch.inline else None, of(mask) if mask is not None else None),
        )

    def paths(branch: Branch, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
        yield path
        for key, child in branch.children.items():
            if child.holds:
                yield from paths(child, (*path, key))

    assert outline.root is not None
    return [*(of(branch) for branch in outline.arrays), *paths(outline.root)]


def shortened(text: str) -> str:
    raw = text.encode()
    entries = entries_of(Tape(raw), ASDF1.is_ndarray)
    assert entries is not None
    return without(raw, plain_runs(entries.offsets[1:], find_indicators(raw)), flow=entries.flow).text.decode()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(150))
def test_arrays_are_the_same(seed: int) -> None:
    text = TreeWriter(seed).text()
    short = shortened(text)
    assert facts(short) == facts(text)
    assert short.count("\n") == text.count("\n")


def test_entries_without_arrays_are_left_out() -> None:
    plain = "".join(f"k{n}: [1, {n}, \u00e9]\n" for n in range(1000))
    text = f"{HEAD}{plain}a: !core/ndarray-1.1.0 [1]\n{plain.replace('k', 'j')}...\n"
    assert shortened(text).split() == f"{HEAD}k0: [1, 0, \u00e9]\na: !core/ndarray-1.1.0 [1]\n...\n".split()


@pytest.mark.parametrize("end", ["\r", "\x85", "\u2028"])
def test_unusual_ends_of_lines_leave_the_text_as_it_is(end: str) -> None:
    text = HEAD + "".join(f"k{n}: {n}{end if n % 2 else chr(10)}" for n in range(20)) + "\n...\n"
    assert shortened(text) == text


@pytest.mark.parametrize("letters", ["abc", "a\u00e9", "a\u20ac\U0001f600", "\U0001f600"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
def test_as_the_encoded_text_says(letters: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rechecking, "_STEP", 8)
    rng = random.Random(size)
    text = "".join(rng.choices(letters, k=size))
    offsets = [*range(size + 1), *rng.choices(range(size + 1), k=20)]
    assert [*ByteOffsets(text).convert(offsets)] == [len(text[:offset].encode()) for offset in offsets]
    assert [ByteOffsets(text).character(len(text[:offset].encode())) for offset in offsets] == offsets


class Counted(bytes):
    """Bytes that count how many of them are searched backwards."""

    searched = 0

    def rfind(self, what: Any, start: Any = 0, end: Any = None) -> int:
        found = super().rfind(what, start, end)
        Counted.searched += (len(self) if end is None else end) - found
        return found


def test_a_line_with_all_entries_is_not_searched_for_each_of_them() -> None:
    keys = ", ".join(f'key{number}: "$"' if number % 2 else f"key{number}: 1" for number in range(2000))
    text = Counted(f"{HEAD}a: {{{keys}}}\n...\n".encode())
    entries = entries_of(Tape(bytes(text)), ASDF1.is_ndarray)
    assert entries is not None
    found = without(text, plain_runs(entries.offsets[1:], find_indicators(bytes(text))), flow=entries.flow)
    assert len(found.cuts) > 900
    assert Counted.searched < len(text)


@pytest.mark.parametrize("between", [", ", ",\n  "])
def test_entries_in_flow_style_are_known(between: str) -> None:
    keys = between.join(f"key{number}: {number}" for number in range(300))
    tape = Tape(f"{HEAD}a: {{{keys}}}\nb: 1\n...\n".encode())
    entries = rechecking.entries_of(tape, lambda tag: False)
    assert entries is not None
    assert len(entries.hashes) == 300
    assert validation.useful_entries(tape, ASDF1) == entries


ENDS = (", ", ",", " ,", ",\n", ",\n  ", ", # a, {b\n", "  ,\n# c\n ")
VALUES = ("1", "a b", "'x,'", '"}{"', "[1, {y: 2}]", "{z: 1,\n w: 2}", "\u00b5", "a\n b", "--- x", "''", "2020-01-01")
FLOW_KEYS = ("k{}", "'k {}'", '"k\\t{}"', "? k{}", "---{}", "\u00b5{}")


def flow_text(rng: random.Random) -> str:
    """A tree with a mapping in flow style, whose entries share lines."""
    parts = list[str]()
    for number in range(rng.choice((8, 20, 60))):
        key, value = rng.choice(FLOW_KEYS[: rng.choice((1, 6))]), rng.choice(VALUES)
        value = "!core/ndarray-1.1.0 [1, 2]" if rng.random() < 0.03 else value
        parts.append(f"{key.format(number)}: {value}{rng.choice(ENDS)}")
    around = rng.choice(("{}", "a: {}\nb: 1", "a: [{}, 2]", "a: {{c: {}}}", "a:\n- {}\n- 1", "a: 1\nc: {} # d"))
    return f"{HEAD}{around.format('{' + rng.choice(('', ' ')) + ''.join(parts) + '}')}\n...\n"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(200))
def test_entries_in_flow_style_share_lines(seed: int) -> None:
    """As in block style, the check without the text before is the oracle."""
    rng, texts = random.Random(seed), list[str]()
    while not texts:
        texts += [text for text in (flow_text(rng) for _ in range(9)) if not isinstance(checked(text), str)]
    text = texts[0]
    assert facts(shortened(text)) == facts(text)
    for number in range(12):
        before = check_text(text.encode(), ASDF1, had_tree=True)
        if before.entries is None:  # an edit gave the tree an anchor
            break
        new = HEAD + edited(text[len(HEAD) :], rng)
        known = CheckedBefore(text.encode, before.entries)
        assert checked(new, known) == checked(new), (seed, number)
        text = text if isinstance(checked(new), str) else new

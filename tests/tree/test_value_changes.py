"""Changes of values can be taken back, as long as nobody has changed the same values since."""

from __future__ import annotations

import contextlib
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tree_texts import HEAD, NEW, load, paths, texts

from asdffs.errors import AsdffsError, MissingValueError
from asdffs.tree.snippets import parse_value
from asdffs.tree.tape import Tape
from asdffs.workflows.value_changes import Kind, Rules, ValueChange, change_values, from_facts, take_back

EXAMPLES = 3000 if os.environ.get("ASDFFS_DEEP") else 120
RULES = Rules(create=True, shared=True, missing_ok=True)
TEXT = f"{HEAD}a: 1\nb: {{c: two, d: 3}}   # why\nitems:\n- x\n- y\n...\n"


def tape_of(text: str) -> Tape:
    return Tape(text.encode())


@st.composite
def changes(draw: st.DrawFn, text: str) -> ValueChange:
    """A change of a value of ``text``, or of one that is added."""
    path = draw(st.sampled_from(paths(load(text))))
    kind = draw(st.sampled_from([Kind.SET, Kind.SET, Kind.UNSET, Kind.RENAME]))
    if kind is Kind.SET and draw(st.booleans()):
        path = (*path[:-1], "added", *draw(st.sampled_from([(), ("below",)])))
    return ValueChange(kind, path, draw(NEW), draw(st.sampled_from(["other", "x: y"])))


@pytest.mark.sampled(2)
@settings(max_examples=EXAMPLES)
@given(texts(), st.data())
def test_what_is_changed_is_taken_back(text: str, data: st.DataObject) -> None:
    new, notes = text, []
    for _ in range(data.draw(st.integers(1, 4))):
        if not paths(load(new)):
            break
        change = data.draw(changes(new))
        with contextlib.suppress(AsdffsError):
            found = change_values(tape_of(new), [change], RULES)
            new = found.text
            notes += found.notes
    kept = [from_facts(json.loads(json.dumps(note._asdict()))) for note in notes]
    assert take_back(new, kept).text == text


def test_another_value_may_have_changed_meanwhile() -> None:
    both = [set_to("b.c", "2.5"), ValueChange(Kind.UNSET, ("items", 0))]
    changed, _, notes = change_values(tape_of(TEXT), both, Rules())
    other, *_ = change_values(tape_of(changed), [set_to("a", "'longer than it was'"), set_to("b.d", "33")], Rules())
    assert load(take_back(other, notes).text) == load(TEXT) | {"a": "longer than it was", "b": {"c": "two", "d": 33}}


@pytest.mark.parametrize("since", ["b.c=9", "b=1"])
def test_a_value_that_was_changed_since_stays(since: str) -> None:
    changed, _, notes = change_values(tape_of(TEXT), [set_to("b.c", "2.5")], Rules())
    path, value = since.split("=")
    other, *_ = change_values(tape_of(changed), [set_to(path, value)], Rules())
    assert take_back(other, notes) == (other, [], ["b.c"])


def test_a_removed_value_is_put_back_only_where_it_was() -> None:
    changed, _, notes = change_values(tape_of(TEXT), [ValueChange(Kind.UNSET, ("b", "c"))], Rules())
    assert take_back(changed, notes).text == TEXT
    other, *_ = change_values(tape_of(changed), [ValueChange(Kind.UNSET, ("b", "d"))], Rules())
    assert take_back(other, notes) == (other, [], ["b.c"])


def test_regression_the_first_value_of_a_mapping_with_comments_is_put_back() -> None:
    text = f"{HEAD}a:\n  # about b\n  b: 1\n  # about c\n  c: 2\n...\n"
    changed, _, notes = change_values(tape_of(text), [ValueChange(Kind.UNSET, ("a", "b"))], Rules())
    assert take_back(changed, notes) == (text, notes, [])


def test_what_is_missing() -> None:
    change = ValueChange(Kind.UNSET, ("nope",))
    with pytest.raises(MissingValueError, match="nope: there is no such value"):
        change_values(tape_of(TEXT), [change], Rules())
    assert change_values(tape_of(TEXT), [change], Rules(missing_ok=True)) == (TEXT, [], [])


@pytest.mark.parametrize("facts", [{}, [], {"path": 1}, None])
def test_what_is_not_a_note(facts: object) -> None:
    with pytest.raises((TypeError, KeyError)):
        from_facts(facts)


def set_to(path: str, value: str) -> ValueChange:
    return ValueChange(Kind.SET, tuple(path.split(".")), parse_value(value))

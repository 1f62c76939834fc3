"""Applies a list of changes of values to the text of a tree, and takes them back later.

The note of a change has the replaced characters, and their distance from an anchor.  The anchor is the value itself,
or the nearest existing mapping or sequence around it.  So the place is found again after other edits.  A change is
taken back only if the text there is still what it wrote.  Pure functions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from asdffs.errors import InvalidTreeError, MissingValueError
from asdffs.tree.locating import locate
from asdffs.tree.paths import Path, format_path, parse_path
from asdffs.tree.snippets import BLANKS, NewValue
from asdffs.tree.tape import Tape
from asdffs.tree.value_edits import Edit, rename_value, set_value, unset_value

#: Most characters on each side of a removed value that must be the same when it is put back.
_CONTEXT: Final = 40


class Kind(enum.Enum):
    """What a change does."""

    SET = "set"
    UNSET = "unset"
    RENAME = "rename"


class ValueChange(NamedTuple):
    """A wanted change.  ``new``: the value to set.  ``key``: the new key of a renamed value."""

    kind: Kind
    path: Path
    new: NewValue | None = None
    key: str = ""


class Rules(NamedTuple):
    """How far changes may go.  ``create``: make missing mappings.  ``shared``: change values that aliases share.

    ``missing_ok``: a value to remove or rename that is missing is no error.
    """

    create: bool = False
    shared: bool = False
    missing_ok: bool = False


class Note(NamedTuple):
    """What is needed to take one edit back.

    ``anchor``: path of the nearest value that exists after the edit.  ``distance``: characters from its start to
    the edit.  ``old``, ``new``: the replaced characters, and what replaced them.  ``before``, ``after``: the text
    around ``new``.
    """

    path: str
    anchor: str
    distance: int
    old: str
    new: str
    before: str
    after: str


class Changed(NamedTuple):
    """A text with changes.  ``edits``: those that were made.  ``notes``: for each edit."""

    text: str
    edits: list[Edit]
    notes: list[Note]


def change_values(tape: Tape, changes: Sequence[ValueChange], rules: Rules) -> Changed:
    """Return the text of ``tape`` with the changes; a value that is as wanted needs no edit.

    Raises ``MissingValueError``, ``ValueRefusedError``, ``InvalidTreeError``.
    """
    text, edits, notes = tape.text, [], []
    for change in changes:
        if text is not tape.text:
            tape = Tape(text)
        edit = _edit(tape, change, rules)
        if edit is not None:
            text = edit.apply(text)
            edits.append(edit)
            notes.append(_noted(text, edit))
    return Changed(text, edits, notes)


class TakenBack(NamedTuple):
    """A text with edits taken back.  ``notes``: of these edits.  ``stayed``: paths of values that changed since."""

    text: str
    notes: list[Note]
    stayed: list[str]


def take_back(text: str, notes: Sequence[Note]) -> TakenBack:
    """Take the edits of ``notes`` back in ``text``, the last first.

    An edit that is taken back already is passed over.  A value stays if it is neither what the edit wrote nor what
    was there before.
    """
    taken: list[Note] = []
    stayed: list[str] = []
    for note in reversed(notes):
        start = _start(text, note)
        if _is_there(text, start, note.new, note):
            text = text[:start] + note.old + text[start + len(note.new) :]
            taken.append(note)
        elif not _is_undone(text, start, note):
            stayed.append(note.path)
    return TakenBack(text, taken, stayed)


def _is_there(text: str, start: int, written: str, note: Note) -> bool:
    """Return whether ``written`` is at ``start``; if it is empty, what is around it must be as the note says."""
    end = start + len(written)
    before = text[max(0, start - len(note.before)) : max(0, start)]
    around = before == note.before and text.startswith(note.after, end)
    return start >= 0 and text[start:end] == written and bool(written.strip(BLANKS) or around)


def _is_undone(text: str, start: int, note: Note) -> bool:
    """Return whether the text is as it was before the edit."""
    if note.old.strip(BLANKS):
        return _is_there(text, start, note.old, note) and text.startswith(note.after, start + len(note.old))
    return bool(note.new.strip(BLANKS)) and _is_missing(text, note.path)


def _is_missing(text: str, path: str) -> bool:
    try:
        return bool(locate(Tape(text), parse_path(path)).missing)
    except MissingValueError:
        return True


def _edit(tape: Tape, change: ValueChange, rules: Rules) -> Edit | None:
    if change.kind is Kind.SET and change.new is not None:
        return set_value(tape, change.path, change.new, create=rules.create, shared=rules.shared)
    try:
        if change.kind is Kind.RENAME:
            return rename_value(tape, change.path, change.key, shared=rules.shared)
        return unset_value(tape, change.path, shared=rules.shared)
    except MissingValueError:
        if rules.missing_ok:
            return None
        raise


def _noted(text: str, edit: Edit) -> Note:
    """Return the note for ``edit``, which is in ``text`` already."""
    around = _around(text, edit.start, edit.start + len(edit.new))
    return Note(format_path(edit.path), format_path(edit.anchor), edit.distance, edit.old, edit.new, *around)


def _around(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the text before ``start`` and behind ``end``, as far as it is on the same line or the next one."""
    line = text.rfind("\n", 0, max(0, start - 1)) + 1
    line_end = text.find("\n", end)
    after = text[end:] if line_end < 0 else text[end : line_end + 1]
    return text[max(line, start - _CONTEXT) : start], after[:_CONTEXT]


def _start(text: str, note: Note) -> int:
    """Return where the edit of ``note`` begins, or -1 if its anchor is missing."""
    try:
        found = locate(Tape(text), parse_path(note.anchor) if note.anchor != "." else ())
    except (InvalidTreeError, MissingValueError):
        return -1
    if found.missing:
        return -1
    inside = note.path != note.anchor  # the edit is in the anchor, which an alias only stands for
    return (found.origin if inside else found.start) + note.distance


def from_facts(facts: Any) -> Note:
    """Return the note whose ``_asdict`` is ``facts``.  Raises ``TypeError``, ``KeyError`` for anything else."""
    note = Note(**{name: facts[name] for name in Note._fields})
    if not isinstance(note.distance, int) or any(not isinstance(part, str) for part in (*note[:2], *note[3:])):
        raise TypeError("not a note")
    return note

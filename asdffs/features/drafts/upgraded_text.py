"""Upgrades the text of a file in a draft format (2014, 2015) to ASDF 1.6.0; comments and other text stay as they are.

| in the draft                                   | in ASDF 1.6.0                                                    |
|------------------------------------------------|------------------------------------------------------------------|
| the header line                                | ``#ASDF 1.0.0`` and ``#ASDF_STANDARD 1.6.0``                     |
| tags ``tag:stsci.edu:asdf/0.1.0/core/ndarray`` | ``tag:stsci.edu:asdf/core/ndarray-1.1.0``; those without a       |
|                                                | counterpart stay what they are                                   |
| ``dtype`` of ndarrays and of their fields      | ``datatype``                                                     |
| no byteorder                                   | the default byteorder, written out                               |
| negative sources                               | the number of the block                                          |
| ``$ref: file#a/b``                             | ``$ref: file#/a/b`` (RFC 6901)                                   |
| chains of encodings                            | entries of ``history``                                           |

Implements sections Tree, ndarray and References of both formats.  The new text is read again and compared: if it does
not mean exactly the same as the draft, it is refused.  Pure functions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from asdffs.arrays.branch import Outline
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import outline_of, read_outline
from asdffs.arrays.validation import check_text
from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError
from asdffs.format.text import find_comments_end, parse_header, with_replaced
from asdffs.tree.locating import Location, locate
from asdffs.tree.rules import check_tree
from asdffs.tree.tape import FLOW_MAPPING, MAPPING, MAPPINGS, SCALAR, SEQUENCES, Tape
from asdffs.tree.values import ValueNode, read_values

_OLD: Final = "tag:stsci.edu:asdf/0.1.0"
_NEW: Final = "tag:stsci.edu:asdf"
#: Tags with a counterpart in ASDF 1.6.0, and its versions that present libraries read.
_TAGS: Final = {
    "core/asdf": "1.1.0",
    "core/complex": "1.0.0",
    "core/ndarray": "1.1.0",
    "core/constant": "1.0.0",
    "core/history_entry": "1.0.0",
    "core/software": "1.0.0",
    "fits/fits": "1.1.0",
    "unit/unit": "1.0.0",
    "unit/defunit": "1.0.0",
}
_ENTRY: Final = f"!<{_NEW}/core/history_entry-1.0.0>"
_SOFTWARE: Final = f"!<{_NEW}/core/software-1.0.0>"
_HISTORY: Final = "history"
_MERGED: Final = "it cannot be upgraded as it is written; write it plainly, without aliases and merge keys '<<'"

#: Characters that need no percent-encoding in a tag.
_SAFE: Final = "-#;/?:@&=+$_.~*'()"
#: A directive for tags, and a tag: a URI in angle brackets, or a handle and a suffix (YAML 1.1, section 6.2).
_DIRECTIVE: Final = re.compile(r"^%TAG[ \t]+(\S+)[ \t]+(\S+)", re.MULTILINE)
_TAG: Final = re.compile(r"!<[^>\s]*>|(![\w-]*!|!)[^\s,\[\]{}]*")

Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """An upgraded ``text``; ``kept``: tags of the draft without a counterpart, in the order of the text."""

    text: bytes
    kept: tuple[str, ...]


class HistoryEntries(NamedTuple):
    """Entries for a tree's history: sentences, the time (``2026-01-31 12:00:00``, UTC), the version of asdffs."""

    sentences: Sequence[str]
    when: str
    version: str


def upgraded_text(text: bytes, old: Dialect, new: Dialect, count: int, entries: HistoryEntries) -> Upgraded:
    """Upgrade ``text`` from the dialect ``old`` to ``new``; ``count``: number of blocks in its file.

    ``entries`` are added to its ``history``.  Raises ``InvalidTreeError``, also if the text is written in a way that
    cannot be edited.
    """
    tape = Tape(text)
    check_tree(tape, unique=False)
    outline = outline_of(tape, old)
    head = _head_edits(text)
    if find_comments_end(text, parse_header(text).size) is None:  # no tree
        return Upgraded(with_replaced(tape.text, head).encode("utf-8", "surrogateescape"), ())
    tags = _Tags(tape)
    edits = [*head, *tags.edits(), *_Walk(tape, outline, old, count).edits()]
    edits += _history_edits(tape, [_entry(sentence, entries) for sentence in entries.sentences])
    found = with_replaced(tape.text, edits).encode("utf-8", "surrogateescape")
    try:
        check_text(found, new, had_tree=True)
    except InvalidTreeError as err:  # its line number is of the new text, so leave it out
        raise InvalidTreeError(f"{_MERGED} ({err.sentence})") from err
    _check_same(text, found, old, new, count)
    return Upgraded(found, tuple(tags.kept))


def _head_edits(text: bytes) -> list[Edit]:
    """Return the edits of the header line, and of a missing ``%YAML`` directive."""
    header = parse_header(text)
    newline = header.newline.decode()
    edits = [(0, header.size, f"#ASDF 1.0.0{newline}#ASDF_STANDARD 1.6.0{newline}")]
    start = find_comments_end(text, header.size)
    directives = re.match(rb"(?:[%#][^\n]*\n)*", text[start:]) if start is not None else None
    if start is not None and directives is not None and b"%YAML" not in directives[0]:
        place = len(text[:start].decode())
        edits.append((place, place, f"%YAML 1.1{newline}"))
    return edits


# -- tags ---------------------------------------------------------------------


def new_tag(tag: str) -> str | None:
    """Return the counterpart in ASDF 1.6.0 of a draft's ``tag``; None without one.

    A tag that is not one of the draft's is returned as it is.
    """
    name = tag.removeprefix(f"{_OLD}/")
    if name == tag:
        return tag
    return f"{_NEW}/{name}-{_TAGS[name]}" if name in _TAGS else None


class _Tags:
    """Rewrites tags and ``%TAG`` directives.  ``kept``: tags without a counterpart."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._prefixes: dict[str, tuple[str, str]] = {}  # old and new prefix of each handle
        self.kept: list[str] = []

    def edits(self) -> Iterator[Edit]:
        """Yield the edits."""
        tape = self._tape
        before = tape.text.find(tape.prefix)
        for found in _DIRECTIVE.finditer(tape.prefix):
            handle, prefix = found.groups()
            new = _NEW + prefix.removeprefix(_OLD) if prefix.startswith(_OLD) else prefix
            self._prefixes[handle] = prefix, new
            if new != prefix:
                yield before + found.start(2), before + found.end(2), new
        for row, tag in tape.tags.items():
            yield from self._tag(row, tag)

    def _tag(self, row: int, old: str) -> Iterator[Edit]:
        tape = self._tape
        found = _TAG.search(tape.text, tape.start[row], tape.content(row))
        if found is None or (handle := found[1]) not in (None, *self._prefixes):
            return
        before, prefix = self._prefixes.get(handle or "", ("", ""))
        new = new_tag(old)
        if new is None:
            self.kept += [old] if old not in self.kept else []
            new = old
        if new == old and before == prefix:
            return
        short = handle is not None and new.startswith(prefix) and len(new) > len(prefix)
        quoted = quote(new[len(prefix) :], safe=_SAFE) if short else quote(new, safe=_SAFE)
        yield found.start(), found.end(), f"{handle}{quoted}" if short else f"!<{quoted}>"


# -- ndarrays and references --------------------------------------------------


class _Walk:
    """Finds the edits of ndarrays and references."""

    def __init__(self, tape: Tape, outline: Outline, dialect: Dialect, count: int) -> None:
        self._tape = tape
        self._text = tape.text
        self._dialect = dialect
        self._arrays = {branch.span[0]: branch.array for branch in outline.arrays if branch.array is not None}
        self._sources = {
            branch.source: number
            for branch in outline.arrays
            if branch.source is not None and (number := _moved(branch.array, count)) is not None
        }
        self._found: list[Edit] = []

    def edits(self) -> list[Edit]:
        """Return the edits."""
        if self._tape.kind:
            self._node(0)
        self._found += [(start, stop, str(number)) for (start, stop), number in self._sources.items()]
        return self._found

    def _node(self, row: int, *, fields: bool = False) -> None:
        """Look at a node; ``fields``: it is a datatype or inside one."""
        if self._tape.kind[row] in MAPPINGS:
            self._mapping(row, fields=fields)
        elif self._tape.kind[row] in SEQUENCES:
            for item in self._tape.items(row):
                self._node(item, fields=fields)

    def _mapping(self, row: int, *, fields: bool) -> None:
        tape, tag = self._tape, self._tape.tags.get(row)
        array = self._arrays.get(tape.start[row])
        described = fields or (bool(tag) and self._dialect.is_ndarray(str(tag)))
        keys: dict[str, int] = {}
        for key, value in tape.pairs(row):
            name = tape.scalar(key) if tape.kind[key] == SCALAR else ""
            keys.setdefault(name, key)
            if name == "$ref" and tape.kind[value] == SCALAR:
                self._reference(value)
            self._node(value, fields=described and name in ("dtype", "datatype"))
        if described and "dtype" in keys and "datatype" not in keys:
            place = self._text.rfind("dtype", tape.start[keys["dtype"]], tape.end[keys["dtype"]])  # its quotes stay
            self._found += [(place, place + len("dtype"), "datatype")] if place >= 0 else []
        if array is not None and array.source is not None and "byteorder" not in keys and keys:
            self._insert(row, f"byteorder: {array.byteorder}")

    def _insert(self, row: int, entry: str) -> None:
        """Insert ``entry`` before the first entry of a mapping."""
        tape = self._tape
        flow = tape.kind[row] == FLOW_MAPPING
        place = tape.start[row + 1] if flow else tape.content(row)
        newline = "\r\n" if self._text[: place - tape.column(row)].endswith("\r\n") else "\n"
        between = ", " if flow else newline + " " * tape.column(row)
        self._found.append((place, place, entry + between))

    def _reference(self, row: int) -> None:
        """Add the first slash to a pointer that lacks it."""
        _, mark, fragment = self._tape.scalar(row).partition("#")
        place = self._text.find("#", self._tape.start[row], self._tape.end[row])
        if mark and fragment and not fragment.startswith("/") and place >= 0:
            self._found.append((place + 1, place + 1, "/"))


def _moved(array: Ndarray | None, count: int) -> int | None:
    """Return the block number for a negative source; None for any other source."""
    if array is None or not isinstance(array.source, int) or array.source >= 0:
        return None
    return array.block_in(count)


# -- history ------------------------------------------------------------------


def _entry(sentence: str, entries: HistoryEntries) -> str:
    software = f"{_SOFTWARE} {{name: asdffs, version: '{entries.version}'}}"
    return f"{_ENTRY} {{description: {json.dumps(sentence)}, time: {entries.when}, software: {software}}}"


def _history_edits(tape: Tape, entries: list[str]) -> list[Edit]:
    """Return the edits that add ``entries`` before the present ones of the tree's history.

    Without a history, one is added at the end of the tree.  If that is impossible, the entries become comments.
    """
    text = tape.text
    known = _known_history(tape)
    if known is not None:
        place, flow = known.content, known.flow
        start = text.rfind("\n", 0, place) + 1
        newline = "\r\n" if text[:start].endswith("\r\n") else "\n"
        if flow:
            between = "" if text[place + 1 :].lstrip().startswith("]") else ", "
            return [(place + 1, place + 1, ", ".join(entries) + between)]
        return [(place, place, "".join(f"- {entry}{newline}{' ' * (place - start)}" for entry in entries))]
    end = text.rstrip("\r\n").rfind("\n") + 1
    newline = "\r\n" if text[:end].endswith("\r\n") else "\n"
    if tape.kind[0] == MAPPING and tape.column(0) == 0 and locate(tape, (_HISTORY,)).missing:
        lines = [f"{_HISTORY}:", "  entries:", *(f"  - {entry}" for entry in entries)]
    else:
        lines = [f"# {_HISTORY}: {entry}" for entry in entries]
    return [(end, end, "".join(line + newline for line in lines))]


def _known_history(tape: Tape) -> Location | None:
    """Return where the list of the tree's history is: the history itself, or its entries; None without one."""
    if tape.kind[0] not in MAPPINGS:
        return None
    found = locate(tape, (_HISTORY,))
    if found.kind == "mapping" and not found.missing:
        found = locate(tape, (_HISTORY, "entries"))
    return found if found.kind == "sequence" and not found.missing and not found.through else None


# -- looking again --------------------------------------------------------------


def _check_same(old_text: bytes, new_text: bytes, old: Dialect, new: Dialect, count: int) -> None:
    """Raise ``InvalidTreeError`` unless the new text means the same as the old one."""
    before, after = (
        [branch.array for branch in read_outline(text, dialect).arrays if branch.array is not None]
        for text, dialect in ((old_text, old), (new_text, new))
    )
    for was, now in zip(before, after, strict=False):
        number = _moved(was, count)
        expected = was._replace(source=was.source if number is None else number, line=0)
        if now._replace(line=0) != expected:
            raise InvalidTreeError(f"{was.name}: {_MERGED}", line=was.line)
    if len(before) != len(after):
        raise InvalidTreeError(f"an array in it has no tag of its own: {_MERGED}")
    _Same(old.is_ndarray).check(read_values(old_text), read_values(new_text))


class _Same:
    """Compares two trees; each pair of nodes is compared once."""

    def __init__(self, is_ndarray: Any) -> None:
        self._is_ndarray = is_ndarray
        self._seen: set[tuple[int, int]] = set()
        self._made: list[ValueNode] = []  # kept alive, so that their ids are not reused

    def check(self, old: ValueNode, new: ValueNode) -> None:
        """Raise ``InvalidTreeError`` unless both mean the same.

        Not recursive, because aliases may nest nodes deeper than Python's recursion limit.
        """
        rest = [(old, new)]
        top = True
        while rest:
            one, other = rest.pop()
            if (id(one), id(other)) not in self._seen:
                self._seen.add((id(one), id(other)))
                rest += self._children(one, other, top=top)
            top = False

    def _children(self, old: ValueNode, new: ValueNode, *, top: bool) -> list[tuple[ValueNode, ValueNode]]:
        """Compare two nodes without their children, and return the pairs of children to compare."""
        wanted = new_tag(old.tag) or old.tag
        if new.tag != wanted or type(old.value) is not type(new.value):
            raise InvalidTreeError(_MERGED, line=old.line or None)
        if isinstance(old.value, dict):  # ``_check_same`` has compared the arrays
            return [] if self._is_ndarray(old.tag) else list(self._entries(old, new, top=top))
        if isinstance(old.value, list):
            if len(old.value) != len(new.value):
                raise InvalidTreeError(_MERGED, line=old.line)
            return list(zip(old.value, new.value, strict=True))
        if old.value != new.value and old.value == old.value:  # NaN is not equal to itself
            raise InvalidTreeError(_MERGED)
        return []

    def _entries(self, old: ValueNode, new: ValueNode, *, top: bool) -> Iterator[tuple[ValueNode, ValueNode]]:
        extra = {_HISTORY} if top and _HISTORY not in old.value else set()
        if set(old.value) != set(new.value) - extra:
            raise InvalidTreeError(_MERGED, line=old.line)
        for key, child in old.value.items():
            other = new.value[key]
            if top and key == _HISTORY:
                child, other = _entries_of(child), _entries_of(other)
                other = _later(child, other)
            if key == "$ref" and isinstance(child.value, str):
                child = child.holding(_slashed(child.value))
            self._made.append(child)
            yield child, other


def _slashed(reference: str) -> str:
    file, mark, fragment = reference.partition("#")
    return reference if not fragment or fragment.startswith("/") else f"{file}{mark}/{fragment}"


def _entries_of(history: ValueNode) -> ValueNode:
    """Return the list of entries in a history of the old or new form."""
    return history.value.get("entries", history) if isinstance(history.value, dict) else history


def _later(old: ValueNode, new: ValueNode) -> ValueNode:
    """Return ``new`` without the entries that were added before those of ``old``."""
    if not isinstance(old.value, list) or not isinstance(new.value, list):
        return new
    return new.holding(new.value[len(new.value) - len(old.value) :])

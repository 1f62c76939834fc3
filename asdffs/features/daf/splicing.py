"""Changes entries of mappings in the text of a tree, and leaves the rest of the text as it is.

The change is given as two trees of nodes (``nodes``), the old and the new one.  The lines of entries that differ are
replaced, removed, or added at the end of their mapping.  Comment lines above an entry belong to it.  Keys that are in
neither tree stay.

A changed mapping that is an alias or in flow style is rewritten; its keys that are in neither tree stay.  This is
impossible if one of its entries is ``KEPT``.  If an anchor is removed, its value replaces an alias elsewhere.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from asdffs.document.document import Document
from asdffs.errors import InvalidTreeError, NameExistsError
from asdffs.features.daf.format import DAF, SECTIONS, Version
from asdffs.features.daf.nodes import HEAD, quoted, render, version_node
from asdffs.features.daf.tree_files import carries_store
from asdffs.storage.backend import WriteBackend
from asdffs.tree.snippets import flow_text
from asdffs.tree.tape import FLOW_MAPPING, MAPPINGS, SCALAR, Tape, column_of
from asdffs.tree.values import Nodes, read_values

_NONE: Final[Mapping[str, Any]] = {}
_STEP: Final = 2
_COMMENT: Final = re.compile(r"[ \t]+#[^\r\n]*")

Tree = Mapping[str, Any]


class _Entry(NamedTuple):
    """One entry of a mapping; offsets in characters.

    ``start``: start of its first line, with the comments above it.  ``key``, ``value``: start of these.
    ``stop``: end of the value.  ``end``: end of its last line.  ``row``: of the value in ``tape``.
    """

    start: int
    key: int
    value: int
    stop: int
    end: int
    tape: Tape
    row: int

    @property
    def mapping(self) -> _Mapping | None:
        """The value, if it is a mapping with entries."""
        found = _mapping_at(self.tape, self.row)
        return found if found is not None and found.entries else None


@dataclass(slots=True)
class _Mapping:
    """A mapping in the text.  ``start``, ``end``: its range, in characters; ``column``: of its keys."""

    flow: bool
    start: int
    end: int
    column: int = 0
    entries: dict[str, _Entry] = field(default_factory=dict)


def changed(text: bytes, old: Tree, new: Tree) -> bytes:
    """Return the text of the tree with the entries of ``new`` in its root instead of those of ``old``.

    Raises ``InvalidTreeError`` if the tree is not a valid mapping or an alias cannot be resolved, ``KeptEntryError``.
    """
    return _Change(Tape(text)).text(old, new).encode()


class _Change:
    """One change of the text of ``tape``."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._text = tape.text
        self._gone: list[tuple[int, int]] = []

    def text(self, old: Tree, new: Tree) -> str:
        """Return the new text."""
        text, root = self._text, _mapping_at(self._tape, 0) if self._tape.kind else None
        if root is None:
            raise InvalidTreeError("the tree is not a mapping, so no entry can be added")
        body = _flow(text, root, old, new) if root.flow else "".join(self._block(root, old, new))
        if root.flow:
            self._gone += [(entry.key, entry.stop) for name, entry in root.entries.items() if name in {*old, *new}]
        meant = self._without_anchors()
        if meant is not None:  # one alias was replaced by its value: start again with that text
            return _Change(Tape(meant)).text(old, new)
        if not root.flow and not root.entries and root.start < root.end:
            body = f"\n{body}"
        found = text[: root.start] + body + text[root.end :]
        if "\n" not in text.replace("\r\n", ""):  # all lines end in CR LF, so the new ones do as well
            found = re.sub("\r?\n", "\r\n", found)
        return found

    def _without_anchors(self) -> str | None:
        """Return the text with one alias replaced by its value: the first that stays while its anchor is removed.

        Returns None if there is no such alias.  Raises ``InvalidTreeError`` if the value has several lines.
        """
        tape = self._tape
        for alias, row in zip(tape.aliases, tape.targets, strict=True):
            if not _is_in(self._gone, tape.start[row]) or _is_in(self._gone, tape.start[alias]):
                continue
            text, start, content = self._text, tape.start[row], tape.content(row)
            value = text[start : tape.end[row]]
            if "\n" in value:
                name = tape.anchors[row]
                raise InvalidTreeError(f"the value of the alias *{name} is removed; write it in place of the alias")
            return text[:start] + text[content : tape.start[alias]] + value + text[tape.end[alias] :]
        return None

    def _block(self, mapping: _Mapping, old: Tree, new: Tree) -> Iterator[str]:
        """Yield the new lines of a mapping in block style."""
        text = self._text
        for name, entry in mapping.entries.items():
            was, wanted = old.get(name), new.get(name)
            if was == wanted:
                yield text[entry.start : entry.end]
            elif wanted is None:
                self._gone.append((entry.key, entry.stop))
            else:
                yield text[entry.start : entry.key - mapping.column]
                yield from self._value(entry, name, mapping.column, was, wanted)
        added = {name: node for name, node in new.items() if name not in mapping.entries and old.get(name) != node}
        if added and mapping.end and text[mapping.end - 1] != "\n":
            yield "\n"
        yield from render(added, mapping.column)

    def _value(self, entry: _Entry, name: str, column: int, was: Any, wanted: Any) -> Iterator[str]:
        """Yield the lines of an entry with its new value, from its key on."""
        inner, before = entry.mapping, was if isinstance(was, dict) else _NONE
        rest = self._text[entry.stop : entry.end]
        if not isinstance(wanted, dict) or inner is None or inner.flow:
            self._gone.append((entry.value, entry.stop))
            yield from _with_comment(self._anew(inner, name, column, before, wanted), rest)
            return
        lines = "".join(self._block(inner, before, wanted))
        head = self._text[entry.key - column : inner.start]
        yield head + lines if lines else "".join(_with_comment(render({name: {}}, column), head))

    def _anew(self, inner: _Mapping | None, name: str, column: int, was: Tree, wanted: Any) -> Iterator[str]:
        """Yield the lines of a rewritten entry, with the keys of a flow mapping that are in neither tree."""
        entries = inner.entries if inner is not None and isinstance(wanted, dict) else {}
        foreign = {key: entry for key, entry in entries.items() if key not in was and key not in wanted}
        below = {key: entry.mapping for key, entry in entries.items() if key in wanted and entry.mapping is not None}
        if not foreign and not below:
            yield from render({name: wanted}, column)
            return
        yield from (line.replace(": {}\n", ":\n") for line in render({name: {}}, column))
        for key, node in wanted.items():
            before = was.get(key)
            known = before if isinstance(before, dict) else _NONE
            yield from self._anew(below.get(key), key, column + _STEP, known, node)
        for entry in foreign.values():
            yield f"{' ' * (column + _STEP)}{_in_one_line(self._text[entry.key : entry.stop])}\n"


def _in_one_line(text: str) -> str:
    """Return an entry in flow style as one line.  Raises ``InvalidTreeError`` if that is not possible."""
    if "\n" not in text:
        return text
    tape = Tape(f"{{{text}}}")
    if tape.anchors:
        sentence = f"{text.partition(':')[0]} is in flow style over several lines; write it in block style"
        raise InvalidTreeError(sentence)
    return flow_text(Nodes(tape, distinguish_quoted=True).root()).removeprefix("{").removesuffix("}")


def _with_comment(lines: Iterator[str], rest: str) -> Iterator[str]:
    """Yield lines, the first one with the comment found in ``rest``, the end of the old line."""
    comment = _COMMENT.search(rest)
    for number, line in enumerate(lines):
        first, newline, more = line.partition("\n")
        yield f"{first}{comment[0]}{newline}{more}" if number == 0 and comment is not None else line


def _flow(text: str, mapping: _Mapping, old: Tree, new: Tree) -> str:
    """Return a root in flow style with its braces; the entries of ``new`` are rewritten at its end."""
    if not mapping.entries:
        return "\n" + "".join(render(new)).removesuffix("\n")
    known = {*old, *new}
    if not known & mapping.entries.keys():
        inside = text[mapping.start : mapping.end - 1].rstrip().removesuffix(",")
        joint = "\n  , " if "#" in inside.rpartition("\n")[2] else ", "
    else:
        kept = [text[entry.key : entry.stop] for name, entry in mapping.entries.items() if name not in known]
        inside, joint = "{" + ", ".join(kept), ", " if kept else ""
    return inside + joint + ", ".join(f"{quoted(name)}: {_flowed(node)}" for name, node in new.items()) + "}"


def _flowed(node: Any) -> str:
    if not isinstance(node, dict):
        return str(node)
    return "{" + ", ".join(f"{quoted(key)}: {_flowed(child)}" for key, child in node.items()) + "}"


def _mapping_at(tape: Tape, row: int) -> _Mapping | None:
    """Return the mapping of a row; None for another node."""
    if tape.kind[row] not in MAPPINGS:
        return None
    text, flow = tape.text, tape.kind[row] == FLOW_MAPPING
    found = _Mapping(flow, tape.content(row), tape.end[row])
    at = 0
    for key, value in tape.pairs(row):
        begin = _key_start(text, tape.start[key])
        if not found.entries:
            found.column = column_of(text, begin)
            at = begin if flow else _first_line(text, begin)
        end = tape.end[value]
        stop = end if flow else _line_end(text, end)
        name = tape.scalar(key) if tape.kind[key] == SCALAR else f"\0{begin}"
        if name in found.entries:  # of two with the same text, 1 and '1', the second gets a name that matches nothing
            name = f"\0{begin}"
        found.entries[name] = _Entry(at, begin, tape.start[value], end, stop, tape, value)
        at = stop
    if found.entries and not flow:
        found.start, found.end = next(iter(found.entries.values())).start, at
    elif not flow:  # a tree that is null: entries come behind its line, in place of the word for it
        found.end = _line_end(text, found.end)
        found.start = found.start if text[found.start : tape.end[row]] else found.end
    return found


def _key_start(text: str, begin: int) -> int:
    """Return the offset of a key, including a question mark before it."""
    before = text[text.rfind("\n", 0, begin) + 1 : begin]
    return begin - len(before) + before.index("?") if before.strip(" \t-,{") == "?" else begin


def _first_line(text: str, key: int) -> int:
    """Return the offset of the first entry of a mapping, including comment lines directly above it."""
    line = text.rfind("\n", 0, key) + 1
    while line:
        above = text.rfind("\n", 0, line - 1) + 1
        if not text[above:line].lstrip().startswith("#") or text.startswith("#ASDF", above):
            break
        line = above
    return line


def _line_end(text: str, index: int) -> int:
    """Return the offset behind the line that has the character before ``index``."""
    if index and text[index - 1] == "\n":
        return index
    return text.find("\n", index) + 1 or len(text)


def _is_in(spans: list[tuple[int, int]], index: int) -> bool:
    return any(start <= index < stop for start, stop in spans)


# -- an empty store --


def new_store(version: Version) -> Callable[[WriteBackend], None]:
    """Return a function that writes a whole new file with an empty store."""
    text = HEAD.partition("%")[0] + _new_tree(version)
    return lambda store: store.write_at(0, text.encode())


def add_store(document: Document, version: Version) -> None:
    """Add an empty store to the tree of ``document``.

    Raises ``NameExistsError`` if the tree has the key ``daf`` already, ``InvalidTreeError``, and what
    ``Document.commit_tree`` raises.
    """
    text = document.tree.text()
    if not document.layout.has_tree:
        document.commit_tree(text + _new_tree(version).encode())
        return
    root = read_values(text, distinguish_quoted=False).value
    if isinstance(root, dict) and DAF in root:
        sentence = "already has a FilesDaf store" if carries_store(document) else f"has another value at {DAF!r}"
        raise NameExistsError(sentence, path=document.path)
    document.commit_tree(changed(text, {}, {DAF: _empty(version)}))


def _new_tree(version: Version) -> str:
    """Return a tree with an empty store, from its directives to its end marker."""
    return "%" + HEAD.partition("%")[2] + "".join(render({DAF: _empty(version)})) + "...\n"


def _empty(version: Version) -> dict[str, Any]:
    return {"version": version_node(version), **{section: {} for section in SECTIONS}}

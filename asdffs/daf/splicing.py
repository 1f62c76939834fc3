"""Changes entries of mappings in the text of a tree, and leaves the rest of the text as it is.

The change is given as two trees of nodes (``nodes``), the old and the new one.  The lines of entries that differ are
replaced, removed, or added at the end of their mapping.  Comment lines above an entry belong to it.  Keys that are in
neither tree stay.

A changed mapping that is an alias or in flow style is rewritten; its keys that are in neither tree stay.  This is
impossible if one of its entries is ``KEPT``.  If an anchor is removed, its value replaces an alias elsewhere.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from asdffs.daf.nodes import quoted, render
from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml
from asdffs.tree.values import read_values

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NONE: Final[Mapping[str, Any]] = {}
_STEP: Final = 2
_WIDE: Final = 1 << 20
_COMMENT: Final = re.compile(r"[ \t]+#[^\r\n]*")

Tree = Mapping[str, Any]


@dataclass(slots=True)
class _Entry:
    """One entry of a mapping; offsets in characters.

    ``start``: start of its first line, with the comments above it.  ``key``, ``value``: start of these.
    ``stop``: end of the value.  ``end``: end of its last line.
    """

    start: int
    key: int
    value: int
    stop: int
    end: int
    mapping: _Mapping | None


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
    read_values(text)  # raises for an invalid tree
    return _Change(text.decode()).text(old, new).encode()


class _Change:
    """One change of ``text``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = _Reader(text)
        self._gone: list[tuple[int, int]] = []

    def text(self, old: Tree, new: Tree) -> str:
        """Return the new text."""
        text, root = self._text, self._reader.root()
        if root is None:
            raise InvalidTreeError("the tree is not a mapping, so no entry can be added")
        body = _flow(text, root, old, new) if root.flow else "".join(self._block(root, old, new))
        if root.flow:
            self._gone += [(entry.key, entry.stop) for name, entry in root.entries.items() if name in {*old, *new}]
        meant = self._reader.without_anchors(self._gone)
        if meant is not None:  # one alias was replaced by its value: start again with that text
            return _Change(meant).text(old, new)
        found = text[: root.start] + body + text[root.end :]
        if "\n" not in text.replace("\r\n", ""):  # all lines end in CR LF, so the new ones do as well
            found = re.sub("\r?\n", "\r\n", found)
        return found

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
    try:
        node = yaml.compose(f"{{{text}}}", Loader=_Loader)
        return str(yaml.serialize(node, width=_WIDE, allow_unicode=True)).strip().removeprefix("{").removesuffix("}")
    except yaml.YAMLError as err:
        sentence = f"{text.partition(':')[0]} is in flow style over several lines; write it in block style"
        raise InvalidTreeError(sentence) from err


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


class _Reader:
    """Finds mappings, entries, anchors and aliases in the events of the YAML parser."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(as_yaml(text), Loader=_Loader)
        self._text = text
        self._anchored: dict[str, tuple[int, int]] = {}
        self._aliases: list[tuple[str, int, int]] = []

    def root(self) -> _Mapping | None:
        for event in self._events:
            if isinstance(event, yaml.MappingStartEvent):
                root = self._mapping(event)[0]
                for _ in self._events:  # anchors are in the root
                    pass
                return root
            if isinstance(event, yaml.NodeEvent):
                return None
        return None

    def without_anchors(self, gone: list[tuple[int, int]]) -> str | None:
        """Return the text with one alias replaced by its value: the first that stays while its anchor is removed.

        ``gone``: ranges of removed text, in characters.  Returns None if there is no such alias.
        Raises ``InvalidTreeError`` if the value is written over several lines.
        """
        for name, start, stop in self._aliases:
            meaning = self._anchored.get(name, (0, 0))
            if not _is_in(gone, meaning[0]) or _is_in(gone, start):
                continue
            text = self._text[slice(*meaning)]
            if "\n" in text:
                raise InvalidTreeError(f"the value of the alias *{name} is removed; write it in place of the alias")
            return self._text[:start] + text + self._text[stop:]
        return None

    def _mapping(self, event: Any) -> tuple[_Mapping, int]:
        """Return a mapping and the offset of its end."""
        start = int(event.start_mark.index)
        if event.flow_style:
            start = self._text.index("{", start)
        found = _Mapping(bool(event.flow_style), start, int(event.end_mark.index))
        at = end = self._line_end(int(event.end_mark.index)) if not event.flow_style else 0
        key: Any
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            begin = self._key_start(key)
            if not found.entries:
                found.column = begin - self._line_start(begin)
                at = begin if found.flow else self._first_line(begin)
            self._skip(key)
            value = next(self._events)
            mapping, end = self._valued(value)
            stop = end if found.flow else self._line_end(end)
            found.entries[self._name(key, found, begin)] = _Entry(at, begin, _start(value), end, stop, mapping)
            at = stop
        if found.flow:
            found.end = end = _end(key)
        elif found.entries:
            found.start, found.end = next(iter(found.entries.values())).start, at
        self._note(event, end)
        return found, end

    @staticmethod
    def _name(key: Any, mapping: _Mapping, begin: int) -> str:
        """Return a key; of two with the same text, ``1`` and ``'1'``, the second gets a name that matches nothing."""
        name = key.value if isinstance(key, yaml.ScalarEvent) else None
        return f"\0{begin}" if name is None or name in mapping.entries else str(name)

    def _key_start(self, key: Any) -> int:
        """Return the offset of a key, including a question mark before it."""
        begin = _start(key)
        before = self._text[self._line_start(begin) : begin]
        return begin - len(before) + before.index("?") if before.strip(" \t-,{") == "?" else begin

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _first_line(self, key: int) -> int:
        """Return the offset of the first entry of a mapping, including comment lines directly above it."""
        line = self._line_start(key)
        while line:
            above = self._line_start(line - 1)
            text = self._text[above:line]
            if not text.lstrip().startswith("#") or text.startswith("#ASDF"):
                break
            line = above
        return line

    def _valued(self, event: Any) -> tuple[_Mapping | None, int]:
        """Return the mapping if the value is one with entries, else None, and the end of the value."""
        if not isinstance(event, yaml.MappingStartEvent):
            return None, self._skip(event)
        mapping, end = self._mapping(event)
        return (mapping if mapping.entries else None), end

    def _skip(self, event: Any) -> int:
        """Read a node to its end, and return that offset."""
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event)[1]
        if not isinstance(event, yaml.SequenceStartEvent):
            self._note(event, _end(event))
            return _end(event)
        end, flow = _end(event), bool(event.flow_style)
        item: Any
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            end = self._skip(item)
        end = _end(item) if flow else end
        self._note(event, end)
        return end

    def _note(self, event: Any, end: int) -> None:
        """Remember an alias, or the range of an anchor's node."""
        if isinstance(event, yaml.AliasEvent):
            self._aliases.append((str(event.anchor), _start(event), _end(event)))
        elif event.anchor:
            self._anchored[str(event.anchor)] = _start(event), end

    def _line_end(self, index: int) -> int:
        """Return the offset behind the line that has the character before ``index``."""
        if index and self._text[index - 1] == "\n":
            return index
        return self._text.find("\n", index) + 1 or len(self._text)


def _is_in(spans: list[tuple[int, int]], index: int) -> bool:
    return any(start <= index < stop for start, stop in spans)


def _start(event: Any) -> int:
    """Return the offset where the text of an event begins."""
    return int(event.start_mark.index)


def _end(event: Any) -> int:
    """Return the offset where the text of an event ends."""
    return int(event.end_mark.index)

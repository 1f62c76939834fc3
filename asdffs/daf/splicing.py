"""Changes entries of mappings in the text of a tree, and leaves everything else as it is written.

What is wanted is told as two trees of nodes (``nodes``), as it was and as it is to be: the lines of the entries that
differ are replaced, removed or added, at the end of their mapping.  Lines of comments above an entry go with it; keys
that neither of the two knows stay.  A mapping in which something changes and that is in flow style, or an alias, is
written anew, which cannot be where an entry is ``KEPT``; what the two do not know of it stays.  What an alias
elsewhere means is written there when its anchor goes.  Pure.
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
    """One entry; offsets in characters.

    ``start``: of its first line, comments above included; ``key``, ``value``: of these; ``stop``: of the end of the
    value, ``end``: of its last line.
    """

    start: int
    key: int
    value: int
    stop: int
    end: int
    mapping: _Mapping | None


@dataclass(slots=True)
class _Mapping:
    """A mapping that is written here.  ``start``, ``end``: of it in the text; ``column``: of its keys."""

    flow: bool
    start: int
    end: int
    column: int = 0
    entries: dict[str, _Entry] = field(default_factory=dict)


def changed(text: bytes, old: Tree, new: Tree) -> bytes:
    """The text of a tree whose root has the entries of ``new`` instead of those of ``old``.

    Raises ``InvalidTreeError`` when the tree is no mapping, or an alias cannot be resolved; ``KeptEntryError``.
    """
    read_values(text)  # says what is wrong with it
    return _Change(text.decode()).text(old, new).encode()


class _Change:
    """One change of ``text``.  ``gone``: what of it is not there any more, offsets in characters."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = _Reader(text)
        self._gone: list[tuple[int, int]] = []

    def text(self, old: Tree, new: Tree) -> str:
        """The new text."""
        text, root = self._text, self._reader.root()
        if root is None:
            raise InvalidTreeError("the tree is no mapping, to which nothing can be added")
        body = _flow(text, root, old, new) if root.flow else "".join(self._block(root, old, new))
        if root.flow:
            self._gone += [(entry.key, entry.stop) for name, entry in root.entries.items() if name in {*old, *new}]
        meant = self._reader.without_anchors(self._gone)
        if meant is not None:  # what an alias means is written where it is, and all this done again
            return _Change(meant).text(old, new)
        found = text[: root.start] + body + text[root.end :]
        if "\n" not in text.replace("\r\n", ""):  # every line ends so, and so do the new ones
            found = re.sub("\r?\n", "\r\n", found)
        return found

    def _block(self, mapping: _Mapping, old: Tree, new: Tree) -> Iterator[str]:
        """The lines of a mapping in block style, as they are to be."""
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
        """The lines of an entry from its key on, with another value."""
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
        """The lines of an entry that is written again, with what is in flow style there and the two do not know."""
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
    """An entry in flow style, in one line.  Raises ``InvalidTreeError`` when it cannot be."""
    if "\n" not in text:
        return text
    try:
        node = yaml.compose(f"{{{text}}}", Loader=_Loader)
        return str(yaml.serialize(node, width=_WIDE, allow_unicode=True)).strip().removeprefix("{").removesuffix("}")
    except yaml.YAMLError as err:
        sentence = f"{text.partition(':')[0]} is in flow style and in several lines; write it in block style"
        raise InvalidTreeError(sentence) from err


def _with_comment(lines: Iterator[str], rest: str) -> Iterator[str]:
    """Lines, the first one with the comment that ``rest`` of an old line has."""
    comment = _COMMENT.search(rest)
    for number, line in enumerate(lines):
        first, newline, more = line.partition("\n")
        yield f"{first}{comment[0]}{newline}{more}" if number == 0 and comment is not None else line


def _flow(text: str, mapping: _Mapping, old: Tree, new: Tree) -> str:
    """A root in flow style, and its braces: entries of ``new`` are written anew before the last one."""
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
    """Follows the events."""

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
        """The text with the meaning of an alias whose anchor is ``gone`` in the place of the first one that is not.

        None when there is no such alias.  Raises ``InvalidTreeError`` when the meaning is not written in one line.
        """
        for name, start, stop in self._aliases:
            meaning = self._anchored.get(name, (0, 0))
            if not _is_in(gone, meaning[0]) or _is_in(gone, start):
                continue
            text = self._text[slice(*meaning)]
            if "\n" in text:
                raise InvalidTreeError(f"what the alias *{name} means is to go; write it where the alias is")
            return self._text[:start] + text + self._text[stop:]
        return None

    def _mapping(self, event: Any) -> tuple[_Mapping, int]:
        """A mapping, and where it ends."""
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
        """A key; of two that are the same text, ``1`` and ``'1'``, the second is nobody's."""
        name = key.value if isinstance(key, yaml.ScalarEvent) else None
        return f"\0{begin}" if name is None or name in mapping.entries else str(name)

    def _key_start(self, key: Any) -> int:
        """Where a key begins, with the question mark that one may have."""
        begin = _start(key)
        before = self._text[self._line_start(begin) : begin]
        return begin - len(before) + before.index("?") if before.strip(" \t-,{") == "?" else begin

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _first_line(self, key: int) -> int:
        """Where the first entry of a mapping begins: comments between it and the key above are its."""
        line = self._line_start(key)
        while line:
            above = self._line_start(line - 1)
            text = self._text[above:line]
            if not text.lstrip().startswith("#") or text.startswith("#ASDF"):
                break
            line = above
        return line

    def _valued(self, event: Any) -> tuple[_Mapping | None, int]:
        """A mapping that can be changed here, and the end of the value."""
        if not isinstance(event, yaml.MappingStartEvent):
            return None, self._skip(event)
        mapping, end = self._mapping(event)
        return (mapping if mapping.entries else None), end

    def _skip(self, event: Any) -> int:
        """Go to the end of a node; where that is."""
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
        """Remember what an anchor means, and who means it."""
        if isinstance(event, yaml.AliasEvent):
            self._aliases.append((str(event.anchor), _start(event), _end(event)))
        elif event.anchor:
            self._anchored[str(event.anchor)] = _start(event), end

    def _line_end(self, index: int) -> int:
        """Behind the line that has the character before ``index``."""
        if index and self._text[index - 1] == "\n":
            return index
        return self._text.find("\n", index) + 1 or len(self._text)


def _is_in(spans: list[tuple[int, int]], index: int) -> bool:
    return any(start <= index < stop for start, stop in spans)


def _start(event: Any) -> int:
    """Where the text of an event begins."""
    return int(event.start_mark.index)


def _end(event: Any) -> int:
    """Where the text of an event ends."""
    return int(event.end_mark.index)

"""Finds the place of a value in the text of a tree, with the facts that an edit there needs.

The text is read as YAML events only as far as needed: up to the value and its next sibling, or to the end when an
anchor may share the value.  Aliases and merge keys on the way are followed.  Offsets count characters.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import yaml

from asdffs.errors import InvalidTreeError, MissingValueError
from asdffs.format.header import as_yaml
from asdffs.tree.paths import Path, format_path, item_number
from asdffs.tree.syntax import syntax_error

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Kinds of events; of any type, because the stubs think that a mark may be missing.
_Node: Any = yaml.NodeEvent
_Scalar: Any = yaml.ScalarEvent
_Alias: Any = yaml.AliasEvent
_MappingStart: Any = yaml.MappingStartEvent
_MappingEnd: Any = yaml.MappingEndEvent
_SequenceEnd: Any = yaml.SequenceEndEvent
_STARTS: Any = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS: Any = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
#: A tag or an anchor, and the white space and comments behind it.
_PROPERTY: Final = re.compile(r"(?:!<[^>\s]*>|[!&][^\s,\[\]{}]*)((?:[ \t]|\r?\n|(?<=\s)#[^\r\n]*)*)")
#: How many aliases may follow each other: more are an endless circle.
_MOST_ALIASES: Final = 100


class Through(NamedTuple):
    """An alias or a merge key on the way: the name of its anchor, and the lines of both, from 1."""

    anchor: str
    line: int
    anchor_line: int


class Container:
    """The mapping or sequence that has the value, or would have it.

    ``flow``: written with braces or brackets.  ``start``: where its text begins behind tag and anchor.
    ``line``: of its start, from 1.  ``column``: of its keys or dashes.
    ``count``: number of the items before the value; if the value is missing, of all items.
    ``first``: where the first key or item begins, or -1.
    ``last_end``: end of the last scalar, alias or closing brace before the value; if the value is missing, of all.
    ``next_start``: where the next key or item begins, or None.
    ``end``: behind the closing brace or bracket in flow style.
    """

    count: int = 0
    first: int = -1
    last_end: int = -1
    next_start: int | None = None
    end: int = -1

    def __init__(self, *, mapping: bool, flow: bool, start: int, line: int, column: int) -> None:
        self.mapping = mapping
        self.flow = flow
        self.start = start
        self.line = line
        self.column = column


class Location:
    """Where a value is.

    ``path``: as far as it was found, with the number of an item as an int.
    ``missing``: the steps that are not in the tree; empty if the value was found.
    ``start``, ``end``: its text, with tag and anchor.  ``content``: where its text begins behind these.
    ``style``: of a scalar, as YAML events have it.  ``flow``: whether a collection has braces or brackets.
    ``key``: the span of its key.  ``line``: from 1.  ``event``: its first YAML event.
    ``through``: the aliases and merge keys that the path follows.
    ``aliases``: the lines of the aliases that share the value.  ``inner``: later aliases of anchors inside the value.
    """

    start: int = 0
    end: int = 0
    content: int = 0
    style: str | None = None
    flow: bool = False
    tag: str | None = None
    anchor: str | None = None
    key: tuple[int, int] | None = None
    event: Any = None

    def __init__(
        self,
        kind: Literal["scalar", "mapping", "sequence", "alias"] = "scalar",
        *,
        missing: Path = (),
        container: Container | None = None,
        line: int = 0,
    ) -> None:
        self.path: Path = ()
        self.kind = kind
        self.missing = missing
        self.container = container
        self.line = line
        self.through: list[Through] = []
        self.aliases: list[int] = []
        self.inner: list[Through] = []


def locate(text: str, path: Path) -> Location:
    """Return where the value at ``path`` is in ``text`` (header, comments and tree), or what of the path is missing.

    Raises ``InvalidTreeError`` for a text that is not YAML, ``MissingValueError`` if the path goes through a scalar.
    """
    try:
        return _Locator(text, path).locate()
    except yaml.YAMLError as err:
        raise syntax_error(err) from err


def behind_properties(text: str, start: int) -> tuple[int, int]:
    """Return where the tag and the anchor of the node at ``start`` end, and where its own text begins."""
    end = start
    while match := _PROPERTY.match(text, start):
        end, start = match.start(1), match.end()
    return end, start


class _Locator:
    """Reads the events of one text up to the value."""

    def __init__(self, text: str, path: Path) -> None:
        self._text = text
        self._path = list(path)
        self._events: Iterator[Any] = iter(())
        self._anchors: dict[str, tuple[int, int]] = {}
        self._passed: set[str] = set()
        self._aliases: dict[str, list[int]] = {}
        self._through: list[Through] = []
        self._leaf_end = 0
        self._inside: set[str] = set()
        self._inner: list[Through] = []

    def locate(self) -> Location:
        """See the function ``locate``."""
        event = self._begin()
        if event is None:
            return Location(missing=tuple(self._path))
        found = self._node(event, 0, None, None)
        return self._finished(found)

    def _finished(self, found: Location) -> Location:
        if self._passed or self._inside:
            for event in self._events:
                if isinstance(event, _Alias):
                    self._note_alias(event)
        found.aliases = sorted({line for name in self._passed for line in self._aliases.get(name, [])})
        found.through, found.inner = self._through, self._inner
        found.path = tuple(self._path[: len(self._path) - len(found.missing)])
        return found

    def _begin(self, index: int = -1) -> Any:
        """Begin to read events anew; return the first node, or the one at ``index``; None without a tree."""
        self._events = iter(_Loader(as_yaml(self._text)).get_event, None)  # yaml.parse takes half as long again
        for event in self._events:
            if isinstance(event, _Node):
                if index in (-1, event.start_mark.index) and not isinstance(event, _Alias):
                    return event
                self._note_leaf(event)
        return None

    def _next(self) -> Any:
        return next(self._events)

    def _node(self, event: Any, depth: int, container: Container | None, key: tuple[int, int] | None) -> Location:
        """Find the value in the node that begins with ``event``."""
        self._note_leaf(event)
        if isinstance(event, _Alias) and depth < len(self._path):
            return self._follow(event, depth)
        if not isinstance(event, _Alias) and event.anchor:
            self._passed.add(event.anchor)
        if depth == len(self._path):
            return self._target(event, container, key)
        if isinstance(event, _Scalar):
            shown = format_path(tuple(self._path[:depth]))
            raise MissingValueError(f"{shown} is a single value, which has no parts", line=event.start_mark.line + 1)
        return self._mapping(event, depth) if isinstance(event, _MappingStart) else self._items(event, depth)

    def _follow(self, event: Any, depth: int) -> Location:
        """Go on at the anchor of the alias ``event``."""
        line = event.start_mark.line + 1
        if event.anchor not in self._anchors or len(self._through) >= _MOST_ALIASES:
            raise InvalidTreeError(f"the alias '*{event.anchor}' has no anchor before it", line=line)
        index, anchor_line = self._anchors[event.anchor]
        self._through.append(Through(event.anchor, line, anchor_line))
        return self._node(self._begin(index), depth, None, None)

    def _target(self, event: Any, container: Container | None, key: tuple[int, int] | None) -> Location:
        start, line = event.start_mark.index, event.start_mark.line + 1
        found = Location(container=container, line=line)
        found.start, found.key, found.event = start, key, event
        if isinstance(event, _Alias):
            found.kind, found.anchor, found.end = "alias", event.anchor, event.end_mark.index
            found.content = start
            return found
        found.tag, found.anchor = event.tag, event.anchor
        found.content = self._behind_properties(start)
        if isinstance(event, _Scalar):
            found.style, found.end = event.style, event.end_mark.index
            if not event.value and not event.style:  # an empty scalar is where its mark, or its tag, ends
                found.content = found.end
            return found
        found.kind = "mapping" if isinstance(event, _MappingStart) else "sequence"
        found.flow = bool(event.flow_style)
        end = self._skip(event)
        found.end = end if found.flow else self._leaf_end
        self._inside = {name for name, (index, _) in self._anchors.items() if start < index < found.end}
        return found

    def _mapping(self, event: Any, depth: int) -> Location:
        box = self._container(event)
        merged: list[Any] = []
        wanted = str(self._path[depth])
        while (name := next(self._events)).__class__ is not _MappingEnd:
            if box.first < 0:
                self._note_child(box, name)
            self._note_leaf(name)
            if name.__class__ is not _Scalar:
                self._skip(name)
            elif name.value == wanted:
                self._path[depth] = wanted
                key = (name.start_mark.index, name.end_mark.index)
                return self._child(self._next(), depth, box, key)
            merged += self._pass_value(name)
            box.count += 1
            box.last_end = self._leaf_end
        box.end = name.end_mark.index
        return self._in_merged(merged, depth) or Location(
            "mapping", missing=tuple(self._path[depth:]), container=box, line=box.line
        )

    def _pass_value(self, name: Any) -> Sequence[Any]:
        """Read the value of the key ``name``; if that is a merge key, return the aliases in the value."""
        value = next(self._events)
        if name.__class__ is _Scalar and name.value == "<<" and name.implicit[0]:
            return self._merged(value)
        self._note_leaf(value)
        if value.__class__ is not _Scalar:
            self._skip(value)
        return ()

    def _items(self, event: Any, depth: int) -> Location:
        box = self._container(event)
        step = item_number(self._path[depth])
        if step is None:
            wrong = self._path[depth]
            raise MissingValueError(f"this is a sequence, so a number must follow, not {wrong!r}", line=box.line)
        if step < 0:
            step += self._count(depth)
        self._path[depth] = step
        while not isinstance(item := self._next(), _SequenceEnd):
            self._note_child(box, item)
            if box.count == step:
                return self._child(item, depth, box, None)
            self._note_leaf(item)
            self._skip(item)
            box.count += 1
            box.last_end = self._leaf_end
        box.end = item.end_mark.index
        return Location("sequence", missing=tuple(self._path[depth:]), container=box, line=box.line)

    def _child(self, event: Any, depth: int, box: Container, key: tuple[int, int] | None) -> Location:
        last = depth + 1 == len(self._path)
        found = self._node(event, depth + 1, box if last else None, key)
        if last and found.container is box:
            following = self._next()
            if isinstance(following, _ENDS):
                box.end = following.end_mark.index
            else:
                self._note_leaf(following)
                box.next_start = following.start_mark.index
        return found

    def _count(self, depth: int) -> int:
        """Count the items of the sequence at the first ``depth`` steps of the path."""
        found = _Locator(self._text, (*self._path[:depth], 10**17)).locate()
        return found.container.count if found.container is not None else 0

    def _merged(self, value: Any) -> list[Any]:
        """Read the value of a merge key, and return the aliases in it."""
        found: list[Any] = []
        depth = 0
        event = value
        while True:
            self._note_leaf(event)
            if isinstance(event, _Alias):
                found.append(event)
            depth += isinstance(event, _STARTS) - isinstance(event, _ENDS)
            if depth == 0:
                return found
            event = self._next()

    def _in_merged(self, merged: list[Any], depth: int) -> Location | None:
        """Find the value in the mappings that the merge key adds; None if none of them has it."""
        for alias in merged:
            kept = list(self._through), list(self._path), set(self._passed)
            found = self._follow(alias, depth)
            if len(found.missing) < len(self._path) - depth:
                return found
            self._through, self._path, self._passed = kept
        return None

    def _container(self, event: Any) -> Container:
        start = self._behind_properties(event.start_mark.index)
        mapping = isinstance(event, _MappingStart)
        column = start - self._text.rfind("\n", 0, start) - 1
        line = event.start_mark.line + 1
        return Container(mapping=mapping, flow=bool(event.flow_style), start=start, line=line, column=column)

    def _note_child(self, box: Container, event: Any) -> None:
        if box.first < 0:
            box.first = event.start_mark.index
            box.column = event.start_mark.column if box.mapping else box.column
            box.last_end = self._leaf_end

    def _skip(self, event: Any) -> int:
        """Read the rest of the node of ``event``; return where its last event ends."""
        if not isinstance(event, _STARTS):
            return int(event.end_mark.index)
        depth = 1
        while depth:
            event = self._next()
            if isinstance(event, _STARTS):
                depth += 1
            elif isinstance(event, _ENDS):
                depth -= 1
            self._note_leaf(event)
        return int(event.end_mark.index)

    def _note_leaf(self, event: Any) -> None:
        """Remember anchors, aliases, and where the last scalar, alias or closing brace ends."""
        if event.__class__ is _Scalar and event.anchor is None:  # nearly all
            self._leaf_end = event.end_mark.index
            return
        if isinstance(event, _Alias):
            self._note_alias(event)
        elif isinstance(event, _Node) and event.anchor:
            self._anchors[event.anchor] = (event.start_mark.index, event.start_mark.line + 1)
        if isinstance(event, (_Scalar, _Alias)):
            self._leaf_end = event.end_mark.index
        elif isinstance(event, _ENDS) and event.start_mark.index < event.end_mark.index:
            self._leaf_end = event.end_mark.index  # of a flow collection: the end of a block has no text

    def _note_alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self._aliases.setdefault(event.anchor, []).append(line)
        if event.anchor in self._inside:
            self._inner.append(Through(event.anchor, line, self._anchors[event.anchor][1]))

    def _behind_properties(self, start: int) -> int:
        """Return where the text of a node begins behind its tag and anchor."""
        return behind_properties(self._text, start)[1]

"""A tree as what it means: each value by its path; order, comments, quotes, anchors and flow style do not matter.

Plain scalars are read as YAML 1.1 has them (``1.0`` is ``1.00``, ``yes`` is ``true``, ``1`` is not ``1.0``), others
are their text; a tag that is written is a part of the value.  An alias stands for what it means, and a merge key for
what it adds.  Users: ``comparing``.  Pure; memory is O(what the tree means), which is limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml

from asdffs.document.tree import Path
from asdffs.errors import InvalidTreeError

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()
#: Values that aliases stand for: aliases of aliases could make a short text mean more than fits any memory.
_MOST: Final = 1_000_000
_KINDS: Final = ("int", "float", "bool", "null", "timestamp")

#: What is at a path: its tag where one is written, and the value: of a mapping ``{}``, of a sequence ``[]``.
Value = tuple[str, Any]


def flat_tree(text: str) -> dict[Path, Value]:
    """All values of a text of header, comments and tree.  Raises ``InvalidTreeError``."""
    try:
        return _Flattening(yaml.parse(text, Loader=_Loader)).read()
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        raise InvalidTreeError("the tree is not YAML", line=mark.line + 1 if mark else None) from err


class _Flattening:
    """``nodes``: of an anchor, its values by their path below it."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._nodes: dict[str, dict[Path, Value]] = {}
        self._count = 0

    def read(self) -> dict[Path, Value]:
        for event in self._events:
            if isinstance(event, (yaml.NodeEvent, yaml.CollectionStartEvent)):
                return self._node(event)
        return {}

    def _node(self, event: Any) -> dict[Path, Value]:
        """The values at and below the node that begins with ``event``."""
        if isinstance(event, yaml.AliasEvent):
            return self._meant(str(event.anchor))
        if isinstance(event, yaml.ScalarEvent):
            found: dict[Path, Value] = {(): _scalar(event)}
        elif isinstance(event, yaml.MappingStartEvent):
            found = self._mapping(event)
        else:
            found = self._sequence(event)
        if event.anchor:
            self._nodes[event.anchor] = found
        return found

    def _meant(self, anchor: str) -> dict[Path, Value]:
        """What an alias stands for."""
        found = self._nodes.get(anchor, {})
        self._count += len(found)
        if self._count > _MOST:
            raise InvalidTreeError("its aliases mean more than can be compared by value; compare the text")
        return found

    def _mapping(self, start: Any) -> dict[Path, Value]:
        found: dict[Path, Value] = {(): (start.tag or "", {})}
        merged: list[dict[Path, Value]] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event)
            value = self._node(next(self._events))
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
                merged.append(value)
                continue
            self._put(found, _key(key), value)
        for value in merged:
            self._merge(found, value)
        return found

    def _sequence(self, start: Any) -> dict[Path, Value]:
        found: dict[Path, Value] = {(): (start.tag or "", [])}
        number = 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._put(found, number, self._node(event))
            number += 1
        return found

    def _merge(self, found: dict[Path, Value], value: dict[Path, Value]) -> None:
        """What a merge key adds: keys that are not there; of a sequence, of each mapping in it."""
        listed = value.get((), ("", None))[1] == []
        parts: dict[Any, dict[Path, Value]] = {}
        for path, one in value.items():
            if path:
                parts.setdefault(path[0], {})[path[1:]] = one
        for key, part in parts.items():
            if listed:
                self._merge(found, part)
            elif (key,) not in found:
                self._put(found, key, part)

    @staticmethod
    def _put(found: dict[Path, Value], key: str | int, value: dict[Path, Value]) -> None:
        for path, one in value.items():
            found[(key, *path)] = one


def _key(key: dict[Path, Value]) -> str:
    """A key as people read it; ``1`` and ``'1'`` are two."""
    value = key.get((), ("", ""))[1]
    if not isinstance(value, str):
        return str(value)
    return repr(value) if _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)).endswith(_KINDS) else value


def _scalar(event: Any) -> Value:
    if not event.implicit[0]:
        return event.tag or "", event.value
    tag = _RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))
    if not tag.endswith(_KINDS):
        return "", event.value
    try:
        return "", _CONSTRUCTOR.construct_object(yaml.ScalarNode(tag, event.value))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, yaml.YAMLError):
        return "", event.value  # a number in name only
    finally:
        _CONSTRUCTOR.constructed_objects.clear()
        _CONSTRUCTOR.recursive_objects.clear()

"""Reads the meaning of a tree: order, comments, quotes, anchors and flow style do not matter.

Scalars without quotes, and those with a tag of YAML's own (``!!int '1'``), are read as in YAML 1.1 (``1.0`` is
``1.00``, ``yes`` is ``true``, ``1`` is not ``1.0``).  Other scalars are their text.  A written tag is part of the
value.  Aliases and merge keys are resolved.

Pure.  Memory is proportional to the text: an alias shares its node, and merge keys add a limited number of keys.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml
from asdffs.limits import DEPTH
from asdffs.tree.merges import Merges
from asdffs.tree.syntax import nested_too_deep, syntax_error

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR: Any = yaml.constructor.SafeConstructor()
#: Most numbers are written like this, and Python reads them as YAML does.
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,30}\.[0-9]{0,30}(?:[eE][-+][0-9]{1,3})?")
#: Characters of the longest text whose value is remembered.
_CACHED: Final = 64
_KINDS: Final = ("int", "float", "bool", "null", "timestamp")
_TAGS: Final = frozenset(f"tag:yaml.org,2002:{kind}" for kind in _KINDS)


class ValueNode:
    """A node of the tree.  ``tag``: as written, else empty.

    ``value``: a dict of nodes for a mapping, a list of nodes for a sequence, else a scalar.  ``line``: of a mapping
    or sequence, from 1.  ``text``: of a scalar, as it is written.  ``indirect``: an alias is in it.
    """

    __slots__ = ("indirect", "line", "tag", "text", "value")

    def __init__(self, tag: str, value: Any, line: int = 0, text: str = "") -> None:
        self.tag = tag
        self.value = value
        self.line = line
        self.text = text
        self.indirect = False

    def __repr__(self) -> str:
        return f"ValueNode({self.tag!r}, {self.value!r}, {self.line}, {self.text!r})"


def read_values(text: bytes, *, told_apart: bool = True) -> ValueNode:
    """Return the root of a text of header, comments and tree; an empty mapping without a tree.

    ``told_apart``: the keys ``1`` and ``'1'`` are different, the second has its quotes; else a key is its text.
    Raises ``InvalidTreeError``.
    """
    try:
        return read_events(yaml.parse(as_yaml(text.decode()), Loader=_Loader), told_apart=told_apart)
    except yaml.YAMLError as err:
        raise syntax_error(err) from err
    except UnicodeDecodeError as err:
        raise InvalidTreeError("the tree is not UTF-8", line=text.count(b"\n", 0, err.start) + 1) from err


def read_events(events: Iterator[Any], *, told_apart: bool = True) -> ValueNode:
    """Return the root of the YAML ``events`` of a document.  Raises ``InvalidTreeError``, ``yaml.YAMLError``."""
    return Reader(events, told_apart=told_apart).read()


def reader_of(events: Iterator[Any]) -> Reader:
    """Return a reader of a node in the middle of ``events``, whose keys are their text."""
    return Reader(events, told_apart=False)


class Reader:
    """Builds nodes from the events."""

    def __init__(self, events: Iterator[Any], *, told_apart: bool) -> None:
        self._events = events
        self._told_apart = told_apart
        self._anchors: dict[str, ValueNode] = {}
        self._merges = Merges()
        self._aliases = 0

    def read(self) -> ValueNode:
        """Return the root; an empty mapping without a tree."""
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                return self.node(event, 0)
        return ValueNode("", {})

    def node(self, event: Any, depth: int) -> ValueNode:
        """Return the node that begins with ``event``."""
        if isinstance(event, yaml.ScalarEvent):
            node = scalar_node(event)
            if event.anchor:
                self._anchors[event.anchor] = node
            return node
        if isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            return self._anchors.get(str(event.anchor), ValueNode("", None))
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        if depth > DEPTH:
            raise nested_too_deep(line)
        before = self._aliases
        if isinstance(event, yaml.MappingStartEvent):
            node = ValueNode(event.tag or "", self._mapping(depth + 1, line), line)
        else:
            node = ValueNode(event.tag or "", self._sequence(depth + 1), line)
        node.indirect = self._aliases != before
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _mapping(self, depth: int, line: int) -> dict[str, ValueNode]:
        found: dict[str, ValueNode] = {}
        merged: list[ValueNode] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self.node(event, depth)
            value = self.node(next(self._events), depth)
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
                merged.append(value)
            else:
                found[key_name(key) if self._told_apart else key.text or key_name(key)] = value
        for node in merged:
            for one in node.value if isinstance(node.value, list) else [node]:
                if isinstance(one.value, dict):
                    self._merges.add(len(one.value), line)
                    found |= {name: value for name, value in one.value.items() if name not in found}
        return found

    def _sequence(self, depth: int) -> list[ValueNode]:
        found: list[ValueNode] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            found.append(self.node(event, depth))
        return found


def key_name(key: ValueNode) -> str:
    """Return the name of a key for messages and comparison; ``1`` and ``'1'`` have different names."""
    value = key.value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return str(value) if not isinstance(value, (dict, list)) else "a mapping or sequence as a key"
    return repr(value) if _RESOLVER.resolve(yaml.ScalarNode, value, (True, False)).endswith(_KINDS) else value


def scalar_node(event: Any) -> ValueNode:
    """Return the node of a scalar's YAML event."""
    tag = "" if event.implicit[0] else event.tag or ""
    return ValueNode(tag, scalar_value(event), 0, event.value)


def scalar_value(event: Any) -> Any:
    """Return the value of a scalar's YAML event: by its tag if that is one of YAML's own, else as it is written."""
    if event.implicit[0]:
        return plain_value(event.value)
    return _constructed(event.tag, event.value) if event.tag in _TAGS else event.value


def plain_value(text: str) -> Any:
    """Return the value of a scalar without quotes and tag, as YAML 1.1 reads it; of a text, the text itself."""
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return _resolved(text) if len(text) <= _CACHED else _resolved.__wrapped__(text)


@functools.lru_cache(maxsize=1 << 12)
def _resolved(text: str) -> Any:
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    return _constructed(tag, text) if tag in _TAGS else text


def _constructed(tag: str, text: str) -> Any:
    try:
        value = _CONSTRUCTOR.construct_object(yaml.ScalarNode(tag, text))
        str(value)  # raises for integers of more than 4300 digits, which no library reads
        return value
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, yaml.YAMLError):
        return text  # looks or is tagged like a number but is not valid
    finally:
        _CONSTRUCTOR.constructed_objects.clear()
        _CONSTRUCTOR.recursive_objects.clear()

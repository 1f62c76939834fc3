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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import yaml

from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml, parse_header
from asdffs.format.tree_extent import find_comments_end
from asdffs.tree.arrays import find_arrays
from asdffs.tree.branch import Outline
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.outline import read_outline
from asdffs.tree.validation import check_text
from asdffs.tree.values import ValueNode, read_values

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
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
#: An anchor and a tag.
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*\s+)*")

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
    _check_readable(text, old)
    outline = read_outline(text, old)
    head = _head_edits(text)
    if find_comments_end(text, parse_header(text).size) is None:  # no tree
        return Upgraded(_edited(outline.text, head).encode("utf-8", "surrogateescape"), ())
    tags = _Tags()
    tag_edits = list(tags.edits(outline.text))
    edits = [*head, *tag_edits, *_Walk(outline, old, count).edits()]
    edits += _history_edits(outline.text, [_entry(sentence, entries) for sentence in entries.sentences])
    found = _edited(outline.text, edits).encode("utf-8", "surrogateescape")
    try:
        check_text(found, new, had_tree=True)
    except InvalidTreeError as err:  # its line number is of the new text, so leave it out
        raise InvalidTreeError(f"{_MERGED} ({err.sentence})") from err
    _check_same(text, found, old, new, count)
    return Upgraded(found, tuple(tags.kept))


def _check_readable(text: bytes, dialect: Dialect) -> None:
    """Raise ``InvalidTreeError`` unless it is UTF-8 and one YAML document."""
    try:
        text.decode()
    except UnicodeDecodeError as err:
        raise InvalidTreeError("the tree is not UTF-8", line=text.count(b"\n", 0, err.start) + 1) from err
    find_arrays(text, dialect)


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


def _edited(text: str, edits: Iterable[Edit]) -> str:
    pieces: list[str] = []
    done = 0
    for start, stop, new in sorted(edits, key=lambda edit: (edit[0], edit[1])):
        pieces += (text[done:start], new)
        done = stop
    return "".join((*pieces, text[done:]))


# -- tags ---------------------------------------------------------------------


def new_tag(tag: str) -> str | None:
    """Return the counterpart in ASDF 1.6.0 of a draft's ``tag``; None without one.

    A tag that is not one of the draft's is returned as it is.
    """
    name = tag.removeprefix(f"{_OLD}/")
    if name == tag:
        return tag
    return f"{_NEW}/{name}-{_TAGS[name]}" if name in _TAGS else None


@dataclass(slots=True, eq=False, repr=False)
class _Tags:
    """Rewrites tags and ``%TAG`` directives.

    ``kept``: tags without a counterpart.  ``prefixes``: old and new prefix of each handle.
    """

    kept: list[str] = field(default_factory=list)
    prefixes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def edits(self, text: str) -> Iterator[Edit]:
        for token in yaml.scan(as_yaml(text), Loader=_Loader):
            if isinstance(token, yaml.DirectiveToken) and token.name == "TAG":
                yield from self._directive(text, token)
            elif isinstance(token, yaml.TagToken):
                yield from self._tag(token)

    def _directive(self, text: str, token: Any) -> Iterator[Edit]:
        handle, prefix = token.value
        new = _NEW + prefix.removeprefix(_OLD) if prefix.startswith(_OLD) else prefix
        self.prefixes[handle] = prefix, new
        if new != prefix:
            start, stop = token.start_mark.index, token.end_mark.index
            yield start, stop, text[start:stop].replace(prefix, new)

    def _tag(self, token: Any) -> Iterator[Edit]:
        handle, suffix = token.value
        if handle is None:
            old, prefix, shown = suffix, "", "!<"
        else:
            before, prefix = self.prefixes.get(handle, ("", ""))
            old, shown = before + suffix, handle
            if handle not in self.prefixes:
                return
        new = new_tag(old)
        if new is None:
            self.kept += [old] if old not in self.kept else []
            new = old
        if new == old and old == prefix + suffix:
            return
        short = handle is not None and new.startswith(prefix) and len(new) > len(prefix)
        written = shown + quote(new[len(prefix) :], safe=_SAFE) if short else f"!<{quote(new, safe=_SAFE)}>"
        yield token.start_mark.index, token.end_mark.index, written


# -- ndarrays and references --------------------------------------------------


class _Walk:
    """Finds the edits of ndarrays and references; recursion is as deep as the tree, which the outline limits."""

    def __init__(self, outline: Outline, dialect: Dialect, count: int) -> None:
        self._text = outline.text
        self._dialect = dialect
        self._events: Iterator[Any] = yaml.parse(as_yaml(outline.text), Loader=_Loader)
        self._arrays = {branch.span[0]: branch.array for branch in outline.arrays if branch.array is not None}
        self._sources = {
            branch.source: number
            for branch in outline.arrays
            if branch.source is not None and (number := _moved(branch.array, count)) is not None
        }
        self._found: list[Edit] = []

    def edits(self) -> list[Edit]:
        for event in self._events:
            if isinstance(event, yaml.NodeEvent):
                self._node(event)
        self._found += [(start, stop, str(number)) for (start, stop), number in self._sources.items()]
        return self._found

    def _node(self, event: Any, *, fields: bool = False) -> None:
        """Read the node that begins with ``event``; ``fields``: it is a datatype or inside one."""
        if isinstance(event, yaml.MappingStartEvent):
            self._mapping(event, fields=fields)
        elif isinstance(event, yaml.SequenceStartEvent):
            while not isinstance(child := next(self._events), yaml.SequenceEndEvent):
                self._node(child, fields=fields)

    def _mapping(self, start: Any, *, fields: bool) -> None:
        array = self._arrays.get(start.start_mark.index)
        described = fields or (bool(start.tag) and self._dialect.is_ndarray(start.tag))
        keys: dict[str, Any] = {}
        while not isinstance(key := next(self._events), yaml.MappingEndEvent):
            name = key.value if isinstance(key, yaml.ScalarEvent) else ""
            self._node(key)
            keys.setdefault(name, key)
            value = next(self._events)
            if name == "$ref" and isinstance(value, yaml.ScalarEvent):
                self._reference(value)
            self._node(value, fields=described and name in ("dtype", "datatype"))
        if described and "dtype" in keys and "datatype" not in keys:
            place = self._text.rfind("dtype", *_span(keys["dtype"]))  # its quotes, anchor and tag stay
            self._found += [(place, place + len("dtype"), "datatype")] if place >= 0 else []
        if array is not None and array.source is not None and "byteorder" not in keys and keys:
            self._insert(start, next(iter(keys.values())), f"byteorder: {array.byteorder}")

    def _insert(self, mapping: Any, first: Any, entry: str) -> None:
        """Insert ``entry`` before the first entry of a mapping, whose key is ``first``."""
        place = _span(first)[0]
        start = self._text.rfind("\n", 0, place) + 1
        if self._text[start:place].rstrip().endswith("?") and not mapping.flow_style:
            place = start + self._text[start:place].rindex("?")
        newline = "\r\n" if self._text[:start].endswith("\r\n") else "\n"
        between = ", " if mapping.flow_style else newline + " " * (place - start)
        self._found.append((place, place, entry + between))

    def _reference(self, value: Any) -> None:
        """Add the first slash to a pointer that lacks it."""
        start, stop = _span(value)
        _, mark, fragment = value.value.partition("#")
        place = self._text.find("#", start, stop)
        if mark and fragment and not fragment.startswith("/") and place >= 0:
            self._found.append((place + 1, place + 1, "/"))


def _moved(array: Ndarray | None, count: int) -> int | None:
    """Return the block number for a negative source; None for any other source."""
    if array is None or not isinstance(array.source, int) or array.source >= 0:
        return None
    return array.block_in(count)


def _span(event: Any) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


# -- history ------------------------------------------------------------------


def _entry(sentence: str, entries: HistoryEntries) -> str:
    software = f"{_SOFTWARE} {{name: asdffs, version: '{entries.version}'}}"
    return f"{_ENTRY} {{description: {json.dumps(sentence)}, time: {entries.when}, software: {software}}}"


def _history_edits(text: str, entries: list[str]) -> list[Edit]:
    """Return the edits that add ``entries`` before the present ones of the tree's history.

    Without a history, one is added at the end of the tree.  If that is impossible, the entries become comments.
    """
    root: Any = yaml.compose(as_yaml(text), Loader=_Loader)
    known = _known_history(text, root)
    if known is not None:
        place, flow = known
        start = text.rfind("\n", 0, place) + 1
        newline = "\r\n" if text[:start].endswith("\r\n") else "\n"
        if flow:
            between = "" if text[place + 1 :].lstrip().startswith("]") else ", "
            return [(place + 1, place + 1, ", ".join(entries) + between)]
        return [(place, place, "".join(f"- {entry}{newline}{' ' * (place - start)}" for entry in entries))]
    end = text.rstrip("\r\n").rfind("\n") + 1
    newline = "\r\n" if text[:end].endswith("\r\n") else "\n"
    if _is_block(root) and not any(name.value == _HISTORY for name, _ in root.value):
        lines = [f"{_HISTORY}:", "  entries:", *(f"  - {entry}" for entry in entries)]
    else:
        lines = [f"# {_HISTORY}: {entry}" for entry in entries]
    return [(end, end, "".join(line + newline for line in lines))]


def _known_history(text: str, root: Any) -> tuple[int, bool] | None:
    """Return where the list of the tree's history begins, and whether it is in flow style; None without one."""
    node = root
    for key in (_HISTORY, "entries"):
        node = _value_of(node, key)
        if isinstance(node, yaml.SequenceNode):
            properties = _PROPERTIES.match(text, node.start_mark.index)
            place = properties.end() if properties is not None else 0
            return (place, bool(node.flow_style)) if text[place : place + 1] in ("-", "[") else None
    return None


def _value_of(node: Any, key: str) -> Any:
    """Return the value of a mapping at ``key``; None if it is missing, or an alias to an earlier node."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    found = ((name, value) for name, value in pairs if name.value == key)
    return next((value for name, value in found if value.start_mark.index > name.start_mark.index), None)


def _is_block(root: Any) -> bool:
    """Return whether the tree is a mapping in block style that begins in the first column."""
    return isinstance(root, yaml.MappingNode) and not root.flow_style and root.value[0][0].start_mark.column == 0


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
                child = ValueNode(child.tag, _slashed(child.value))
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
    return ValueNode(new.tag, new.value[len(new.value) - len(old.value) :])

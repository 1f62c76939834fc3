"""Reads the outline of a tree: the mappings and sequences that lead to arrays, and the short scalars beside these.

One pass over the YAML events, more lenient than ``events``, because the text is the tree of the file already.

An alias, a merge key and a ``$ref`` into the same tree lead to the branch that they refer to.  So a branch may have
several parents.  There are no cycles: a ``$ref`` or alias to a branch that contains it is left out.  A ``$ref`` to
another file is a branch with ``elsewhere``.

Marks are character offsets in the decoded text.  Pure; built once per tree.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import yaml

from asdffs.dialects.base import Dialect
from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml
from asdffs.limits import DEPTH, REPLAYED
from asdffs.tree.branch import Branch, Outline, Scalar
from asdffs.tree.chunked import is_chunked
from asdffs.tree.collected import Found
from asdffs.tree.columns import COLUMNS, name_columns
from asdffs.tree.merges import Merges
from asdffs.tree.ndarrays import Ndarray, chunked_of, ndarray_of
from asdffs.tree.paths import Path
from asdffs.tree.references import Reference, References
from asdffs.tree.scalar_rules import plain_value
from asdffs.tree.syntax import nested_too_deep, syntax_error

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Scalar: Final = yaml.ScalarEvent
_MappingEnd: Final = yaml.MappingEndEvent
#: The largest length of scalars that are kept beside arrays; longer ones do not fit a FITS header card.
_LONGEST: Final = 80
#: The most events of an anchored node that are kept: enough for a datatype or a shape that several arrays share.
_MOST_RECORDED: Final = 2000
_DEEPEST_ALIAS: Final = 20
#: Keys below which scalars are kept even without an array: headers of .fits files are made from them.
_METADATA: Final = frozenset({"meta", "wcsinfo", "header", "colnames"})
#: Attributes that are equal in many arrays.
_SHARED: Final = ("shape", "datatype", "byteorder", "strides", "row")
#: Ways to write null (YAML 1.1).
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})


def read_outline(text: bytes, dialect: Dialect, *, spans: bool = True) -> Outline:
    """Return the outline of a text of header, comments and tree.  Raises ``InvalidTreeError``.

    ``spans``: include the spans of arrays in blocks and of their sources, which are only needed to edit the text.
    """
    try:
        decoded = text.decode()
        return _Reader(decoded, dialect, spans=spans).read()
    except yaml.YAMLError as err:
        raise syntax_error(err) from err
    except UnicodeDecodeError as err:
        raise InvalidTreeError("the tree is not UTF-8") from err
    except RecursionError as err:
        raise InvalidTreeError("the tree is nested too deep") from err


class _Reader:
    """Builds the outline from the events; recursion is as deep as the tree, at most ``DEPTH``."""

    def __init__(self, text: str, dialect: Dialect, *, spans: bool) -> None:
        self._text = text
        self._spans = spans
        self._needed = spans
        self._same: dict[Any, Any] = {}
        self._dialect = dialect
        self._is_ndarray = dialect.is_ndarray
        # the events; yaml.parse takes half as long again
        self._source: Iterator[Any] = iter(_Loader(as_yaml(text)).get_event, None)
        self._replayed: list[Iterator[Any]] = []
        self._replayed_count = 0
        self._uses: Counter[str] = Counter()
        self._source_uses: Counter[str] = Counter()
        self._anchored: list[tuple[Branch, str]] = []
        self._recording: dict[str, list[Any]] = {}
        self._recorded: dict[str, list[Any]] = {}
        self._anchors: dict[str, Branch] = {}
        self._arrays: list[Branch] = []
        self._references: list[Reference] = []
        self._merges = Merges()
        self._prefix = ""
        self._skipped_null = False

    def read(self) -> Outline:
        root: Branch | None = None
        for event in self._source:
            if isinstance(event, yaml.DocumentStartEvent):
                self._prefix = self._text[_start(event) : _end(event)]
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)) and root is None:
                root = self._branch(event, ())
        for branch, anchor in self._anchored:
            branch.shared = self._uses[anchor] != self._source_uses[anchor]
        if root is not None:
            References(root).join(self._references)
        return Outline(self._text if self._needed else "", root, tuple(self._arrays), self._prefix)

    def _next(self) -> Any:
        """Return the next event.  Anchored nodes are recorded for ndarrays that refer to them by an alias."""
        if self._replayed:
            return next(self._replayed[-1])
        event = next(self._source)
        if type(event) is _Scalar and event.anchor is None and not self._recording:  # most are such
            return event
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent):
            self._uses[str(anchor)] += 1
        elif anchor:
            if isinstance(event, yaml.ScalarEvent):
                self._recorded[anchor] = [event]
            else:
                self._recording[anchor] = []
        self._record(event)
        return event

    def _record(self, event: Any) -> None:
        """Add ``event`` to the recordings of the anchored nodes around it; drop recordings that get too long."""
        full = None
        for anchor, events in self._recording.items():
            events.append(event)
            if len(events) >= _MOST_RECORDED:
                full = [*(full or ()), anchor]
        for anchor in full or ():
            del self._recording[anchor]

    def _end_recording(self, anchor: str | None) -> None:
        if anchor in self._recording and not self._replayed:
            self._recorded[anchor] = self._recording.pop(anchor)

    @contextlib.contextmanager
    def _replay(self, alias: Any) -> Iterator[Any]:
        """Read the events of an alias' node again inside the block, and yield its first event.

        Yields None for a node that was too long to record, or is unknown.
        """
        recorded = self._recorded.get(alias.anchor, ())
        events = iter(recorded)
        self._replayed_count += len(recorded)
        if len(self._replayed) > _DEEPEST_ALIAS or self._replayed_count > REPLAYED:
            raise InvalidTreeError(
                f"aliases lead to aliases without end: at most {REPLAYED:,} values are read again",
                line=alias.start_mark.line + 1,
            )
        self._replayed.append(events)
        try:
            yield next(events, None)
        finally:
            self._replayed.pop()

    def _branch(self, start: Any, path: Path, *, metadata: bool = False) -> Branch:
        if len(path) > DEPTH:
            raise nested_too_deep(start.start_mark.line + 1)
        branch = Branch(
            self._same.setdefault(start.tag or "", start.tag or ""),
            path,
            start.start_mark.line + 1,
            metadata=metadata,
        )
        self._needed = self._needed or metadata
        branch.mapping = isinstance(start, yaml.MappingStartEvent)
        if start.tag and self._is_ndarray(start.tag):
            end = self._ndarray(branch) if branch.mapping else self._skip(start)
            if self._spans or not branch.mapping:
                branch.span = (_start(start), _end(end))
            self._note_array(branch)
        elif start.tag and branch.mapping and is_chunked(start.tag):
            end = self._chunked(branch)
        else:
            end = self._mapping(branch) if branch.mapping else self._sequence(branch)
            branch.span = (_start(start), _end(end))
        if start.anchor:  # set last: an alias to the branch inside of it would be a cycle
            self._anchors[start.anchor] = branch
            self._end_recording(start.anchor)
        return branch

    def _chunked(self, branch: Branch) -> Any:
        """Read an array of asdf-zarr, and return its last event."""
        value: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            value[str(self._key(event).value)] = self._plain(self._next())
        branch.array = chunked_of(Found(branch.path, branch.tag, value, branch.line))
        if branch.array is not None:
            branch.hold()
            self._arrays.append(branch)
        return event

    def _note_array(self, branch: Branch) -> None:
        if not branch.mapping:  # the short form: a sequence of values instead of a mapping
            branch.inline, branch.nulls = branch.span, self._skipped_null
            self._needed = True
            short = ndarray_of(Found(branch.path, branch.tag, {}, branch.line), self._dialect)
            branch.array = short._replace(inline=True)
        branch.hold()
        self._arrays.append(branch)

    def _mapping(self, branch: Branch) -> Any:
        merged: list[Branch] = []
        plain: dict[str, bool] = {}
        following = self._next
        while type(event := following()) is not _MappingEnd:
            if type(event) is not _Scalar:
                event = self._key(event)
            elif event.value == "<<" and event.implicit[0]:
                merged += self._merged(following(), branch.path)
                continue
            key, implicit = event.value, event.implicit[0]
            if plain.setdefault(key, implicit) != implicit:  # 1 and '1' are different keys
                key = repr(key)
            child = following()
            if type(child) is _Scalar:
                self._scalar(branch, key, child)
            else:
                self._child(branch, key, child)
        for source in merged:
            self._merges.add(len(source.children), branch.line)
            for name, child in source.children.items():
                if name not in branch.children and name not in branch.scalars:
                    branch.add(name, child)
        if COLUMNS in branch.children:
            name_columns(branch, self._text)
        return event

    def _key(self, event: Any) -> Any:
        """Return the event of a scalar key, which may be an alias."""
        found = self._recorded.get(str(event.anchor), [event])[0] if isinstance(event, yaml.AliasEvent) else event
        if not isinstance(found, yaml.ScalarEvent):
            raise InvalidTreeError("a mapping or sequence cannot be a key", line=event.start_mark.line + 1)
        return found

    def _sequence(self, branch: Branch) -> Any:
        number = 0
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._child(branch, number, event)
            number += 1
        return event

    def _child(self, branch: Branch, key: str | int, event: Any) -> None:
        """Read the child at ``key``, which begins with ``event``."""
        if isinstance(event, yaml.ScalarEvent):
            if branch.mapping:
                self._scalar(branch, str(key), event)
        elif isinstance(event, yaml.AliasEvent):
            target = self._anchors.get(str(event.anchor))
            if target is not None:
                branch.add(key, target)
        else:
            child = self._branch(event, (*branch.path, key), metadata=branch.metadata or key in _METADATA)
            if child.reference is not None:
                self._references.append((branch, key, child))
            branch.leads = branch.leads or child.leads or key in _METADATA
            if child.holds or child.metadata or child.leads:
                branch.add(key, child)
            else:
                branch.remove(key)

    @staticmethod
    def _scalar(branch: Branch, key: str, event: Any) -> None:
        branch.remove(key)
        if key == "$ref":
            branch.reference, branch.leads = event.value, True
        if len(event.value) <= _LONGEST:
            branch.note_scalar(key, Scalar(event.value, event.implicit[0]))

    def _merged(self, event: Any, path: Path) -> list[Branch]:
        """Return the mappings that a merge key adds to the mapping at ``path``."""
        if isinstance(event, yaml.ScalarEvent):
            return []
        alias = isinstance(event, yaml.AliasEvent)
        found = self._anchors.get(str(event.anchor)) if alias else self._branch(event, path)
        if found is None or found.mapping:
            return [found] if found is not None else []
        return [child for _, child in sorted(found.children.items(), key=lambda item: int(item[0]))]

    # -- ndarrays -------------------------------------------------------------

    def _ndarray(self, branch: Branch) -> Any:
        """Read an ndarray: its keys except the data, the span of its source, and its mask.  Return its last event."""
        value: dict[str, Any] = {}
        end = self._facts(branch, value)
        branch.array = self._shared(ndarray_of(Found(branch.path, branch.tag, value, branch.line), self._dialect))
        mask = value.get("mask")
        if isinstance(mask, Scalar):
            branch.note_scalar("mask", mask)
        return end

    def _shared(self, array: Ndarray) -> Ndarray:
        """Return ``array`` with equal attributes shared among arrays, to save memory: most arrays are alike."""
        same = self._same.setdefault
        facts = {name: same(fact, fact) for name in _SHARED if isinstance(fact := getattr(array, name), (str, tuple))}
        return array._replace(**facts)

    def _facts(self, branch: Branch, value: dict[str, Any], *, merging: bool = False) -> Any:
        """Add the keys of a mapping to ``value``; with ``merging``, only those that it does not have.

        Returns the last event of the mapping.
        """
        merged: list[Any] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if _is_merge(event):
                merged.append(self._next())
                if not isinstance(merged[-1], yaml.AliasEvent):
                    raise InvalidTreeError("an ndarray can only merge an alias", line=event.start_mark.line + 1)
                continue
            key = str(self._key(event).value)
            if merging and key in value:
                self._plain(self._next())
            else:
                self._fact(branch, value, key, self._next())
        for alias in merged:
            with self._replay(alias) as start:
                if isinstance(start, yaml.MappingStartEvent):
                    self._facts(branch, value, merging=True)
        return event

    def _fact(self, branch: Branch, value: dict[str, Any], key: str, event: Any) -> None:
        """Read the value of one key of an ndarray."""
        if key == "data" or (key == "mask" and not isinstance(event, yaml.ScalarEvent)):
            value[key] = None
            self._values(branch, key, event)
        elif key == "mask":
            value[key] = Scalar(event.value, event.implicit[0])
        else:
            value[key] = self._plain(event)
            if key == "source":
                if self._spans:
                    branch.source = self._written(event)
                self._note_source(branch, event)

    def _note_source(self, branch: Branch, event: Any) -> None:
        """Count sources that are aliases, and remember those with an anchor."""
        anchor = str(getattr(event, "anchor", None) or "")
        if isinstance(event, yaml.AliasEvent):
            self._source_uses[anchor] += not self._replayed
        elif anchor:
            self._anchored.append((branch, anchor))

    def _written(self, event: Any) -> tuple[int, int]:
        """Return the span of a scalar without its anchor and tag, or of a whole alias."""
        start, stop = _start(event), _end(event)
        for text in (
            getattr(event, "value", ""),
            f"'{getattr(event, 'value', '')}'",
            f'"{getattr(event, "value", "")}"',
        ):
            if text and self._text[stop - len(text) : stop] == text:
                return stop - len(text), stop
        return start, stop

    def _values(self, branch: Branch, key: str, event: Any) -> None:
        """Read ``data`` or ``mask``: another array, or values, of which only the span is noted."""
        target = self._anchors.get(str(event.anchor)) if isinstance(event, yaml.AliasEvent) else None
        if target is not None and target.array is None:
            span, line = target.span, target.line
        elif isinstance(event, yaml.AliasEvent) or (event.tag and self._is_ndarray(event.tag)):
            self._child(branch, key, event)
            return
        else:
            end = event if isinstance(event, yaml.ScalarEvent) else self._skip(event)
            span, line = (_start(event), _end(end)), event.start_mark.line + 1
        self._needed = True
        if key == "data":
            branch.inline, branch.nulls = span, target.nulls if target is not None else self._skipped_null
            return
        mask = Branch("", (*branch.path, key), line, span, mapping=False, inline=span)
        mask.array = ndarray_of(Found(mask.path, "", {"datatype": "bool8"}, mask.line), self._dialect)
        mask.hold()
        branch.add(key, mask)

    def _skip(self, start: Any) -> Any:
        """Skip the collection that begins with ``start``, and return its last event.

        Sets ``_skipped_null`` if it contains a null.
        """
        open_anchors, event = [start.anchor], start
        self._skipped_null = False
        while open_anchors:
            event = self._next()
            if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value in _NULLS:
                self._skipped_null = True
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                open_anchors.append(event.anchor)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self._end_recording(open_anchors.pop())
        return event

    def _plain(self, event: Any) -> Any:
        """Return the value that begins with ``event``, as dicts, lists, strings and integers."""
        if isinstance(event, yaml.ScalarEvent):
            return plain_value(event)
        if isinstance(event, yaml.AliasEvent):
            with self._replay(event) as start:
                return self._plain(start) if start is not None else None
        anchor = getattr(event, "anchor", None)
        found: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        while not isinstance(event := self._next(), (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            if isinstance(found, list):
                found.append(self._plain(event))
            else:
                key = str(self._plain(event))
                found[key] = self._plain(self._next())
        self._end_recording(anchor)
        return found


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<"


def _start(event: Any) -> int:
    """Return the offset where the text of an event begins, in characters."""
    return int(event.start_mark.index)


def _end(event: Any) -> int:
    """Return the offset where the text of an event ends, in characters."""
    return int(event.end_mark.index)

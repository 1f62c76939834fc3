"""Reads a tree as YAML events, without constructing nodes: tags and anchors stay text.

One pass over the text checks that it is one YAML 1.1 document that the asdf library can construct.  It collects only
mappings and sequences with a wanted tag, and memory is proportional to these.  Pure.
"""

from __future__ import annotations

import functools
import itertools
import sys
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import yaml

from asdffs.errors import InvalidTreeError
from asdffs.format.header import as_yaml
from asdffs.tree.chunked import is_chunked
from asdffs.tree.collected import Entries, Found, Frame, Noted, Reading
from asdffs.tree.scalar_rules import (
    LONGEST_UNCHECKED,
    LONGEST_WORD,
    NO_MAPPING_TAGS,
    NO_SEQUENCE_TAGS,
    NUMBERS_BEGIN,
    PAIR_TAGS,
    SHOWN,
    WORDS,
    YAML_TAGS,
    check_scalar,
    key_value,
    kind_of_scalar,
    plain_value,
)
from asdffs.tree.syntax import invalid_at, too_deep

if TYPE_CHECKING:
    from asdffs.tree.key_table import KeyTable

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Events between two calls of ``go_on``: about ten milliseconds.
_AT_ONCE = 8192
#: asdf and PyYAML build a tree recursively; a deeper one raises RecursionError there.
_DEEPEST = 240
_TOO_DEEP = f"nested more than {_DEEPEST} deep; the asdf library could not read it"
#: Number of keys of a large mapping, and how near to the root it must be for ``Reading.mappings``.
_MANY = 8
_NEAR = 3
#: When one entry changes, four are read: that one, the two next to it, and the first one of the mapping.
_READ_AGAIN = 4
#: The most values that are remembered to be right, and the length of the longest.
_MOST_KNOWN = 4096
_LONGEST_KNOWN = 60
#: From so many keys on, the keys of a mapping are kept as a ``KeyTable``, which takes more time and less memory.
LARGE = 4096


class _Reader:
    """Checks the events of ``text``.

    ``unique``: whether keys are compared, and a key that a mapping has twice is an error.

    ``anchors``: the kind of each anchored node; ``named``: the value of anchored scalars.  ``known``: values that are
    right, with or without quotes.  ``known_keys``: keys that are text, with or without quotes.  ``large``: from how
    many keys on those of a mapping are kept as a ``KeyTable``.  ``compare()`` is called when a key may be there
    already; it must raise ``InvalidTreeError`` if the tree has a mapping with a key twice.  ``first_key``: if given,
    the entries of the mapping are noted whose first key begins there, in characters.
    """

    def __init__(
        self, text: bytes, wanted: Callable[[str], bool], skip: frozenset[str], *, unique: bool = False
    ) -> None:
        self.text = text
        self.wanted = wanted
        self.skip = skip
        self.unique = unique
        self.stack: list[Frame] = []
        self.anchors: dict[str, str] = {}
        self.found: list[Found] = []
        self.documents = 0
        self.ended = False
        self.indirect = False
        self.named: dict[str, object] = {}
        self.take: Callable[[Found], object] = self.found.append
        self.mappings: list[array[int]] = []
        self.noted: Noted | None = None
        self.first_key: int | None = None
        self.known: set[str] = set()
        self.known_keys: set[str] = set()
        self.large = LARGE
        self.compare: Callable[[], object] = lambda: None

    def follow(self, events: Iterable[Any]) -> None:
        """Handle all events.

        Most are scalars for which a few tests suffice; these are handled here, because a call takes as long again.
        """
        handlers: dict[type, Callable[[Any], object]] = {
            yaml.ScalarEvent: self.scalar,
            yaml.MappingStartEvent: self.open,
            yaml.SequenceStartEvent: self.open,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.AliasEvent: self.alias,
            yaml.DocumentStartEvent: self.begin,
            yaml.StreamEndEvent: self.end,
        }
        scalar, stack, known, known_keys = yaml.ScalarEvent, self.stack, self.known, self.known_keys
        begin, longest = NUMBERS_BEGIN, LONGEST_UNCHECKED
        word, large = LONGEST_WORD if self.unique else sys.maxsize, self.large
        for event in events:
            kind = event.__class__
            if kind is scalar and stack and event.tag is None and event.anchor is None:
                frame, value = stack[-1], event.value
                if not frame.mapping or frame.key is not None:
                    if frame.plain and (value in known or (value[:1] not in begin and len(value) < longest)):
                        frame.key = None
                        frame.count += 1
                        if not frame.mapping:
                            frame.kind = "sequence"
                        continue
                elif value in known_keys or (word < len(value) < longest and value[:1] not in begin):
                    keys = frame.keys = frame.keys or {}
                    if value not in keys and len(keys) < large:
                        frame.key = value
                        keys[value] = event.start_mark.index
                        continue
            handler = handlers.get(kind)
            if handler is not None:
                handler(event)

    def begin(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise invalid_at("a second YAML document begins here; the tree must be one document", event.start_mark)

    def end(self, event: Any) -> None:
        self.ended = True

    def scalar(self, event: Any) -> None:
        value = event.value
        if event.tag is not None or event.anchor is not None or not self.stack or value == "<<":
            self.special_scalar(event)
            return
        frame = self.stack[-1]
        if frame.mapping and frame.key is None:
            frame.key = value
            self.plain_key(frame, event, value)
            return
        if (value[:1] in NUMBERS_BEGIN and value not in self.known) or len(value) > LONGEST_UNCHECKED:
            self.check_value(event, value)
        if frame.plain:
            frame.key = None
            frame.count += 1
            if not frame.mapping:
                frame.kind = "sequence"
        else:
            self.add(event, "scalar", plain_value(event) if frame.value is not None else None)

    def check_value(self, event: Any, value: str) -> None:
        """Raise ``InvalidTreeError`` as ``check_scalar``; remember what is right, because many values come again."""
        check_scalar(event)
        if event.implicit[0] and len(value) < _LONGEST_KNOWN and len(self.known) < _MOST_KNOWN:
            self.known.add(value)

    def plain_key(self, frame: Frame, event: Any, value: str) -> None:
        """Take a key without tag and anchor.  The first test is that of ``is_text``, without the call."""
        key: object = value
        length = len(value)
        if (
            value[:1] in NUMBERS_BEGIN
            or (length <= LONGEST_WORD and value.lower() in WORDS)
            or length > LONGEST_UNCHECKED
        ):
            self.check_value(event, value)
            key = key_value(event) if self.unique else value
        elif self.unique and length < _LONGEST_KNOWN and len(self.known_keys) < _MOST_KNOWN:
            self.known_keys.add(value)
        if not self.unique:
            return
        keys = frame.keys
        if keys is not None and key not in keys:
            keys[key] = event.start_mark.index
            if isinstance(keys, dict) and len(keys) >= self.large:
                frame.keys = _table_of(keys)
        else:
            self.note_key(frame, key, event)

    def special_scalar(self, event: Any) -> None:
        """Handle a scalar that has a tag or an anchor, is a merge key, or is the whole tree."""
        kind = kind_of_scalar(event)
        self.anchor(event, kind)
        frame = self.stack[-1] if self.stack else None
        if frame is None and event.value:
            raise invalid_at("the tree must be a mapping, and this is a scalar", event.start_mark)
        check_scalar(event)
        if event.anchor and self.unique:
            self.named[event.anchor] = key_value(event)
        if frame is not None and frame.wants_key:
            self.key(event, event.value, kind)
            if self.unique and kind == "scalar":
                self.note_key(frame, key_value(event), event)
            return
        value = plain_value(event) if frame is not None and frame.value is not None else None
        self.add(event, "scalar", value)

    def alias(self, event: Any) -> None:
        kind = self.anchors.get(event.anchor)
        if kind is None:
            raise invalid_at(f"the alias '*{event.anchor}' has no anchor before it", event.start_mark)
        frame = self.stack[-1] if self.stack else None
        self.indirect = self.indirect or (frame is not None and frame.value is not None)
        if frame is None or not frame.wants_key:
            self.add(event, kind, None)
        else:
            self.key(event, f"*{event.anchor}", kind)
            if self.unique and kind == "scalar":
                self.note_key(frame, self.named[event.anchor], event)

    def note_key(self, frame: Frame, value: object, event: Any) -> None:
        """Note a key; raise ``InvalidTreeError`` if the mapping has it already."""
        keys = frame.keys
        if keys is None:
            keys = frame.keys = {}
        elif not isinstance(keys, dict):
            if value in keys:
                self.compare()
        elif value in keys:
            first = self.text.decode(errors="replace").count("\n", 0, keys[value]) + 1
            shown = event.value if isinstance(event, yaml.ScalarEvent) else f"*{event.anchor}"
            raise invalid_at(
                f"the key {shown[:SHOWN]!r} is in line {first} already; remove or rename one of the two, "
                "because programs read only one",
                event.start_mark,
            )
        keys[value] = event.start_mark.index

    def key(self, event: Any, key: str, kind: str) -> None:
        """Take a key of the innermost mapping: a scalar with one of YAML's own tags, or the merge key."""
        if kind not in ("scalar", "merge"):
            what = "a tagged scalar" if kind == "tagged" else "a mapping or sequence"
            raise invalid_at(f"{what} cannot be a key", event.start_mark)
        frame = self.stack[-1]
        frame.key = key
        if kind == "merge":
            frame.merge, frame.plain = True, False
        if frame.merge and len(self.stack) > 1 and self.stack[-2].tag in PAIR_TAGS:
            raise invalid_at("an ordered mapping cannot have a merge key", event.start_mark)

    def open(self, event: Any) -> None:
        mapping = event.__class__ is yaml.MappingStartEvent
        kind = "mapping" if mapping else "mappings"
        tag, anchor, stack = event.tag, event.anchor, self.stack
        parent = stack[-1] if stack else None
        usual = tag is None and anchor is None and parent is not None and parent.plain and not parent.wants_key
        if usual and len(stack) < _DEEPEST:
            stack.append(Frame(kind))
            return
        self.anchor(event, "mapping" if mapping else "sequence")
        self.check_place(event, mapping=mapping)
        found = bool(tag) and self.wanted(tag)
        collect = found or (parent is not None and parent.value is not None and parent.key not in self.skip)
        value: Any = ({} if mapping else []) if collect else None
        line = event.start_mark.line + 1
        plain = not collect and tag not in PAIR_TAGS
        frame = Frame(kind)
        frame.value, frame.plain, frame.tag, frame.anchor = value, plain, tag, anchor
        frame.line, frame.found = line, found
        self.stack.append(frame)

    def check_place(self, event: Any, *, mapping: bool) -> None:
        """Raise ``InvalidTreeError`` if a collection with this tag is not allowed here."""
        mark = event.start_mark
        parent = self.stack[-1] if self.stack else None
        if parent is None and not mapping:
            raise invalid_at("the tree must be a mapping, and this is a sequence", mark)
        if parent is not None and parent.wants_key:
            raise invalid_at("a mapping or sequence cannot be a key", mark)
        if len(self.stack) >= _DEEPEST:
            raise invalid_at(_TOO_DEEP, mark)
        wrong = NO_MAPPING_TAGS if mapping else NO_SEQUENCE_TAGS
        if event.tag in wrong or (parent is None and event.tag == YAML_TAGS + "set"):
            raise invalid_at(f"a {'mapping' if mapping else 'sequence'} cannot have the tag {event.tag}", mark)

    def close(self, event: Any) -> None:
        stack = self.stack
        frame = stack.pop()
        if frame.anchor:
            self.anchors[frame.anchor] = frame.kind
        elif (
            len(stack) < _NEAR
            and frame.keys is not None
            and (len(frame.keys) >= _MANY or not stack or self.first_key is not None)
        ):
            self.note_entries(frame, event)
        if frame.found:
            path = tuple(above.step() for above in stack)
            self.take(Found(path, frame.tag or "", frame.value, frame.line))
        if stack:
            above = stack[-1]
            if above.plain:
                above.key = None
                above.count += 1
                if not above.mapping and frame.kind != "mapping":
                    above.kind = "sequence"
                return
            pair = above.tag in PAIR_TAGS
            if pair and not (frame.mapping and frame.count == 1):
                raise invalid_at("each entry of an ordered mapping must be a mapping of one key", event.start_mark)
            self.add(event, frame.kind, frame.value)

    def note_entries(self, frame: Frame, event: Any) -> None:
        """Note where the entries of the root or of a large mapping begin, unless an array may need them.

        That is so if the mapping is an array, or if an alias may stand for what is around it.
        """
        if frame.value is not None or (frame.tag and is_chunked(frame.tag)) or any(one.anchor for one in self.stack):
            return
        keys = frame.keys or {}
        offsets = array("Q", keys.values()) if isinstance(keys, dict) else keys.offsets
        offsets.append(event.start_mark.index)
        self.mappings.append(offsets)
        if self.first_key is None:
            worth = (offsets[-1] - offsets[0]) * (1 - _READ_AGAIN / max(1, len(keys)))
        else:
            worth = 1.0 if offsets[0] == self.first_key else 0.0
        if self.noted is None or worth > self.noted.worth:
            hashes = array("q", map(hash, keys)) if isinstance(keys, dict) else keys.hashes
            self.noted = Noted(len(self.mappings) - 1, hashes, worth)

    def anchor(self, event: Any, kind: str) -> None:
        if event.anchor and event.anchor in self.anchors:
            raise invalid_at(f"the anchor '&{event.anchor}' already exists", event.start_mark)
        if event.anchor:
            self.anchors[event.anchor] = kind

    def add(self, event: Any, kind: str, value: Any) -> None:
        """Add a complete child of ``kind`` to the innermost collection."""
        if not self.stack:
            return
        frame = self.stack[-1]
        if frame.merge and kind not in ("mapping", "mappings"):
            raise invalid_at("the value of a merge key '<<' must be a mapping", event.start_mark)
        if frame.tag in PAIR_TAGS and kind != "mapping":
            raise invalid_at("each entry of an ordered mapping must be a mapping of one key", event.start_mark)
        if not frame.mapping and kind != "mapping":
            frame.kind = "sequence"
        if frame.mapping and frame.value is not None:
            frame.value[frame.key] = value
        elif frame.value is not None:
            frame.value.append(value)
        frame.key, frame.merge = None, False
        frame.plain = frame.value is None and frame.tag not in PAIR_TAGS
        frame.count += 1


class StoppedError(Exception):
    """Reading was stopped because ``go_on`` returned False."""


def read_tree(
    text: bytes,
    wanted: Callable[[str], bool],
    skip: frozenset[str] = frozenset(),
    go_on: Callable[[], bool] = lambda: True,
    *,
    unique: bool = False,
    take: Callable[[Found], object] | None = None,
    first_key: int | None = None,
) -> Reading:
    """Check ``text`` and return its collections whose tag is ``wanted``, in the order of their ends.

    ``text`` begins with the header line, which is a YAML comment, so line numbers are those of the file.

    ``go_on`` is called every few thousand events.  ``unique``: refuse a mapping that has a key twice (YAML 1.1,
    section 3.2.1.3), because every reader drops one of the two; and note entries (``Reading``).  ``take`` is called
    with each collection; then none is returned.  ``first_key``: return the entries of the mapping whose first key
    begins at this byte, if there is one.

    Raises ``InvalidTreeError`` with line and column, ``StoppedError`` when ``go_on`` returns False.
    """
    reader = _Reader(text, wanted, skip, unique=unique)
    reader.take = take or reader.take
    if first_key is not None:
        reader.first_key = len(text[:first_key].decode())
    reader.compare = functools.cache(lambda: _compare_keys(text, go_on))
    try:
        _follow(reader, text, go_on)
    except yaml.MarkedYAMLError as err:
        problem = _TOO_DEEP if too_deep(err) else err.problem or "not YAML"
        raise invalid_at(problem, err.problem_mark or err.context_mark) from err
    except yaml.reader.ReaderError as err:
        line = text.count(b"\n", 0, err.position) + 1
        raise InvalidTreeError(f"a character that YAML does not allow: {err.reason}", line=line) from err
    if not reader.mappings:
        return Reading(reader.found, reader.indirect, ())
    from asdffs.tree.byte_offsets import ByteOffsets

    in_bytes, noted = ByteOffsets(text), reader.noted
    mappings = [in_bytes.convert(offsets) for offsets in reader.mappings]
    entries = Entries(mappings[noted.number], noted.hashes) if noted is not None else None
    return Reading(reader.found, reader.indirect, mappings, entries)


def _table_of(keys: dict[object, int]) -> KeyTable:
    from asdffs.tree.key_table import KeyTable  # few trees have so many keys

    return KeyTable(keys)


def _compare_keys(text: bytes, go_on: Callable[[], bool]) -> None:
    """Read ``text`` again, and compare the keys themselves.  Raises as ``read_tree``."""
    reader = _Reader(text, lambda _: False, frozenset(), unique=True)
    reader.large = sys.maxsize
    _follow(reader, text, go_on)


def _follow(reader: _Reader, text: bytes, go_on: Callable[[], bool]) -> None:
    """Pass all events to ``reader``, as ``yaml.parse`` but without a Python call for each event."""
    loader = _Loader(as_yaml(text))
    events = iter(loader.get_event, None)
    try:
        while not reader.ended:
            if not go_on():
                raise StoppedError
            reader.follow(itertools.islice(events, _AT_ONCE))
    finally:
        loader.dispose()

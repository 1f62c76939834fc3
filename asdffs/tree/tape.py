"""The tape of a YAML text: every node of the document, in the order of the text, in flat arrays.

The text is parsed once, by libyaml.  A node is a *row* of the tape, from 0, the root.  The rows of a collection's
content follow its own row, keys and values by turns for a mapping, and ``next`` of a row is the row behind its
content.  So a walk passes over a value of any size in one step.  No object is made for a node: thirteen bytes a row,
and ``text`` is the only copy of what is written.

Everything else that reads a tree walks over a tape.  What no reader could go on with is refused while the tape is
made: text that is not YAML, a second document, nesting beyond ``DEPTH``, an anchor that exists twice, an alias
without an anchor before it.

Offsets count characters, as libyaml does.  Pure.
"""

from __future__ import annotations

import gc
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import compress, islice
from typing import Any, Final

import yaml

from asdffs.errors import InvalidTreeError
from asdffs.limits import DEPTH
from asdffs.tree.syntax import TOO_DEEP, decoded, invalid_at, syntax_error

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

#: Kinds of rows.  A collection in flow style has braces or brackets.
SCALAR: Final = 1
ALIAS: Final = 2
MAPPING: Final = 3
SEQUENCE: Final = 4
FLOW_MAPPING: Final = 5
FLOW_SEQUENCE: Final = 6
MAPPINGS: Final = (MAPPING, FLOW_MAPPING)
SEQUENCES: Final = (SEQUENCE, FLOW_SEQUENCE)
#: From a collection's kind in block style to that in flow style.
_FLOW: Final = 2
_END: Final = 7
_DOCUMENT: Final = 8
_NEITHER: Final = 9

_CODES: Final[dict[type, int]] = {
    yaml.ScalarEvent: SCALAR,
    yaml.AliasEvent: ALIAS,
    yaml.MappingStartEvent: MAPPING,
    yaml.SequenceStartEvent: SEQUENCE,
    yaml.MappingEndEvent: _END,
    yaml.SequenceEndEvent: _END,
    yaml.DocumentStartEvent: _DOCUMENT,
    yaml.DocumentEndEvent: _NEITHER,
    yaml.StreamStartEvent: _NEITHER,
    yaml.StreamEndEvent: _NEITHER,
}
_NO_ROWS: Final = bytes((_END, _DOCUMENT, _NEITHER))
_HAS_ROW: Final = bytes(code in range(SCALAR, _END) for code in range(256))
#: The codes of mappings and sequences among those of rows.
COLLECTION: Final = re.compile(rb"[\x03-\x06]")
#: Events other than scalars and aliases.
_STRUCTURE: Final = re.compile(rb"[\x03-\x09]")
#: The head of a block scalar that states its indentation.
_INDENTED: Final = re.compile(r"[|>][-+]?[1-9]")
#: A tag or an anchor, and the white space and comments behind it.
_PROPERTY: Final = re.compile(r"(?:!<[^>\s]*>|[!&][^\s,\[\]{}]*)((?:[ \t]|\r?\n|(?<=\s)#[^\r\n]*)*)")
_LINE_FEED: Final = re.compile("\n")
_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
#: The first characters of scalars that are not plain.
_STYLED: Final = "'\"|>"
#: Ends of lines that are folded by other rules; and the usual ones, with the white space around them.
_RARE: Final = re.compile("\r(?!\n)|[\x85\u2028\u2029]")
_FOLD: Final = re.compile(r"[ \t]*\r?\n[ \t]*")
#: The most events that are alive at once, and the most objects that one event has.  Python's garbage collector runs
#: when more objects than its threshold are alive, and it takes as long as the parser.
_AT_ONCE: Final = 512
_OBJECTS: Final = 6
#: Events between two calls of ``go_on``: about ten milliseconds.
_BETWEEN: Final = 1 << 13


class StoppedError(Exception):
    """Reading was stopped because ``go_on`` returned False."""


#: Roots that stand for a tree without values.
_NULL_TREES: Final = frozenset({"", "~", "null", "Null", "NULL", "''", '""'})


class Tape:
    """The rows of one document; none if it has no document.

    ``text``: what was parsed.  ``kind``: of each row.  ``start``, ``end``: its characters, with tag and anchor; a
    collection in block style ends where its last scalar, alias or bracket ends.  ``next``: the row behind it.
    ``tags``, ``anchors``: of the rows that have one.  ``aliases``: the rows that are aliases, in order, and for each
    the row that it stands for.  ``prefix``: the directives before the document, with ``---``.
    """

    def __init__(self, text: bytes | str, go_on: Callable[[], bool] = lambda: True) -> None:
        """Parse ``text``; ``go_on()`` is called every few thousand nodes.

        Raises ``InvalidTreeError`` with line and column, ``StoppedError`` when ``go_on`` returns False.
        """
        self.text = text if isinstance(text, str) else decoded(text)
        if len(self.text) >> 32:
            raise InvalidTreeError("the tree has more than 4 GiB")  # offsets have 32 bits
        self.kind = bytearray()
        self.start, self.end, self.next = array("I"), array("I"), array("I")
        self.tags: dict[int, str] = {}
        self.anchors: dict[int, str] = {}
        self.aliases, self.targets = array("I"), array("I")
        self.prefix = ""
        self._anchored: dict[str, int] = {}
        self._blocks: dict[int, str] = {}
        self._breaks: array[int] | None = None
        self._documents = 0
        self._last_end = 0
        self._open: list[int] = []
        try:
            self._parse(go_on)
        except yaml.YAMLError as err:
            raise syntax_error(err, self.text) from err
        self._anchored.clear()
        nulls = {""} if self.tags else _NULL_TREES
        if self.kind == bytes([SCALAR]) and self.text[self.content(0) : self.end[0]] in nulls:
            self.kind[0] = MAPPING  # the asdf library reads no tree as an empty one

    def _parse(self, go_on: Callable[[], bool]) -> None:
        loader = _Loader(_Stream(self.text))
        events = iter(loader.get_event, None)
        at_once = min(_AT_ONCE, gc.get_threshold()[0] // _OBJECTS or _AT_ONCE)
        try:
            while go_on():
                for _ in range(0, _BETWEEN, at_once):
                    batch: list[Any] = []
                    try:
                        batch.extend(islice(events, at_once))
                    finally:  # the text before an error of YAML may have another fault, which then comes first
                        if batch:
                            self._add(batch)
                    if not batch:
                        return
        finally:
            loader.dispose()
        raise StoppedError

    def _add(self, batch: list[Any]) -> None:
        """Add the rows of some events.  What is done for each event takes most of the time of every reader."""
        kinds = bytearray(map(_CODES.__getitem__, map(type, batch)))
        starts: Any = [event.start_mark.index for event in batch]
        ends: Any = [event.end_mark.index for event in batch]
        first = len(self.kind)
        find, low, high = self.text.find, starts[0], ends[-1]
        closed = self._structure(batch, kinds, starts, ends) if _STRUCTURE.search(kinds) else ()
        if (
            find("!", low, high) >= 0  # five searches for one letter are faster than one for any of five
            or find("&", low, high) >= 0
            or find("*", low, high) >= 0
            or find("|", low, high) >= 0
            or find(">", low, high) >= 0
        ):
            self._note_unusual(batch, kinds, first)
        self._last_end = ends[-1]
        rows = kinds.translate(None, _NO_ROWS)
        if len(rows) < len(kinds):
            chosen = kinds.translate(_HAS_ROW)
            starts, ends = list(compress(starts, chosen)), list(compress(ends, chosen))
        self.kind += rows
        self.start.fromlist(starts)
        self.end.fromlist(ends)
        self.next.extend(range(first + 1, first + len(rows) + 1))
        for row, behind, end in closed:
            self.next[row], self.end[row] = behind, end

    def _structure(
        self, batch: list[Any], kinds: bytearray, starts: list[int], ends: list[int]
    ) -> list[tuple[int, int, int]]:
        """Follow where collections begin and end; return row, next row and end of those that end here.

        The kind of collections in flow style is changed in ``kinds``, and ends of block style in ``ends``.
        """
        closed: list[tuple[int, int, int]] = []
        row, stack = len(self.kind), self._open
        for found in _STRUCTURE.finditer(bytes(kinds)):
            at = found.start()
            code = kinds[at]
            if code < _END:
                stack.append(row + at)
                if batch[at].flow_style:
                    kinds[at] += _FLOW
                if len(stack) > DEPTH:
                    raise invalid_at(TOO_DEEP, batch[at].start_mark)
                continue
            if code == _END:
                if starts[at] == ends[at]:  # the end of a block has no text
                    ends[at] = ends[at - 1] if at else self._last_end
                closed.append((stack.pop(), row + at, ends[at]))
            elif code == _DOCUMENT:
                self._begin(batch[at])
            row -= 1
        return closed

    def _begin(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise invalid_at("a second YAML document begins here; the tree must be one document", event.start_mark)
        self.prefix = self.text[event.start_mark.index : event.end_mark.index]

    def _note_unusual(self, batch: list[Any], kinds: bytearray, row: int) -> None:
        """Note tags, anchors, aliases, and texts that cannot be read without what is around them."""
        for event, kind in zip(batch, kinds, strict=True):
            if kind >= _END:
                continue
            if kind == ALIAS:
                self._note_alias(event, row)
            else:
                if event.tag is not None:
                    self.tags[row] = event.tag
                if event.anchor is not None:
                    self._note_anchor(event, row)
                if kind == SCALAR and event.style in ("|", ">"):
                    self._note_block(event, row)
            row += 1

    def _note_block(self, event: Any, row: int) -> None:
        """Keep the text of a block scalar that states its indentation: it is counted from that of its parent."""
        if _INDENTED.match(self.text, behind_properties(self.text, event.start_mark.index)[1]):
            self._blocks[row] = event.value

    def _note_anchor(self, event: Any, row: int) -> None:
        if event.anchor in self._anchored:
            raise invalid_at(f"the anchor '&{event.anchor}' already exists", event.start_mark)
        self._anchored[event.anchor] = row
        self.anchors[row] = event.anchor

    def _note_alias(self, event: Any, row: int) -> None:
        target = self._anchored.get(event.anchor)
        if target is None:
            raise invalid_at(f"the alias '*{event.anchor}' has no anchor before it", event.start_mark)
        self.aliases.append(row)
        self.targets.append(target)

    # -- one row ---------------------------------------------------------------

    def target(self, row: int) -> int:
        """Return the row that an alias stands for; any other row is itself."""
        return self.targets[bisect_left(self.aliases, row)] if self.kind[row] == ALIAS else row

    def content(self, row: int) -> int:
        """Return where the text of a row begins, behind its tag and anchor."""
        start = self.start[row]
        if row in self.tags or row in self.anchors:
            return min(behind_properties(self.text, start)[1], self.end[row])
        return start

    def style(self, row: int) -> str:
        """Return the quote, or the ``|`` or ``>``, with which a scalar begins; empty for a plain one."""
        start = self.content(row)
        first = self.text[start : start + 1]
        return first if start < self.end[row] and first in _STYLED else ""

    def word(self, row: int) -> str | None:
        """Return the text of a plain scalar that begins with a letter or digit; None for most other rows.

        Most scalars are such, and this says so with one look at their text.
        """
        text = self.text[self.start[row] : self.end[row]]
        return text if text[:1].isalnum() and text.isprintable() else None  # line ends are not printable

    def is_plain(self, row: int) -> bool:
        """Return whether a scalar has neither quotes nor a tag, so that its text decides what it is."""
        start = self.start[row]
        if start < self.end[row] and self.text[start].isalnum():
            return True
        tag = self.tags.get(row) if self.tags else None
        return not self.style(row) if tag is None else tag == "!"  # which PyYAML takes for none, even before quotes

    def scalar(self, row: int) -> str:
        """Return the text of a scalar, without quotes, escapes and the breaks of folded lines."""
        if (word := self.word(row)) is not None:
            return word
        text = self.text[self.content(row) : self.end[row]]
        style = text[:1]
        if not text.isprintable() and _BREAK.search(text):
            if row in self._blocks:
                return self._blocks[row]
            return folded(text) if style not in _STYLED and not _RARE.search(text) else _parsed(text)
        if style == '"':
            return text[1:-1] if "\\" not in text else _parsed(text)
        if style == "'":
            return text[1:-1].replace("''", "'")
        return text if style not in ("|", ">") else ""

    def line(self, row: int) -> int:
        """Return the line where a row begins, from 1."""
        if self._breaks is None:
            usual = self.text.isascii() and "\r" not in self.text
            breaks = (_LINE_FEED if usual else _BREAK).finditer(self.text)
            self._breaks = array("I", (found.end() for found in breaks))  # unlike ``map``, it lets other threads run
        return bisect_right(self._breaks, self.start[row]) + 1

    def column(self, row: int) -> int:
        """Return the column, from 0, of the keys or dashes of a collection in block style."""
        return column_of(self.text, self.content(row)) if self.next[row] > row + 1 else 0  # of a tree that is null

    # -- rows of a collection --------------------------------------------------

    def is_flat(self, row: int) -> bool:
        """Return whether no mapping or sequence is in a row."""
        return COLLECTION.search(self.kind, row + 1, self.next[row]) is None

    def pairs(self, row: int) -> Iterator[tuple[int, int]]:
        """Return the rows of each key of a mapping and of its value."""
        behind = self.next[row]
        if self.is_flat(row):  # most are, and no step of Python is taken for each of its keys
            return zip(range(row + 1, behind, 2), range(row + 2, behind, 2), strict=True)
        return self._pairs(row + 1, behind)

    def _pairs(self, key: int, behind: int) -> Iterator[tuple[int, int]]:
        following = self.next
        while key < behind:
            value = following[key]
            yield key, value
            key = following[value]

    def items(self, row: int) -> Iterator[int]:
        """Yield the rows of the items of a sequence."""
        following, item, behind = self.next, row + 1, self.next[row]
        while item < behind:
            yield item
            item = following[item]

    def is_inside(self, row: int, other: int) -> bool:
        """Return whether ``row`` is ``other`` or in it: an alias may stand for a node that it is in."""
        return other <= row < self.next[other]

    def has_alias(self, row: int) -> bool:
        """Return whether an alias is in a row."""
        return bisect_left(self.aliases, row) < bisect_left(self.aliases, self.next[row])


class _Stream:
    """Gives libyaml the text in pieces, so that it need not be encoded as a whole."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def read(self, size: int) -> str:
        """Return the next characters."""
        start, self._place = self._place, self._place + size
        piece = self._text[start : self._place]
        # ASDF's drafts begin with a directive that no parser of YAML knows (YAML 1.1, section 4.1.1)
        return "#" + piece[1:] if start == 0 and piece.startswith("%ASDF") else piece


def behind_properties(text: str, start: int) -> tuple[int, int]:
    """Return where the tag and the anchor of the node at ``start`` end, and where its own text begins."""
    end = start
    while match := _PROPERTY.match(text, start):
        end, start = match.start(1), match.end()
    return end, start


def column_of(text: str, place: int) -> int:
    """Return the column of a character, from 0."""
    return place - text.rfind("\n", 0, place) - 1


def folded(text: str) -> str:
    """Return what a plain scalar of several lines says (YAML 1.1, section 4.2.1).  Its lines end with LF or CR LF."""
    first, *others = _FOLD.split(text)
    words, blank = [first], 0
    for line in others:
        if line:
            words += ("\n" * blank or " ", line)
        blank = 0 if line else blank + 1
    return "".join(words)


def _parsed(text: str) -> str:
    """Return what a scalar says that has escapes or several lines.

    The space before it keeps ``---`` from being the start of a document.  The indentation around a scalar does not
    matter, but of a block that states its own, which ``_blocks`` has.
    """
    loader = _Loader(f" {text}")
    try:
        events = iter(loader.get_event, None)
        return next(str(event.value) for event in events if isinstance(event, yaml.ScalarEvent))
    finally:
        loader.dispose()

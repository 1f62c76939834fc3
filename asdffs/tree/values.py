"""The values of a tree: order, comments, quotes, anchors and flow style do not matter.

A node is made when somebody asks for it: a value far down in a large tree makes as many nodes as its path has steps.
Aliases lead to the node that they stand for, and merge keys are resolved.  A written tag is part of the value.  An
ordered mapping (``!!omap``, a list of mappings with one key each) is a mapping, and of a key that a mapping has twice
the last one counts, as in the asdf library.

Whoever walks over all values, or copies them, meets a shared node once for each alias that leads to it: ten lines may
mean 10^20 values.  So how much the aliases stand for is computed without following them one by one
(``ValueNode.check_aliases``).  Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import InvalidTreeError
from asdffs.limits import ALIASED, DEPTH, MERGED, shown_size
from asdffs.tree.resolving import USUAL, YAML_TAGS, fault_of, is_text, is_usual, plain_value, tagged_value
from asdffs.tree.syntax import nested_too_deep
from asdffs.tree.tape import ALIAS, MAPPINGS, SCALAR, SEQUENCES, Tape, folded

_UNREAD: Final[Any] = object()
OMAP: Final = YAML_TAGS + "omap"
#: Bytes of memory that a value takes, without its text.
_VALUE: Final = 200
_NESTED: Final = re.compile(rb"[\x02-\x06]")


class ValueNode:
    """A node of the tree.  ``tag``: as written, else empty.

    ``value``: a dict of nodes for a mapping, a list of nodes for a sequence, else a scalar.  ``line``: from 1; 0 for
    a node of no text.  ``text``: of a scalar, as it is written.  ``indirect``: an alias is in it.
    """

    __slots__ = ("_nodes", "_row", "_text", "_value", "tag")

    def __init__(self, tag: str, value: Any, text: str = "", *, nodes: Nodes | None = None, row: int = 0) -> None:
        self.tag = tag
        self._value = value
        self._text = text
        self._nodes = nodes
        self._row = row

    @property
    def value(self) -> Any:
        """Return the value, which is read when it is first asked for.  Raises ``InvalidTreeError``."""
        self._value = self.passing_value()
        return self._value

    def passing_value(self) -> Any:
        """Return the value without keeping it, so that one pass over a large tree keeps no nodes."""
        if self._value is _UNREAD and self._nodes is not None:
            return self._nodes.value_at(self._row)
        return self._value

    @property
    def text(self) -> str:
        """Return the text of a scalar; an empty one for a mapping or sequence."""
        return self._text if self._nodes is None else self._nodes.text_at(self._row)

    @property
    def line(self) -> int:
        """Return the line where the node begins."""
        return 0 if self._nodes is None else self._nodes.tape.line(self._row)

    @property
    def indirect(self) -> bool:
        """Return whether an alias is in the node."""
        return self._nodes is not None and self._nodes.tape.has_alias(self._row)

    def check_aliases(self) -> None:
        """Raise ``InvalidTreeError`` if what its aliases stand for would take too much, or nests too deep."""
        if self._nodes is not None and self.indirect:
            self._nodes.check_aliases(self._row)

    def holding(self, value: Any) -> ValueNode:
        """Return a node of the same place and tag with another value."""
        return ValueNode(self.tag, value, nodes=self._nodes, row=self._row)

    def __repr__(self) -> str:
        return f"ValueNode({self.tag!r}, {self.value!r}, {self.text!r})"


def read_values(text: bytes, *, distinguish_quoted: bool = True) -> ValueNode:
    """Return the root of a text of header, comments and tree; an empty mapping without a tree.

    ``distinguish_quoted``: the keys ``1`` and ``'1'`` differ, the second has its quotes; else a key is its text.
    Raises ``InvalidTreeError``.
    """
    return Nodes(Tape(text), distinguish_quoted=distinguish_quoted).root()


class Nodes:
    """Makes the nodes of one tape.  See ``read_values`` for ``distinguish_quoted``."""

    def __init__(self, tape: Tape, *, distinguish_quoted: bool = False) -> None:
        self.tape = tape
        self._distinguish_quoted = distinguish_quoted
        self._shared: dict[int, ValueNode] = {}
        self._merges = Merges()

    def root(self) -> ValueNode:
        """Return the root; an empty mapping without a tree."""
        return self.node(0) if self.tape.kind else ValueNode("", {})

    def node(self, row: int) -> ValueNode:
        """Return the node of a row; all aliases of a node lead to the same one."""
        tape = self.tape
        row = tape.target(row)
        if row in tape.anchors and row in self._shared:
            return self._shared[row]
        tag = tape.tags.get(row, "")
        node = ValueNode("" if tag == "!" and tape.kind[row] == SCALAR else tag, _UNREAD, nodes=self, row=row)
        if row in tape.anchors:
            self._shared[row] = node
        return node

    def value_at(self, row: int) -> Any:
        """Return the value of a row that is no alias.  Raises ``InvalidTreeError``."""
        kind = self.tape.kind[row]
        if kind == SCALAR:
            return scalar_value(self.tape, row)
        if kind in MAPPINGS:
            return self._mapping(row)
        if self.tape.tags.get(row) == OMAP:
            return {key: node for item in self.tape.items(row) for key, node in self._entries(self.tape.target(item))}
        return [self.node(item) for item in self.tape.items(row)]

    def text_at(self, row: int) -> str:
        """Return the text of a scalar; an empty one of any other row."""
        return self.tape.scalar(row) if self.tape.kind[row] == SCALAR else ""

    def _entries(self, row: int) -> Iterator[tuple[str, ValueNode]]:
        if self.tape.kind[row] in MAPPINGS:
            yield from self._mapping(row).items()

    def _mapping(self, row: int) -> dict[str, ValueNode]:
        found: dict[str, ValueNode] = {}
        merged: list[int] = []
        apart = self._distinguish_quoted
        for name, key, value in keyed(self.tape, row):
            if name is MERGE:
                merged.append(value)
            else:
                found[name if not apart else self.key_at(key)] = self.node(value)
        for value in merged:
            for source in merged_rows(self.tape, value):
                self._merge(found, source, row)
        return found

    def _merge(self, found: dict[str, ValueNode], source: int, row: int) -> None:
        """Add the entries of the mapping ``source`` that the mapping ``row`` does not have."""
        entries = self.node(source).value
        self._merges.add(len(entries), self.tape.line(row))
        found |= {name: node for name, node in entries.items() if name not in found}

    def key_at(self, key: int) -> str:
        """Return the name of a key, which tells ``1`` and ``'1'`` apart."""
        row = self.tape.target(key)
        return key_name(scalar_value(self.tape, row)) if self.tape.kind[row] == SCALAR else key_text(self.tape, row)

    def check_aliases(self, row: int) -> None:
        """See ``ValueNode.check_aliases``."""
        size = _size_of_aliases(self.tape, row)
        if size > ALIASED:
            raise InvalidTreeError(
                f"its aliases stand for {shown_size(size)} of values, and at most {shown_size(ALIASED)} are read",
                line=self.tape.line(row),
            )


class Merges:
    """Counts the keys that the merge keys of one tree add: in any library, each copies all keys of its mappings.

    ``entries``: those of the mappings that were merged already (``entry_rows``), so that each is read once.
    """

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, int]] = {}
        self._count = 0

    def add(self, count: int, line: int) -> None:
        """Count keys that are merged into the mapping in ``line``.  Raises ``InvalidTreeError`` beyond the limit."""
        self._count += count
        if self._count > MERGED:
            raise InvalidTreeError(f"the merge keys '<<' up to here add more than {MERGED:,} keys", line=line)


#: What ``written_value`` returns where the text alone does not tell the value.
UNTOLD: Final = object()


def written_value(text: str) -> Any:
    """Return the value of a scalar by its text as it is written; ``UNTOLD`` where that needs a closer look.

    Most have neither a tag nor an escape; asdf breaks the lines of flow mappings within plain texts.
    """
    first = text[:1]
    if first in _MARKS:
        return UNTOLD
    if not text.isprintable():  # line ends are not printable
        return plain_value(folded(text)) if _LINES.fullmatch(text) else UNTOLD
    if first in _ESCAPES:
        return UNTOLD if _ESCAPES[first] in text[1:-1] else text[1:-1]
    return plain_value(text)


#: Where a tag, an anchor or a block scalar begins; and for each quote, how escapes begin behind it.
_MARKS: Final = frozenset("!&|>")
_ESCAPES: Final = {"'": "'", '"': "\\"}
#: A plain text of several lines that are as usual.
_LINES: Final = re.compile(r"[0-9A-Za-z][ -~]*(?:\n +[!-~][ -~]*)+")


def scalar_value(tape: Tape, row: int) -> Any:
    """Return the value of a scalar's row."""
    text = tape.text[tape.start[row] : tape.end[row]]
    if (value := written_value(text)) is not UNTOLD:
        return value
    text = tape.scalar(row)
    return plain_value(text) if tape.is_plain(row) else tagged_value(tape.tags.get(row, ""), text)


#: What stands for a merge key among the texts of keys.
MERGE: Final[str] = type("Merge", (str,), {})("<<")
#: The keys of a table that tell the names of its columns.
_PARTS: Final = ("columns", "colnames")


def keyed(tape: Tape, row: int) -> Iterator[tuple[str, int, int]]:
    """Yield the text of each key of a mapping, its row and that of its value.

    The text of a merge key is the object ``MERGE``; that of a quoted ``'<<'`` is not.

    Key after key is looked at by every reader of a tree, so this is written to take little time.
    """
    text, start, end, words = tape.text, tape.start, tape.end, USUAL
    for key, value in tape.pairs(row):
        name = text[start[key] : end[key]]
        yield name if name in words else _name_of(tape, key), key, value


def _name_of(tape: Tape, key: int) -> str:
    """Return the text of a key, and remember it if it is text as it is written."""
    name = tape.text[tape.start[key] : tape.end[key]]
    if tape.kind[key] == SCALAR and is_usual(name):
        return name
    return MERGE if is_merge(tape, key) else key_text(tape, key)


def entry_rows(tape: Tape, row: int, merges: Merges) -> dict[str, int]:
    """Return the rows of the values of a mapping by the text of their keys.

    The last of equal keys counts, and merge keys are resolved.  Raises ``InvalidTreeError``.
    """
    found: dict[str, int] = {}
    merged: list[int] = []
    for name, _, value in keyed(tape, row):
        if name is MERGE:
            merged += merged_rows(tape, value)
        else:
            found[name] = value
    for source in merged:
        if source not in merges.entries:
            merges.entries[source] = entry_rows(tape, source, merges)
        entries = merges.entries[source]
        merges.add(len(entries), tape.line(row))
        found |= {name: value for name, value in entries.items() if name not in found}
    return found


def scalar_rows(tape: Tape) -> Iterator[int]:
    """Yield the rows of all scalars."""
    row = tape.kind.find(SCALAR)
    while row >= 0:
        yield row
        row = tape.kind.find(SCALAR, row + 1)


def fault_at(tape: Tape, row: int) -> str:
    """Return why asdf could not open a file with this scalar; empty if it could."""
    tag = tape.tags.get(row)
    if tag == "!" or tag is None:
        return fault_of(tape.scalar(row), None) if tape.is_plain(row) else ""
    return fault_of(tape.scalar(row), tag)


def is_merge(tape: Tape, key: int) -> bool:
    """Return whether the row of a key is the merge key ``<<``."""
    if tape.word(key) is not None:
        return False
    row = tape.target(key)
    if tape.kind[row] != SCALAR or (tape.end[row] - tape.start[row] < 2 and not tape.tags):
        return False
    return tape.tags.get(row) == YAML_TAGS + "merge" or (tape.scalar(row) == "<<" and tape.is_plain(row))


def merged_rows(tape: Tape, value: int) -> list[int]:
    """Return the rows of the mappings that the value of a merge key stands for, but of one that it is in."""
    row = tape.target(value)
    rows = [row] if tape.kind[row] not in SEQUENCES else [*map(tape.target, tape.items(row))]
    return [one for one in rows if tape.kind[one] in MAPPINGS and (one >= value or not tape.is_inside(value, one))]


def key_text(tape: Tape, key: int) -> str:
    """Return the text of a key."""
    row = tape.target(key)
    return tape.scalar(row) if tape.kind[row] == SCALAR else "a mapping or sequence as a key"


def key_name(value: Any) -> str:
    """Return the name of a key of this value, for comparison; ``1`` and ``'1'`` have different names."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not isinstance(value, str):
        return str(value)
    return value if is_text(value) or plain_value(value) == value else repr(value)


def _size_of_aliases(tape: Tape, row: int) -> int:
    """Return the bytes of the values that the aliases in a row stand for.

    Raises ``InvalidTreeError`` if these nest too deep.
    """
    _check_depth(tape, tape.next[row])
    sizes = [0]  # of all aliases before each
    for number, target in enumerate(tape.targets):
        alias = tape.aliases[number]
        if alias >= tape.next[row]:
            break
        if tape.is_inside(alias, target):
            raise nested_too_deep(tape.line(alias))
        sizes.append(sizes[-1] + _written(tape, target) + _between(tape, sizes, target, tape.next[target]))
    return _between(tape, sizes, row, tape.next[row])


def _between(tape: Tape, sizes: list[int], first: int, behind: int) -> int:
    """Return the bytes that the aliases from row ``first`` to ``behind`` stand for."""
    return sizes[bisect_left(tape.aliases, behind)] - sizes[bisect_left(tape.aliases, first)]


def _written(tape: Tape, row: int) -> int:
    return _VALUE * (tape.next[row] - row) + tape.end[row] - tape.start[row]


def _check_depth(tape: Tape, behind: int) -> None:
    """Raise ``InvalidTreeError`` if the rows before ``behind``, with what aliases stand for, nest too deep."""
    deepest: dict[int, int] = {}  # levels in each node that has an anchor
    around: list[int] = []
    for found in _NESTED.finditer(bytes(tape.kind[:behind])):
        row = found.start()
        while around and tape.next[around[-1]] <= row:
            around.pop()
        if tape.kind[row] != ALIAS:
            around.append(row)
        reach = len(around) + (deepest.get(tape.target(row), 0) if tape.kind[row] == ALIAS else 0)
        if reach > DEPTH:
            raise nested_too_deep(tape.line(row))
        for depth, above in enumerate(around):
            if above in tape.anchors:
                deepest[above] = max(deepest.get(above, 0), reach - depth)


def column_names(tape: Tape, table: int) -> list[str]:
    """Return the names of the items of ``columns`` of a table, whose row is ``table``; empty texts for those without.

    They are those of the list ``colnames``, as astropy writes it; without it, the ``name`` of each item.
    """
    parts = {name: tape.target(value) for name, _, value in keyed(tape, table) if name in _PARTS}
    columns, stated = parts.get("columns"), parts.get("colnames")
    if columns is None or tape.kind[columns] not in SEQUENCES:
        return []
    if stated is not None and tape.kind[stated] in SEQUENCES:
        return [_text(tape, item) for item in tape.items(stated)]
    return [_name_in(tape, tape.target(item)) for item in tape.items(columns)]


def _name_in(tape: Tape, column: int) -> str:
    entries = keyed(tape, column) if tape.kind[column] in MAPPINGS else ()
    names = [_text(tape, value) for name, _, value in entries if name == "name"]
    return names[-1] if names else ""


def _text(tape: Tape, row: int) -> str:
    """Return the text of a row; empty for anything else, such as a number."""
    row = tape.target(row)
    value = scalar_value(tape, row) if tape.kind[row] == SCALAR else None
    return value if isinstance(value, str) else ""


def datatype_text(datatype: Any) -> str:
    """Return a datatype of the tree on few characters: ``float32``, ``ucs4[8]``, or ``record`` for fields."""
    if isinstance(datatype, (list, tuple)) and len(datatype) == 2 and datatype[0] in ("ascii", "ucs4"):
        return f"{datatype[0]}[{datatype[1]}]"
    return datatype if isinstance(datatype, str) else "record"

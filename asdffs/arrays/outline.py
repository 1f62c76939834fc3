"""Reads the outline of a tree: the mappings and sequences that lead to arrays, and the short scalars beside these.

An alias, a merge key and a ``$ref`` into the same tree lead to the branch that they refer to.  So a branch may have
several parents.  There are no cycles: a ``$ref`` to a branch that contains it is left out.  A ``$ref`` to another
file is a branch with ``external_uri``.

The columns of a table have names, so that paths of arrays have ``flux`` where the tree has item 3 of a list.  Names
that are not one for each column, and each different, are not used.

| the table                                   | names of the items of ``columns``     |
|---------------------------------------------|---------------------------------------|
| astropy's ``table``, also those of DKIST    | its list ``colnames``                 |
| ``core/table``                              | the ``name`` of each column           |

Most of a large tree leads to no array, and is passed over without a look at its rows.  What is metadata is read when
somebody asks for it.

Spans are in characters.  Pure; built once per tree.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from asdffs.arrays.branch import Branch, Outline, Reference, References, Scalar, is_fits, is_table, upwards
from asdffs.arrays.chunked import is_chunked, is_stacked, is_tiled
from asdffs.arrays.ndarrays import Ndarray, gathered_of, is_in_pieces, ndarray_of, tiled_of
from asdffs.arrays.units import UNITS
from asdffs.dialects.base import Dialect
from asdffs.tree.paths import Path
from asdffs.tree.resolving import NULLS
from asdffs.tree.tagged import Facts, Found
from asdffs.tree.tape import ALIAS, MAPPINGS, SCALAR, Tape
from asdffs.tree.values import MERGE, OMAP, Merges, column_names, keyed, merged_rows

#: The largest length of scalars that are kept beside arrays, and of metadata and descriptions of columns.
_LONGEST: Final = 80
_LONGEST_META: Final = 4000
_DESCRIPTION: Final = "description"
#: Keys below which scalars are kept even without an array: headers of .fits files are made from them.
_METADATA: Final = frozenset({"meta", "wcsinfo", "header", "colnames"})
#: What is where such a key, or one of a reference or a merge, may be; a backslash may hide one.
_SOUGHT: Final = ("$ref", "<<", "\\", *sorted(_METADATA))
#: The most characters of a letter as it is written, escapes and quotes included.
_ESCAPED: Final = 12
#: Metadata are read late if the tree has at most so many rows, or if at least one in this many rows is theirs: the
#: tape of the whole tree is kept for them.
_FEW_ROWS: Final = 1 << 15
_MUCH: Final = 4
#: The key of a table that has its columns.
COLUMNS: Final = "columns"
#: Attributes that are equal in many arrays.
_SHARED: Final = ("shape", "datatype", "byteorder", "strides", "row")


def read_outline(text: bytes, dialect: Dialect, *, spans: bool = True) -> Outline:
    """Return the outline of a text of header, comments and tree.  Raises ``InvalidTreeError``.

    ``spans``: include the spans of arrays in blocks and of their sources, which are only needed to edit the text.
    """
    return outline_of(Tape(text), dialect, spans=spans)


def outline_of(tape: Tape, dialect: Dialect, *, spans: bool = True) -> Outline:
    """Return the outline of the tree on ``tape``; see ``read_outline``."""
    return _Walk(tape, dialect, spans=spans).read()


def tables_in(outline: Outline) -> Iterator[tuple[Branch, int | None, list[str]]]:
    """Yield each table of columns, the number of its rows, None if the tree does not tell, and the columns' names."""
    found = {id(above): above for branch in outline.arrays for above in upwards(branch) if is_table(above.tag)}
    for table in found.values():
        columns = table.children.get(COLUMNS)
        children = columns.children.items() if columns is not None else ()
        lengths = (one.array.shape for _, child in children for one in arrays_in(child) if one.array is not None)
        rows = next((shape[0] for shape in lengths if shape), None)
        yield table, rows, [str(key if child.label is None else child.label) for key, child in children]


def arrays_in(branch: Branch) -> Iterator[Branch]:
    """Yield the arrays in a branch, each once, however many aliases lead to it."""
    rest, seen = [branch], {id(branch)}
    while rest:
        found = rest.pop()
        if found.array is not None:
            yield found
        below = [child for child in found.children.values() if child.holds and id(child) not in seen]
        seen.update(map(id, below))
        rest += below


class _Walk:
    """Builds the outline; recursion is as deep as the tree."""

    def __init__(self, tape: Tape, dialect: Dialect, *, spans: bool) -> None:
        self._tape = tape
        self._spans = spans
        self._needed = spans
        self._same: dict[Any, Any] = {}
        self._dialect = dialect
        self._is_ndarray = dialect.is_ndarray
        self._facts = Facts(tape)
        self._source_uses: Counter[int] = Counter()
        self._anchored: list[tuple[Branch, int]] = []
        self._known: dict[int, Branch] = {}
        self._arrays: list[Branch] = []
        self._references: list[Reference] = []
        self._merges = Merges()
        self._sought = self._places()

    def _places(self) -> array[int]:
        """Return all places of the text without which a collection leads to no array, in ascending order."""
        tape = self._tape
        shown = {tag for tag in set(tape.tags.values()) if is_in_pieces(tag) or is_fits(tag)}
        tagged = (row for row, tag in tape.tags.items() if self._is_ndarray(tag) or tag in shown)
        rows = {*tagged, *tape.aliases, *tape.anchors}
        found = (place for word in _SOUGHT for place in _places_of(word, tape.text))
        return array("I", sorted({*(tape.start[row] for row in rows), *found}))

    def _leads(self, row: int) -> bool:
        """Return whether a row may lead to an array."""
        place = bisect_left(self._sought, self._tape.start[row])
        return place < len(self._sought) and self._sought[place] < self._tape.end[row]

    def _is_late(self, row: int) -> bool:
        """Return whether a branch of metadata is read when somebody asks for it: the tape is kept until then."""
        rows, own = len(self._tape.kind), self._tape.next[row] - row
        return (rows <= _FEW_ROWS or own * _MUCH > rows) and not self._leads(row)

    def read(self) -> Outline:
        tape = self._tape
        root = self._branch(0, ()) if tape.kind and tape.kind[0] not in (SCALAR, ALIAS) else None
        uses = Counter(tape.targets)
        for branch, row in self._anchored:
            branch.shared = uses[row] != self._source_uses[row]
        if root is not None:
            References(root).join(self._references)
        found = Outline(tape.text if self._needed else "", root, tuple(self._arrays), tape.prefix)
        # The walk stays for metadata that are read later, so it forgets all else.
        for noted in (self._arrays, self._anchored, self._references, self._known):
            noted.clear()
        return found

    def _branch(self, row: int, path: Path, *, metadata: bool = False) -> Branch:
        tape = self._tape
        tag = tape.tags.get(row, "")
        branch = Branch(self._same.setdefault(tag, tag), path, tape.line(row), metadata=metadata)
        self._needed = self._needed or metadata
        branch.mapping = tape.kind[row] in MAPPINGS or tag == OMAP
        if tag and self._is_ndarray(tag):
            if branch.mapping:
                self._ndarray(branch, row)
            if self._spans or not branch.mapping:
                branch.span = tape.start[row], tape.end[row]
            self._note_array(branch, row)
        elif tag and branch.mapping and (is_chunked(tag) or is_stacked(tag)):
            self._gathered(branch, row)
        else:
            if branch.mapping and is_tiled(tag):
                branch.array = tiled_of(Found(branch.path, tag, self._facts.mapping(row), branch.line))
                branch.hold()
                self._arrays.append(branch)
            if metadata and self._is_late(row):
                branch.later = partial(self._read_content, row)
                # What is read late has no backslash, which might hide a key.
                branch.units = tape.text.find(UNITS, tape.start[row], tape.end[row]) >= 0
            else:
                self._read_content(row, branch)
            branch.span = tape.start[row], tape.end[row]
        if row in tape.anchors:
            self._known[row] = branch
        return branch

    def _read_content(self, row: int, branch: Branch) -> None:
        """Read the children and scalars of a branch that is no array."""
        if self._tape.kind[row] in MAPPINGS:
            self._mapping(branch, row)
        elif branch.mapping:
            self._omap(branch, row)
        else:
            self._sequence(branch, row)
            if is_fits(branch.tag):
                branch.hold()

    def _gathered(self, branch: Branch, row: int) -> None:
        """Read an array of asdf-zarr, or one in FITS files."""
        branch.array = gathered_of(Found(branch.path, branch.tag, self._facts.mapping(row), branch.line))
        if branch.array is not None:
            branch.hold()
            self._arrays.append(branch)

    def _note_array(self, branch: Branch, row: int) -> None:
        if not branch.mapping:  # the short form: a sequence of values instead of a mapping
            branch.inline, branch.nulls = branch.span, self._has_null(row)
            self._needed = True
            short = ndarray_of(Found(branch.path, branch.tag, {}, branch.line), self._dialect)
            branch.array = short._replace(inline=True)
        branch.hold()
        self._arrays.append(branch)

    def _mapping(self, branch: Branch, row: int) -> None:
        tape, merged, known = self._tape, list[int](), dict[str, int]()
        for name, key, value in keyed(tape, row):
            if name is MERGE:
                merged += merged_rows(tape, value)
                continue
            first = known.setdefault(name, key)
            if first != key and tape.is_plain(tape.target(first)) != tape.is_plain(tape.target(key)):
                name = repr(name)  # 1 and '1' are different keys
            if tape.kind[value] == SCALAR:
                self._scalar(branch, name, value)
            else:
                self._child(branch, name, value)
        for source in merged:
            self._merge(branch, source)
        if COLUMNS in branch.children:
            _name_columns(branch, column_names(tape, row))

    def _merge(self, branch: Branch, source: int) -> None:
        """Add the children of the mapping ``source`` that ``branch`` does not have."""
        known = self._known.get(source)
        added = self._branch(source, branch.path) if known is None else known
        self._merges.add(len(added.children), branch.line)
        for name, child in added.children.items():
            if name not in branch.children and name not in branch.scalars:
                branch.add(name, child)

    def _sequence(self, branch: Branch, row: int) -> None:
        for number, item in enumerate(self._tape.items(row)):
            if self._tape.kind[item] != SCALAR:
                self._child(branch, number, item)

    def _omap(self, branch: Branch, row: int) -> None:
        """Read the items of an ordered mapping, each with one key, as one mapping."""
        for item in map(self._tape.target, self._tape.items(row)):
            if self._tape.kind[item] in MAPPINGS:
                self._mapping(branch, item)

    def _child(self, branch: Branch, key: str | int, row: int) -> None:
        """Read the collection or alias at ``key``."""
        if self._tape.kind[row] == ALIAS:
            target = self._known.get(self._tape.target(row))
            if target is not None:
                branch.add(key, target)
            return
        metadata = branch.metadata or key in _METADATA
        branch.remove(key)
        if not metadata and not self._leads(row):
            return
        child = self._branch(row, (*branch.path, key), metadata=metadata)
        if child.reference is not None:
            self._references.append((branch, key, child))
        branch.leads = branch.leads or child.leads or key in _METADATA
        if child.holds or child.metadata or child.leads:
            branch.add(key, child)

    def _scalar(self, branch: Branch, key: str, row: int) -> None:
        tape = self._tape
        if branch.children:
            branch.remove(key)
        if key == "$ref":
            branch.reference, branch.leads = tape.scalar(row), True
        longest = _LONGEST_META if branch.metadata or key == _DESCRIPTION else _LONGEST
        if (word := tape.word(row)) is not None:
            if len(word) <= longest:
                branch.add_scalar(key, Scalar(word, plain=True))
        elif tape.end[row] - tape.start[row] <= _ESCAPED * longest:
            text = tape.scalar(row)
            if len(text) <= longest:
                branch.add_scalar(key, Scalar(text, tape.is_plain(row), tape.tags.get(row, "")))

    # -- ndarrays -------------------------------------------------------------

    def _ndarray(self, branch: Branch, row: int) -> None:
        """Read an ndarray: its keys except the data, the span of its source, and its mask."""
        value: dict[str, Any] = {}
        self._read_facts(branch, value, row)
        branch.array = self._shared(ndarray_of(Found(branch.path, branch.tag, value, branch.line), self._dialect))
        mask = value.get("mask")
        if isinstance(mask, Scalar):
            branch.add_scalar("mask", mask)

    def _shared(self, array: Ndarray) -> Ndarray:
        """Return ``array`` with equal attributes shared among arrays, to save memory: most arrays are alike."""
        same = self._same.setdefault
        facts = {name: same(fact, fact) for name in _SHARED if isinstance(fact := getattr(array, name), (str, tuple))}
        return array._replace(**facts)

    def _read_facts(self, branch: Branch, value: dict[str, Any], row: int, *, merging: bool = False) -> None:
        """Add the keys of a mapping to ``value``; with ``merging``, only those that it does not have."""
        tape, merged = self._tape, list[int]()
        for name, _, child in keyed(tape, row):
            if name is MERGE:
                merged += merged_rows(tape, child)
                continue
            if not merging or name not in value:
                self._fact(branch, value, name, child, merging=merging)
        for source in merged:
            self._facts.count(source)
            self._read_facts(branch, value, source, merging=True)

    def _fact(self, branch: Branch, value: dict[str, Any], key: str, row: int, *, merging: bool) -> None:
        """Read the value of one key of an ndarray."""
        tape = self._tape
        if key == "data" or (key == "mask" and tape.kind[row] != SCALAR):
            value[key] = None
            self._values(branch, key, row)
        elif key == "mask":
            value[key] = Scalar(tape.scalar(row), tape.is_plain(row))
        else:
            value[key] = self._facts.at(row)
            if key == "source":
                if self._spans:
                    tagged = row in tape.tags and row not in tape.anchors  # as !!int 0: a name is no integer
                    branch.source = tape.start[row] if tagged else tape.content(row), tape.end[row]
                self._note_source(branch, row, merging=merging)

    def _note_source(self, branch: Branch, row: int, *, merging: bool) -> None:
        """Count sources that are aliases, and remember those with an anchor."""
        if self._tape.kind[row] == ALIAS:
            self._source_uses[self._tape.target(row)] += not merging
        elif row in self._tape.anchors:
            self._anchored.append((branch, row))

    def _values(self, branch: Branch, key: str, row: int) -> None:
        """Read ``data`` or ``mask``: another array, or values, of which only the span is noted."""
        tape, target = self._tape, self._tape.target(row)
        if self._is_ndarray(tape.tags.get(target, "")):
            self._child(branch, key, row)
            return
        self._needed = True
        span = tape.start[target], tape.end[target]
        if key == "data":
            branch.inline, branch.nulls = span, self._has_null(target)
            return
        mask = Branch("", (*branch.path, key), tape.line(target), span, mapping=False, inline=span)
        mask.array = ndarray_of(Found(mask.path, "", {"datatype": "bool8"}, mask.line), self._dialect)
        mask.hold()
        branch.add(key, mask)

    def _has_null(self, row: int) -> bool:
        """Return whether a null is among the values of an array."""
        tape = self._tape
        rows = range(row + 1, tape.next[row])
        return any(tape.kind[one] == SCALAR and tape.is_plain(one) and tape.scalar(one) in NULLS for one in rows)


def _places_of(word: str, text: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)


def _name_columns(table: Branch, names: list[str]) -> None:
    """Set the labels of the columns of ``table`` to ``names``, if each has one of its own."""
    columns, known = table.children[COLUMNS], [name for name in names if name]
    if columns.mapping or columns.array is not None or len(set(known)) < len(known):
        return
    found = {key: names[int(key)] if int(key) < len(names) else "" for key in columns.children}
    if all(found.values()):
        for key, column in columns.children.items():
            column.label = found[key]

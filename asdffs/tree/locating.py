"""Finds the place of a value in a tree, with the facts that an edit there needs.

Aliases and merge keys on the way are followed.  Of a key that a mapping has twice, the last one is found, as by the
asdf library, and ``twice`` tells both places.  The columns of a table can be named instead of numbered.  Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal, NamedTuple

from asdffs.errors import MissingValueError, Remedy
from asdffs.tree.paths import Path, format_path, item_number
from asdffs.tree.resolving import USUAL
from asdffs.tree.tape import ALIAS, FLOW_MAPPING, FLOW_SEQUENCE, MAPPINGS, SCALAR, Tape
from asdffs.tree.values import OMAP, column_names, is_merge, merged_rows

Kind = Literal["scalar", "mapping", "sequence", "alias"]
#: The list of columns of a table.
_COLUMNS: Final = "columns"
_KINDS: Final[dict[int, Kind]] = {SCALAR: "scalar", ALIAS: "alias"}


class Through(NamedTuple):
    """An alias or a merge key on the way: the name of its anchor, and the lines of both, from 1."""

    anchor: str
    line: int
    anchor_line: int


class Container(NamedTuple):
    """The mapping or sequence that has the value, or would have it.

    ``flow``: written with braces or brackets.  ``start``: where its text begins behind tag and anchor.
    ``line``: of its start, from 1.  ``column``: of its keys or dashes.
    ``number``: of the items before the value; if the value is missing, of all items.
    ``last_end``: end of the item before the value; if the value is missing, of the last one.
    ``next_start``: where the next key or item begins, or None.
    """

    mapping: bool
    flow: bool
    start: int
    line: int
    column: int
    number: int
    last_end: int
    next_start: int | None


class Location:
    """Where a value is.

    ``row``: of the value in ``tape``; of the innermost mapping or sequence on the way if it is missing, -1 without a
    tree.  ``path``: as far as it was found, with the number of an item as an int.
    ``missing``: the steps that are not in the tree; empty if the value was found.
    ``start``, ``end``: its text, with tag and anchor.  ``content``: where its text begins behind these.
    ``style``: of a scalar, the character that begins it in any style but the plain one; else empty.
    ``flow``: whether a collection has braces or brackets.  ``key``: the span of its key.  ``line``: from 1.
    ``through``: the aliases and merge keys that the path follows.
    ``aliases``: the rows of the aliases that share the value.  ``inner``: later aliases of anchors inside the value.
    ``item``: the number of the entry in an ordered mapping, which is a list of mappings with one key; else None.
    ``twice``: a key on the way that its mapping has twice, and the lines of the last two; None without one.
    """

    def __init__(self, tape: Tape, row: int, path: Path, missing: Path, container: Container | None) -> None:
        self.tape = tape
        self.row = row
        self.path = path
        self.missing = missing
        self.container = container
        self.through: list[Through] = []
        self.aliases: list[int] = []
        self.key: tuple[int, int] | None = None
        self.item: int | None = None
        self.twice: tuple[str, int, int] | None = None
        has = row >= 0
        kind = tape.kind[row] if has else SCALAR
        self.kind: Kind = _KINDS.get(kind, "mapping" if kind in MAPPINGS else "sequence")
        self.flow = kind in (FLOW_MAPPING, FLOW_SEQUENCE)
        self.start, self.end = (tape.start[row], tape.end[row]) if has else (0, 0)
        self.content = tape.content(row) if has else 0
        self.line = tape.line(row) if has else 0
        self.tag = tape.tags.get(row)
        self.anchor = tape.anchors.get(tape.target(row)) if has else None
        self.style = tape.style(row) if kind == SCALAR and has else ""

    @property
    def origin(self) -> int:
        """Where the value begins; for an alias, where the value that it stands for begins."""
        return self.tape.start[self.tape.target(self.row)]

    @property
    def inner(self) -> list[Through]:
        """Later aliases of anchors inside the value."""
        tape = self.tape
        behind = self.row if self.missing else tape.next[self.row]
        later = range(bisect_left(tape.aliases, behind), len(tape.aliases))
        return [
            _through(tape, tape.aliases[n], tape.targets[n]) for n in later if self.row < tape.targets[n] < behind
        ]


def locate(tape: Tape, path: Path) -> Location:
    """Return where the value at ``path`` is in ``tape``, or what of the path is missing.

    Raises ``MissingValueError`` if the path goes through a scalar.
    """
    return _Walk(tape, path).locate()


def _through(tape: Tape, alias: int, target: int) -> Through:
    return Through(tape.anchors[target], tape.line(alias), tape.line(target))


class _Walk:
    """One way from the root to a value."""

    def __init__(self, tape: Tape, path: Path) -> None:
        self._tape = tape
        self._path = list(path)
        self._through: list[Through] = []
        self._passed: set[int] = set()
        self._twice: tuple[str, int, int] | None = None
        self._above = -1  # the mapping that was passed last
        self._searched: set[tuple[int, int]] = set()  # merged mappings without the value, and at which step

    def locate(self) -> Location:
        """See the function ``locate``."""
        if not self._tape.kind:
            return Location(self._tape, -1, (), tuple(self._path), None)
        found = self._node(0, 0, None, -1)
        if self._passed:
            pairs = zip(self._tape.aliases, self._tape.targets, strict=True)
            found.aliases = [row for row, target in pairs if target in self._passed]
        found.through, found.twice = self._through, self._twice
        return found

    def _node(self, row: int, depth: int, container: Container | None, key: int) -> Location:
        """Find the value in the node of ``row``; ``key``: the row of its key, or -1."""
        tape = self._tape
        if tape.kind[row] == ALIAS and depth < len(self._path):
            row = self._follow(row)
        if row in tape.anchors:
            self._passed.add(row)
        if depth == len(self._path):
            found = Location(tape, row, tuple(self._path), (), container)
            found.key = (tape.start[key], tape.end[key]) if key >= 0 else None
            return found
        if tape.kind[row] == SCALAR:
            shown = format_path(tuple(self._path[:depth]))
            raise MissingValueError(f"{shown} is a single value, which has no parts", line=tape.line(row))
        if tape.kind[row] in MAPPINGS:
            return self._in_mapping(row, depth)
        return self._in_omap(row, depth) or self._in_sequence(row, depth)

    def _follow(self, alias: int) -> int:
        """Return the row for which an alias stands, and note the alias."""
        target = self._tape.target(alias)
        self._through.append(_through(self._tape, alias, target))
        return target

    def _in_mapping(self, row: int, depth: int) -> Location:
        found, self._above = self._entry(row, str(self._path[depth])), row
        if found is not None:
            self._path[depth] = str(self._path[depth])
            return self._node(found[1], depth + 1, self._container(row, depth, found[0]), found[0])
        return self._in_merged(row, depth) or self._missing(row, depth)

    def _entry(self, row: int, wanted: str) -> tuple[int, int] | None:
        """Return the rows of the last key ``wanted`` of a mapping, and of its value."""
        tape, found = self._tape, None
        text, starts, ends = tape.text, tape.start, tape.end
        for key, value in tape.pairs(row):
            name = text[starts[key] : ends[key]]
            if name != wanted and (name in USUAL or (name[:1].isalnum() and name.isprintable())):
                continue  # plain text on one line: most keys
            if self._is_key(key, wanted):
                if found is not None:
                    self._twice = wanted, tape.line(found[0]), tape.line(key)
                found = key, value
        return found

    def _is_key(self, key: int, wanted: str) -> bool:
        row = self._tape.target(key)
        return self._tape.kind[row] == SCALAR and self._tape.scalar(row) == wanted

    def _in_omap(self, row: int, depth: int) -> Location | None:
        """Find the value in an ordered mapping, which is a sequence of mappings with one key each."""
        step = self._path[depth]
        if self._tape.tags.get(row) != OMAP or not isinstance(step, str):
            return None
        for number, item in enumerate(self._tape.items(row)):
            inner = self._tape.target(item)
            entry = self._entry(inner, step) if self._tape.kind[inner] in MAPPINGS else None
            if entry is not None:
                self._above = inner
                found = self._node(entry[1], depth + 1, self._container(inner, depth, entry[0]), entry[0])
                found.item = number if depth + 1 == len(self._path) else found.item
                return found
        return self._missing(row, depth) if item_number(step) is None else None

    def _in_sequence(self, row: int, depth: int) -> Location:
        tape, step = self._tape, item_number(self._path[depth])
        if step is None and depth and self._path[depth - 1] == _COLUMNS:
            step = self._column(row, str(self._path[depth]))
        if step is None:
            wrong = self._path[depth]
            line = tape.line(row)
            raise MissingValueError(f"this is a sequence, so a number must follow, not {wrong!r}", line=line)
        if step < 0:
            step += sum(1 for _ in tape.items(row))
        self._path[depth] = step
        for number, item in enumerate(tape.items(row)):
            if number == step:
                return self._node(item, depth + 1, self._container(row, depth, item), -1)
        return self._missing(row, depth)

    def _column(self, row: int, name: str) -> int | None:
        """Return the number of the column ``name`` of a table; None unless exactly one has this name."""
        tape, names = self._tape, column_names(self._tape, self._above) if self._above >= 0 else []
        found = [number for number, _ in enumerate(tape.items(row)) if names[number : number + 1] == [name]]
        return found[0] if len(found) == 1 else None

    def _in_merged(self, row: int, depth: int) -> Location | None:
        """Find the value in the mappings that merge keys add; None if none of them has it."""
        tape = self._tape
        for key, value in tape.pairs(row):
            for source in merged_rows(tape, value) if is_merge(tape, key) else ():
                if (source, depth) in self._searched:
                    continue
                self._searched.add((source, depth))
                kept = list(self._through), list(self._path), set(self._passed), self._twice
                anchored = source if source in tape.anchors else tape.target(value)
                if anchored in tape.anchors:
                    self._through.append(_through(tape, value, anchored))
                found = self._node(source, depth, None, -1)
                if len(found.missing) < len(self._path) - depth:
                    return found
                self._through, self._path, self._passed, self._twice = kept
        return None

    def _missing(self, row: int, depth: int) -> Location:
        container = self._container(row, depth, -1)
        missing = tuple(self._path[depth:])
        return Location(self._tape, row, tuple(self._path[:depth]), missing, container)

    def _container(self, row: int, depth: int, child: int) -> Container | None:
        """Return the facts about a collection; ``child``: the row of the key or item in it, -1 if it is missing."""
        tape = self._tape
        if child >= 0 and depth + 1 < len(self._path):
            return None
        mapping, count, last, following = tape.kind[row] in MAPPINGS, 0, -1, -1
        each = tape.pairs(row) if mapping else ((item, item) for item in tape.items(row))
        for first, value in each:
            if first == child:
                following = tape.next[value]
                break
            count, last = count + 1, value
        start = tape.content(row)
        return Container(
            mapping=mapping,
            flow=tape.kind[row] in (FLOW_MAPPING, FLOW_SEQUENCE),
            start=start,
            line=tape.line(row),
            column=tape.column(row),
            number=count,
            last_end=tape.end[last] if last >= 0 else start,
            next_start=tape.start[following] if 0 <= following < tape.next[row] else None,
        )


def missing(tape: Tape, path: Path, found: Location, *, creates: bool = False) -> MissingValueError:
    """Return the error for a path that is not in the tree.  ``creates``: the caller could create the parents."""
    from asdffs.tree.nearest import nearest  # only who has an error needs it

    have = format_path(path[: len(path) - len(found.missing)])
    where = "the tree" if have == "." else have
    sentence = f"{format_path(path)}: there is no such value; {where} has no {_step(found.missing[0])}"
    more = len(found.missing) > 1 and all(isinstance(step, str) for step in found.missing)
    if more and creates:
        return MissingValueError(sentence, line=found.line or None, remedy=Remedy.CREATE_PARENTS)
    meant = nearest(tape, path)
    sentence += f"; did you mean {format_path(meant)}?" if meant else ""
    return MissingValueError(sentence, line=found.line or None)


def _step(step: str | int) -> str:
    return f"item {step}" if isinstance(step, int) else f"key {step!r}"


def both_places(twice: tuple[str, int, int]) -> str:
    """Return a sentence about a key that its mapping has twice."""
    key, first, second = twice
    return f"the key {key!r} is in line {first} and again in line {second}"

"""Checks that the asdf library can read a tree: tags in their places, different keys, numbers that are valid.

``Tape`` has refused what no reader could go on with.  A mapping that has a key twice (YAML 1.1, section 3.2.1.3) is
refused only if the caller says so, because files with such a tree exist, and programs read the last of the two.

Most scalars and keys pass with one look at their first character.  Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import compress, islice
from typing import Any, Final, NoReturn

from asdffs.errors import InvalidTreeError
from asdffs.tree.resolving import (
    MAPPING_TAGS,
    NUMBERS_BEGIN,
    PAIR_TAGS,
    SCALAR_TAGS,
    SEQUENCE_TAGS,
    SHOWN,
    USUAL,
    YAML_TAGS,
    fault_of,
    is_usual,
)
from asdffs.tree.tape import COLLECTION, MAPPINGS, SCALAR, Tape, column_of
from asdffs.tree.values import fault_at, is_merge, scalar_value

_IS_SCALAR: Final = bytes(code == SCALAR for code in range(256))
_NO_MAPPING_TAGS: Final = SCALAR_TAGS | SEQUENCE_TAGS
_NO_SEQUENCE_TAGS: Final = SCALAR_TAGS | MAPPING_TAGS
#: Rows whose scalars are looked at together.
_AT_ONCE: Final = 4096
#: From so many keys on, those of a mapping are compared by their hashes, eight bytes each.
LARGE: Final = 1 << 13
_PAIR: Final = "each entry of an ordered mapping must be a mapping of one key"


def check_tree(tape: Tape, *, unique: bool) -> list[int]:
    """Check a tree; ``unique``: also refuse a mapping that has a key twice.

    Return the rows of keys that are neither text, integers nor booleans, which newer versions of ASDF exclude.
    Raises ``InvalidTreeError`` with line and column of the first fault, those of scalars after all others.
    """
    if not tape.kind:
        return []
    if tape.kind[0] not in MAPPINGS:
        what = "scalar" if tape.kind[0] == SCALAR else "sequence"
        _refuse(tape, 0, f"the tree must be a mapping, and this is a {what}")
    if tape.tags.get(0) == YAML_TAGS + "set":
        _refuse(tape, 0, f"a mapping cannot have the tag {YAML_TAGS}set")
    _check_tags(tape)
    keys = _Keys(tape, unique=unique)
    for found in COLLECTION.finditer(bytes(tape.kind)):
        if tape.kind[found.start()] in MAPPINGS:
            keys.check(found.start())
    _check_scalars(tape)
    return keys.excluded


def _refuse(tape: Tape, row: int, sentence: str) -> NoReturn:
    column = column_of(tape.text, tape.start[row]) + 1
    raise InvalidTreeError(sentence, line=tape.line(row), column=column)


def _check_tags(tape: Tape) -> None:
    """Check tags of YAML's own, each of which belongs to one kind of node."""
    pairs: set[int] = set()
    for row in tape.tags:
        tag = tape.tags[row]
        if row in pairs or not tag.startswith(YAML_TAGS) or tape.kind[row] == SCALAR:
            continue
        mapping = tape.kind[row] in MAPPINGS
        if tag in (_NO_MAPPING_TAGS if mapping else _NO_SEQUENCE_TAGS):
            _refuse(tape, row, f"a {'mapping' if mapping else 'sequence'} cannot have the tag {tag}")
        if tag in PAIR_TAGS:
            for item in tape.items(row):
                _check_pair(tape, item)
                pairs.add(item)  # asdf gives the tag of an ordered mapping to each of its entries, too


def _check_pair(tape: Tape, item: int) -> None:
    row = tape.target(item)
    entries = [*islice(tape.pairs(row), 2)] if tape.kind[row] in MAPPINGS else []
    if len(entries) != 1:
        _refuse(tape, item, _PAIR)
    if is_merge(tape, entries[0][0]):
        _refuse(tape, entries[0][0], "an ordered mapping cannot have a merge key")


def keys_in_parts(tape: Tape, row: int) -> Iterator[tuple[list[int], list[str], bool]]:
    """Yield the rows and the texts of the keys of a mapping, a few thousand at a time.

    Also whether all of them are usual: text, as it is written.  Each key of each tree passes here, some twice, so
    nothing is called for each.
    """
    text, start, end, kind, flat = tape.text, tape.start, tape.end, tape.kind, tape.is_flat(row)
    pairs = tape.pairs(row)
    while part := [key for key, _ in islice(pairs, LARGE)]:
        names = [text[start[key] : end[key]] for key in part]
        usual = (flat or all(kind[key] == SCALAR for key in part)) and all(map(is_usual, set(names) - USUAL))
        yield part, names, usual


class _Keys:
    """Checks the keys of mappings.  ``excluded``: rows of those that are neither text, integers nor booleans."""

    def __init__(self, tape: Tape, *, unique: bool) -> None:
        self._tape = tape
        self._unique = unique
        self.excluded: list[int] = []

    def check(self, row: int) -> None:
        """Check the keys of one mapping."""
        if self._are_usual(row):
            return
        hashes, twice = array("q"), False
        for _, names, usual in keys_in_parts(self._tape, row):
            if not usual:
                self._check_each(row)
                return
            twice = twice or len(set(names)) < len(names)
            if hashes or len(names) == LARGE:
                hashes.extend(map(hash, names))
        if self._unique and hashes:
            self._compare_hashes(row, hashes)
        elif self._unique and twice:
            self._find_twice(row, self._rows(row))

    def _are_usual(self, row: int) -> bool:
        """Return whether a mapping is small, as most are, and its keys are known as usual and all different."""
        tape, names = self._tape, list[str]()
        text, start, end, following = tape.text, tape.start, tape.end, tape.next
        key, behind = row + 1, following[row]
        if behind - key > LARGE:
            return False
        while key < behind:
            names.append(text[start[key] : end[key]])
            key = following[following[key]]
        different = set(names)
        return len(different) == len(names) and different <= USUAL

    def _rows(self, row: int) -> Iterator[int]:
        return (key for key, _ in self._tape.pairs(row) if not is_merge(self._tape, key))

    def _check_each(self, row: int) -> None:
        """Check keys of which at least one is a merge key, an alias, a number, or has quotes, a tag or an anchor."""
        tape, hashes = self._tape, array("q")
        values: set[Any] = set()
        for key, value in tape.pairs(row):
            self._check_key(key, value)
            if not self._unique or is_merge(tape, key):
                continue
            name = key_value(tape, key)
            if name in values:
                self._find_twice(row, self._rows(row))
            if len(hashes) < LARGE:
                values.add(name)
            hashes.append(hash(name))
        if len(hashes) > LARGE:
            self._compare_hashes(row, hashes)

    def _check_key(self, key: int, value: int) -> None:
        tape = self._tape
        target = tape.target(key)
        tag = tape.tags.get(target, "!")
        if tape.kind[target] != SCALAR:
            _refuse(tape, key, "a mapping or sequence cannot be a key")
        if is_merge(tape, key):
            self._check_merged(value)
        elif tag != "!" and not tag.startswith(YAML_TAGS):  # asdf cannot hash it
            _refuse(tape, key, "a tagged scalar cannot be a key")
        elif tag == YAML_TAGS + "binary" or not isinstance(scalar_value(tape, target), str | int):
            self.excluded.append(key)

    def _check_merged(self, value: int) -> None:
        tape = self._tape
        row = tape.target(value)
        rows = [row] if tape.kind[row] in MAPPINGS else [*tape.items(row)] if tape.kind[row] != SCALAR else [row]
        if any(tape.kind[tape.target(one)] not in MAPPINGS for one in rows):
            _refuse(tape, value, "the value of a merge key '<<' must be a mapping")

    def _compare_hashes(self, row: int, hashes: array[int]) -> None:
        """Compare the keys of a large mapping that have the same hash as another one."""
        again = _repeated(hashes)
        if again:
            places = (key for key, found in zip(self._rows(row), hashes, strict=True) if found in again)
            self._find_twice(row, places)

    def _find_twice(self, row: int, places: Iterator[int]) -> None:
        """Raise ``InvalidTreeError`` for the first key of a mapping that is there already, if there is one."""
        tape, first = self._tape, dict[Any, int]()
        for key in places:
            before = first.setdefault(key_value(tape, key), key)
            if before != key:
                shown = tape.text[tape.start[key] : tape.end[key]]
                name = tape.scalar(key) if tape.kind[key] == SCALAR else shown
                _refuse(
                    tape,
                    key,
                    f"the key {name[:SHOWN]!r} is in line {tape.line(before)} already; remove or rename one of the "
                    "two, because programs read only one",
                )


def _repeated(hashes: array[int]) -> set[int]:
    """Return the numbers that are there more than once; needs as much memory again, and little more."""
    parts = [array("q") for _ in range(2 * len(hashes) // LARGE + 1)]
    for one in hashes:
        parts[one % len(parts)].append(one)
    found: set[int] = set()
    for part in parts:
        if len(set(part)) < len(part):
            seen: set[int] = set()
            found |= {one for one in part if one in seen or seen.add(one)}  # type: ignore[func-returns-value]
    return found


def key_value(tape: Tape, key: int) -> object:
    """Return something equal for keys that are the same, as 1, 0x1 and 1.0, or a and "a".

    A number is its text here: whoever writes a tree can choose numbers with one hash, but no such texts.
    """
    row = tape.target(key)
    value = scalar_value(tape, row) if tape.kind[row] == SCALAR else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else (str(int(value) if isinstance(value, bool) else value),)


def _check_scalars(tape: Tape) -> None:
    """Refuse scalars that YAML takes for a number or a date but cannot construct: asdf could not open the file."""
    text, begin = tape.text, NUMBERS_BEGIN
    for first in range(0, len(tape.kind), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        scalars = tape.kind[part].translate(_IS_SCALAR)
        spans = compress(zip(tape.start[part], tape.end[part], strict=True), scalars)
        numbers = {text[start:end] for start, end in spans if start < end and text[start] in begin}
        if any(fault_of(one, None) for one in numbers):
            _check_rows(tape, iter(range(first, min(first + _AT_ONCE, len(tape.kind)))))
    _check_rows(tape, iter(sorted({*tape.tags, *tape.anchors})))


def _check_rows(tape: Tape, rows: Iterator[int]) -> None:
    for row in rows:
        if tape.kind[row] == SCALAR and (fault := fault_at(tape, row)):
            _refuse(tape, row, fault)

"""Checks whether a tree fits the blocks of its file: refuses changes, and warns about arrays.

Objects of extensions refer to blocks in their own ways, without the ``source`` of an ndarray.  asdf-zarr stores the
numbers of its chunks' blocks in a block (``arrays/chunked``).  It is unknown how objects with other tags refer to
blocks, so any block may be one of theirs.

The caller holds the main lock; other requests are served while the arrays are checked.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from asdffs.allocator import give_back
from asdffs.arrays.chunked import TABLE, is_chunked
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.placement import ArrayFault, fault_in_block
from asdffs.arrays.rechecking import Entries
from asdffs.arrays.validation import read_checked
from asdffs.document.blocks.store import BlockStore
from asdffs.document.report import Report
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import AsdffsError, InUseError, InvalidTreeError, NotPermittedError, Remedy, reason_of
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.syntax import decoded
from asdffs.tree.tagged import Found, find_tagged

#: Prefixes of tags whose objects refer to blocks only by ndarrays.
_KNOWN: Final = (
    *("tag:yaml.org,2002:", "tag:stsci.edu:asdf/", "tag:stsci.edu:gwcs/", "asdf://stsci.edu/datamodels/"),
    *("tag:astropy.org:", "asdf://astropy.org/", "tag:sunpy.org:", "asdf://sunpy.org/"),
    *("asdf://asdf-format.org/core/", "asdf://asdf-format.org/astronomy/", "asdf://asdf-format.org/transform/"),
    *("tag:dkist.nso.edu:", "asdf://dkist.nso.edu/", "tag:nso.edu:", "asdf://dask.org/"),
)
_ENTRY: Final = struct.Struct("<i")


class Hidden(NamedTuple):
    """References to blocks that are not visible as ndarrays.

    ``blocks``: the blocks in tables of chunks, and of the tables themselves; ``tags``: those of objects that asdffs
    does not know; ``troubles``: sentences about tables that cannot be read or refer to missing blocks.
    """

    blocks: frozenset[int]
    tags: tuple[str, ...]
    troubles: tuple[str, ...]

    @property
    def numbered(self) -> bool:
        """Whether a known kind of object (zarr) refers to blocks by their numbers."""
        return bool(self.blocks) or any(is_chunked(tag) for tag in self.tags)

    def unseen(self, arrays: Iterable[Ndarray], count: int) -> list[int]:
        """Return the blocks, of ``count`` ones, without a reference from ``arrays`` or tables of chunks."""
        return sorted(set(range(count)) - self.blocks - {array.block_in(count) for array in arrays})

    def may_refer(self, number: int) -> str:
        """Return why block ``number`` may be needed; empty if it is not."""
        if number in self.blocks:
            return "a zarr array keeps its chunks or their table there"
        return f"objects of {self.tags[0]}, which asdffs does not know, may refer to it" if self.tags else ""


def find_hidden(tree: TreeEditor, contents: BlockStore, scheduler: Scheduler) -> Hidden:
    """Return the hidden references of the committed tree.  Raises ``InvalidTreeError``, ``OSError``."""
    text, version = tree.text(), tree.version
    tags: dict[str, None] = {}

    def wanted(tag: str) -> bool:
        if is_chunked(tag):
            return True
        if not tag.startswith(_KNOWN) and not tree.dialect.is_ndarray(tag):
            tags[tag] = None
        return False

    tape = tree.tape(decoded(text), version)
    with scheduler.waiting():
        tables = list(find_tagged(tape, wanted))
    blocks: set[int] = set()
    troubles: list[str] = []
    for table in tables:
        numbers, trouble = _chunks(contents, table)
        blocks |= numbers
        troubles += [f"line {table.line}: {trouble}"] if trouble else []
    return Hidden(frozenset(blocks), tuple(tags), tuple(troubles))


def _chunks(contents: BlockStore, found: Found) -> tuple[set[int], str]:
    """Return the blocks of one zarr array, with the block of its table, and a sentence about a fault or ''."""
    number = found.value.get(TABLE) if isinstance(found.value, dict) else None
    if not isinstance(number, int):
        return set(), ""
    count = len(contents.table)
    number += count if number < 0 else 0
    if not 0 <= number < count:
        return set(), f"the table of a zarr array's chunks is block {number}, and the file has {count} blocks"
    try:
        named, lost = _named(contents, number, count)
    except (AsdffsError, OSError) as err:
        return {number}, f"the table of a zarr array's chunks, block {number}, cannot be read: {reason_of(err)}"
    trouble = f"a zarr array has a chunk in block {lost}, and the file has {count} blocks" if lost is not None else ""
    return {number, *named}, trouble


def _named(contents: BlockStore, number: int, count: int) -> tuple[set[int], int | None]:
    """Return the blocks in the table in block ``number``, and the lowest number there that is too large.

    The file has ``count`` blocks.  The second value is None if all blocks exist.  The table is read piece by piece,
    because it may have any size.  Raises ``AsdffsError``, ``OSError``.
    """
    named: set[int] = set()
    lost: set[int] = set()
    for place in range(0, contents.size(number), CHUNK):
        raw = read_bytes(contents.read(number, place, CHUNK))
        entries = {entry for (entry,) in _ENTRY.iter_unpack(raw[: len(raw) // 4 * 4]) if entry >= 0}
        named |= {entry for entry in entries if entry < count}
        lost = set(sorted({*lost, *(entry for entry in entries if entry >= count)})[:1])
    return named, next(iter(lost), None)


logger = logging.getLogger(__name__)


class TreeFit:
    """Compares ``tree`` with the blocks in ``contents``, and puts warnings into ``report``.

    ``path``: the path of the file, for messages.
    """

    def __init__(self, path: str, tree: TreeEditor, contents: BlockStore, report: Report) -> None:
        self._path = path
        self._tree = tree
        self._contents = contents
        self._table = contents.table
        self._report = report
        self._scheduler = contents.scheduler
        self._counting: tuple[int, Ndarray | None] | None = None
        self._shrunk: dict[int, int | None] = {}

    def check_count_free(self) -> None:
        """Raise ``InUseError`` if a source counts blocks from the end.

        After one more block, such a source would refer to another block.
        """
        version = self._tree.version
        if self._counting is None or self._counting[0] != version:
            with self._scheduler.waiting():
                arrays = self._tree.arrays()
            found = next((array for array in arrays if isinstance(array.source, int) and array.source < 0), None)
            self._counting = version, found
        array = self._counting[1]
        if array is not None and isinstance(array.source, int):
            number = len(self._contents.table) + array.source
            raise InUseError(
                f"line {array.line}: {array.name} has source {array.source}, which counts from the end, so with one "
                f"more block it would mean another one; write 'source: {max(0, number)}' there first"
            )

    def check_unreferenced(self, *numbers: int, force: bool = False) -> None:
        """Raise ``InUseError`` if the tree refers, or may refer, to one of these blocks.

        A source that counts from the end counts as a reference.  ``force``: allow references that only objects of
        extensions have, or may have.
        """
        try:
            with self._scheduler.waiting():
                arrays = self._tree.read_arrays()
        except InvalidTreeError as err:
            raise InUseError("the tree cannot be read, so it may refer to this block", block=numbers[0]) from err
        for array in arrays:
            if isinstance(array.source, int) and (array.source < 0 or array.source in numbers):
                block = numbers[0] if array.source < 0 else array.source
                raise InUseError(f"{array.name} (line {array.line}) has source {array.source}", block=block)
        hidden = self._find_hidden()
        for number in numbers:
            why = "" if force else hidden.may_refer(number)
            if why:
                raise InUseError(why, block=number, remedy=Remedy.FORCE_REMOVE)

    def check_cut(self, number: int, size: int) -> None:
        """Raise ``NotPermittedError`` if an array fits block ``number`` now, and would not in ``size`` bytes."""
        with self._scheduler.waiting():
            arrays = self._tree.arrays()
        count, now = len(self._contents.table), self._contents.stated_size(number)
        for array in arrays:
            if array.block_in(count) != number or fault_in_block(array, count, lambda _: now):
                continue
            fault = fault_in_block(array, count, lambda _: size)
            if fault:
                sentence = f"the new content is too small: line {array.line}: {array.name}: {fault}"
                raise NotPermittedError(sentence, block=number, remedy=Remedy.FORCE_REPLACE)

    def check_unnumbered(self) -> None:
        """Raise ``InUseError`` if an object of a known extension (zarr) refers to blocks by their numbers."""
        if self._find_hidden().numbered:
            sentence = "a zarr array refers to blocks by their numbers, which would be lost"
            raise InUseError(sentence, path=self._path, remedy=Remedy.FORCE_LOSS)

    def check_droppable(self) -> None:
        """Raise ``InUseError`` if objects of extensions may refer to blocks without a reference from an array."""
        self.check_unnumbered()
        hidden = self._find_hidden()
        unseen = hidden.unseen(self._tree.read_arrays(), len(self._contents.table)) if hidden.tags else []
        if unseen:
            raise InUseError(
                f"objects of {hidden.tags[0]}, which asdffs does not know, may refer to blocks that no array refers "
                f"to ({', '.join(map(str, unseen[:5]))})",
                path=self._path,
                remedy=Remedy.FORCE_DROP_BLOCKS,
            )

    def refuse(self, arrays: tuple[Ndarray, ...]) -> None:
        """Raise ``InvalidTreeError`` if there would be a warning about ``arrays``."""
        warnings = self._find_warnings(arrays)
        if warnings:
            raise InvalidTreeError("; ".join(warnings))

    def shrunk_anew(self) -> bool:
        """Return whether blocks that were made smaller have other sizes than at the last call.

        Blocks that have their old sizes again are forgotten: a copy over a block first makes it empty.
        """
        known = self._contents.shrunk
        sizes = {number: self._contents.stated_size(number) for number in known if number < len(self._contents.table)}
        now = {number: size for number, size in sizes.items() if size is None or size < known[number]}
        for number in [*known.keys() - now.keys()]:
            del known[number]
        anew, self._shrunk = now != self._shrunk, now
        return anew

    def look_at(self, go_on: Callable[[], bool]) -> tuple[tuple[str, ...], Entries | None]:
        """Return the warnings about the committed tree, and its entries if it is valid.

        For the entries, see ``rechecking``.  Other requests are served meanwhile.  Raises ``StoppedError`` soon after
        ``go_on()`` returns False.
        """
        tree = self._tree
        try:
            text, version = tree.text(), tree.version
            with self._scheduler.waiting():
                characters = decoded(text)
                del text
            tape = tree.tape(characters, version, go_on)
            with self._scheduler.waiting():
                arrays, entries = read_checked(tape, tree.dialect)
        except InvalidTreeError as err:
            return (f"the tree is not valid: {err}",), None
        with self._scheduler.waiting():
            del tape
            give_back()  # it was large, and a save may come next
            return self._judged(arrays), entries

    def _judged(self, arrays: tuple[Ndarray, ...]) -> tuple[str, ...]:
        """Return a warning for each array that should be in a block of this file, but does not fit there."""
        count, size_of = len(self._contents.table), functools.cache(self._size_or_none)
        in_blocks = (array for array in arrays if not array.inline and not isinstance(array.source, str))
        faults = ((array, fault_in_block(array, count, size_of)) for array in in_blocks)
        return tuple(str(ArrayFault(array, fault)) for array, fault in faults if fault)

    def note(self, warnings: tuple[str, ...]) -> None:
        """Put the warnings into the report, and new ones into the log; also that the file is truncated."""
        cut = self._table.truncation
        warnings = (cut, *warnings) if cut else warnings
        known = {*self._report.warnings}
        self._report.note_warnings(warnings)
        for warning in (one for one in warnings if one not in known):
            logger.warning("%s: %s", self._path, warning)

    def warn(self, arrays: tuple[Ndarray, ...]) -> None:
        """Put warnings about ``arrays``, those of the committed tree, into the report and the log."""
        self.note(self._find_warnings(arrays))

    def _find_warnings(self, arrays: tuple[Ndarray, ...]) -> tuple[str, ...]:
        """Return warnings about arrays that cannot be shown, of those with elements in blocks."""
        with self._scheduler.waiting():
            return self._judged(arrays)

    def _size_or_none(self, number: int) -> int | None:
        with self._scheduler.resumed():
            return self._contents.stated_size(number)

    def _find_hidden(self) -> Hidden:
        return find_hidden(self._tree, self._contents, self._scheduler)

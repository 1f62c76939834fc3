"""Blocks that objects of extensions refer to: not by the ``source`` of an ndarray, but in a way of their own.

asdf-zarr keeps the numbers of its chunks' blocks in a block: an int32 for each chunk, -1 where there is none.  How
objects of other tags refer to blocks, nobody here knows, so any block may be one of theirs.
The caller holds the main lock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from asdffs.document.blocks.contents import Contents
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import AsdffsError, reason_of
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.events import Found, read_tree
from asdffs.tree.ndarrays import Ndarray

#: Tags whose objects refer to blocks by ndarrays alone.
_KNOWN: Final = (
    *("tag:yaml.org,2002:", "tag:stsci.edu:asdf/", "tag:stsci.edu:gwcs/", "asdf://stsci.edu/datamodels/"),
    *("tag:astropy.org:", "asdf://astropy.org/", "tag:sunpy.org:", "asdf://sunpy.org/", "asdf://asdf-format.org/"),
    *("tag:dkist.nso.edu:", "asdf://dkist.nso.edu/", "tag:nso.edu:", "asdf://dask.org/"),
)
_ZARR: Final = "asdf://stsci.edu/asdf-zarr/tags/zarr-"
_CHUNK_MAP: Final = "chunk_block_map"
_ENTRY: Final = struct.Struct("<i")


class Hidden(NamedTuple):
    """What refers to blocks unseen.

    ``blocks``: numbers that tables of chunks name, with these tables' own; ``tags``: of objects that nobody here
    knows; ``troubles``: sentences about tables that cannot be read or lead nowhere.
    """

    blocks: frozenset[int]
    tags: tuple[str, ...]
    troubles: tuple[str, ...]

    @property
    def numbered(self) -> bool:
        """Whether an object is known to refer to blocks by their numbers."""
        return bool(self.blocks) or any(tag.startswith(_ZARR) for tag in self.tags)

    def unseen(self, arrays: Iterable[Ndarray], count: int) -> list[int]:
        """The blocks, of ``count``, that neither ``arrays`` nor tables of chunks refer to."""
        return sorted(set(range(count)) - self.blocks - {array.block_in(count) for array in arrays})

    def may_refer(self, number: int) -> str:
        """Why block ``number`` may be needed; empty when it is not."""
        if number in self.blocks:
            return "a zarr array keeps its chunks or their table there"
        return f"objects of {self.tags[0]}, which asdffs does not know, may refer to it" if self.tags else ""


def find_hidden(tree: TreeEditor, contents: Contents, scheduler: Scheduler) -> Hidden:
    """Of the committed tree.  Raises ``InvalidTreeError``, ``OSError``."""
    tags: dict[str, None] = {}

    def wanted(tag: str) -> bool:
        if tag.startswith(_ZARR):
            return True
        if not tag.startswith(_KNOWN) and not tree.dialect.is_ndarray(tag):
            tags[tag] = None
        return False

    text = tree.text()
    with scheduler.waiting():
        reading = read_tree(text, wanted)
    if reading.indirect:  # an alias in a zarr array may be any block
        tags |= {table.tag: None for table in reading.found}
    blocks: set[int] = set()
    troubles: list[str] = []
    for table in reading.found:
        numbers, trouble = _chunks(contents, table)
        blocks |= numbers
        troubles += [f"line {table.line}: {trouble}"] if trouble else []
    return Hidden(frozenset(blocks), tuple(tags), tuple(troubles))


def _chunks(contents: Contents, found: Found) -> tuple[set[int], str]:
    """The blocks of one zarr array, its table's included; and what is wrong with it, or nothing."""
    number = found.value.get(_CHUNK_MAP) if isinstance(found.value, dict) else None
    if not isinstance(number, int):
        return set(), ""
    count = contents.count
    number += count if number < 0 else 0
    if not 0 <= number < count:
        return set(), f"the table of a zarr array's chunks is block {number}, and the file has {count} blocks"
    try:
        named, lost = _named(contents, number, count)
    except (AsdffsError, OSError) as err:
        return {number}, f"the table of a zarr array's chunks, block {number}, cannot be read: {reason_of(err)}"
    trouble = f"a zarr array has a chunk in block {lost}, and the file has {count} blocks" if lost is not None else ""
    return {number, *named}, trouble


def _named(contents: Contents, number: int, count: int) -> tuple[set[int], int | None]:
    """The blocks, of ``count`` ones, in the table that block ``number`` is; and the first that it names in vain.

    The table may be as large as the file says.  Raises ``AsdffsError``, ``OSError``.
    """
    named: set[int] = set()
    lost: set[int] = set()
    for place in range(0, contents.size(number), CHUNK):
        raw = read_bytes(contents.read(number, place, CHUNK))
        entries = {entry for (entry,) in _ENTRY.iter_unpack(raw[: len(raw) // 4 * 4]) if entry >= 0}
        named |= {entry for entry in entries if entry < count}
        lost = set(sorted({*lost, *(entry for entry in entries if entry >= count)})[:1])
    return named, next(iter(lost), None)

"""Finds blocks that objects of extensions refer to in their own ways, without the ``source`` of an ndarray.

asdf-zarr stores the numbers of its chunks' blocks in a block (``arrays/chunked``).  It is unknown how objects with
other tags refer to blocks, so any block may be one of theirs.

The caller holds the main lock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from asdffs.arrays.chunked import TABLE, is_chunked
from asdffs.arrays.ndarrays import Ndarray
from asdffs.document.blocks.contents import Contents
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import AsdffsError, reason_of
from asdffs.scheduling import CHUNK, Scheduler
from asdffs.storage.backend import read_bytes
from asdffs.tree.tagged import Found, find_tagged
from asdffs.tree.tape import Tape

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


def find_hidden(tree: TreeEditor, contents: Contents, scheduler: Scheduler) -> Hidden:
    """Return the hidden references of the committed tree.  Raises ``InvalidTreeError``, ``OSError``."""
    text = tree.text()
    tags: dict[str, None] = {}

    def wanted(tag: str) -> bool:
        if is_chunked(tag):
            return True
        if not tag.startswith(_KNOWN) and not tree.dialect.is_ndarray(tag):
            tags[tag] = None
        return False

    with scheduler.waiting():
        tables = list(find_tagged(Tape(text), wanted))
    blocks: set[int] = set()
    troubles: list[str] = []
    for table in tables:
        numbers, trouble = _chunks(contents, table)
        blocks |= numbers
        troubles += [f"line {table.line}: {trouble}"] if trouble else []
    return Hidden(frozenset(blocks), tuple(tags), tuple(troubles))


def _chunks(contents: Contents, found: Found) -> tuple[set[int], str]:
    """Return the blocks of one zarr array, with the block of its table, and a sentence about a fault or ''."""
    number = found.value.get(TABLE) if isinstance(found.value, dict) else None
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

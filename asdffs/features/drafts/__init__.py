"""Files of the drafts of ASDF of 2014 and 2015: their dialects, their encodings of blocks, and ``asdffs upgrade``.

``dialects/`` and ``codecs/chain`` read and write them; ``encodings`` are the encodings of blocks.
``commands/upgrade`` makes files of today, whose text ``upgraded_text`` edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asdffs.dialects.base import Dialect

_ROOT: Final = re.compile(r"tag:stsci\.edu:asdf/\d+\.\d+\.\d+/core/asdf")


def as_of_today(text: bytes, dialect: Dialect, count: int) -> bytes:
    """Return the text of a tree of a draft as ``asdffs upgrade`` would write it, for a check of its schemas.

    ``count``: the number of blocks in its file.  Raises ``InvalidTreeError``.
    """
    from asdffs.features.drafts.upgraded_text import HistoryEntries, upgraded_text

    entries = HistoryEntries(["it was looked at"], "2000-01-01 00:00:00", "0")  # a history must have an entry
    return upgraded_text(text, dialect, dialect_of_today(), count, entries).text


def dialect_of_today() -> Dialect:
    """Return the dialect of new files."""
    from asdffs.registry import each

    found: Dialect = next(one for one in each("dialects") if not one.upgradable)
    return found


def contradictions(text: bytes, dialect: Dialect) -> Iterator[str]:
    """Yield what the drafts want of a tree: the root has the tag ``core/asdf``, and its ``data`` is an ndarray."""
    from asdffs.tree.locating import locate
    from asdffs.tree.tape import MAPPINGS, Tape

    tape = Tape(text)
    tag = tape.tags.get(0, "")
    if tape.kind and not _ROOT.fullmatch(tag):
        yield f"line {tape.line(0)}: the root of the tree has {f'the tag {tag}' if tag else 'no tag'}, not core/asdf"
    if tape.kind and tape.kind[0] in MAPPINGS:
        data = locate(tape, ("data",))
        if not data.missing and not dialect.is_ndarray(tape.tags.get(tape.target(data.row), "")):
            yield f"line {data.line}: data is not an ndarray"

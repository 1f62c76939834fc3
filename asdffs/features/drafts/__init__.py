"""Files of the drafts of ASDF of 2014 and 2015: their dialects, their encodings of blocks, and ``asdffs upgrade``.

``dialects/`` and ``codecs/chain`` read and write them; ``encodings`` are the encodings of blocks.
``commands/upgrade`` makes files of today, whose text ``upgraded_text`` edits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asdffs.dialects.base import Dialect


def as_of_today(text: bytes, dialect: Dialect, count: int) -> bytes:
    """Return the text of a tree of a draft as ``asdffs upgrade`` would write it, for a check of its schemas.

    ``count``: the number of blocks in its file.  Raises ``InvalidTreeError``.
    """
    from asdffs import registry
    from asdffs.features.drafts.upgraded_text import HistoryEntries, upgraded_text

    today = next(one for one in registry.each("dialects") if not one.upgradable)
    entries = HistoryEntries(["it was looked at"], "2000-01-01 00:00:00", "0")  # a history must have an entry
    return upgraded_text(text, dialect, today, count, entries).text

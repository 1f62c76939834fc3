"""The draft of 2014, ``%ASDF 0.1.0``: block headers of 40 to 44 bytes that may name an encoding.

The text of the draft defines the magic 89 42 4c 4b, but the programs of that time wrote today's magic.  Both
are read.  A new block gets the magic of the other blocks in its file; in a file without blocks, the magic of
the text.

No encoding was ever defined, so a block that names one shows its stored bytes.
"""

from __future__ import annotations

from typing import Final

from asdffs.features.drafts.draft import DraftDialect
from asdffs.format.block_form import FORM_44, BlockRules, form_44
from asdffs.format.constants import BLOCK_MAGIC, DRAFT_MAGIC


class Draft2014(DraftDialect):
    """See ``Dialect``."""

    name = "ASDF 0.1.0, draft of 2014"
    token = b"%ASDF"
    rules: Final = BlockRules(
        magics=(DRAFT_MAGIC, BLOCK_MAGIC),
        forms=(FORM_44, *(form_44(length) for length in range(15, 11, -1))),
        new=FORM_44,
    )


PLUGIN = Draft2014()

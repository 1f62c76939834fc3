"""``#ASDF 0.1.0``: the draft of 2015 with its ENCODED blocks, and what came before and after it under that version.

The size of a block's header tells which form it has: 36 is the draft's own, 44 that of 2014, 40 and 48 came with the
``compression`` field of today.
"""

from __future__ import annotations

from typing import Final

from asdffs.dialects.draft import DraftDialect
from asdffs.format.block_form import FORM_36, FORM_40, FORM_44, FORM_48, BlockRules


class Draft2015(DraftDialect):
    """See ``Dialect``."""

    name = "ASDF 0.1.0, draft of 2015"
    token = b"#ASDF"
    rules: Final = BlockRules(forms=(FORM_48, FORM_36, FORM_44, FORM_40), new=FORM_36)


PLUGIN = Draft2015()

"""The draft of 2015 with its ENCODED blocks, and all other block headers of ``#ASDF 0.1.0``.

Before and after the draft, other forms were written under the same version.  The size of a block's header tells
its form: 36 is the draft's own, 44 is that of 2014, and 40 and 48 came with today's field ``compression``.
"""

from __future__ import annotations

from asdffs.features.drafts.dialects.draft_2014 import FORM_36, FORM_40, FORM_44, DraftDialect
from asdffs.format.block_header import FORM_48, BlockRules


class Draft2015(DraftDialect):
    """The dialect ``#ASDF 0.1.0``."""

    name = "ASDF 0.1.0, draft of 2015"
    token = b"#ASDF"
    rules = BlockRules(forms=(FORM_48, FORM_36, FORM_44, FORM_40), new=FORM_36)


PLUGIN = Draft2015()

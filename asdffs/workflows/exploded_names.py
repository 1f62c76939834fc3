"""Names of the files of the standard's exploded form (section Exploded form).  A mount imports no more than these."""

from __future__ import annotations

import os
import re


def stem_of(path: str) -> str:
    """Return the stem of the names of the exploded files: the name of the file without its extension.

    Characters that mean something in a URI, or are lost there, are replaced by ``_``: the asdf library takes a path
    for a URI.
    """
    return re.sub(r"[#?%;\x00-\x1f\x7f]", "_", os.path.splitext(os.path.basename(path))[0])


def block_file_name(stem: str, number: int) -> str:
    """Return the name of the file for block ``number``."""
    return f"{stem}{number:04d}.asdf"

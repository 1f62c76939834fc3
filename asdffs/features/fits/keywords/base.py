"""The interface of a table of keywords: which values of ``meta`` a header has under their usual FITS keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Keywords(Protocol):
    """A table of keywords.  A mission adds its own by the entry point group ``asdffs.keywords``."""

    #: Keyword -> the paths below ``meta`` at which its value may be; the first one that is there is taken.
    paths: Mapping[str, Sequence[str]]

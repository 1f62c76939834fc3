"""The places of a mount's files besides the ASDF file."""

from __future__ import annotations

from typing import Final, NamedTuple

#: The name of the text that ``edit`` passes to the editor.
DRAFT: Final = "tree.yaml"


class Places(NamedTuple):
    """The places of a mount's files besides the ASDF file, as absolute paths; '' for a place that is not used.

    Directories: ``spool``; ``rejected``, for refused drafts; ``history``, for replaced trees; ``editing``, in which
    each ``edit`` makes a directory for its ``DRAFT``; ``mirrors``, for the state of exploded forms.  Files: ``log``
    and ``report``.
    """

    spool: str
    rejected: str
    history: str = ""
    log: str = ""
    report: str = ""
    editing: str = ""
    mirrors: str = ""

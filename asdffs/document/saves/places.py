"""Where a mount keeps what is not the file."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Name of the text that is edited.
DRAFT: Final = "tree.yaml"


class Places(NamedTuple):
    """Where a mount keeps what is not the file; absolute paths.

    ``spool``, ``rejected``, ``history``: directories (``history`` '' for none); ``log``,
    ``report``: files ('' for none); ``editing``: directory in which each ``edit`` makes one for its ``DRAFT``;
    ``mirrors``: what is remembered of exploded forms.
    """

    spool: str
    rejected: str
    history: str = ""
    log: str = ""
    report: str = ""
    editing: str = ""
    mirrors: str = ""

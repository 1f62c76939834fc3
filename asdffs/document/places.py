"""Where a mount keeps what is not the file.  Users: ``vfs``, ``cli``, which chooses them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Places:
    """Where a mount keeps what is not the file; absolute paths.

    ``spool``, ``rejected``, ``history``: directories (``history`` '' for none); ``log``,
    ``report``: files ('' for none).
    """

    spool: str
    rejected: str
    history: str = ""
    log: str = ""
    report: str = ""

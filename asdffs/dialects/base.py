"""What a dialect is: which header lines it claims and how its ndarrays are tagged.

Users: ``document/opening`` (recognition) and ``document/arrays``.  Stateless.
"""

from __future__ import annotations

from typing import Protocol

from asdffs.format.header import Header


class Dialect(Protocol):
    """One generation of the format."""

    @property
    def name(self) -> str:
        """Its name in ``info``."""

    def claims(self, header: Header) -> bool:
        """Whether files with this header line are of this dialect."""

    def is_ndarray(self, tag: str) -> bool:
        """Whether a mapping with this resolved YAML tag describes an ndarray."""

    def accepts_text(self, header: Header) -> str | None:
        """Why a text with this header line must not be committed; None when it may."""

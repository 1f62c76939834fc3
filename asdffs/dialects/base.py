"""What a dialect is: which header lines it claims, how its blocks are written, and how its ndarrays are described.

Stateless.
"""

from __future__ import annotations

from typing import Any, Protocol

from asdffs.format.block_form import BlockRules
from asdffs.format.header import Header


class Dialect(Protocol):
    """One generation of the format."""

    @property
    def name(self) -> str:
        """Its name in ``info``."""

    @property
    def rules(self) -> BlockRules:
        """How its blocks are written."""

    @property
    def indexed(self) -> bool:
        """Whether its files may end with a block index."""

    @property
    def upgradable(self) -> bool:
        """Whether ``asdffs upgrade`` has something to do."""

    @property
    def standards(self) -> tuple[str, ...]:
        """The versions of the standard that a text may name, as in ``#ASDF_STANDARD 1.6.0``."""

    def claims(self, header: Header) -> bool:
        """Whether files with this header line are of this dialect."""

    def is_ndarray(self, tag: str) -> bool:
        """Whether a mapping with this resolved YAML tag describes an ndarray."""

    def ndarray(self, value: dict[str, Any]) -> dict[str, Any]:
        """What the mapping of an ndarray says, by the names and with the defaults of today's schema."""

    def accepts_text(self, header: Header) -> str | None:
        """Why a text with this header line must not be committed; None when it may."""

    def block_head(self, header: Header) -> bytes:
        """The head of a file with one block and no tree that goes with one of this ``header``: lines up to the block.

        Section Exploded form.
        """

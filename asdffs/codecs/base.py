"""What a codec is: a four-byte id and an incremental decoder.

Users: ``document/decoding``.  A codec is stateless; a decoder belongs to one reader.
"""

from __future__ import annotations

from typing import Protocol


class Decoder(Protocol):
    """Decodes one block from its start to its end."""

    def decode(self, stored: bytes, limit: int) -> bytes:
        """Up to ``limit`` decoded bytes from ``stored`` and what was kept back before.

        ``stored`` is the next piece of the block, or empty to get more of what was kept
        back.  Raises ``ValueError`` with the reason when the bytes are damaged.
        """

    @property
    def hungry(self) -> bool:
        """Whether nothing more comes out without more stored bytes."""

    @property
    def finished(self) -> bool:
        """Whether the end of the compressed stream was reached."""


class Codec(Protocol):
    """One compression of section Compression of the standard, or an extension of it."""

    @property
    def id(self) -> bytes:
        """The four bytes of the header's compression field."""

    def decoder(self) -> Decoder:
        """A decoder at the start of a block."""

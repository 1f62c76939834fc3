"""The codecs that blocks of today's files can have: all but what each block of a draft says of its own."""

from __future__ import annotations

from dataclasses import dataclass

from asdffs.codecs.base import Chaining, Codec, name_of
from asdffs.registry import each

ALL: dict[str, Codec] = {name_of(codec.id): codec for codec in each("codecs") if not isinstance(codec, Chaining)}
#: Those that the asdf library has, by itself or with a release of asdf-compression.
CODECS = {name: codec for name, codec in ALL.items() if codec.library != "blosc2"}


@dataclass
class Bytes:
    """A ``Source`` in memory."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read_at(self, offset: int, length: int) -> bytes:
        assert offset >= 0, "a codec reads before its block"
        return self.content[offset : offset + length]

"""The pieces of a decoder, small ones together."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

from asdffs.scheduling import CHUNK

#: Most seconds for which small pieces are gathered before the reader gets them.
_WORTH: Final = 0.004


class Gathered:
    """Takes pieces from a decoder.  Codecs may yield only dozens of bytes at a time, and each call has its cost."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._trouble: ValueError | MemoryError | None = None

    def take(self) -> bytes | None:
        """Return several pieces as one, or None at the end.  Raises as the decoder.

        If an error follows some pieces, return the pieces now and raise the error at the next call.
        """
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        gathered: list[bytes] = []
        length, until = 0, time.monotonic() + _WORTH
        while length < CHUNK and (not gathered or time.monotonic() < until):
            try:
                piece = next(self._pieces, None)
            except (ValueError, MemoryError) as err:
                if not gathered:
                    raise
                self._trouble = err
                break
            if piece is None:
                break
            gathered.append(piece)
            length += len(piece)
        if not gathered:
            return None
        return gathered[0] if len(gathered) == 1 else b"".join(gathered)

    def close(self) -> None:
        """Close the decoder.

        One that runs now, because of an interrupt, cannot be closed; it is forgotten, and ends by itself.
        """
        close = getattr(self._pieces, "close", None)  # only generators have it
        if close is not None:
            with contextlib.suppress(ValueError):
                close()

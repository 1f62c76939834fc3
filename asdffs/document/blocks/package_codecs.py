"""Mistakes in codecs of other packages: they are told with the codec's name, and cost no data.

What such a codec encodes is decoded once and compared, before it overwrites anything.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from asdffs import registry
from asdffs.codecs.base import Codec, Source, name_of
from asdffs.codecs.seeking import Seeker
from asdffs.errors import AsdffsError

logger = logging.getLogger(__name__)


def is_of_package(codec: Codec) -> bool:
    """Return whether the codec is one of another package."""
    return name_of(codec.id) in registry.foreign("codecs")


@contextlib.contextmanager
def mistakes_told(codec: Codec) -> Iterator[None]:
    """Raise ``ValueError`` for whatever such a codec raises by mistake."""
    try:
        yield
    except (AsdffsError, OSError, ValueError, MemoryError):
        raise
    except Exception as err:
        name = name_of(codec.id)
        logger.exception("the codec %s failed", name)
        raise ValueError(f"the codec {name} failed ({type(err).__name__}: {err}); report it to its authors") from err


class Guarded:
    """The seeker of such a codec.  See ``Seeker``."""

    def __init__(self, codec: Codec, seeker: Seeker) -> None:
        self._codec = codec
        self._seeker = seeker

    def start_before(self, offset: int) -> int:
        """See ``Seeker``."""
        with mistakes_told(self._codec):
            return self._seeker.start_before(offset)

    def decode_from(self, start: int) -> Iterator[bytes]:
        """See ``Seeker``."""
        with mistakes_told(self._codec):
            yield from self._seeker.decode_from(start)


def check_encoded(codec: Codec, stored: Source, content: Source) -> None:
    """Raise ``ValueError`` unless the codec decodes ``stored`` to ``content``."""
    place = 0
    with mistakes_told(codec):
        for piece in codec.decode(stored, content.size):
            if content.read_at(place, len(piece)) != piece:
                break
            place += len(piece)
        else:
            if place == content.size:
                return
    name = name_of(codec.id)
    raise ValueError(f"the codec {name} does not decode what it encoded; report it to its authors")

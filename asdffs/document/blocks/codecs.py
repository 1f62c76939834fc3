"""The codec of each block, found by the block header or by the chain of encodings at the beginning of the block.

Mistakes in codecs of other packages are told with the codec's name, and cost no data: what such a codec encodes is
decoded once and compared, before it overwrites anything.  The caller holds the main lock.

Also what codecs and checksums read: bytes that somebody returns piece by piece.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from asdffs import registry
from asdffs.codecs.base import Chaining, Codec, Encoding, Readable, Source, Varied, id_of, name_of
from asdffs.document.blocks.table import BlockTable
from asdffs.errors import AsdffsError, NameRefusedError, NotPermittedError, NotSupportedError, Remedy
from asdffs.format.block_header import BlockHeader, HeaderForm
from asdffs.format.constants import CHAIN
from asdffs.scheduling import CHUNK, Scheduler

if TYPE_CHECKING:
    import hashlib

    from asdffs.codecs.seeking import Seeker

_SHOWN: Final = 60


def resuming(read: Callable[[int, int], bytes], scheduler: Scheduler) -> Callable[[int, int], bytes]:
    """Return ``read``, which is called with the main lock held, for a thread that does not hold it."""

    def resumed(offset: int, length: int) -> bytes:
        with scheduler.resumed():
            return read(offset, length)

    return resumed


def new_digest() -> hashlib._Hash:
    """Return a new MD5 of hashlib."""
    import hashlib  # late: most commands compute no checksum

    return hashlib.md5(usedforsecurity=False)


def digest_of(
    read: Callable[[int, int], bytes], size: int, interrupted: Callable[[], bool], step: Callable[[int], object]
) -> bytes | None:
    """Return the MD5 of ``size`` bytes, or of fewer at the end; None as soon as ``interrupted()`` returns True.

    ``read(offset, length)`` returns bytes.  ``step(bytes)`` is called after each part.  Raises as ``read``.
    """
    digest = new_digest()
    for place in range(0, size, CHUNK):
        if interrupted():
            return None
        piece = read(place, min(CHUNK, size - place))
        if not piece:
            break
        digest.update(piece)
        step(len(piece))
    return digest.digest()


def _working(name: str) -> Codec | None:
    """Return the codec ``name``; None if there is none, or if one of another package is not a valid codec."""
    found: Codec | None = registry.find("codecs", name)
    if found is None or not registry.answer("codecs", name, lambda: _is_codec(found), otherwise=False):
        return None
    if id_of(name) == found.id or name not in registry.foreign("codecs"):
        return found
    registry.note_trouble("codecs", name, f"its id is {found.id!r}, not the name of its entry point")
    return None


def _is_codec(found: Codec) -> bool:
    """Return whether the attributes of ``found`` are those of a codec.

    Raises ``AttributeError`` if one is missing, or anything that the plug-in raises.
    """
    return isinstance(found.id, bytes) and isinstance(found.extra, str) and isinstance(found.ratio, int)


class KnownCodecs(Mapping[bytes, Codec]):
    """All codecs by their ids; each is loaded when it is looked up."""

    def __getitem__(self, key: bytes) -> Codec:
        """Return the codec with the id ``key``.

        Raises ``KeyError`` if there is no working one, ``OSError`` for a failure that may pass (memory, open files).
        """
        found = _working(name_of(key))
        if found is None or found.id != key:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[bytes]:
        return (codec.id for name in registry.names("codecs") if (codec := _working(name)) is not None)

    def __len__(self) -> int:
        return len(list(iter(self)))


class BlockCodecs:
    """The codecs of the blocks of a document.

    ``read_stored(number, offset, length)`` reads a block of ``table``.  ``order(number)`` returns the byteorder that
    the tree states for the content of a block, ``big`` or ``little``.
    """

    def __init__(
        self,
        codecs: Mapping[bytes, Codec],
        table: BlockTable,
        read_stored: Callable[[int, int, int], bytes],
        order: Callable[[int], str],
    ) -> None:
        self._codecs = codecs
        self._table = table
        self._read_stored = read_stored
        self._order = order
        self._loaded: dict[bytes, Codec] = {}
        self._orders: dict[int, str] = {}
        self._chains: dict[int, tuple[BlockHeader, Codec]] = {}

    def of(self, number: int) -> Codec | None:
        """Return the codec of a compressed block; None if it cannot be decoded here, or is not compressed."""
        codec = self._find(number)
        if codec is None or not codec.available() or (isinstance(codec, Encoding) and codec.unknown):
            return None
        return codec

    def name(self, number: int) -> str:
        """Return the name of the compression of a block, as users see it."""
        codec = self._find(number)
        return codec.name if isinstance(codec, Encoding) else name_of(self._table.header(number).compression)

    def description(self, number: int) -> str:
        """Return the chain of encodings of a block as one line; without a chain, as ``name``."""
        codec = self._find(number)
        return codec.described if isinstance(codec, Encoding) else self.name(number)

    def obstacle(self, number: int) -> str:
        """Return why a block can only show its stored bytes; empty if it can be decoded."""
        if not self._table.header(number).compressed or self.of(number) is not None:
            return ""
        codec, name, why = self._find(number), self.name(number), "is not known"
        trouble = registry.trouble("codecs", name)
        if isinstance(codec, Encoding):
            name = codec.unknown
        elif trouble:
            why = f"has a plug-in that does not work ({trouble})"
        elif codec is not None:
            why = _missing(codec)
        return f"the compression {name[:_SHOWN]!r} {why}; the block shows its stored bytes and cannot be written"

    def read_only(self, number: int) -> str:
        """Return why a block cannot be written although it can be read; empty if it can be written."""
        codec = self._find(number)
        return codec.read_only if isinstance(codec, Encoding) else ""

    def follows_tree(self, number: int) -> bool:
        """Return whether the decoded bytes depend on the tree, and it states another byteorder than ``big``."""
        codec = self._find(number)
        return isinstance(codec, Encoding) and codec.ordered and self._order(number) != "big"

    def check_size(self, number: int, size: int) -> None:
        """Raise ``NotPermittedError`` if ``size`` bytes are more than the encoding of the block can hold."""
        codec = self._find(number)
        if isinstance(codec, Encoding) and codec.fixed_size is not None and size > codec.fixed_size:
            sentence = f"its tiles hold {codec.fixed_size} bytes, no more; change its compression to grow it"
            raise NotPermittedError(sentence, block=number)

    def named(self, name: str, form: HeaderForm) -> Codec | None:
        """Return the codec with the name ``name`` for a block with a header of ``form``; None for ``none``.

        Raises ``NameRefusedError`` for an unknown name; ``NotSupportedError`` if the library is not installed, or if
        headers of this form cannot state the compression.
        """
        if name == "none":
            return None
        codec = self._codecs.get(id_of(name))
        if codec is None or isinstance(codec, Chaining):
            raise NameRefusedError(f"the compression {name!r} {self._unknown(name)}")
        if form.compressions is not None and name not in form.compressions:
            names = " or ".join(("none", *form.compressions))
            sentence = f"the block headers of this draft, of {form.size} bytes, cannot say {name}, only {names}"
            raise NotSupportedError(sentence, remedy=Remedy.UPGRADE)
        if not codec.available():
            raise NotSupportedError(f"the compression {name} {_missing(codec)}")
        chains = self._codecs.get(CHAIN)
        return chains.holding(name) if form.chained and isinstance(chains, Chaining) else codec

    def _unknown(self, name: str) -> str:
        """Return the end of a sentence: why a compression is not available, and the known ones."""
        why = registry.trouble("codecs", name)
        if why:
            return f"has a plug-in that does not work: {why}"
        known = [name_of(key) for key, codec in self._codecs.items() if not isinstance(codec, Chaining)]
        return f"is not known; known are {', '.join(('none', *sorted(known)))}"

    def forget(self, number: int) -> None:
        """Forget the codec of a block: it was stored in another way, or removed."""
        self._chains.pop(number, None)
        self._orders.pop(number, None)

    def reordered(self) -> list[int]:
        """Return the blocks that were decoded in another byteorder than the tree states now."""
        return [number for number, order in self._orders.items() if self._order(number) != order]

    def _find(self, number: int) -> Codec | None:
        """Return the codec of a block even if it cannot be used; None if it is unknown.

        The chain or layout of a block is found once, and again after its header changed.
        """
        header = self._table.header(number)
        if (plain := self._loaded.get(header.compression)) is not None:
            return plain
        codec = self._codecs.get(header.compression)
        if codec is None:
            return None
        if not isinstance(codec, Chaining | Varied):
            self._loaded[header.compression] = codec
            return codec
        known = self._chains.get(number)
        if known is None or known[0] != header:
            stored = Readable(header.used_size, lambda at, length: self._read_stored(number, at, length))
            if isinstance(codec, Chaining):
                found: Codec = codec.codec_for(stored, lambda: self._noted_order(number))
            else:
                found = codec.layout_of(stored)
            known = self._chains[number] = header, found
        return known[1]

    def _noted_order(self, number: int) -> str:
        """Return the byteorder of a block that is about to be decoded, and remember it for ``reordered``."""
        self._orders[number] = self._order(number)
        return self._orders[number]


def _missing(codec: Codec) -> str:
    return f"needs a library that is not installed: pip install 'asdffs[{codec.extra}]'"


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

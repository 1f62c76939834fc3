"""The interface of a codec: a four-byte id, and generators that decode and encode a block piece by piece.

A codec has no state, so several threads may use it at once.  An iterator that it returned belongs to one reader at a
time.  Memory use does not depend on the size of the block: pieces have a few MiB.  A codec refuses a damaged block
that asks for parts larger than ``LARGEST_PART``.

Iterators and ``memory`` run without the main lock, so they may use nothing but their ``Source``.  The ``Source``
takes the main lock itself if it needs it.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

#: Bytes to read or decode at a time if the format does not say.
PIECE: Final = 1 << 20
#: Most bytes of a part that can only be decoded as a whole.
LARGEST_PART: Final = 256 << 20
_MOST_WORKERS: Final = 4
#: Most bytes that the threads of ``in_parallel`` keep in memory at a time.
IN_WORK: Final = 32 << 20
#: A part that needs less memory than this is worked on at once: to pass it to a thread takes longer.
_TOO_SMALL: Final = 1 << 14

T = TypeVar("T")


class Source(Protocol):
    """Random access to bytes that a codec decodes or encodes."""

    @property
    def size(self) -> int:
        """Number of bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, or fewer at the end.

        Raises ``AsdffsError`` or ``OSError``; a codec lets both pass.
        """


def small_reads(stored: Source) -> AbstractContextManager[Callable[[int, int], bytes]]:
    """Return ``stored.read_at`` for a few small reads; if each would take the main lock, it is taken once for all."""
    locked: Callable[[], AbstractContextManager[Callable[[int, int], bytes]]] | None
    locked = getattr(stored, "locked", None)
    return nullcontext(stored.read_at) if locked is None else locked()


class Readable(NamedTuple):
    """``size`` bytes that ``read(offset, length)`` returns, as a ``Source``."""

    size: int
    read: Callable[[int, int], bytes]

    @staticmethod
    def of(content: bytes | memoryview) -> Readable:
        """Return bytes in memory."""
        return Readable(len(content), lambda offset, length: bytes(content[offset : offset + length]))

    def read_at(self, offset: int, length: int) -> bytes:
        """Return bytes, fewer at the end.  Raises as ``read``."""
        return self.read(offset, max(0, min(length, self.size - offset)))

    def counted(self, step: Callable[[int], None]) -> Readable:
        """Return this, and call ``step(bytes)`` after each read."""

        def read(offset: int, length: int) -> bytes:
            found = self.read(offset, length)
            step(len(found))
            return found

        return Readable(self.size, read)


def part_of(source: Source, start: int, size: int) -> Readable:
    """Return ``size`` bytes of ``source`` from ``start`` on."""
    return Readable(size, lambda offset, length: source.read_at(start + offset, length))


class Codec(ABC):
    """A compression of the standard (section Compression), or one that an extension adds.

    A module sets ``PLUGIN`` to an instance of a subclass.  A codec of another package is an entry point of the group
    ``asdffs.codecs``; its name is the ``id`` without trailing NULs.
    """

    #: The four bytes of the compression field in the block header, padded with NULs.
    id: bytes
    #: The most bytes that one stored byte can decode to.  A block whose header states more is refused.
    ratio: int
    #: The Python package that the codec needs; empty if none has to be installed.
    library: str = ""
    #: The extra of asdffs with this package.
    extra: str = ""

    def available(self) -> bool:
        """Return whether ``library`` is installed, without importing it."""
        return not self.library or is_installed(self.library)

    @abstractmethod
    def memory(self, stored: Source) -> int:
        """Return about how many bytes of memory a decoder keeps between two pieces, as far as ``stored`` tells.

        Decoders that are paused are closed when they keep too much memory together.
        """

    @abstractmethod
    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """Yield the content of a block in order, piece by piece, until the compressed stream ends.

        ``size`` is the number of bytes that the block header states.  The caller checks that the pieces have as many.
        Pieces may be empty.  Work when the iterator is asked for a piece, as a generator does: the call of ``decode``
        itself holds the main lock.

        Raises ``ValueError`` with the reason if the bytes are damaged.
        """

    @abstractmethod
    def encode(self, content: Source) -> Iterator[bytes]:
        """Yield the stored bytes of ``content`` piece by piece, as the asdf library and its extensions write them.

        Not called for an empty block, which is stored as nothing, except for an ``Encoding``.  Raises ``ValueError``
        with the reason if the format cannot hold the content.
        """


@runtime_checkable
class Divisible(Protocol):
    """A codec that can encode a block in pieces of a chosen size.  A reader decodes one piece without the others."""

    def in_pieces(self, size: int) -> Codec:
        """Return a codec that encodes pieces of ``size`` bytes of content."""


@runtime_checkable
class Varied(Protocol):
    """A codec whose id programs use for several layouts.  A block is written again in the layout that it has."""

    def layout_of(self, stored: Source) -> Codec:
        """Return the codec of the layout of the block with the bytes ``stored``."""


class Encoding(Codec):
    """A codec made for one block, from the description at the beginning of its stored bytes.  See ``Chaining``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that users see and write."""

    @property
    @abstractmethod
    def described(self) -> str:
        """The whole description of the encoding that the block contains, on one line."""

    @property
    @abstractmethod
    def unknown(self) -> str:
        """The name of the part that no code here can decode, so the block shows its stored bytes.

        Empty if the block can be decoded.
        """

    @property
    @abstractmethod
    def read_only(self) -> str:
        """Why the block cannot be written although it can be read; empty if it can be written."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether the decoded bytes depend on the byteorder that the tree states for the block."""

    @property
    @abstractmethod
    def fixed_size(self) -> int | None:
        """The only size in bytes that the content can have; None if any size is possible."""


class Chaining(Codec):
    """A codec whose blocks each describe their own encoding: those of the draft of 2015 (``features/drafts``)."""

    @abstractmethod
    def codec_for(self, stored: Source, order: Callable[[], str]) -> Encoding:
        """Return the codec of the block with the bytes ``stored``.

        ``order()`` returns the byteorder that the tree states for the content, ``big`` or ``little``.
        """

    @abstractmethod
    def holding(self, name: str) -> Encoding:
        """Return a codec of this kind for the encoding ``name``, to write a block with it."""


def name_of(compression: bytes) -> str:
    """Return the name of a compression field: its characters without trailing NULs, or ``none`` if it is empty."""
    return compression.rstrip(b"\0").decode("latin-1") or "none"


def id_of(name: str) -> bytes:
    """Return the name of a compression as the four bytes of the compression field."""
    return name.encode("latin-1", "replace").ljust(4, b"\0")


def is_installed(library: str) -> bool:
    """Return whether the Python package ``library`` is installed, without importing it."""
    from importlib.util import find_spec

    return find_spec(library) is not None


@contextmanager
def in_memory(content: Source) -> Iterator[mmap.mmap]:
    """Keep a copy of ``content`` in memory, for libraries that encode only the whole; it must not be empty."""
    with mmap.mmap(-1, content.size) as whole:
        for piece in pieces(content):
            whole.write(piece)
        yield whole


def pieces(source: Source, start: int = 0, length: int = PIECE) -> Iterator[bytes]:
    """Yield all bytes of ``source`` from ``start`` on, ``length`` at a time."""
    while piece := source.read_at(start, length):
        yield piece
        start += len(piece)


def check_ended(*, ended: bool, size: int) -> None:
    """Raise ``ValueError`` unless the compressed stream ``ended``; a block of ``size`` 0 may have none.

    Call it after the last stored byte was decoded.
    """
    if not ended and size:
        raise ValueError("the compressed bytes end too early")


def decode_stream(stream: Any, work: Callable[[bytes], bytes], stored: Source, size: int) -> Iterator[bytes]:
    """Feed ``stored`` to ``work`` until ``stream`` ends, and yield the content.

    ``stream``: a decompressor with ``eof`` and ``needs_input``, as those of bz2 and lz4.frame.

    ``work(piece)`` gives stored bytes to ``stream`` and returns content.  ``size``: bytes of content that the block
    header states.  Raises as ``work`` and ``check_ended``.
    """
    for piece in pieces(stored):
        if stream.eof:
            return
        yield work(piece)
        while not stream.eof and not stream.needs_input:
            yield work(b"")
    check_ended(ended=stream.eof, size=size)


def in_parallel(
    work: Callable[[T], bytes], parts: Iterable[T], weight: Callable[[T], int], alone: int = 0
) -> Iterator[bytes]:
    """Yield ``work(part)`` for all ``parts`` in order, computed by up to 4 threads.

    Useful for libraries that release the GIL.  ``weight(part)`` returns the bytes of memory that the work on a part
    needs.  No further part is started while the parts in work need more than 32 MiB (``IN_WORK``).

    ``alone``: the number of parts at the beginning that are worked on one after the other, without threads.  A
    program that reads at random needs only these; threads would go on with others after it closed this iterator.
    """
    parts = iter(parts)
    yield from map(work, islice(parts, alone))
    from concurrent.futures import Future, ThreadPoolExecutor

    from asdffs.allocator import reused_memory

    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(workers)
    with reused_memory():
        try:
            for part in parts:
                if not waiting and weight(part) < _TOO_SMALL:
                    yield work(part)
                    continue
                waiting.append((weight(part), pool.submit(work, part)))
                del part  # a large part stays in memory only as long as its worker needs it
                while len(waiting) > workers or sum(w for w, _ in waiting) > IN_WORK:
                    yield waiting.popleft()[1].result()
                    if not waiting:
                        break
            while waiting:
                yield waiting.popleft()[1].result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

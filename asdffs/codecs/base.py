"""What a codec is: a four-byte id, and how content is decoded and encoded piece by piece.

A codec is stateless; an iterator
that it returned belongs to one reader at a time.  Memory stays flat whatever the size of the
block: pieces are a few MiB, and what a damaged block asks for beyond ``LARGEST_PIECE`` is refused.
"""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

#: Bytes that are read and decoded at a time where the format does not say.
PIECE: Final = 1 << 20
#: A part of a block that can only be decoded as a whole may have this many bytes at most.
LARGEST_PART: Final = 256 << 20
_MOST_WORKERS: Final = 4
#: Bytes of content that are in work at a time in several threads.
IN_WORK: Final = 32 << 20

T = TypeVar("T")


class Source(Protocol):
    """Bytes to be decoded or encoded.  ``size``: how many there are."""

    @property
    def size(self) -> int:
        """In bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes from ``offset``, fewer where they end.  Raises ``AsdffsError``, ``OSError``."""


class Codec(Protocol):
    """One compression of section Compression of the standard, or an extension of it.

    ``id``: the four bytes of the header's compression field.  ``extra``: of asdffs, which installs
    the library it needs; empty where Python has it.  ``ratio``: no stored byte decodes to more bytes.
    """

    @property
    def id(self) -> bytes:
        """See the class."""

    @property
    def extra(self) -> str:
        """See the class."""

    @property
    def ratio(self) -> int:
        """See the class."""

    def available(self) -> bool:
        """Whether its library is installed."""

    def memory(self, stored: Source) -> int:
        """Bytes of memory that a decoder keeps between two pieces, about, and as far as it can be told."""

    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """The content of a block whose header says it has ``size`` bytes, in order, until its stream ends.

        Raises ``ValueError`` with the reason when the bytes are damaged.
        """

    def encode(self, content: Source) -> Iterator[bytes]:
        """The stored bytes of ``content``, as the asdf library and its extensions write them.

        Raises ``ValueError`` when the format cannot hold it.
        """


class Encoding(ABC):
    """The codec of one block, whose content begins with what it needs to know.  See ``Codec``."""

    id: bytes
    extra: str

    @property
    @abstractmethod
    def ratio(self) -> int:
        """See ``Codec``."""

    @abstractmethod
    def available(self) -> bool:
        """See ``Codec``."""

    @abstractmethod
    def memory(self, stored: Source) -> int:
        """See ``Codec``."""

    @abstractmethod
    def decode(self, stored: Source, size: int) -> Iterator[bytes]:
        """See ``Codec``."""

    @abstractmethod
    def encode(self, content: Source) -> Iterator[bytes]:
        """See ``Codec``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What users call it."""

    @property
    @abstractmethod
    def described(self) -> str:
        """All that the block says of how it is encoded, on a line."""

    @property
    @abstractmethod
    def unknown(self) -> str:
        """What of it nobody knows here, so that the block shows its stored bytes; empty when it can be decoded."""

    @property
    @abstractmethod
    def read_only(self) -> str:
        """Why the block cannot be written though it can be read; empty when it can."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether what is decoded depends on the byteorder that the tree gives it."""

    @property
    @abstractmethod
    def fixed_size(self) -> int | None:
        """The only size, in bytes, that its content can have; None where it may have any."""


class Chaining(ABC):
    """A codec that is another one for each block."""

    @abstractmethod
    def of(self, stored: Source, order: Callable[[], str]) -> Encoding:
        """The codec of the block that is ``stored``; ``order()`` is the byteorder that the tree gives its content."""

    @abstractmethod
    def holding(self, name: str) -> Encoding:
        """One of these that does what users call ``name``."""


def name_of(compression: bytes) -> str:
    """The compression field as users see and write it: ``none`` or its characters."""
    return compression.rstrip(b"\0").decode("latin-1") or "none"


def id_of(name: str) -> bytes:
    """What users call a compression, as the four bytes of the compression field."""
    return name.encode("latin-1", "replace").ljust(4, b"\0")


def is_installed(library: str) -> bool:
    """Whether the Python package ``library`` is there; it is not imported."""
    return importlib.util.find_spec(library) is not None


def pieces(source: Source, start: int = 0, length: int = PIECE) -> Iterator[bytes]:
    """All bytes from ``start`` on, ``length`` at a time."""
    while piece := source.read_at(start, length):
        yield piece
        start += len(piece)


def check_ended(*, ended: bool, size: int) -> None:
    """Raise ``ValueError`` when the stored bytes ``ended`` before their stream did; an empty block may have none."""
    if not ended and size:
        raise ValueError("the compressed bytes end too early")


class Stream(Protocol):
    """What the decompressors of bz2 and lz4.frame tell of themselves."""

    @property
    def eof(self) -> bool:
        """Whether the stream ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing more comes out without more stored bytes."""


def decode_stream(stream: Stream, work: Callable[[bytes], bytes], stored: Source, size: int) -> Iterator[bytes]:
    """Feed ``stored`` to ``work`` until ``stream`` ends.  Raises as ``work`` and ``check_ended``."""
    for piece in pieces(stored):
        if stream.eof:
            return
        yield work(piece)
        while not stream.eof and not stream.needs_input:
            yield work(b"")
    check_ended(ended=stream.eof, size=size)


def in_parallel(work: Callable[[T], bytes], parts: Iterable[T], weight: Callable[[T], int]) -> Iterator[bytes]:
    """``work(part)`` of each, in order; several at a time, for libraries that let go of the interpreter.

    ``weight(part)``: bytes that it keeps in memory; as many are in work as fit into 32 MiB.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    waiting: deque[tuple[int, Future[bytes]]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for part in parts:
            waiting.append((weight(part), pool.submit(work, part)))
            del part  # large ones are kept by nobody but their worker
            while len(waiting) > workers or sum(w for w, _ in waiting) > IN_WORK:
                yield waiting.popleft()[1].result()
                if not waiting:
                    break
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)

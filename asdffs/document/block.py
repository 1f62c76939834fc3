"""The blocks of a document, as programs and the mount read and write them.

Implements section Blocks of the ASDF standard.  Threads: as for ``Document``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final, overload

from asdffs.codecs.base import Readable
from asdffs.document.for_programs import serialized
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InUseError
from asdffs.format.block_header import BlockHeader
from asdffs.scheduling import CHUNK
from asdffs.storage.backend import Extent, read_bytes, read_into

#: Bytes to read at a time.
_READ_AT_ONCE: Final = 4 << 20
#: File sizes have 63 bits.
_LARGEST: Final = (1 << 63) - 1


class Block:
    """One block of an open file: ``document.blocks[n]``.

    ``number`` is its number, from 0.  The object keeps no state of the file: each call uses the file as it is at that
    moment, so a block that has grown, moved or been recompressed is read correctly.  Offsets and sizes are in bytes
    of the decoded content, unless "stored" bytes are meant.

    Everything raises ``DamagedBlockError`` if the header of the block cannot be read, and ``ValueError`` if the
    document is closed.  Methods that change the file also raise:

    * ``ReadOnlyError``: the file or the block cannot be written
    * ``StaleFileError``: another program changed the file
    * ``FailedFileError``: a write failed in such a way that nothing more is written
    * ``NoRoomError``: the file has no space for the change
    * ``InUseError``: a block that must move, shrink or be overwritten is mapped into memory
    * ``OSError``
    """

    __slots__ = ("_file", "number")

    def __init__(self, file: FileState, number: int) -> None:
        self._file = file
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Block) and (self._file, self.number) == (other._file, other.number)

    def __hash__(self) -> int:
        return hash((id(self._file), self.number))

    def __repr__(self) -> str:
        return f"<block {self.number} of {self._file.path}>"

    # -- properties ---------------------------------------------------------

    @property
    @serialized
    def size(self) -> int:
        """Size of the decoded content in bytes, including changes that are not in the file yet."""
        return self._file.contents.size(self.number)

    @property
    @serialized
    def compression(self) -> str:
        """Name of the compression, such as ``zlib``; ``none`` for an uncompressed block."""
        return self._file.contents.codecs.name(self.number)

    @property
    @serialized
    def header(self) -> BlockHeader:
        """The block header as it is on the disk."""
        return self._file.table.header(self.number)

    @property
    @serialized
    def offset(self) -> int:
        """Offset of the block's magic bytes, in bytes from the start of the file."""
        return self._file.table.offset(self.number)

    @property
    @serialized
    def obstacle(self) -> str:
        """Why only the stored bytes can be read, and nothing can be written; empty if the block can be decoded."""
        return self._file.contents.codecs.obstacle(self.number)

    @property
    @serialized
    def pieces(self) -> int | None:
        """How many pieces of a compressed block can be decoded one by one; None if that is not known."""
        return self._file.contents.count_pieces(self.number)

    @serialized
    def facts(self) -> dict[str, int | str]:
        """Return the fields of the header on the disk under the names of the standard, and the place of the block.

        The keys are ``index``, ``offset``, ``header_size``, ``flags``, ``compression``, ``allocated_size``,
        ``used_size``, ``data_size`` (these sizes and the offset in bytes) and ``checksum`` (hexadecimal).  The sizes
        in the header of a streamed block mean nothing, so ``data_size`` is its current size.
        """
        header = self.header
        return {
            "index": self.number,
            "offset": self.offset,
            "header_size": header.header_size,
            "flags": header.stored_flags,
            "compression": self.compression,
            "allocated_size": header.allocated_size,
            "used_size": header.used_size,
            "data_size": self.size if header.streamed else header.data_size,
            "checksum": header.checksum.hex(),
        }

    # -- reading ------------------------------------------------------------

    @serialized
    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` decoded bytes from ``offset``, both in bytes; fewer at the end of the block.

        Raises ``ValueError`` if an argument is negative or larger than a file can be, ``DamagedBlockError`` if the
        bytes cannot be decoded, or ``OSError``.
        """
        _check_place(offset, length)
        return read_bytes(self.read_extent(offset, length))

    @serialized
    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Read decoded bytes from ``offset`` into ``buffer``, and return their number, fewer at the end of the block.

        ``buffer`` is a writable memoryview of single bytes.  Uncompressed content is read into it without an extra
        copy.  Raises as ``read_at``.
        """
        _check_place(offset)
        done = 0
        while done < len(buffer):
            found = self.read_extent(offset + done, min(_READ_AT_ONCE, len(buffer) - done))
            count = read_into(found, buffer[done:])
            if not count:
                break
            done += count
        return done

    def read_extent(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes as ``read_at``, or the place where the bytes are now.

        The caller holds the main lock, and reads the bytes before it releases the lock.
        """
        return self._file.contents.read(self.number, offset, length)

    def check_decodable(self, step: Callable[[int], object] = lambda size: None) -> None:
        """Decode all of a compressed block whose codec is known; ``step(bytes)`` is called after each part.

        The caller holds the main lock.  Raises as ``read_at``.
        """
        if self.header.compressed and not self.obstacle:
            for place in range(0, max(1, self.size), CHUNK):
                self.read_extent(place, CHUNK)
                step(CHUNK)

    @serialized
    def buffer(self) -> memoryview:
        """Return the whole content as a read-only memoryview of bytes.

        The view of an uncompressed block is an mmap of the file: nothing is copied, and it shows later writes.  The
        view of a compressed block is an mmap of the decoded bytes in the spool, or a copy if they do not fit there.

        As long as anything refers to the mmap, some changes of the document raise ``InUseError``: those that move any
        block, and those that shrink, remove or wholly overwrite this one.

        Raises ``DamagedBlockError``, ``OSError``.
        """
        size = self.size
        with contextlib.suppress(OSError):  # the decoded content may be too large for the spool
            found = self.read_extent(0, size) if size else b""
            if isinstance(found, Extent) and found.length == size:
                return self._file.contents.transaction.pins.map(self.number, found)
        pieces = (self.read_at(place, min(_READ_AT_ONCE, size - place)) for place in range(0, size, _READ_AT_ONCE))
        return memoryview(b"".join(pieces))

    @serialized
    def read_stored(self, offset: int, length: int) -> bytes:
        """Return ``length`` stored bytes from ``offset``, both in bytes; fewer at the end.  Raises ``OSError``."""
        return self._file.contents.read_stored(self.number, offset, length)

    def read_stored_extent(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes as ``read_stored``, or the place where they are now.  Threading as for ``read_extent``."""
        return self._file.contents.read_stored_extent(self.number, offset, length)

    @serialized
    def find_checksum_fault(self) -> str:
        """Return a sentence if the checksum of the block is wrong, otherwise an empty string.  Raises ``OSError``."""
        return self._file.contents.find_fault(self.number)

    @serialized
    def check_readable(self) -> None:
        """Raise ``DamagedBlockError`` if nothing of the block can be read."""
        self._file.contents.size(self.number)

    # -- changing -----------------------------------------------------------

    @serialized
    def check_writable(self) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` if the block cannot be written."""
        self._file.contents.check_writable(self.number)

    @serialized
    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write ``payload`` at ``offset``, in bytes of the decoded content.

        ``payload`` is bytes or any contiguous buffer.  A write behind the end makes the block larger; a gap reads as
        zeros.  Bytes of an uncompressed block are in the file at once, and durable after ``flush(durable=True)`` or
        ``Document.commit``.  A compressed block is encoded by one of these, and its change is in the file only then.

        Raises ``ValueError`` if the place is not possible, and ``TypeError`` if the buffer is not contiguous.  Raises
        ``NotPermittedError`` if the encoding of the block limits its size, and ``SpoolFullError`` if the decoded
        content does not fit into the spool.  Also raises the errors of the class.
        """
        view = payload if isinstance(payload, bytes) else _as_bytes(payload)
        _check_place(offset, len(view))
        self._file.contents.write(self.number, offset, view)

    @serialized
    def truncate(self, size: int) -> None:
        """Set the size of the decoded content to ``size`` bytes: cut it, or add zeros.

        Raises ``InUseError`` if a mapped block would shrink, or as ``write_at``.
        """
        _check_place(size)
        self._file.contents.truncate(self.number, size)

    @serialized
    def replace(self, content: bytes | memoryview | Readable) -> None:
        """Replace the whole content by ``content``, atomically and durably, in the same compression.

        ``content`` is bytes, any contiguous buffer, or a ``Readable``.  Raises ``NotPermittedError`` for a streamed
        block, ``NotSupportedError`` if the compression cannot hold the content, or the errors of the class.  After an
        error the block has its old content.
        """
        self._file.contents.replace(self.number, readable(content))

    @serialized
    def set_compression(self, name: str) -> None:
        """Store the block in the compression ``name``, or uncompressed (``none``), durably.

        Raises ``NameRefusedError`` if ``name`` is unknown, and ``NotSupportedError`` if its codec is not installed or
        cannot be used in this file.  Raises ``NotPermittedError`` for a streamed block, or the errors of the class.
        After an error the block is unchanged.
        """
        self._file.contents.set_compression(self.number, name)

    @serialized
    def flush(self, *, durable: bool) -> None:
        """Write pending changes of the block into the file; with ``durable``, sync the file as well.

        A compressed block with changes is encoded, and is always durable afterwards.  Raises as ``set_compression``.
        """
        self._file.contents.committer.flush(self.number, durable=durable)

    @serialized
    def revert(self) -> None:
        """Discard the changes of a compressed block that are not in the file yet."""
        self._file.contents.revert(self.number)

    @serialized
    def reserve(self, size: int) -> None:
        """Allocate ``size`` stored bytes of the file for the block, so that it can grow in place.

        Raises ``ValueError`` if ``size`` is not possible, and ``NameRefusedError`` if the block uses more bytes.
        Raises ``NotPermittedError`` for a streamed block, and for less room than now if other blocks follow.  Also
        raises the errors of the class.
        """
        _check_place(size)
        self._file.contents.reserve(self.number, size)

    @serialized
    def remove(self, *, force: bool = False) -> None:
        """Remove the block from the file.  It must be the last one, and nothing in the tree may refer to it.

        ``force``: remove it even if objects with tags that asdffs does not know may refer to it.  This is not needed
        for a block that was added since the file was opened.

        Raises ``InUseError`` with the reason, or the errors of the class.
        """
        file = self._file
        with file.contents.locks.of(self.number), file.change:
            if self.number + 1 != len(file.table):
                raise InUseError("only the last block can be removed", block=self.number)
            file.fit.check_unreferenced(self.number, force=force or self.number >= file.count_at_open)
            self._file.contents.remove_last()


class Blocks(Sequence[Block]):
    """All blocks of a document, as a sequence: ``document.blocks``.

    A negative index counts from the end, and a slice returns a list.
    """

    def __init__(self, file: FileState) -> None:
        self._file = file

    @serialized
    def __len__(self) -> int:
        return len(self._file.table)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> list[Block]: ...
    def __getitem__(self, index: int | slice) -> Block | list[Block]:
        """Return the block with the number ``index``, or a list for a slice.  Raises ``IndexError``."""
        try:
            numbers = range(len(self))[index]
        except IndexError:
            raise IndexError(f"there is no block {index}; the file has {len(self)} blocks") from None
        if isinstance(numbers, range):
            return [Block(self._file, number) for number in numbers]
        return Block(self._file, numbers)

    @serialized
    def append(self) -> Block:
        """Append an empty block, and return it.

        Raises ``InUseError`` if a source in the tree counts blocks from the end, ``NotPermittedError`` if the last
        block is streamed, or the errors of ``Block``.
        """
        return self.append_sized([(0, 0)])[0]

    @serialized
    def append_sized(self, sizes: Sequence[tuple[int, int]]) -> list[Block]:
        """Append blocks of zeros in one change of the file, and return them.

        ``sizes`` has the size and the allocated bytes of each block.  Raises as ``append``.
        """
        file = self._file
        if not sizes:
            return []
        with file.change:
            file.fit.check_count_free()
            numbers = file.contents.append(file.tree.padding_byte(), sizes)
            return [Block(file, number) for number in numbers]

    @serialized
    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks to which nothing in the tree refers, in one change of the file; their allocations stay.

        Raises ``InUseError``, ``NoRoomError``, or as ``Transaction.commit``.
        """
        file = self._file
        with file.change:
            # forced, because the caller knows these blocks: no object of another extension refers to them
            file.fit.check_unreferenced(*numbers, force=True)
            file.contents.clear(numbers)

    @serialized
    def add(self, content: bytes | memoryview | Readable) -> Block:
        """Append a block with ``content``, durably, and return it.

        ``content`` is as for ``Block.replace``.  After an error the file has no new block.  Raises as ``append`` and
        ``Block.replace``.
        """
        block = self.append()
        try:
            block.replace(content)
        except BaseException:  # also an interrupt: remove the block again, then raise
            with contextlib.suppress(AsdffsError, OSError), self._file.change:
                self._file.contents.remove_last()
            raise
        return block


def readable(content: bytes | memoryview | Readable) -> Readable:
    """Return ``content`` as a ``Readable``, which is read piece by piece.  Raises as ``_as_bytes``."""
    if isinstance(content, Readable):
        return content
    return Readable.of(_as_bytes(content))


def _as_bytes(content: bytes | memoryview) -> memoryview:
    """Return a memoryview of single bytes of any buffer.  Raises ``TypeError`` if the buffer is not contiguous."""
    view = memoryview(content)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _check_place(offset: int, length: int = 0) -> None:
    """Raise ``ValueError`` for an offset or a length that is negative or larger than a file can be."""
    if offset < 0 or length < 0 or offset + length > _LARGEST:
        raise ValueError(
            f"a block cannot have {length} bytes at {offset}" if length else f"{offset} is not a valid offset or size"
        )

"""The blocks of a document, in order: what programs and the mount read and write.

``document.blocks[n]`` is light and keeps nothing: each call looks at the file as it is then, so a block that was
grown, moved or recompressed is read as it is now.  Offsets and sizes are in bytes of the decoded content unless it
says "stored".  Implements the standard's section Blocks.  Threads: as ``Document``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final, overload

from asdffs.document.blocks.committing import Readable
from asdffs.document.blocks.contents import Contents
from asdffs.document.serialized import serialized
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InUseError
from asdffs.format.block_header import BlockHeader
from asdffs.storage.backend import Extent, read_bytes, read_into

#: What is read at a time, in bytes.
_READ_AT_ONCE: Final = 4 << 20
#: Sizes of files have 63 bits.
_LARGEST: Final = (1 << 63) - 1


class Block:
    """Block ``number`` of ``file``.  Everything raises ``DamagedBlockError`` where its header cannot be read."""

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

    @property
    def _contents(self) -> Contents:
        return self._file.contents

    # -- what it is ---------------------------------------------------------

    @property
    @serialized
    def size(self) -> int:
        """Decoded size, what was written and is not stored yet included."""
        return self._contents.size(self.number)

    @property
    @serialized
    def compression(self) -> str:
        """How it is stored: ``none``, or the name of a codec."""
        return self._contents.codecs.name(self.number)

    @property
    @serialized
    def header(self) -> BlockHeader:
        """The header as it is on disk."""
        return self._contents.header(self.number)

    @property
    @serialized
    def offset(self) -> int:
        """Offset of the block's magic, in bytes from the start of the file."""
        return self._file.table.offset(self.number)

    @property
    @serialized
    def obstacle(self) -> str:
        """Why it can only be shown as it is stored, and not written; empty when it can be decoded."""
        return self._contents.obstacle(self.number)

    @serialized
    def facts(self) -> dict[str, int | str]:
        """The header as it is on disk, by the standard's names; sizes and offset in bytes.

        Of a streamed block, whose sizes mean nothing there, ``data_size`` is what it has now.
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
        """Decoded bytes, fewer where it ends.  Raises ``OSError``."""
        _check_place(offset, length)
        return read_bytes(self.read_extent(offset, length))

    @serialized
    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer``, of bytes, without a copy between; how many there were.  Raises ``OSError``."""
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
        """As ``read_at``, or where the bytes are now.  Who holds the main lock reads them before giving it up."""
        return self._contents.read(self.number, offset, length)

    @serialized
    def buffer(self) -> memoryview:
        """All of it, read-only.  Where it is stored as it is: without a copy, and live, later writes are seen.

        While anything made of it lives, what would move or shrink the block is refused (``InUseError``).  Raises
        ``OSError``.
        """
        size = self.size
        with contextlib.suppress(OSError):  # decoded, it may be too large for the spool
            found = self.read_extent(0, size) if size else b""
            if isinstance(found, Extent) and found.length == size:
                return self._file.pins.map(self.number, found)
        pieces = (self.read_at(place, min(_READ_AT_ONCE, size - place)) for place in range(0, size, _READ_AT_ONCE))
        return memoryview(b"".join(pieces))

    @serialized
    def read_stored(self, offset: int, length: int) -> bytes:
        """Bytes as they are stored, fewer where it ends.  Raises ``OSError``."""
        return self._contents.read_stored(self.number, offset, length)

    def read_stored_extent(self, offset: int, length: int) -> bytes | Extent:
        """As ``read_stored``, or where the bytes are now; as ``read_extent``."""
        return self._contents.read_stored_extent(self.number, offset, length)

    @serialized
    def find_checksum_fault(self) -> str:
        """A sentence when its checksum is wrong, or empty.  Raises ``OSError``."""
        return self._contents.find_fault(self.number)

    @serialized
    def check_readable(self) -> None:
        """Raise ``DamagedBlockError`` when nothing of it can be read."""
        self._contents.check_readable(self.number)

    # -- changing -----------------------------------------------------------

    @serialized
    def check_writable(self) -> None:
        """Raise ``ReadOnlyError`` or ``DamagedBlockError`` when it cannot be written."""
        self._contents.check_writable(self.number)

    @serialized
    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write content; behind its end it grows, with zeros between.  In the file at once, durable by ``flush``.

        A compressed block is encoded by ``flush`` or ``Document.commit``.  Raises as ``Contents.write``.
        """
        view = payload if isinstance(payload, bytes) else _as_bytes(payload)
        _check_place(offset, len(view))
        self._contents.write(self.number, offset, view)

    @serialized
    def truncate(self, size: int) -> None:
        """Set the size: cut it, or add zeros.  Raises as ``Contents.write``."""
        _check_place(size)
        self._contents.truncate(self.number, size)

    @serialized
    def replace(self, content: bytes | memoryview | Readable) -> None:
        """Have ``content`` in it, durably: all of it, or what was there.  Raises as ``Contents.replace``."""
        self._contents.replace(self.number, readable(content))

    @serialized
    def set_compression(self, name: str) -> None:
        """Store it in the compression ``name``, or ``none``, durably.  Raises as ``Contents.set_compression``."""
        self._contents.set_compression(self.number, name)

    @serialized
    def flush(self, *, durable: bool) -> None:
        """Have the file hold what was written; with ``durable`` sync.  Raises as ``Contents.flush``."""
        self._contents.flush(self.number, durable=durable)

    @serialized
    def revert(self) -> None:
        """Forget what was written while it is compressed, and is not stored."""
        self._contents.revert(self.number)

    @serialized
    def reserve(self, size: int) -> None:
        """Allocate ``size`` bytes for it.  Raises as ``BlockEditor.reserve``."""
        _check_place(size)
        self._contents.reserve(self.number, size)

    @serialized
    def remove(self, *, force: bool = False) -> None:
        """Take it out of the file: the last block, to which nothing in the tree may refer.

        ``force``: also when objects of tags that asdffs does not know may refer to it.

        Raises ``InUseError`` with the reason, or as ``BlockEditor.remove_last``.
        """
        file = self._file
        with self._contents.locked(self.number), file.change.entered():
            if self.number + 1 != len(file.table):
                raise InUseError("only the last block can be removed", block=self.number)
            file.fit.check_unreferenced(self.number, force=force or self.number >= file.count_at_open)
            self._contents.remove_last()


class Blocks(Sequence[Block]):
    """All blocks of ``file``."""

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
        """Raises ``IndexError``."""
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [Block(self._file, number) for number in numbers]
        return Block(self._file, numbers)

    @serialized
    def append(self) -> Block:
        """Add an empty block behind the last one.

        Raises ``InUseError`` where a source counts from the end, or as ``BlockEditor.append``.
        """
        file = self._file
        with file.change.entered():
            file.fit.check_count_free()
            return Block(file, file.contents.append(file.tree.padding_byte())[0])

    @serialized
    def append_sized(self, sizes: Sequence[tuple[int, int]]) -> list[Block]:
        """Add blocks of zeros, by one change of the file: of each its size, and what is allocated for it.

        Raises as ``append``.
        """
        file = self._file
        if not sizes:
            return []
        with file.change.entered():
            file.fit.check_count_free()
            numbers = file.contents.append(file.tree.padding_byte(), sizes)
            return [Block(file, number) for number in numbers]

    @serialized
    def clear(self, numbers: Sequence[int]) -> None:
        """Empty blocks to which nothing in the tree refers, by one change; what they allocate stays theirs.

        Raises ``InUseError``, ``NoRoomError``, as ``Transaction``.
        """
        file = self._file
        with file.change.entered():
            # who empties blocks knows what they were: no object of another extension refers to them
            file.fit.check_unreferenced(*numbers, force=True)
            file.contents.clear(numbers)

    @serialized
    def add(self, content: bytes | memoryview | Readable) -> Block:
        """Add a block with ``content``, durably, all or none.  Raises as ``append``, ``Block.replace``."""
        block = self.append()
        try:
            block.replace(content)
        except BaseException:  # an interrupt as well: it is as if there had been none, and it goes on
            with contextlib.suppress(AsdffsError, OSError), self._file.change.entered():
                self._file.contents.remove_last()
            raise
        return block


def readable(content: bytes | memoryview | Readable) -> Readable:
    """``content`` as what is read piece by piece."""
    if isinstance(content, Readable):
        return content
    view = _as_bytes(content)
    return Readable(len(view), lambda offset, length: bytes(view[offset : offset + length]))


def _as_bytes(content: bytes | memoryview) -> memoryview:
    """A view of single bytes on anything that has a buffer.  Raises ``TypeError`` where that is not contiguous."""
    view = memoryview(content)
    return view.cast("B") if view.nbytes else memoryview(b"")


def _check_place(offset: int, length: int = 0) -> None:
    """Raise ``ValueError`` for what a file cannot have."""
    if offset < 0 or length < 0 or offset + length > _LARGEST:
        raise ValueError(
            f"there are no {length} bytes at {offset} in any block" if length else f"{offset} is no size"
        )

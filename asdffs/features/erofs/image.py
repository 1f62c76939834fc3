"""Writes images of EROFS, a file system of Linux, whose files are parts of other files, its devices.

Implements what the kernel's documentation calls chunk-based files and extra devices (EROFS on-disk format, Linux
6.12): a superblock, a slot for each device, inodes of 64 bytes with their attributes and chunk indexes behind them,
directories with their names sorted, and the bytes that no device has as they are there.  Blocks have 4096 bytes.

| where               | what                                                       |
|---------------------|------------------------------------------------------------|
| 1024                | the superblock                                             |
| from 1280           | the device slots, 128 bytes each                           |
| from the next block | inodes; the number of one is its place there, by 32        |
| behind them         | blocks of directories, of small files, of copied chunks    |

Numbers are little-endian.  Nothing is compressed.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from asdffs.errors import UsageError
from asdffs.storage.backend import Access

#: Bytes of a block.  fsck.erofs of Debian 12 knows no smaller ones.
BLOCK: Final = 4096
_BLOCK_BITS: Final = 12
#: Where the superblock is, and its magic.
SUPERBLOCK: Final = 1024
MAGIC: Final = 0xE0F5E1E2
_SLOTS: Final = 1280
_SLOT: Final = 128
#: Incompatible features: files of chunks, and more than one device.
_FEATURES: Final = 0x4 | 0x8
_INODE: Final = struct.Struct("<HHHHQIIIIQII16x")
_DIRENT: Final = struct.Struct("<QHBB")
#: Layouts of the data of an inode: blocks that follow each other, and chunks with an index each.
_PLAIN, _CHUNKS = 0, 4
_INDEXED: Final = 0x20
_INDEX: Final = struct.Struct("<HHI")
#: Kinds in directories, and in the mode of an inode.
_FILE, _DIRECTORY = 1, 2
_FILE_MODE, _DIRECTORY_MODE = 0o100000, 0o040000
_READABLE: Final = 0o444
_LARGEST_CHUNK: Final = 1 << 20
_LONGEST_NAME: Final = 255
#: Files of at most so many bytes are copied.
SMALL: Final = 16 << 10
#: The attributes that users may read.
_USER: Final = 1
#: The most bytes of all attributes of an inode.
_MOST_ATTRIBUTES: Final = 4 * 0xFFFE
#: The largest device, in bytes: addresses have 32 bits.
LARGEST: Final = BLOCK << 32


class Device(NamedTuple):
    """A file whose bytes the image uses.  ``size``: in bytes.  ``read(offset, length)`` returns bytes.

    What is made of it has its owner and group, and is no more readable than it (``access``).
    """

    name: str
    size: int
    mtime_ns: int
    access: Access
    read: Callable[[int, int], bytes]


class Copied(NamedTuple):
    """A file whose ``content`` the image has, made of the device with the number ``device``."""

    content: bytes
    device: int


class Placed(NamedTuple):
    """A file that begins with ``head``, and goes on with ``length`` bytes of a device from ``offset`` on.

    ``device``: its number, from 0.  The end of ``head`` is where ``offset`` is in a block: then the rest is read from
    the device as it is, but for the first chunk, which has ``head``.
    """

    head: bytes
    device: int
    offset: int
    length: int

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.head) + self.length


#: A directory: its entries by their names.
Directory = dict[str, "Node"]
Node = Copied | Placed | Directory


def write_image(
    root: Directory, devices: Sequence[Device], attributes: Mapping[str, bytes], write: Callable[[int, bytes], None]
) -> int:
    """Write the image of ``root`` by ``write(offset, bytes)``, and return its size in bytes.

    ``attributes``: of the root, by their names without ``user.``.  Raises ``OSError`` from devices and ``write``.
    """
    return _Image(devices, write).write(root, attributes)


def read_attributes(read: Callable[[int, int], bytes]) -> dict[str, bytes] | None:
    """Return the attributes of the root of an image, by their names without ``user.``; None if it is no such image.

    ``read(offset, length)`` returns its bytes.
    """
    head = read(SUPERBLOCK, 128)
    if len(head) < 128 or int.from_bytes(head[:4], "little") != MAGIC or head[12] != _BLOCK_BITS:
        return None
    root, base = int.from_bytes(head[14:16], "little"), int.from_bytes(head[40:44], "little") * BLOCK
    inode = read(base + 32 * root, _INODE.size)
    count = int.from_bytes(inode[2:4], "little")
    if len(inode) < _INODE.size or not count:
        return {}
    return _attributes_in(read(base + 32 * root + _INODE.size, 12 + 4 * (count - 1))[12:])


def _attributes_in(rest: bytes) -> dict[str, bytes]:
    found = {}
    while len(rest) >= 4:
        length, kind, size = struct.unpack_from("<BBH", rest)
        name, value = rest[4 : 4 + length], rest[4 + length : 4 + length + size]
        if kind == _USER:
            found[name.decode("utf-8", "replace")] = value
        rest = rest[_up(4 + length + size, 4) :]
    return found


@dataclass(slots=True)
class _Inode:
    """An inode: its number, where its indexes are, and what it is of.  ``above``: the number of the directory."""

    node: Node
    number: int
    place: int
    chunk: int = 0
    attributes: bytes = b""
    entries: dict[str, _Inode] = field(default_factory=dict)
    above: int = 0


class _Image:
    def __init__(self, devices: Sequence[Device], write: Callable[[int, bytes], None]) -> None:
        self._devices = devices
        self._write = write
        self._base = _up(_SLOTS + _SLOT * len(devices), BLOCK)
        self._used = 64  # no inode has the number 0
        self._inodes: list[_Inode] = []
        self._data = 0
        self._mtime_ns = max(device.mtime_ns for device in devices)

    def write(self, root: Directory, attributes: Mapping[str, bytes]) -> int:
        top = self._placed(root, _packed(attributes))
        self._data = _up(self._base + self._used, BLOCK)
        metadata = bytearray(self._data - self._base)
        for inode in self._inodes:
            self._fill(inode, metadata)
        self._write(self._base, bytes(metadata))
        self._write(0, self._first(top))
        return self._data

    def _placed(self, node: Node, attributes: bytes = b"", above: int | None = None) -> _Inode:
        """Give a node, and what is in it, its place among the inodes; the first one is the root."""
        self._used = _up(self._used, 32)
        number = self._used // 32
        inode = _Inode(node, number, self._used, attributes=attributes, above=number if above is None else above)
        self._used += _INODE.size + len(attributes)
        if isinstance(node, Placed):
            inode.chunk = _chunk_of(node.size)
            self._used = _up(self._used, 8) + 8 * -(-node.size // inode.chunk)
        self._inodes.append(inode)
        if isinstance(node, dict):
            for name, child in node.items():
                inode.entries[name] = self._placed(child, above=number)
        return inode

    def _fill(self, inode: _Inode, metadata: bytearray) -> None:
        """Write an inode with its indexes into ``metadata``, and its data."""
        node = inode.node
        if isinstance(node, dict):
            links = 2 + sum(isinstance(child, dict) for child in node.values())
            content, mtime_ns = _entries(inode), self._mtime_ns
        elif isinstance(node, Copied):
            content, mtime_ns, links = node.content, self._devices[node.device].mtime_ns, 1
        else:
            self._fill_chunks(inode, node, metadata)
            return
        where = self._append(content) if content else 0
        self._put(inode, metadata, _PLAIN, len(content), where, mtime_ns, links)

    def _fill_chunks(self, inode: _Inode, node: Placed, metadata: bytearray) -> None:
        device, chunk = self._devices[node.device], inode.chunk
        start = node.offset - len(node.head)  # where the file would begin in the device: at a block
        whole = device.size // BLOCK * BLOCK
        place = _up(inode.place + _INODE.size + len(inode.attributes), 8)
        for first in range(0, node.size, chunk):
            stop = min(first + chunk, node.size)
            if first >= len(node.head) and _up(start + stop, BLOCK) <= whole:
                index = _INDEX.pack(0, node.device + 1, (start + first) // BLOCK)
            else:
                begin = min(max(first, len(node.head)), stop)
                copied = node.head[first:stop] + device.read(start + begin, stop - begin)
                index = _INDEX.pack(0, 0, self._append(copied))
            metadata[place : place + 8] = index
            place += 8
        details = (chunk.bit_length() - 1 - _BLOCK_BITS) | _INDEXED
        self._put(inode, metadata, _CHUNKS, node.size, details, device.mtime_ns, 1)

    def _put(
        self, inode: _Inode, metadata: bytearray, layout: int, size: int, u: int, mtime_ns: int, links: int
    ) -> None:
        count = 1 + (len(inode.attributes) - 12) // 4 if inode.attributes else 0
        seconds, rest = divmod(mtime_ns, 1_000_000_000)
        mode, user, group, _ = self._access(inode.node)
        owner = (user, group, seconds, rest, links)
        raw = _INODE.pack(1 | layout << 1, count, mode, 0, size, u, inode.number + 1, *owner)
        metadata[inode.place : inode.place + _INODE.size + len(inode.attributes)] = raw + inode.attributes

    def _access(self, node: Node) -> Access:
        """Return the mode, owner and group of a node.  Whoever may read something in a directory may search it."""
        if not isinstance(node, dict):
            access = self._devices[node.device].access
            return access._replace(mode=_FILE_MODE | access.mode & _READABLE)
        inside = [self._access(child) for child in node.values()]
        owners = {(one.user, one.group) for one in inside}
        user, group = owners.pop() if len(owners) == 1 else (0, 0)
        mode = functools.reduce(operator.or_, (one.mode & _READABLE for one in inside), 0)
        mode |= _READABLE if owners else 0  # of several owners: each file keeps its own rights
        return Access(_DIRECTORY_MODE | mode | mode >> 2, user, group)

    def _append(self, content: bytes) -> int:
        """Write bytes behind all others; return the number of their first block."""
        found = self._data // BLOCK
        self._write(self._data, content.ljust(_up(len(content), BLOCK), b"\0"))
        self._data += _up(len(content), BLOCK)
        return found

    def _first(self, root: _Inode) -> bytes:
        """Return superblock and device slots."""
        superblock = struct.pack(
            "<IIIBBHQQIIII16s16sIHHHBBIQB23x",
            *(MAGIC, 0, 0, _BLOCK_BITS, 0, root.number, len(self._inodes)),
            *(self._mtime_ns // 1_000_000_000, 0, self._data // BLOCK, self._base // BLOCK, 0),
            *(bytes(16), b"asdffs", _FEATURES, 0, len(self._devices), _SLOTS // _SLOT, 0, 0, 0, 0, 0),
        )
        slots = (struct.pack("<64sII56x", os.fsencode(one.name)[-63:], one.size // BLOCK, 0) for one in self._devices)
        return (bytes(SUPERBLOCK) + superblock).ljust(_SLOTS, b"\0") + b"".join(slots)


def _chunk_of(size: int) -> int:
    """Return the bytes of a chunk that make the image smallest: one is copied, and each takes 8 bytes."""
    best = 1 << round(math.log2(max(1, math.sqrt(8 * size))))
    return min(_LARGEST_CHUNK, max(BLOCK, best))


def _entries(inode: _Inode) -> bytes:
    """Return the blocks of a directory: in each some entries, and then their names, all sorted."""
    rows = [(b".", inode.number, _DIRECTORY), (b"..", inode.above, _DIRECTORY)]
    for name, child in inode.entries.items():
        rows.append((os.fsencode(name), child.number, _DIRECTORY if isinstance(child.node, dict) else _FILE))
    blocks: list[list[tuple[bytes, int, int]]] = [[]]
    room = BLOCK
    for row in sorted(rows):
        needed = _DIRENT.size + len(row[0])
        if needed > room:
            blocks.append([])
            room = BLOCK
        blocks[-1].append(row)
        room -= needed
    packed = [_entries_of_block(block) for block in blocks]
    return b"".join(one.ljust(BLOCK, b"\0") for one in packed[:-1]) + packed[-1]


def _entries_of_block(rows: list[tuple[bytes, int, int]]) -> bytes:
    place, entries = _DIRENT.size * len(rows), b""
    for name, number, kind in rows:
        entries += _DIRENT.pack(number, place, kind, 0)
        place += len(name)
    return entries + b"".join(name for name, _, _ in rows)


def _packed(attributes: Mapping[str, bytes]) -> bytes:
    """Return attributes as they stand behind an inode; nothing without any."""
    rows = b""
    for name, value in attributes.items():
        row = struct.pack("<BBH", len(name.encode()), _USER, len(value)) + name.encode() + value
        rows += row.ljust(_up(len(row), 4), b"\0")
    if len(rows) > _MOST_ATTRIBUTES:
        raise UsageError("the paths of so many files do not fit into one image; make several")
    return bytes(12) + rows if rows else b""


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def is_name(name: str) -> bool:
    """Return whether EROFS has room for a name."""
    return 0 < len(os.fsencode(name)) <= _LONGEST_NAME

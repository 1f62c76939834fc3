"""The FUSE protocol (linux/fuse.h, versions 7.26 to 7.45): requests and answers between bytes and named structures.

A request is a ``Header``, the structure of its opcode in ``REQUESTS``, names that end with NUL, and for a write the
bytes to write.  An answer is a ``struct fuse_out_header``, the structure of its opcode in ``ANSWERS``, and bytes.
Pure functions, without a kernel.  Numbers are in the byte order of the machine.
"""

from __future__ import annotations

import enum
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from asdffs.mount import structures
from asdffs.mount.structures import BatchForget, Init, InitAnswer, InodeNotice

S = TypeVar("S", bound=tuple[Any, ...])

MAJOR: Final = 7
#: The oldest and the newest minor version that this module speaks.
OLDEST: Final = 26
NEWEST: Final = 45
#: The encoding of names.
_ENCODING: Final = sys.getfilesystemencoding()


class Opcode(enum.IntEnum):
    """The codes of the requests that asdffs answers."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    SETXATTR = 21
    GETXATTR = 22
    LISTXATTR = 23
    REMOVEXATTR = 24
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    RELEASEDIR = 29
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    DESTROY = 38
    IOCTL = 39
    BATCH_FORGET = 42
    FALLOCATE = 43
    READDIRPLUS = 44
    RENAME2 = 45


class InitFlag(enum.IntFlag):
    """Features that asdffs chooses from those that the kernel offers in INIT."""

    ASYNC_READ = 1 << 0
    ATOMIC_O_TRUNC = 1 << 3
    BIG_WRITES = 1 << 5
    AUTO_INVAL_DATA = 1 << 12
    DO_READDIRPLUS = 1 << 13
    ASYNC_DIO = 1 << 15
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22
    HANDLE_KILLPRIV_V2 = 1 << 28
    INIT_EXT = 1 << 30


class OpenFlag(enum.IntFlag):
    """Flags of an answer to OPEN: how the kernel treats the open file."""

    DIRECT_IO = 1 << 0
    KEEP_CACHE = 1 << 1
    NO_FLUSH = 1 << 5
    PASSTHROUGH = 1 << 7


class SetFlag(enum.IntFlag):
    """Which attributes a SETATTR sets."""

    MODE = 1 << 0
    UID = 1 << 1
    GID = 1 << 2
    SIZE = 1 << 3
    ATIME = 1 << 4
    MTIME = 1 << 5
    HANDLE = 1 << 6
    ATIME_NOW = 1 << 7
    MTIME_NOW = 1 << 8
    KILL_PRIVILEGES = 1 << 11


#: The feature that the kernel reads files itself, among the upper half of the flags of INIT.
PASSTHROUGH: Final = 1 << 37 - 32
#: Flag of a GETATTR that has a handle.
GETATTR_HANDLE: Final = 1
#: Flags of a WRITE: its bytes are pages of an mmap; the file loses its set-user-ID and set-group-ID bits.
WRITE_CACHE: Final = 1
WRITE_KILL_PRIVILEGES: Final = 1 << 2
#: Flag of an OPEN: the file loses these bits.
OPEN_KILL_PRIVILEGES: Final = 1
#: The code of a notification that cached attributes, and pages, of a node are old.
NOTIFY_INODE: Final = 2


#: As the class itself, without a call of Python.
_new: Final[Any] = tuple.__new__


class Layout(Generic[S]):
    """The layout of a structure in bytes.

    First come numbers, in the form ``form`` of the module ``struct``; then ``names`` names, each ended by NUL; then,
    with ``rest``, all other bytes.  ``kind``: the class of the structure.
    """

    def __init__(self, kind: type[S], form: str = "", *, names: int = 0, rest: bool = False) -> None:
        self.kind = kind
        self.numbers = struct.Struct(f"={form}")
        self.names = names
        self.rest = rest

    def parse(self, body: memoryview) -> S:
        """Return the structure at the beginning of ``body``.  Raises ``MalformedError``."""
        try:
            values: Sequence[Any] = self.numbers.unpack_from(body)
        except struct.error:
            raise MalformedError(f"{self.kind.__name__} has {len(body)} bytes") from None
        if self.names:
            values = (*values, *self._strings(body))
        elif self.rest:
            values = (*values, body[self.numbers.size :])
        found: S = _new(self.kind, values)
        return found

    def _strings(self, body: memoryview) -> list[Any]:
        text = bytes(body[self.numbers.size :])
        if text.find(b"\0") == len(text) - 1 and self.names == 1 and text:  # most requests
            return [text[:-1].decode(_ENCODING, "surrogateescape"), *([body[:0]] if self.rest else ())]
        found: list[Any] = text.split(b"\0", self.names)
        if len(found) <= self.names:
            raise MalformedError(f"{self.kind.__name__} has a name without an end")
        rest = found.pop()
        found = [name.decode(_ENCODING, "surrogateescape") for name in found]
        return [*found, body[len(body) - len(rest) :]] if self.rest else found

    def pack(self, value: S) -> bytes:
        """Return the bytes of a structure."""
        names = len(value) - self.names - self.rest
        strings = [one.encode(_ENCODING, "surrogateescape") + b"\0" for one in value[names : names + self.names]]
        return b"".join((self.numbers.pack(*value[:names]), *strings, *map(bytes, value[names + self.names :])))


class MalformedError(Exception):
    """A request is too short, or lacks a NUL."""


HEADER: Final = Layout(structures.Header, "IIQQIII4x")
#: The structure of each request that is answered.
REQUESTS: Final[dict[Opcode, Layout[Any]]] = {
    Opcode.LOOKUP: Layout(structures.Name, names=1),
    Opcode.FORGET: Layout(structures.Forget, "Q"),
    Opcode.GETATTR: Layout(structures.GetAttributes, "I4xQ"),
    Opcode.SETATTR: Layout(structures.SetAttributes, "I4xQQ8xqq8xII4xI4xII4x"),
    Opcode.READLINK: Layout(structures.Nothing),
    Opcode.SYMLINK: Layout(structures.Symlink, names=2),
    Opcode.MKNOD: Layout(structures.MakeNode, "III4x", names=1),
    Opcode.MKDIR: Layout(structures.MakeDirectory, "II", names=1),
    Opcode.UNLINK: Layout(structures.Name, names=1),
    Opcode.RMDIR: Layout(structures.Name, names=1),
    Opcode.RENAME: Layout(structures.Rename, "Q", names=2),
    Opcode.LINK: Layout(structures.Link, "Q", names=1),
    Opcode.OPEN: Layout(structures.Open, "II"),
    Opcode.READ: Layout(structures.Read, "QQI20x"),
    Opcode.WRITE: Layout(structures.Write, "QQII16x", rest=True),
    Opcode.STATFS: Layout(structures.Nothing),
    Opcode.RELEASE: Layout(structures.Release, "QI12x"),
    Opcode.FSYNC: Layout(structures.Handle, "Q8x"),
    Opcode.SETXATTR: Layout(structures.SetAttribute, "II", names=1, rest=True),
    Opcode.GETXATTR: Layout(structures.GetAttribute, "I4x", names=1),
    Opcode.LISTXATTR: Layout(structures.ListAttributes, "I4x"),
    Opcode.REMOVEXATTR: Layout(structures.Name, names=1),
    Opcode.FLUSH: Layout(structures.Handle, "Q16x"),
    Opcode.INIT: Layout(Init, "IIII", rest=True),
    Opcode.OPENDIR: Layout(structures.Open, "II"),
    Opcode.RELEASEDIR: Layout(structures.Release, "QI12x"),
    Opcode.FSYNCDIR: Layout(structures.Handle, "Q8x"),
    Opcode.CREATE: Layout(structures.Create, "III4x", names=1),
    Opcode.INTERRUPT: Layout(structures.Interrupt, "Q"),
    Opcode.DESTROY: Layout(structures.Nothing),
    Opcode.IOCTL: Layout(structures.Nothing),
    Opcode.BATCH_FORGET: Layout(structures.BatchForget, "I4x", rest=True),
    Opcode.FALLOCATE: Layout(structures.Allocate, "QQQI4x"),
    Opcode.READDIRPLUS: Layout(structures.Read, "QQI20x"),
    Opcode.RENAME2: Layout(structures.Rename2, "QI4x", names=2),
}

_PAIR: Final = struct.Struct("=QQ")
_NUMBER: Final = struct.Struct("=Q")
ANSWER: Final = struct.Struct("=IiQ")
INIT_ANSWER: Final = Layout(structures.InitAnswer, "IIIIHHIIH2xII24x")
STATUS: Final = Layout(structures.Status, "QQQqqqIIIIIIIIII")
ATTRIBUTES_ANSWER: Final = Layout(structures.AttributesAnswer, "QI4x")
ENTRY_ANSWER: Final = Layout(structures.EntryAnswer, "QQQQII")
OPEN_ANSWER: Final = Layout(structures.OpenAnswer, "QIi")
WRITE_ANSWER: Final = Layout(structures.WriteAnswer, "I4x")
SIZE_ANSWER: Final = Layout(structures.SizeAnswer, "I4x")
STATISTICS_ANSWER: Final = Layout(structures.StatisticsAnswer, "QQQQQIII28x")
DIRECTORY_ENTRY: Final = Layout(structures.DirectoryEntry, "QQII")
INODE_NOTICE: Final = Layout(structures.InodeNotice, "Qqq")
#: The structures at the beginning of each answer, one behind the other.  Others have none, or bytes alone.
ANSWERS: Final[dict[Opcode, tuple[Layout[Any], ...]]] = {
    Opcode.LOOKUP: (ENTRY_ANSWER, STATUS),
    Opcode.GETATTR: (ATTRIBUTES_ANSWER, STATUS),
    Opcode.SETATTR: (ATTRIBUTES_ANSWER, STATUS),
    Opcode.SYMLINK: (ENTRY_ANSWER, STATUS),
    Opcode.MKNOD: (ENTRY_ANSWER, STATUS),
    Opcode.MKDIR: (ENTRY_ANSWER, STATUS),
    Opcode.LINK: (ENTRY_ANSWER, STATUS),
    Opcode.OPEN: (OPEN_ANSWER,),
    Opcode.OPENDIR: (OPEN_ANSWER,),
    Opcode.CREATE: (ENTRY_ANSWER, STATUS, OPEN_ANSWER),
    Opcode.WRITE: (WRITE_ANSWER,),
    Opcode.STATFS: (STATISTICS_ANSWER,),
    Opcode.GETXATTR: (SIZE_ANSWER,),
    Opcode.LISTXATTR: (SIZE_ANSWER,),
    Opcode.INIT: (INIT_ANSWER,),
    Opcode.READDIRPLUS: (ENTRY_ANSWER, STATUS, DIRECTORY_ENTRY),
}
#: The most bytes of an answer's header.
ANSWER_SIZE: Final = ANSWER.size


def answer(unique: int, *parts: bytes) -> bytes:
    """Return a whole answer to the request ``unique``."""
    body = b"".join(parts)
    return ANSWER.pack(ANSWER_SIZE + len(body), 0, unique) + body


def refusal(unique: int, code: int) -> bytes:
    """Return the answer with the errno ``code``; 0 means success without bytes."""
    return ANSWER.pack(ANSWER_SIZE, -code, unique)


def inode_notice(notice: InodeNotice) -> bytes:
    """Return a notification, which is an answer to no request."""
    body = INODE_NOTICE.pack(notice)
    return ANSWER.pack(ANSWER_SIZE + len(body), NOTIFY_INODE, 0) + body


def pairs(forgotten: BatchForget) -> Iterator[tuple[int, int]]:
    """Return number and count of each node of a BATCH_FORGET.  Raises ``MalformedError``."""
    try:
        return _PAIR.iter_unpack(forgotten.nodes[: forgotten.pairs * _PAIR.size])
    except struct.error:
        raise MalformedError("BATCH_FORGET ends in the middle of a node") from None


def number_in(entry: bytes) -> int:
    """Return the number of the node in an entry of READDIRPLUS; 0 without one."""
    return int(_NUMBER.unpack_from(entry)[0])


def negotiate(offered: Init, most_written: int, page: int, *, passthrough: bool = False) -> InitAnswer:
    """Return the answer to INIT.  ``most_written``: the most bytes of a write; ``page``: the size of one.

    ``passthrough``: ask for that feature.  Raises ``MalformedError`` for a kernel that speaks an older or another
    protocol.
    """
    if (offered.major, offered.minor) < (MAJOR, OLDEST) or offered.major > MAJOR:
        raise MalformedError(f"the kernel speaks version {offered.major}.{offered.minor} of FUSE, not 7.26 or newer")
    upper = int.from_bytes(offered.more[:4], sys.byteorder) if offered.flags & InitFlag.INIT_EXT else 0
    upper &= PASSTHROUGH if passthrough else 0
    chosen = offered.flags & int(sum(InitFlag)) & (-1 if upper else ~InitFlag.INIT_EXT)
    return InitAnswer(
        MAJOR,
        min(offered.minor, NEWEST),
        offered.read_ahead,
        chosen,
        0,
        0,
        most_written,
        1,
        most_written // page if chosen & InitFlag.MAX_PAGES else 0,
        upper,
        1 if upper else 0,
    )

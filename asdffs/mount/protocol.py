"""The FUSE protocol (linux/fuse.h, versions 7.26 to 7.45): its numbers, and the requests of the kernel.

A request is a ``Header``, the structure of its opcode in ``REQUESTS``, names that end with NUL, and for a write the
bytes to write.  ``answers`` has the answers, ``session`` the negotiation of version and features.  Pure.
"""

from __future__ import annotations

import enum
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

S = TypeVar("S", bound=tuple[Any, ...])

#: The encoding of names.
_ENCODING: Final = sys.getfilesystemencoding()
#: As a structure's own class, without a call of Python.
_new: Final[Any] = tuple.__new__


class MalformedError(Exception):
    """A request is too short, or lacks a NUL; or the kernel speaks another protocol."""


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
    READDIR = 28
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
    READDIRPLUS_AUTO = 1 << 14
    ASYNC_DIO = 1 << 15
    PARALLEL_DIROPS = 1 << 18
    MAX_PAGES = 1 << 22
    HANDLE_KILLPRIV_V2 = 1 << 28
    INIT_EXT = 1 << 30


class OpenFlag:
    """Flags of an answer to OPEN: how the kernel treats the open file.  With ``enum``, each ``|`` would take 1 us."""

    DIRECT_IO: Final = 1 << 0
    KEEP_CACHE: Final = 1 << 1
    NO_FLUSH: Final = 1 << 5
    PASSTHROUGH: Final = 1 << 7


class SetFlag:
    """Which attributes a SETATTR sets."""

    MODE: Final = 1 << 0
    UID: Final = 1 << 1
    GID: Final = 1 << 2
    SIZE: Final = 1 << 3
    ATIME: Final = 1 << 4
    MTIME: Final = 1 << 5
    HANDLE: Final = 1 << 6
    ATIME_NOW: Final = 1 << 7
    MTIME_NOW: Final = 1 << 8
    KILL_PRIVILEGES: Final = 1 << 11


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


# -- requests -------------------------------------------------------------------


class Header(NamedTuple):
    """``struct fuse_in_header``.

    ``unique``: the number of the request, which the answer repeats.  ``node``: the number of a file that an earlier
    answer gave.  ``process``: 0 if it is in another PID namespace, or the kernel itself asks.
    """

    length: int
    opcode: int
    unique: int
    node: int
    user: int
    group: int
    process: int


class Nothing(NamedTuple):
    """No structure."""


class Name(NamedTuple):
    """A name in the directory of the request."""

    name: str


class Forget(NamedTuple):
    """``lookups``: how many answers that named the node the kernel has forgotten."""

    lookups: int


class BatchForget(NamedTuple):
    """``nodes``: so many pairs of a node's number and ``lookups`` as in ``Forget``, 16 bytes each."""

    pairs: int
    nodes: memoryview


class GetAttributes(NamedTuple):
    """See ``GETATTR_HANDLE``."""

    flags: int
    handle: int


class SetAttributes(NamedTuple):
    """``valid``: a ``SetFlag``.  Times are seconds and, with ``_rest``, nanoseconds."""

    valid: int
    handle: int
    size: int
    atime: int
    mtime: int
    atime_rest: int
    mtime_rest: int
    mode: int
    user: int
    group: int


class Symlink(NamedTuple):
    """A new symbolic link."""

    name: str
    target: str


class MakeDirectory(NamedTuple):
    """A new directory."""

    mode: int
    mask: int
    name: str


class Rename(NamedTuple):
    """``directory``: the node of the new directory."""

    directory: int
    name: str
    new_name: str


class Rename2(NamedTuple):
    """See ``Rename``; ``flags`` as of renameat2(2)."""

    directory: int
    flags: int
    name: str
    new_name: str


class Link(NamedTuple):
    """A further ``name`` for the file ``node``."""

    node: int
    name: str


class Open(NamedTuple):
    """``flags``: as of open(2); ``more``: see ``OPEN_KILL_PRIVILEGES``."""

    flags: int
    more: int


class Create(NamedTuple):
    """See ``Open``; the mode is masked already."""

    flags: int
    mode: int
    mask: int
    name: str


class Read(NamedTuple):
    """READ, READDIR and READDIRPLUS."""

    handle: int
    offset: int
    size: int


class Write(NamedTuple):
    """``payload`` is valid until the next request."""

    handle: int
    offset: int
    size: int
    flags: int
    payload: memoryview


class Handle(NamedTuple):
    """RELEASE, RELEASEDIR, FSYNC, FSYNCDIR and FLUSH."""

    handle: int


class SetAttribute(NamedTuple):
    """An extended attribute; ``value`` is followed by nothing."""

    size: int
    flags: int
    name: str
    value: memoryview


class GetAttribute(NamedTuple):
    """``size``: the most bytes of the answer; 0 asks for the size."""

    size: int
    name: str


class ListAttributes(NamedTuple):
    """See ``GetAttribute``."""

    size: int


class Allocate(NamedTuple):
    """``mode``: as of fallocate(2)."""

    handle: int
    offset: int
    length: int
    mode: int


class Interrupt(NamedTuple):
    """``unique``: of the request whose program got a signal."""

    unique: int


class Init(NamedTuple):
    """The kernel's version of the protocol, and the features that it offers.

    ``more``: begins with the upper half of the flags, if the kernel knows ``INIT_EXT``.
    """

    major: int
    minor: int
    read_ahead: int
    flags: int
    more: memoryview


class Layout(Generic[S]):
    """The layout of a structure in bytes, in the byte order of the machine.

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


HEADER: Final = Layout(Header, "IIQQIII4x")
#: The structure of each request that is answered.
REQUESTS: Final[dict[Opcode, Layout[Any]]] = {
    Opcode.LOOKUP: Layout(Name, names=1),
    Opcode.FORGET: Layout(Forget, "Q"),
    Opcode.GETATTR: Layout(GetAttributes, "I4xQ"),
    Opcode.SETATTR: Layout(SetAttributes, "I4xQQ8xqq8xII4xI4xII4x"),
    Opcode.READLINK: Layout(Nothing),
    Opcode.SYMLINK: Layout(Symlink, names=2),
    Opcode.MKNOD: Layout(Nothing),
    Opcode.MKDIR: Layout(MakeDirectory, "II", names=1),
    Opcode.UNLINK: Layout(Name, names=1),
    Opcode.RMDIR: Layout(Name, names=1),
    Opcode.RENAME: Layout(Rename, "Q", names=2),
    Opcode.LINK: Layout(Link, "Q", names=1),
    Opcode.OPEN: Layout(Open, "II"),
    **dict.fromkeys((Opcode.READ, Opcode.READDIR, Opcode.READDIRPLUS), Layout(Read, "QQI20x")),
    Opcode.WRITE: Layout(Write, "QQII16x", rest=True),
    Opcode.STATFS: Layout(Nothing),
    Opcode.RELEASE: Layout(Handle, "Q16x"),
    Opcode.FSYNC: Layout(Handle, "Q8x"),
    Opcode.SETXATTR: Layout(SetAttribute, "II", names=1, rest=True),
    Opcode.GETXATTR: Layout(GetAttribute, "I4x", names=1),
    Opcode.LISTXATTR: Layout(ListAttributes, "I4x"),
    Opcode.REMOVEXATTR: Layout(Name, names=1),
    Opcode.FLUSH: Layout(Handle, "Q16x"),
    Opcode.INIT: Layout(Init, "IIII", rest=True),
    Opcode.OPENDIR: Layout(Open, "II"),
    Opcode.RELEASEDIR: Layout(Handle, "Q16x"),
    Opcode.FSYNCDIR: Layout(Handle, "Q8x"),
    Opcode.CREATE: Layout(Create, "III4x", names=1),
    Opcode.INTERRUPT: Layout(Interrupt, "Q"),
    Opcode.DESTROY: Layout(Nothing),
    Opcode.IOCTL: Layout(Nothing),
    Opcode.BATCH_FORGET: Layout(BatchForget, "I4x", rest=True),
    Opcode.FALLOCATE: Layout(Allocate, "QQQI4x"),
    Opcode.RENAME2: Layout(Rename2, "QI4x", names=2),
}
_PAIR: Final = struct.Struct("=QQ")


def pairs(forgotten: BatchForget) -> Iterator[tuple[int, int]]:
    """Return number and count of each node of a BATCH_FORGET.  Raises ``MalformedError``."""
    try:
        return _PAIR.iter_unpack(forgotten.nodes[: forgotten.pairs * _PAIR.size])
    except struct.error:
        raise MalformedError("BATCH_FORGET ends in the middle of a node") from None

"""The requests of the kernel (linux/fuse.h): a named structure for each, and how it lies in bytes.

A request is a ``Header``, the structure of its opcode in ``REQUESTS``, names that end with NUL, and for a write the
bytes to write.  Numbers are in the byte order of the machine.  Pure functions, without a kernel.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from asdffs.mount.protocol import MalformedError, Opcode

S = TypeVar("S", bound=tuple[Any, ...])

#: The encoding of names.
_ENCODING: Final = sys.getfilesystemencoding()
#: As a structure's own class, without a call of Python.
_new: Final[Any] = tuple.__new__


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
    """READ and READDIRPLUS."""

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
    Opcode.READ: Layout(Read, "QQI20x"),
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
    Opcode.READDIRPLUS: Layout(Read, "QQI20x"),
    Opcode.RENAME2: Layout(Rename2, "QI4x", names=2),
}
_PAIR: Final = struct.Struct("=QQ")


def pairs(forgotten: BatchForget) -> Iterator[tuple[int, int]]:
    """Return number and count of each node of a BATCH_FORGET.  Raises ``MalformedError``."""
    try:
        return _PAIR.iter_unpack(forgotten.nodes[: forgotten.pairs * _PAIR.size])
    except struct.error:
        raise MalformedError("BATCH_FORGET ends in the middle of a node") from None

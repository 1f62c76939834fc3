"""The named structures of the FUSE protocol (linux/fuse.h): of requests first, then of answers and notifications.

The module ``protocol`` says how each lies in bytes, and which request or answer has which structure.
"""

from __future__ import annotations

from typing import NamedTuple


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


class MakeNode(NamedTuple):
    """A new file; ``mode`` has type and permissions."""

    mode: int
    device: int
    mask: int
    name: str


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


class Release(NamedTuple):
    """RELEASE and RELEASEDIR."""

    handle: int
    flags: int


class Handle(NamedTuple):
    """FSYNC, FSYNCDIR and FLUSH."""

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


class InitAnswer(NamedTuple):
    """The version and the features that are used.  ``most_written`` in bytes; ``time_step`` in ns.

    ``most_stacked``: how many file systems may lie one on the other for ``PASSTHROUGH``, this one not counted.
    """

    major: int
    minor: int
    read_ahead: int
    flags: int
    background: int
    congestion: int
    most_written: int
    time_step: int
    most_pages: int
    upper_flags: int = 0
    most_stacked: int = 0


class Status(NamedTuple):
    """``struct fuse_attr``: the attributes of a node."""

    number: int
    size: int
    blocks: int
    atime: int
    mtime: int
    ctime: int
    atime_rest: int
    mtime_rest: int
    ctime_rest: int
    mode: int
    links: int
    user: int
    group: int
    device: int
    block_size: int
    flags: int


class AttributesAnswer(NamedTuple):
    """For how long the kernel may keep the attributes that follow, in seconds and ns."""

    valid: int
    valid_rest: int


class EntryAnswer(NamedTuple):
    """``struct fuse_entry_out``, before the attributes.  A number is never used again, so generations are 0."""

    node: int
    generation: int
    entry_valid: int
    valid: int
    entry_valid_rest: int
    valid_rest: int


class OpenAnswer(NamedTuple):
    """``flags``: an ``OpenFlag``.  ``backing``: the kernel's number of the file (``passthrough``)."""

    handle: int
    flags: int
    backing: int = 0


class WriteAnswer(NamedTuple):
    """``size``: how many bytes were written."""

    size: int


class SizeAnswer(NamedTuple):
    """The size of extended attributes, for a question of size 0."""

    size: int


class StatisticsAnswer(NamedTuple):
    """``struct fuse_kstatfs``."""

    blocks: int
    free: int
    available: int
    files: int
    files_free: int
    block_size: int
    longest_name: int
    fragment_size: int


class DirectoryEntry(NamedTuple):
    """``struct fuse_dirent``, before the name.  ``next``: the offset at which the listing goes on."""

    number: int
    next: int
    name_length: int
    kind: int


class InodeNotice(NamedTuple):
    """Attributes of ``node`` are old, and ``length`` bytes of pages from ``offset`` on; offset -1: no pages."""

    node: int
    offset: int
    length: int

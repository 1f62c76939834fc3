"""Attributes of nodes, as stat(2) shows them.

The caller holds the main lock.
"""

from __future__ import annotations

import os
import stat
from typing import Final, Literal, NamedTuple

from asdffs.document.document import Document
from asdffs.vfs.namespace import DirectoryNode, FileNode, LinkNode, Node, Owner
from asdffs.views.base import Options

#: What a name leads to.  Those behind ``link`` are only in the directory of an archive.
Kind = Literal["file", "directory", "link", "pipe", "socket", "character device", "block device"]
#: The type bits of each in a mode (inode(7)).
KINDS: Final[dict[Kind, int]] = {
    "file": stat.S_IFREG,
    "directory": stat.S_IFDIR,
    "link": stat.S_IFLNK,
    "pipe": stat.S_IFIFO,
    "socket": stat.S_IFSOCK,
    "character device": stat.S_IFCHR,
    "block device": stat.S_IFBLK,
}
#: An entry of a listing: name, type bits of the mode (inode(7)), and inode number.  A listing has the attributes of
#: directories, and of entries whose type is unknown, which is 0.
Entry = tuple[bytes, int, int]


class Attributes(NamedTuple):
    """The attributes that stat(2) shows.  ``size`` in bytes, times in ns, ``mode``: permission bits.

    ``number``: the inode number.  ``steady``: the kernel may cache these attributes, because they never change or
    because it can be told when they do.
    """

    kind: Kind
    mode: int
    size: int
    mtime_ns: int
    atime_ns: int
    uid: int
    gid: int
    links: int
    ctime_ns: int
    number: int
    steady: bool = True


class Shown(NamedTuple):
    """The user's choices for how nodes are shown.

    ``uid`` and ``gid`` replace those of the ASDF file; ``umask`` removes permission bits; ``views``: options of the
    views.
    """

    uid: int | None = None
    gid: int | None = None
    umask: int = 0
    views: Options = Options()


def attributes_of(node: Node) -> Attributes:
    """Return the attributes of ``node``.  Raises whatever its file raises."""
    steady = node.subjects() is not None
    if isinstance(node, FileNode):
        node.look()
        return _shown(node, "file", node.file.size(), max(0, node.names), steady=steady)
    if isinstance(node, LinkNode):
        return _shown(node, "link", len(os.fsencode(node.target)), 1)
    if not isinstance(node, DirectoryNode):
        raise TypeError("a node is a file, a directory or a link")
    node.look()
    return _shown(node, "directory", 0, node.links() if node.names > 0 else 0, steady=steady)


def owner_of(document: Document, shown: Shown) -> Owner:
    """Return the attributes of nodes in the mount of ``document``: those of the open file.

    The path may lead to another file by now, with other permissions.
    """
    now = document.signature
    mask = (0o777 if document.writable else 0o555) & ~shown.umask
    return Owner(
        now.access.mode & mask,
        now.access.user if shown.uid is None else shown.uid,
        now.access.group if shown.gid is None else shown.gid,
        now.mtime_ns,
    )


def _shown(node: Node, kind: Kind, size: int, links: int, *, steady: bool = True) -> Attributes:
    times = node.mtime_ns, node.atime_ns
    return Attributes(kind, node.mode, size, *times, node.uid, node.gid, links, node.ctime_ns, node.number, steady)

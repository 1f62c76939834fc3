"""The kernel's list of mounts (proc(5), mountinfo).

Reading it sends no request to any file system, so a daemon may look up its own mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

#: The type of the file systems that asdffs mounts.
OWN: Final = "fuse.asdffs"
#: Limit of the kernel for symbolic links in a path.
_MOST_LINKS = 40
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line: the mount point, ``device`` as ``MAJOR:MINOR``, the type of the file system, and its source.

    ``options``: of this mount and of the file system.
    """

    point: str
    device: str
    kind: str
    source: str
    options: frozenset[str]

    @property
    def writable(self) -> bool:
        """Whether it is mounted for writing."""
        return "ro" not in self.options

    @property
    def owner(self) -> int | None:
        """The user id of the user who mounted it, for a FUSE mount."""
        return self._number("user_id=")

    @property
    def group(self) -> int | None:
        """The group id of this user when it was mounted.  Users of other groups may not access the mount."""
        return self._number("group_id=")

    def _number(self, key: str) -> int | None:
        return next((int(word.removeprefix(key)) for word in self.options if word.startswith(key)), None)


def pid_namespace() -> int:
    """Return the number of this process's pid namespace: a pid has a meaning only inside one."""
    return os.stat("/proc/self/ns/pid").st_ino


def mounts() -> Iterator[Mount]:
    """Yield all mounts of this process's namespace; a mount on top of another one comes later."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:  # not split(): other white space is not escaped, and a name may be empty
            fields, _, rest = os.fsdecode(line.rstrip(b"\n")).partition(" - ")
            words, (kind, source, options) = fields.split(" "), rest.split(" ")[:3]
            found = frozenset((*words[5].split(","), *options.split(",")))
            yield Mount(_unescaped(words[4]), words[2], kind, _unescaped(source), found)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def topmost(point: str) -> Mount | None:
    """Return the visible mount at ``point``, an absolute path without symbolic links, or None."""
    return next((mount for mount in reversed(list(mounts())) if mount.point == point), None)


def resolved(path: str) -> str:
    """Return ``path`` without symbolic links, without a request to a mount at this path, which might hang.

    The last name is resolved only if it is not a mount point.
    """
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    return place if topmost(place) is not None else os.path.realpath(path)


def filesystem_of(path: str) -> str:
    """Return the type of the file system that holds ``path``, an absolute path without symbolic links."""
    folder = path
    while True:
        found = topmost(folder)
        if found is not None:
            return found.kind
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


class MountPoints:
    """The mount points below ``root`` of file systems of ``kind``, as they are now.

    The kernel's list is read again only when it has changed.  Any thread may use it.
    """

    def __init__(self, root: str, kind: str) -> None:
        self._root, self._kind = os.path.join(root, ""), kind
        self._list: BinaryIO | None = None
        with contextlib.suppress(FileNotFoundError):  # another system
            self._list = open("/proc/self/mountinfo", "rb")  # noqa: SIM115  # as long as this object
        self._points = self._read()

    def __del__(self) -> None:
        if self._list is not None:
            self._list.close()

    def lead(self, path: str) -> bool:
        """Return whether ``path`` is one of them, or below one."""
        if self._list is not None:
            poll = select.poll()
            poll.register(self._list, select.POLLPRI)
            if poll.poll(0):  # told once for each change
                self._points = self._read()
        return any(path == point or path.startswith(f"{point}/") for point in self._points)

    def _read(self) -> tuple[str, ...]:
        if self._list is None:
            return ()
        return tuple(one.point for one in mounts() if one.kind == self._kind and one.point.startswith(self._root))


def outside(path: str, kind: str) -> str | None:
    """Return the absolute ``path`` without symbolic links; None if it leads into a file system of ``kind``.

    Sends no request to such a file system, so its own daemon can call this.  Raises ``OSError``.
    """
    points = {mount.point for mount in mounts() if mount.kind == kind}
    place, rest, links = "/", path.split("/")[::-1], 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        place = os.path.dirname(place) if name == ".." else os.path.join(place, name)
        if place in points:
            return None
        if name != ".." and os.path.islink(place):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(place)
            place = "/" if target.startswith("/") else os.path.dirname(place)
            rest += target.split("/")[::-1]
    return place

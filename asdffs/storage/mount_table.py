"""What is mounted where: the kernel's list (proc(5), mountinfo).

Reading it asks no file system anything, so a daemon may look its own mount up.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

#: As the kernel has it.
_MOST_LINKS = 40
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """One line: where, ``device`` as ``MAJOR:MINOR``, the type of the file system, and what was mounted.

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
        """The user who mounted it, by FUSE."""
        return self._number("user_id=")

    @property
    def group(self) -> int | None:
        """And that user's group then: who is in another one may not look into it."""
        return self._number("group_id=")

    def _number(self, key: str) -> int | None:
        return next((int(word.removeprefix(key)) for word in self.options if word.startswith(key)), None)


def pid_namespace() -> int:
    """Which one this process is in: a number of a process means nothing in another."""
    return os.stat("/proc/self/ns/pid").st_ino


def mounts() -> Iterator[Mount]:
    """All mounts of this process's namespace, the ones on top last."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:  # a name may have any white space but a space or a newline as it is, and be empty
            fields, _, rest = os.fsdecode(line.rstrip(b"\n")).partition(" - ")
            words, (kind, source, options) = fields.split(" "), rest.split(" ")[:3]
            found = frozenset((*words[5].split(","), *options.split(",")))
            yield Mount(_unescaped(words[4]), words[2], kind, _unescaped(source), found)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)


def topmost(point: str) -> Mount | None:
    """The mount that is seen at ``point``, an absolute path without symbolic links."""
    return next((mount for mount in reversed(list(mounts())) if mount.point == point), None)


def resolved(path: str) -> str:
    """``path`` without symbolic links; without a question to what is mounted there, which may not answer.

    The name of a mount point that is a link itself is followed.
    """
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    return place if topmost(place) is not None else os.path.realpath(path)


def filesystem_of(path: str) -> str:
    """Type of the file system that holds ``path``, an absolute path without symbolic links."""
    folder = path
    while True:
        found = topmost(folder)
        if found is not None:
            return found.kind
        if folder == "/":
            return ""
        folder = os.path.dirname(folder)


def outside(path: str, kind: str) -> str | None:
    """``path``, an absolute one, without symbolic links; None where it leads into a file system of ``kind``.

    Nothing is asked of those: whoever serves one can use it.  Raises ``OSError``.
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

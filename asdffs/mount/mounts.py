"""What is mounted where: the kernel's list (proc(5), mountinfo).

Reading it asks no file system anything, so a daemon may look its own mount up.  Users:
``read_ahead``, ``cli/mount``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line: where, ``device`` as ``MAJOR:MINOR``, and the type of the file system."""

    point: str
    device: str
    kind: str


def mounts() -> Iterator[Mount]:
    """All mounts of this process's namespace, the ones on top last."""
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields, _, rest = os.fsdecode(line).partition(" - ")
            words = fields.split()
            point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4])
            yield Mount(point, words[2], rest.split()[0])


def topmost(point: str) -> Mount | None:
    """The mount that is seen at ``point``, an absolute path without symbolic links."""
    return next((mount for mount in reversed(list(mounts())) if mount.point == point), None)


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

"""Open the file under a lock, so that only one asdffs process writes it.

The lock is flock on the file itself, so only other asdffs processes see it (the asdf library takes no lock).
After an unmount the daemon keeps the lock while it finishes the file, and the next process waits for that.
Readers take no lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from asdffs.errors import LockedError, Remedy
from asdffs.printable import as_word
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.holder import command_of_holder
from asdffs.storage.journal import read_owner
from asdffs.storage.mount_table import topmost

_POLL = 0.05  # seconds; flock has no wait with a time limit
#: How long to wait for a holder without a note, in seconds: it has just started, or is about to end.  The same for a
#: holder whose mount is gone.
_NAMELESS = 2.0


def open_locked(
    folder: Folder, name: str, *, patience: float, noted: Callable[[str], dict[str, Any]] = lambda path: {}
) -> Backend:
    """Open ``name`` for writing under the exclusive lock.

    Waits up to ``patience`` seconds for a daemon that is finishing the file.  ``noted(path)`` returns what the holder
    noted elsewhere about itself.  Raises ``LockedError``, which names the holder, or ``OSError``.
    """
    begin = time.monotonic()
    while True:
        backend = folder.open(name, writable=True)
        if folder.lock(backend) and folder.signature(name).inode == backend.signature().inode:
            return backend
        backend.close()  # locked by another, or replaced between open and lock
        owner = read_owner(folder, name) or noted(folder.path(name)) or command_of_holder(folder, name)
        if time.monotonic() - begin > _longest(owner, patience):
            raise LockedError(_holder(owner), path=folder.path(name), remedy=_remedy(owner))
        time.sleep(_POLL)


def _longest(owner: dict[str, Any], patience: float) -> float:
    """Return how long to wait for the holder of the lock, in seconds."""
    if owner.get("state") == "finishing":
        return patience
    idle = owner.get("idle")
    if isinstance(idle, int | float):  # in an archive, where a file that nothing uses is closed after so long
        return min(patience, 2 * idle + _NAMELESS)
    return min(patience, _NAMELESS) if not owner or "line" in owner or _is_gone(owner) else 0


def _is_gone(owner: dict[str, Any]) -> bool:
    """Return whether the holder is a daemon whose mount is gone.

    It was unmounted, and the daemon will soon note that it is finishing.  Or the mount is in another namespace,
    and so not visible here.
    """
    point = owner.get("mountpoint")
    if owner.get("state") != "serving" or not isinstance(point, str):
        return False
    found = topmost(point)
    return found is None or found.kind != "fuse.asdffs"


def _remedy(owner: dict[str, Any]) -> Remedy | None:
    return None if owner.keys() & {"command", "program", "directory"} else Remedy.UMOUNT


def _holder(owner: dict[str, Any]) -> str:
    if not owner or "line" in owner:
        who = f" (process {owner['pid']}: {owner['line']})" if owner else ""
        return f"another asdffs is writing this file{who}; unmount it first"
    if "program" in owner:
        own = owner.get("pid") == os.getpid()
        who = "this process" if own else f"{owner['program']} (process {owner.get('pid')})"
        return f"{who} has it open for writing; {'close it there' if own else 'wait until it ends, or end it'}"
    if "command" in owner:
        who = f"'asdffs {owner['command']}' (process {owner.get('pid')})"
        return f"{who} is changing this file; wait until it ends, or end it"
    point = str(owner.get("directory", owner.get("mountpoint")))
    if "directory" in owner:
        return (
            f"a program uses it in the mounted archive, in {as_word(point)}; change it there, or close it there "
            "and try again"
        )
    return (
        f"already mounted for writing at {point} by process {owner.get('pid')} ({owner.get('state')}); "
        f"change it there, in {as_word(os.path.join(point, 'tree.yaml'))}"
    )

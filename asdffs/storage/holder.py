"""Tells who has locked a file, from proc(5).

A journal gets its name with the first change of the file.  Until then, the note about its owner in its first page can
be read only through the descriptors of the process that has the lock: by the same user, or by root, in the same pid
namespace.  Of the processes of other users the command line can be read.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from asdffs.storage.backend import Folder, Signature
from asdffs.storage.mount_table import OWN, mounts

#: Bytes for the note at the begin of a journal.
NOTE_SIZE: Final = 4096
#: Longest command line that is told, in characters.
_LONGEST: Final = 200
_UNNAMED: Final = " (deleted)"


def is_locked(folder: Folder, name: str) -> bool:
    """Return whether a process may have locked the file ``name``; False also if that is not known."""
    try:
        return bool(_holders(folder.signature(name)))
    except OSError:
        return False


def _holders(now: Signature) -> dict[int, bool]:
    """Return the processes that have locked the file with the signature ``now``; False: perhaps another one.

    btrfs locks files of another device number than it tells.  Raises ``OSError``.
    """
    found: dict[int, bool] = {}
    with open("/proc/locks") as file:
        for words in map(str.split, file):
            if (words[1], words[3]) != ("FLOCK", "WRITE"):
                continue
            pid, (major, minor, inode) = int(words[4]), words[5].split(":")
            device = int(major, 16), int(minor, 16)
            ours = device == (os.major(now.device), os.minor(now.device))
            if int(inode) == now.inode and pid > 0 and (ours or device[0] == os.major(now.device) == 0):
                found[pid] = ours
    return found


def note_of_holder(folder: Folder, name: str) -> dict[str, Any]:
    """Return the note in the journal without a name of the process that has locked the file ``name``, or nothing."""
    with contextlib.suppress(OSError):
        now = folder.signature(name)
        for pid in _holders(now):
            if os.stat(f"/proc/{pid}").st_uid in (os.geteuid(), now.access.user):
                for note in _notes(pid):
                    if (note.get("device"), note.get("inode")) == (now.device, now.inode):
                        return note
    return {}


def _notes(pid: int) -> Iterator[dict[str, Any]]:
    """Yield what is in the files without a name that the process has open, and may be a note.  Raises ``OSError``."""
    import json  # few commands meet a lock

    for number in os.listdir(f"/proc/{pid}/fd"):
        place = f"/proc/{pid}/fd/{number}"
        with contextlib.suppress(OSError, ValueError, RecursionError):  # it is closed by now, or something else
            if os.readlink(place).endswith(_UNNAMED):
                with open(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                    note = json.loads(file.read(NOTE_SIZE))
                if isinstance(note, dict) and note.get("pid") == pid:
                    yield note


def command_of_holder(folder: Folder, name: str) -> dict[str, Any]:
    """Return the process that has locked the file ``name``: its number, its command line, where it has mounted it.

    Nothing if it is not known.
    """
    try:
        pid = next(pid for pid, ours in _holders(folder.signature(name)).items() if ours)
        user = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read(_LONGEST)).split("\0")
    except (OSError, StopIteration):
        return {}
    path = folder.path(name)
    of_user = (one for one in mounts() if one.kind == OWN and one.owner == user and one.writable)
    points = [f"mounted at {one.point}" for one in of_user if path == one.source or path.startswith(f"{one.source}/")]
    return {"pid": pid, "line": "; ".join([" ".join(filter(None, words)), *points[-1:]])}

"""Open the file under a lock, so that only one asdffs process writes it; find out who has locked it.

The lock is flock on the file itself, so only other asdffs processes see it (the asdf library takes no lock).
After an unmount the daemon keeps the lock while it finishes the file, and the next process waits for that.
Readers take no lock.

The holder has a note in the first page of its journal.  A journal gets its name with the first change of the file.
Until then, the note can be read only through the descriptors of the process that has the lock (proc(5)): by the same
user, or by root, in the same pid namespace.  Of the processes of other users the command line can be read.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.errors import LockedError, Remedy
from asdffs.printable import as_word
from asdffs.storage.backend import Folder, MovableBackend, Signature
from asdffs.storage.sidecars import NOTE_SIZE, is_trusted, journal_name

_POLL = 0.05  # seconds; flock has no wait with a time limit
#: How long to wait for a holder without a note, in seconds: it has just started, or is about to end.  The same for a
#: holder whose mount is gone.
_NAMELESS = 2.0
#: Commands that hold a file only while they change it, and how long one of them is waited for, in seconds.
_BRIEF: Final = ("set", "unset", "rename", "undo", "recover")
_COMMAND: Final = 5.0


def open_locked(
    folder: Folder, name: str, *, patience: float, noted: Callable[[str], dict[str, Any]] = lambda path: {}
) -> MovableBackend:
    """Open ``name`` for writing under the exclusive lock.

    Waits up to ``patience`` seconds for a daemon that is finishing the file, and some for a command that is soon done
    with it.  ``noted(path)`` returns what the holder
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
            raise LockedError(_sentence_about(owner), path=folder.path(name), remedy=_remedy(owner))
        time.sleep(_POLL)


def _longest(owner: dict[str, Any], patience: float) -> float:
    """Return how long to wait for the holder of the lock, in seconds."""
    if owner.get("state") == "finishing":
        return patience
    if owner.get("command") in _BRIEF:
        return min(patience, _COMMAND)
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
    from asdffs.storage.mount_table import OWN, topmost  # few files are locked

    found = topmost(point)
    return found is None or found.kind != OWN


def _remedy(owner: dict[str, Any]) -> Remedy | None:
    return None if owner.keys() & {"command", "program", "directory"} else Remedy.UMOUNT


def _sentence_about(owner: dict[str, Any]) -> str:
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


#: Longest command line that is told, in characters.
_LONGEST: Final = 200
_UNNAMED: Final = " (deleted)"


class LockTable:
    """The table of locked files, ``/proc/locks``, read by a thread, because Linux may take 20 ms to return it.

    Taking the lock for a moment would be faster, but another process that asks for it just then would be refused.
    """

    def __init__(self) -> None:
        """Begin to read."""
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        try:
            self._reader.start()
        except RuntimeError:  # the system has no more threads
            self._read()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self._lines = _lines()

    def may_have(self, folder: Folder, name: str) -> bool:
        """Return whether a process may have locked the file ``name``; False also if that is not known."""
        if self._reader.ident is not None:
            self._reader.join()
        try:
            return bool(_holders(folder.signature(name), self._lines))
        except OSError:
            return False


def _lines() -> list[str]:
    with open("/proc/locks") as file:
        return file.readlines()


def _holders(now: Signature, lines: list[str]) -> dict[int, bool]:
    """Return the processes that have locked the file with the signature ``now``; False: perhaps another one.

    ``lines`` are those of /proc/locks.  btrfs locks files of another device number than it tells.
    """
    found: dict[int, bool] = {}
    for words in map(str.split, lines):
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
        for pid in _holders(now, _lines()):
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
        pid = next(pid for pid, ours in _holders(folder.signature(name), _lines()).items() if ours)
        user = os.stat(f"/proc/{pid}").st_uid
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read(_LONGEST)).split("\0")
    except (OSError, StopIteration):
        return {}
    from asdffs.storage.mount_table import OWN, mounts  # few files are locked

    path = folder.path(name)
    of_user = (one for one in mounts() if one.kind == OWN and one.owner == user and one.writable)
    points = [f"mounted at {one.point}" for one in of_user if path == one.source or path.startswith(f"{one.source}/")]
    return {"pid": pid, "line": "; ".join([" ".join(filter(None, words)), *points[-1:]])}


def read_owner(folder: Folder, name: str) -> dict[str, Any]:
    """Return the owner note of the file ``name``; empty if there is none or it cannot be read."""
    try:
        backend = folder.open(journal_name(name), writable=False)
    except FileNotFoundError:
        return note_of_holder(folder, name)
    except OSError:
        return {}
    import json

    try:
        note = json.loads(backend.read_at(0, NOTE_SIZE)) if is_trusted(folder, name, backend) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    finally:
        backend.close()
    return note if isinstance(note, dict) else {}

"""The layout of the state of files that are, or were, open for writing.

The state home of a user has

    open/NAME/              drafts, scratch, report, log and old trees of a file that is open, or was at a crash; and
                            the note ``holder`` about the process
    closed/IDENTITY/NAME/   what of it stays when the file is closed: report, log and old trees
    mirrors/IDENTITY/       records of exploded forms (``features/watch``)

NAME is the identity and a random part.  A directory is renamed from ``closed`` to ``open`` and back by the process
that has locked the file ``lock`` in it.  That process has the lock of the ASDF file, too.  The note ``file`` says to
which file the directory belongs.  So a directory in ``open`` that is not locked has what a killed process left, and
only a process that opens the same file takes it.  Nothing is found or removed by the name of a file.

Old state of closed files is removed: it is looked for once a day, at the end of a mount.  ``open`` has what users
typed, and is not touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from asdffs.document.saves.history import Places
from asdffs.errors import reason_of
from asdffs.storage.descriptors import open_fd
from asdffs.storage.linux_calls import birth_ns
from asdffs.storage.own_files import own_directory

logger = logging.getLogger(__name__)

#: The name of the report of a mount.
REPORT: Final = "report.json"
_LOCK: Final = "lock"
_OWNER: Final = "file"
_HOLDER: Final = "holder"
#: In ``open/NAME``: the spool, or a symbolic link to it.
_SPOOL: Final = "spool"
#: For how long state stays after it was last used, and how often this looks, in seconds.
_STAYS: Final = 90 * 86400
_SWEEP_PAUSE: Final = 86400
#: Files that are looked at, at a time.
_MOST: Final = 1000
_MARK: Final = ".swept"


def state_home() -> str:
    """Return the directory for state: ``$XDG_STATE_HOME``, else ``~/.local/state``; see ``own_directory``."""
    return own_directory("XDG_STATE_HOME", ".local/state")


def state_place(*parts: str) -> str:
    """Return a path in the state of asdffs."""
    return os.path.join(state_home(), "asdffs", *parts)


def paths_in(folder: str) -> list[str]:
    """Return the paths of what is in a directory; nothing if it is missing."""
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def identity_of(file: str | int) -> str:
    """Return the inode and time of birth of a file: a path, or a descriptor.  Raises ``OSError``.

    If the file system does not record the time of birth, the number of the device stands for it.  Another mount of
    the file system may change that number.
    """
    status = os.stat(file)
    born = birth_ns(file if isinstance(file, str) else f"/proc/self/fd/{file}")
    return f"{status.st_ino}-{born}" if born else f"{status.st_ino}-on-{status.st_dev}"


class Owner(NamedTuple):
    """The file to which a state directory belongs.

    ``path``: where it was when it was opened.  ``identities``: its own at that time, then those of the files that a
    growth or another program put in its place.
    """

    path: str = ""
    identities: tuple[str, ...] = ()

    def is_file(self, file: int, identity: str) -> bool:
        """Return whether that is the open ``file``, which has this ``identity``.

        A copy of a whole file system, such as a snapshot, has files of the same identity.  So if such a file is still
        at the path, it is that one.
        """
        if identity not in self.identities:
            return False
        try:
            there = os.path.samestat(os.stat(self.path), os.fstat(file))
            return there or identity_of(self.path) not in self.identities
        except OSError:  # the file was renamed
            return True


class LockedDirectory(NamedTuple):
    """A directory whose lock this process holds through the descriptor ``lock``."""

    path: str
    lock: int

    def owner(self) -> Owner:
        """Return the file to which the directory belongs."""
        return owner_of(self.path)

    def note(self, owner: Owner) -> None:
        """Replace the note about the file as a whole.  Raises ``OSError``."""
        self._replace_note(_OWNER, owner._asdict())

    def note_holder(self, note: dict[str, Any]) -> None:
        """Replace the note about the process that has the directory.  Raises ``OSError``."""
        self._replace_note(_HOLDER, note)

    def _replace_note(self, name: str, facts: dict[str, Any]) -> None:
        note = self._inside(name)
        with open(f"{note}.new", "w") as file:
            json.dump(facts, file)
        os.replace(f"{note}.new", note)

    def places(self) -> Places:
        """Return the places in the directory."""
        return Places(
            self._spool(),
            self._inside("rejected"),
            self._inside("history"),
            self._inside("log"),
            self._inside(REPORT),
            self._inside("editing"),
            state_place("mirrors", self.owner().identities[0]),
        )

    def has_work(self) -> bool:
        """Return whether there is anything that a user typed or copied in."""
        places = self.places()
        return any(map(paths_in, (places.spool, places.rejected, places.editing)))

    def begin(self, elsewhere: str | None) -> None:
        """Make the directories for drafts and scratch, this in ``elsewhere`` if given.  Raises ``OSError``."""
        os.makedirs(self._inside("rejected"), mode=0o700, exist_ok=True)
        if elsewhere is None:
            os.makedirs(self._inside(_SPOOL), mode=0o700, exist_ok=True)
        else:
            os.symlink(tempfile.mkdtemp(prefix="asdffs-", dir=elsewhere), self._inside(_SPOOL))

    def clear(self) -> None:
        """Remove drafts and scratch: all of it is in the file or beside it.  Report, log and old trees stay."""
        if not self.is_named():
            return
        places = self.places()
        for place in (places.spool, places.rejected, places.editing):
            shutil.rmtree(place, ignore_errors=True)
        if os.path.islink(self._inside(_SPOOL)):
            os.unlink(self._inside(_SPOOL))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._inside(_HOLDER))

    def renamed(self, path: str) -> LockedDirectory:
        """Give the directory another path.  Raises ``OSError``."""
        os.rename(self.path, path)
        return self._replace(path=path)

    def put_away(self, identity: str) -> None:
        """Close the directory of the file with this ``identity``: remove it if it is empty.  Raises ``OSError``."""
        if not self.is_named():
            return
        if set(os.listdir(self.path)) <= {_LOCK, _OWNER}:
            shutil.rmtree(self.path)
            return
        folder = state_place("closed", identity)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.renamed(os.path.join(folder, os.path.basename(self.path)))

    def is_named(self) -> bool:
        """Return whether the path still leads to this directory."""
        try:
            return os.path.samestat(os.stat(self._inside(_LOCK)), os.fstat(self.lock))
        except OSError:
            return False

    def close(self) -> None:
        """Give the lock away."""
        os.close(self.lock)

    def _inside(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _spool(self) -> str:
        """Return where the spool is; '' if the link to it leads to a directory of another user by now."""
        place = os.path.realpath(self._inside(_SPOOL))
        try:
            return place if os.lstat(place).st_uid == os.geteuid() else ""
        except FileNotFoundError:
            return place


def owner_of(directory: str) -> Owner:
    """Return the file to which a state directory belongs; only its name tells if the power failed meanwhile."""
    try:
        with open(os.path.join(directory, _OWNER)) as file:
            facts = json.load(file)
        return Owner(str(facts["path"]), tuple(map(str, facts["identities"])))
    except (OSError, ValueError, KeyError, TypeError):
        return Owner("", (os.path.basename(directory).rpartition(".")[0],))


def lock_directory(path: str, *, create: bool = False) -> LockedDirectory | None:
    """Lock the state directory at ``path``; None if another process has, or if it is gone.  Raises ``OSError``.

    ``create``: it has no lock yet.
    """
    try:
        fd = open_fd(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
    except (FileNotFoundError, NotADirectoryError):
        return None
    directory = LockedDirectory(path, fd)
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if directory.is_named():  # else it was renamed meanwhile
            return directory
    directory.close()
    return None


def has_state(path: str) -> bool:
    """Return whether there may be a state directory for the file at ``path``, or one of another file of that name.

    Raises ``OSError``.
    """
    identity = identity_of(path)
    if any(os.path.isdir(state_place(kind, identity)) for kind in ("closed", "mirrors")):
        return True
    owners = (owner_of(place) for place in paths_in(state_place("open")))
    return any(identity in owner.identities or owner.path == path for owner in owners)


def noted_holder(path: str) -> dict[str, Any]:
    """Return the note about the process that has the file at ``path`` open; empty if there is none.

    The process may be in another container with the same home.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError):
        identity = identity_of(path)
        for place in paths_in(state_place("open")):
            if identity in owner_of(place).identities and _is_locked(place):
                with open(os.path.join(place, _HOLDER)) as file:
                    note = json.load(file)
                return note if isinstance(note, dict) else {}
    return {}


def _is_locked(place: str) -> bool:
    directory = lock_directory(place)
    if directory is not None:
        directory.close()
    return directory is None


def mirrors_of(path: str) -> str:
    """Return the directory with the records of exploded forms of the file at ``path``.  Raises ``OSError``."""
    return state_place("mirrors", identity_of(path))


def all_mirrors() -> list[str]:
    """Return the directories with the records of exploded forms, of all files."""
    return paths_in(state_place("mirrors"))


def work_of_killed(path: str) -> list[str]:
    """Return the state directories in which killed processes left work of a user on the file at ``path``.

    Raises ``OSError``.
    """
    identity = identity_of(path)
    return [
        place for place in paths_in(state_place("open")) if identity in owner_of(place).identities and is_left(place)
    ]


def is_left(place: str) -> bool:
    """Return whether a killed process left work of a user in ``place``."""
    directory = lock_directory(place)
    if directory is None:
        return False
    has_work = directory.has_work()
    directory.close()
    return has_work


def remove_unused_states() -> None:
    """Remove state that nobody used for long.  What cannot be removed stays, and is logged."""
    home, now = os.path.join(state_home(), "asdffs"), time.time()
    mark = os.path.join(home, _MARK)
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(mark).st_mtime > now - _SWEEP_PAUSE:
                return
        with open(mark, "w"):
            pass
        for records in _old(os.path.join(home, "mirrors"), now - _STAYS):
            shutil.rmtree(records)
        for folder in _directories(os.path.join(home, "closed")):
            for place in _old(folder, now - _STAYS):
                directory = lock_directory(place)
                if directory is not None:  # else it is being opened
                    shutil.rmtree(place)
                    directory.close()
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(folder)
    except OSError as err:
        logger.info("%s: cannot be tidied up: %s", home, reason_of(err))


def _old(folder: str, before: float) -> Iterator[str]:
    """Return the directories in ``folder`` in which no name was made or removed since the time ``before``."""
    return (place for place in _directories(folder) if os.stat(place).st_mtime < before)


def _directories(folder: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [entry.path for entry in itertools.islice(entries, _MOST) if entry.is_dir(follow_symlinks=False)]
    return []

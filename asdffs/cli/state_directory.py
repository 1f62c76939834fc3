"""What belongs to a file that is open for writing: one directory, locked for as long as it is used.

The state home of a user has

    open/NAME/              drafts, scratch, report, log and old trees of a file that is open, or was at a crash; and
                            the note ``holder`` about the process
    closed/IDENTITY/NAME/   what of it stays when the file is closed: report, log and old trees
    mirrors/IDENTITY/       records of exploded forms (``features/watch``)

NAME is the identity and a random part.  A directory is renamed from ``closed`` to ``open`` and back by the process
that has locked the file ``lock`` in it.  That process has the lock of the ASDF file, too.  The note ``file`` says to
which file the directory belongs.  So a directory in ``open`` that is not locked has what a killed process left, and
only a process that opens the same file takes it.  Nothing is found or removed by the name of a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from asdffs.cli.identity import Owner, identity_of
from asdffs.document.saves.history import Places
from asdffs.storage.descriptors import open_fd
from asdffs.storage.own_places import own_directory

#: The name of the report of a mount.
REPORT: Final = "report.json"
_LOCK: Final = "lock"
_OWNER: Final = "file"
_HOLDER: Final = "holder"
#: In ``open/NAME``: the spool, or a symbolic link to it.
_SPOOL: Final = "spool"
#: The number of replacements that are noted beside the last one, because that may fail.
_MOST_REPLACEMENTS: Final = 6
#: How often to try to lock a directory, and the seconds between.
_TRIES: Final = 10
_PAUSE: Final = 0.02


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
            _home("mirrors", self.owner().identities[0]),
        )

    def has_work(self) -> bool:
        """Return whether there is anything that a user typed or copied in."""
        places = self.places()
        return any(map(_paths_in, (places.spool, places.rejected, places.editing)))

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
        folder = _home("closed", identity)
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


class StateDirectory:
    """The state directory of a file that this process opens for writing.

    Create it before the file is opened, ``claim`` it when the file is locked, ``close`` it before the file is closed.
    ``places`` are known from ``begin`` on.  They hold work of the user, so ``close`` empties them only after
    ``release``.

    ``spool``: another directory for scratch and decoded blocks.  ``private``: nothing is written to the file, so the
    directory is a temporary one.
    """

    def __init__(self, spool: str | None = None, *, private: bool = False) -> None:
        self._elsewhere = None if spool is None else os.path.abspath(spool)
        self._private = private
        self._directories: list[LockedDirectory] = []
        self._descriptor: Callable[[], int] = lambda: -1
        self._released = False
        self.places = Places("", "")

    def decoded(self) -> str | None:
        """Make and return the directory for decoded blocks, whose files have no names; None: that of the system.

        Raises ``OSError``.
        """
        if self._elsewhere is None and self._private:
            return None
        place = self._elsewhere or _home("open")
        os.makedirs(place, mode=0o700, exist_ok=True)
        return place

    def claim(self, path: str, descriptor: Callable[[], int]) -> list[str]:
        """Lock the directory of the file at ``path``, or make one; return sentences about those of other files.

        ``descriptor()`` returns the descriptor of the file, whose lock the caller has.  Raises ``OSError``.
        """
        self._descriptor = descriptor
        file, identity, said = descriptor(), identity_of(descriptor()), []
        os.makedirs(_home("open"), mode=0o700, exist_ok=True)
        for place in _paths_in(_home("open")):
            owner = owner_of(place)
            if owner.is_file(file, identity):
                self._directories += filter(None, [_lock_soon(place)])
            elif owner.path == path and _is_left(place):
                said.append(_told_work(place))
        if not self._directories:
            self._directories.append(_reopened(file, identity) or _made(identity))
        for known in self._directories[0].owner().identities:
            if known != identity:
                _move_into(_home("mirrors", known), _home("mirrors", identity))
        self._directories[0].note(Owner(path, (identity,)))
        return said

    def past(self) -> list[Places]:
        """Return the places of processes that were killed, and of the last one."""
        return [directory.places() for directory in self._directories]

    def begin(self) -> None:
        """Make the places for this process: what others left in them was kept.  Raises ``OSError``."""
        if self._private:
            self.places = _private_places(self._elsewhere)
            return
        mine, *others = self._directories
        for directory in others:
            directory.clear()
            directory.put_away(identity_of(self._descriptor()))
        mine.clear()
        mine.begin(self._elsewhere)
        self.places = mine.places()

    def note_replacement(self, new: str) -> None:
        """The file at ``new`` takes the place of this one, and is the same file to its user.  Raises ``OSError``."""
        for directory in self._directories[:1]:
            owner = directory.owner()
            first, *others = owner.identities
            directory.note(Owner(owner.path, (first, *others[-_MOST_REPLACEMENTS:], identity_of(new))))

    def note_holder(self, note: dict[str, Any]) -> None:
        """Note who has the file open, for processes that cannot see this one."""
        for directory in self._directories[:1]:
            with contextlib.suppress(OSError):  # nothing else depends on it
                directory.note_holder(note)

    def release(self) -> None:
        """All that was typed or copied in is in the file, or beside it."""
        self._released = True

    def close(self) -> None:
        """Close the directory, and give its lock away.  What was not released stays for the next process."""
        if self._private and self.places.spool:
            shutil.rmtree(os.path.dirname(self.places.spool), ignore_errors=True)
        for directory in self._directories:
            if self._released:
                with contextlib.suppress(OSError):  # it stays where it is, which the next process takes as well
                    directory.clear()
                    directory.put_away(identity_of(self._descriptor()))
            directory.close()
        self._directories = []


def has_state(path: str) -> bool:
    """Return whether there may be a state directory for the file at ``path``, or one of another file of that name.

    Raises ``OSError``.
    """
    identity = identity_of(path)
    if any(os.path.isdir(_home(kind, identity)) for kind in ("closed", "mirrors")):
        return True
    owners = (owner_of(place) for place in _paths_in(_home("open")))
    return any(identity in owner.identities or owner.path == path for owner in owners)


def noted_holder(path: str) -> dict[str, Any]:
    """Return the note about the process that has the file at ``path`` open; empty if there is none.

    The process may be in another container with the same home.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError):
        identity = identity_of(path)
        for place in _paths_in(_home("open")):
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
    return _home("mirrors", identity_of(path))


def all_mirrors() -> list[str]:
    """Return the directories with the records of exploded forms, of all files."""
    return _paths_in(_home("mirrors"))


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


def _private_places(spool: str | None = None) -> Places:
    """Make and return places in a temporary directory, without history and report.  Raises ``OSError``."""
    if spool is not None:
        os.makedirs(spool, mode=0o700, exist_ok=True)
    top = tempfile.mkdtemp(prefix="asdffs-", dir=spool)
    places = Places(os.path.join(top, "spool"), os.path.join(top, "rejected"), log=os.path.join(top, "log"))
    for folder in (places.spool, places.rejected):
        os.mkdir(folder, mode=0o700)
    return places


def _lock_soon(place: str) -> LockedDirectory | None:
    """Lock the directory of a file whose lock this process has; None if another process keeps it.

    The kernel takes the locks from a killed process one after the other.
    """
    for _ in range(_TRIES):
        if (directory := lock_directory(place)) is not None:
            return directory
        time.sleep(_PAUSE)
    return None


def work_of_killed(path: str) -> list[str]:
    """Return the state directories in which killed processes left work of a user on the file at ``path``.

    Raises ``OSError``.
    """
    identity = identity_of(path)
    return [place for place in _paths_in(_home("open")) if identity in owner_of(place).identities and _is_left(place)]


def _is_left(place: str) -> bool:
    """Return whether a killed process left work of a user in ``place``."""
    directory = lock_directory(place)
    if directory is None:
        return False
    has_work = directory.has_work()
    directory.close()
    return has_work


def _told_work(place: str) -> str:
    return (
        "another file had this name before; what was typed into it, and is not in it, is in "
        f"{place}; it comes back when that file is opened under its new name, else take what you need and remove that"
    )


def _made(identity: str) -> LockedDirectory:
    while True:
        made = lock_directory(tempfile.mkdtemp(prefix=f"{identity}.", dir=_home("open")), create=True)
        if made is not None:
            return made


def _reopened(file: int, identity: str) -> LockedDirectory | None:
    """Take the directory of the open ``file`` out of ``closed``; None if there is none."""
    folder = _home("closed", identity)
    for place in _paths_in(folder):
        if owner_of(place).is_file(file, identity) and (directory := lock_directory(place)) is not None:
            opened = directory.renamed(_home("open", os.path.basename(place)))
            with contextlib.suppress(OSError):  # a copy of the file has one, too
                os.rmdir(folder)
            return opened
    return None


def _move_into(old: str, new: str) -> None:
    """Move the files of the directory ``old`` into ``new``, which keeps what it has."""
    for path in _paths_in(old):
        os.makedirs(new, mode=0o700, exist_ok=True)
        target = os.path.join(new, os.path.basename(path))
        if os.path.lexists(target):
            os.unlink(path)
        else:
            os.rename(path, target)
    with contextlib.suppress(OSError):  # there is none
        os.rmdir(old)


def _paths_in(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def state_home() -> str:
    """Return the directory for state: ``$XDG_STATE_HOME``, else ``~/.local/state``; see ``own_directory``."""
    return own_directory("XDG_STATE_HOME", ".local/state")


def _home(*parts: str) -> str:
    return os.path.join(state_home(), "asdffs", *parts)

"""The state directory of a file that this process opens for writing, and what earlier mounts of the file left in it.

``state_files`` has the layout and the rules.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from asdffs import registry
from asdffs.cli.state_files import (
    LockedDirectory,
    Owner,
    identity_of,
    is_left,
    lock_directory,
    owner_of,
    paths_in,
    state_place,
)
from asdffs.document.document import Document
from asdffs.document.report import Outcome, told_places
from asdffs.document.saves.history import Places
from asdffs.document.saves.keeping import keep_abandoned
from asdffs.errors import UnfinishedError

#: The number of replacements that are noted beside the last one, because that may fail.
_MOST_REPLACEMENTS: Final = 6
#: How often to try to lock a directory, and the seconds between.
_TRIES: Final = 10
_PAUSE: Final = 0.02


class StateDirectory:
    """The state directory of a file that this process opens for writing.

    Create it before the file is opened, ``claim`` it when the file is locked, ``close`` it before the file is closed.
    ``places`` are known from ``begin`` on.  They hold work of the user, so ``close`` empties them only after
    ``release``.

    ``spool``: another directory for scratch and decoded blocks.  ``private``: nothing is written to the file, so the
    directory is a temporary one.
    """

    #: The paths of the directories that this process has locked.
    _held: Final[set[str]] = set()

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
        place = self._elsewhere or state_place("open")
        os.makedirs(place, mode=0o700, exist_ok=True)
        return place

    def claim(self, path: str, descriptor: Callable[[], int]) -> list[str]:
        """Lock the directory of the file at ``path``, or make one; return sentences about those of other files.

        ``descriptor()`` returns the descriptor of the file, whose lock the caller has.  Raises ``OSError``.
        """
        self._descriptor = descriptor
        file, identity, said = descriptor(), identity_of(descriptor()), []
        os.makedirs(state_place("open"), mode=0o700, exist_ok=True)
        for place in paths_in(state_place("open")):
            if place in self._held:
                continue  # an archive has many, of other files
            owner = owner_of(place)
            if owner.is_file(file, identity):
                self._directories += filter(None, [_lock_soon(place)])
            elif owner.path == path and is_left(place):
                said.append(_told_work(place))
        if not self._directories:
            self._directories.append(_reopened(file, identity) or _made(identity))
        for known in self._directories[0].owner().identities:
            if known != identity:
                _move_into(state_place("mirrors", known), state_place("mirrors", identity))
        self._directories[0].note(Owner(path, (identity,)))
        self._held.update(directory.path for directory in self._directories)
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
        """Note that the file at ``new`` takes the place of this one, as the same to its user.  Raises ``OSError``."""
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
        """Have ``close`` empty the places: all that was typed or copied in is in the file, or beside it."""
        self._released = True

    def close(self) -> None:
        """Close the directory, and give its lock away.  What was not released stays for the next process."""
        if self._private and self.places.spool:
            shutil.rmtree(os.path.dirname(self.places.spool), ignore_errors=True)
        self._held.difference_update(directory.path for directory in self._directories)
        for directory in self._directories:
            if self._released:
                with contextlib.suppress(OSError):  # it stays where it is, which the next process takes as well
                    directory.clear()
                    directory.put_away(identity_of(self._descriptor()))
            directory.close()
        self._directories = []


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


def _told_work(place: str) -> str:
    return (
        "another file had this name before; what was typed into it, and is not in it, is in "
        f"{place}; it comes back when that file is opened under its new name, else take what you need and remove that"
    )


def _made(identity: str) -> LockedDirectory:
    while True:
        made = lock_directory(tempfile.mkdtemp(prefix=f"{identity}.", dir=state_place("open")), create=True)
        if made is not None:
            return made


def _reopened(file: int, identity: str) -> LockedDirectory | None:
    """Take the directory of the open ``file`` out of ``closed``; None if there is none."""
    folder = state_place("closed", identity)
    for place in paths_in(folder):
        if owner_of(place).is_file(file, identity) and (directory := lock_directory(place)) is not None:
            opened = directory.renamed(state_place("open", os.path.basename(place)))
            with contextlib.suppress(OSError):  # a copy of the file has one, too
                os.rmdir(folder)
            return opened
    return None


def _move_into(old: str, new: str) -> None:
    """Move the files of the directory ``old`` into ``new``, which keeps what it has."""
    for path in paths_in(old):
        os.makedirs(new, mode=0o700, exist_ok=True)
        target = os.path.join(new, os.path.basename(path))
        if os.path.lexists(target):
            os.unlink(path)
        else:
            os.rename(path, target)
    with contextlib.suppress(OSError):  # there is none
        os.rmdir(old)


class Recovered(NamedTuple):
    """Results of the last mount.  ``sentences``: for the user.  ``kept``: paths of files saved beside the file."""

    sentences: list[str]
    kept: list[str]


def recover_edits(document: Document, state: StateDirectory) -> Recovered:
    """Claim the state directory, and save drafts and scratch of earlier mounts beside the file.

    Return the sentences to print.  The caller has the lock of the file.  Raises ``UnfinishedError`` if something
    cannot be saved, ``OSError``.
    """
    kept: list[str] = []
    return Recovered(list(_sentences(document, state, kept)), kept)


def take_report(report: str, *, folder: int | None = None, file: str | None = None) -> Outcome | None:
    """Return what the end of a mount had to say, told once; None without a report, or if it is not about ``file``.

    ``folder``: a descriptor of the directory of ``report``.
    """
    try:
        with open(os.open(report, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)) as opened:
            facts = json.load(opened)
        if file not in (None, facts["file"]):
            return None
        os.unlink(report, dir_fd=folder)
        return Outcome(*(list(facts.get(name, [])) for name in Outcome._fields))
    except (OSError, ValueError, KeyError):
        return None


def _sentences(document: Document, state: StateDirectory, kept: list[str]) -> Iterator[str]:
    yield from state.claim(document.path, document.descriptor)
    if document.report.recovery:
        yield document.report.recovery
    for places in state.past():
        last = take_report(places.report)
        if last is not None:
            kept += last.kept
            yield from (f"the last mount ended with: {sentence}" for sentence in [*last.failures, *last.violations])
            yield from last.notes
        yield from _recovered(document, places.spool)
        kept += _keep(document, places)
    if kept:
        yield f"kept from the last mount: {told_places(kept)}"
    state.begin()


def _recovered(document: Document, spool: str) -> Iterator[str]:
    if (daf := registry.feature("daf")) is not None:
        yield from daf.recover_store(document, spool)


def _keep(document: Document, places: Places) -> list[str]:
    keeper = keep_abandoned(document, places.spool, places.rejected, document.tree.text(), places.editing)
    if keeper.failures:
        raise UnfinishedError(f"of the last mount, {'; '.join(keeper.failures)}", path=document.path)
    return keeper.kept

"""Records which file a state directory belongs to, so that drafts stay with a file after a rename.

The name of a state directory is made of the path of the file.  ``identity`` in it has the inode and the time of birth
of the file.  It has a line for each that the file ever had, because a growth may replace the file by a new one.
``files/INODE-BIRTH`` beside the state directories leads from a file to its directory, also after a rename.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator

from asdffs.cli.places import SPOOLS, places_in, spools_in, state_home, top_of
from asdffs.document.saves.places import Places
from asdffs.storage.linux_calls import birth_ns

_IDENTITY = "identity"
_FILES = "files"
#: What outlives a mount.
_LASTING = ("history", "mirrors")


def identity_of(path: str) -> str:
    """Return the inode and time of birth of the file at ``path``.  Raises ``OSError``.

    If the file system does not record the time of birth, the number of the device stands for it.  Another mount of
    the file system may change that number.
    """
    status = os.stat(path)
    born = birth_ns(path)
    return f"{status.st_ino}-{born}" if born else f"{status.st_ino}-on-{status.st_dev}"


def note_replacement(path: str, new: str) -> None:
    """The file at ``path`` is about to be replaced by ``new``, which is the same file to its user."""
    if has_state(path):
        _note(top_of(path), identity_of(new))


def has_state(path: str) -> bool:
    """Return whether the file at ``path`` has a state directory, here or under an earlier name."""
    return os.path.lexists(top_of(path)) or StateOwner(path).elsewhere() is not None


class StateOwner:
    """The state directory of the file at ``path``, which is open under the lock."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._top = top_of(path)
        self._identity = identity_of(path)

    def claim(self) -> Iterator[str]:
        """Give the state directory to this file; move another file's content aside, and return a sentence about it.

        Raises ``OSError``.
        """
        known = _identities(self._top)
        if known and self._identity not in known:
            aside = _set_aside(self._top, known)
            self._copy_records(aside)
            if any(os.path.isdir(place) and os.listdir(place) for place in _kept_in(aside)):
                yield (
                    f"another file had this name before; what was typed into it, and is not in it, is in {aside}, "
                    "and comes back when that file is opened under its new name"
                )
        os.makedirs(self._top, mode=0o700, exist_ok=True)
        _note(self._top, self._identity)

    def _copy_records(self, aside: str) -> None:
        """Copy the records of exploded forms back.  ``explode`` may have written one for this file, without a lock.

        Each record has the signature of its file, so the records of the other file do no harm here.
        """
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(places_in(aside).mirrors, places_in(self._top).mirrors)

    def elsewhere(self) -> str | None:
        """The state directory that this file had under another name; None without one."""
        with contextlib.suppress(OSError), open(_link(self._identity)) as file:
            found = file.read()
            is_other = found != self._top and self._identity in _identities(found)
            return found if os.path.dirname(found) == _home() and is_other else None
        return None

    def arrive(self) -> None:
        """What the file left under another name is kept: from now on this is its directory.  Raises ``OSError``."""
        other = self.elsewhere()
        if other is not None:
            for name in _LASTING:
                with contextlib.suppress(OSError):  # there is none, or there is one here as well
                    os.rename(os.path.join(other, name), os.path.join(self._top, name))
            shutil.rmtree(other, ignore_errors=True)
        _write(_link(self._identity), self._top)


def leave(path: str) -> None:
    """Remove the state directory of the file at ``path`` if it has nothing but notes about the file.

    The caller has the lock of the file.  What cannot be removed stays.
    """
    top = top_of(path)
    with contextlib.suppress(OSError):
        if set(os.listdir(top)) <= {_IDENTITY, SPOOLS}:
            links = [_link(identity) for identity in _identities(top)]
            shutil.rmtree(top)
            for link in links:
                os.unlink(link)


def _home() -> str:
    return os.path.join(state_home(), "asdffs")


def _link(identity: str) -> str:
    return os.path.join(_home(), _FILES, identity)


def _identities(top: str) -> list[str]:
    with contextlib.suppress(OSError), open(os.path.join(top, _IDENTITY)) as file:
        return file.read().split()
    return []


def _note(top: str, identity: str) -> None:
    known = _identities(top)
    if identity not in known:
        _write(os.path.join(top, _IDENTITY), "\n".join([*known, identity]))


def _write(path: str, text: str) -> None:
    """Replace a file as a whole."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def _kept_in(top: str) -> list[str]:
    places: Places = places_in(top)
    return [*spools_in(top), places.rejected, places.editing]


def _set_aside(top: str, known: list[str]) -> str:
    """Rename a state directory, and spools elsewhere that have its name; the new path."""
    number, aside = 1, f"{top}.{known[-1]}"
    while os.path.lexists(aside):  # what was typed is never overwritten
        number, aside = number + 1, f"{top}.{known[-1]}.{number}"
    for identity in known:  # first: a process that dies behind the rename leaves a way back
        _write(_link(identity), aside)
    places = spools_in(top)
    elsewhere = [spool for spool in places if os.path.dirname(spool) != top]
    if not elsewhere:  # without the note the spool is the one in the directory, before the rename and behind it
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(top, SPOOLS))
    for spool in elsewhere:
        os.rename(spool, f"{spool}.{known[-1]}")
    os.rename(top, aside)
    if elsewhere:
        moved = [os.path.join(aside, "spool"), *(f"{spool}.{known[-1]}" for spool in elsewhere)]
        with open(os.path.join(aside, SPOOLS), "w") as file:
            json.dump(moved, file)
    return aside

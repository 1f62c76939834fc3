"""Says where a mount keeps drafts, scratch, log and report: under the user's state directory.

The directory is ``$XDG_STATE_HOME/asdffs/ID`` (default of the first part: ``~/.local/state``).  ID stands for the
file itself, whatever its path is: the next command on the file finds what a daemon left, and another file that gets
the path, or has it in another container, has another directory.  The history of trees stays there after the mount.
Without a home directory, the system's temporary directory is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator

from asdffs.document.report import Outcome
from asdffs.document.saves.places import Places
from asdffs.storage.linux_calls import birth_ns
from asdffs.storage.own_places import make_private, own_directory

#: In the state directory of a file: the spools of mounts whose scratch may not be kept yet.
SPOOLS = "spools.json"
#: The directory with the notes about files that a growth replaced by new ones.
LINKS = "files"
_REPORT = "report.json"


def places_of(path: str, spool: str | None = None) -> Places:
    """Make and return the places of the writing mount of the file at ``path``.  Raises ``OSError``.

    ``spool``: as for ``places_at``.
    """
    places = places_at(path, spool)
    make(places)
    return places


def places_at(path: str, spool: str | None = None) -> Places:
    """Return the places of the writing mount of the file at ``path``, which may not exist yet.

    ``spool``: another directory for scratch and decoded blocks.
    """
    top = top_of(path)
    places = places_in(top)
    if spool is not None:
        places = places._replace(spool=os.path.join(os.path.abspath(spool), os.path.basename(top)))
    return places


def places_in(top: str) -> Places:
    """The places in the state directory ``top``."""
    return Places(
        os.path.join(top, "spool"),
        os.path.join(top, "rejected"),
        os.path.join(top, "history"),
        os.path.join(top, "log"),
        os.path.join(top, _REPORT),
        os.path.join(top, "editing"),
        os.path.join(top, "mirrors"),
    )


def past_spools(path: str, places: Places) -> list[str]:
    """Where mounts of the file that were killed may have left scratch; the mount of now is noted as one."""
    known = spools_in(top_of(path))
    spools = [*known, *([] if places.spool in known else [places.spool])]
    _note_spools(path, spools)
    return spools


def spools_in(top: str) -> list[str]:
    """The spools of mounts whose state directory is ``top``."""
    try:
        with open(os.path.join(top, SPOOLS)) as file:
            return [place for place in json.load(file) if os.path.isdir(place)]
    except (OSError, ValueError):
        return [os.path.join(top, "spool")]


def forget_past_spools(path: str, places: Places) -> None:
    """What mounts before left is kept: only the mount of now may leave scratch any more.  Raises ``OSError``."""
    _note_spools(path, [places.spool])


def _note_spools(path: str, spools: list[str]) -> None:
    """Replace the note as a whole: half of it would hide scratch from the next mount."""
    note = os.path.join(top_of(path), SPOOLS)
    with open(f"{note}.new", "w") as file:
        json.dump(spools, file)
    os.replace(f"{note}.new", note)


def private_places(spool: str | None = None) -> Places:
    """Places of a read-only mount: in a temporary directory, without history and report."""
    if spool is not None:
        os.makedirs(spool, mode=0o700, exist_ok=True)
    top = tempfile.mkdtemp(prefix="asdffs-", dir=spool)
    places = Places(os.path.join(top, "spool"), os.path.join(top, "rejected"), log=os.path.join(top, "log"))
    make(places)
    return places


def all_mirrors() -> Iterator[str]:
    """Yield the directories with the records of exploded forms, of all files."""
    with contextlib.suppress(OSError):
        yield from (places_in(os.path.join(home(), name)).mirrors for name in os.listdir(home()))


def home() -> str:
    """Return the directory with the state directories of all files."""
    return os.path.join(state_home(), "asdffs")


def top_of(path: str) -> str:
    """Return the state directory of the file at ``path``; maybe it is not there."""
    try:
        identity = identity_of(path)
    except OSError:  # no file, or a remote one
        identity = os.path.realpath(path)
    with contextlib.suppress(OSError), open(link_of(identity)) as file:
        found = file.read()
        if os.path.dirname(found) == home() and os.path.isdir(found):
            return found
    return os.path.join(home(), hashlib.sha256(os.fsencode(identity)).hexdigest()[:16])


def identity_of(path: str) -> str:
    """Return the inode and time of birth of the file at ``path``.  Raises ``OSError``.

    If the file system does not record the time of birth, the number of the device stands for it.  Another mount of
    the file system may change that number.
    """
    status = os.stat(path)
    born = birth_ns(path)
    return f"{status.st_ino}-{born}" if born else f"{status.st_ino}-on-{status.st_dev}"


def link_of(identity: str) -> str:
    """Return the place of the note that leads from a file to its directory, if that has another name."""
    return os.path.join(home(), LINKS, identity.replace("/", "%"))


def is_report(report: str) -> bool:
    """Return whether ``report`` is the name of a report in any state directory."""
    return os.path.isabs(report) and re.search(rf"/asdffs/[0-9a-f]{{16}}/{re.escape(_REPORT)}$", report) is not None


def make(places: Places) -> None:
    """Create the directories, for the user alone.  Raises as ``make_private``.

    ``-o spool=`` may be in a directory like /tmp, where everybody could make a directory of this name first.
    """
    for folder in (places.spool, places.rejected):
        make_private(folder)


class Held:
    """The places of a file, for the process that has its lock.

    They hold work of the user.  ``close`` empties them only after ``release`` was called, which means that all of it
    is in the file, or saved beside it.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._released = False

    def release(self) -> None:
        """All that was typed or copied in is in the file, or beside it."""
        self._released = True

    def close(self) -> None:
        """Before the lock is given away."""
        if self._released:
            clear(self.places)


def clear(places: Places) -> None:
    """Remove drafts and scratch: all of it is in the file or beside it.  The log and the report stay."""
    shutil.rmtree(places.spool, ignore_errors=True)
    shutil.rmtree(places.rejected, ignore_errors=True)
    if places.editing:
        shutil.rmtree(places.editing, ignore_errors=True)
    if not places.report:
        shutil.rmtree(os.path.dirname(places.spool), ignore_errors=True)


def take_report(path: str) -> Outcome | None:
    """What the end of a mount had to say, told once; None when no mount left a report."""
    try:
        with open(path) as file:
            report = json.load(file)
        os.unlink(path)
    except (OSError, ValueError):
        return None
    return Outcome(*(list(report.get(name, [])) for name in Outcome._fields))


def state_home() -> str:
    """Return the directory for state: ``$XDG_STATE_HOME``, else ``~/.local/state``; see ``own_directory``."""
    return own_directory("XDG_STATE_HOME", ".local/state")

"""Keeps what was typed into a file with that file: after a rename, and when another file gets its name.

``places`` names the state directory of a file after its inode and time of birth.  A growth may replace the file by a
new one, which is the same to its user: then ``files/IDENTITY`` leads to the directory.  ``names/HASH`` has the
directory of the last file at a path, so that a user hears of it when another file is there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator

from asdffs.cli.places import SPOOLS, home, identity_of, link_of, places_in, spools_in, top_of

#: The directory with the notes about paths.
NAMES = "names"


def note_replacement(path: str, new: str) -> None:
    """The file at ``path`` is about to be replaced by ``new``, which is the same file to its user."""
    if has_state(path):
        _write(link_of(identity_of(new)), top_of(path))


def has_state(path: str) -> bool:
    """Return whether the file at ``path``, or another one that had this path, has a state directory."""
    return os.path.lexists(top_of(path)) or bool(_others(path))


def claim(path: str) -> Iterator[str]:
    """Make the state directory of the file at ``path``; yield a sentence if another file had this path before.

    Raises ``OSError``.
    """
    other = _others(path)
    if any(os.path.isdir(place) and os.listdir(place) for place in (_kept_in(other) if other else ())):
        yield (
            f"another file had this name before; what was typed into it, and is not in it, is in {other}, "
            "and comes back when that file is opened under its new name"
        )
    top = top_of(path)
    os.makedirs(top, mode=0o700, exist_ok=True)
    _write(_name_note(path), top)


def leave(path: str) -> None:
    """Remove the state directory of the file at ``path`` if it has nothing but notes about the file.

    The caller has the lock of the file.  What cannot be removed stays.
    """
    top = top_of(path)
    with contextlib.suppress(OSError):
        if set(os.listdir(top)) <= {SPOOLS}:
            shutil.rmtree(top)
            for note in (link_of(identity_of(path)), _name_note(path)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(note)


def _name_note(path: str) -> str:
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    return os.path.join(home(), NAMES, name)


def _others(path: str) -> str:
    """Return the state directory of the file that had this path before; empty if it is this one's, or not there."""
    with contextlib.suppress(OSError), open(_name_note(path)) as file:
        found = file.read()
        return found if os.path.dirname(found) == home() and found != top_of(path) and os.path.isdir(found) else ""
    return ""


def _write(path: str, text: str) -> None:
    """Replace a file as a whole."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def _kept_in(top: str) -> list[str]:
    places = places_in(top)
    return [*spools_in(top), places.rejected, places.editing]

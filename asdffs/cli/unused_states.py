"""Removes old, unused state directories that hold no unsaved edits.

Each file that is mounted or edited gets a state directory (``places``).  After the mount it has only the log and the
history of trees.  Old ones are looked for once a day, at the end of a mount.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
import time
from typing import Final

from asdffs.cli.identity import NAMES
from asdffs.cli.places import LINKS, SPOOLS, home, places_in, spools_in
from asdffs.errors import reason_of

logger = logging.getLogger(__name__)

#: For how long a state directory stays after it was last used, and how often this looks, in seconds.
_STAYS: Final = 90 * 86400
_PAUSE: Final = 86400
#: Directories that are looked at, at a time.
_MOST: Final = 1000
_MARK: Final = ".swept"
#: The directories beside the state directories.
_NOTES: Final = (LINKS, NAMES)


def remove_unused_states() -> None:
    """Remove them.  What cannot be removed stays, and is logged."""
    states, now = home(), time.time()
    mark = os.path.join(states, _MARK)
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(mark).st_mtime > now - _PAUSE:
                return
        with open(mark, "w"):
            pass
        with os.scandir(states) as entries:
            found = [entry.path for entry in itertools.islice(entries, _MOST) if entry.is_dir(follow_symlinks=False)]
        for top in found:
            _remove_if_unused(top, now - _STAYS)
        for notes in _NOTES:
            _remove_dead_links(os.path.join(states, notes))
    except OSError as err:
        logger.info("%s: cannot be tidied up: %s", states, reason_of(err))


def _remove_if_unused(top: str, before: float) -> None:
    if os.path.basename(top) in _NOTES or not _is_unused(top, before):
        return
    gone = f"{top}.unused"
    os.rename(top, gone)  # who comes just now makes a new one
    if _is_unused(gone, before):
        shutil.rmtree(gone)
    else:
        os.rename(gone, top)


def _is_unused(top: str, before: float) -> bool:
    """Whether it was last changed before then, and nobody's work is in it."""
    places = places_in(top)
    held = (*spools_in(top), places.spool, places.rejected, places.editing, places.report)
    if any(map(os.path.lexists, held)) or os.path.lexists(f"{places.report}.room"):
        return False
    with os.scandir(top) as entries:
        times = [entry.stat(follow_symlinks=False).st_mtime for entry in entries if entry.name != SPOOLS]
    return max([os.stat(top).st_mtime, *times]) < before


def _remove_dead_links(folder: str) -> None:
    """Remove the files there that name a state directory which is gone (``identity``)."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _MOST):
            with contextlib.suppress(ValueError), open(entry.path) as file:  # not ours, if it is no text
                if not os.path.isdir(file.read()):
                    os.unlink(entry.path)

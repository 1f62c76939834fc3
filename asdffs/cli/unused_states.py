"""Removes old state of files that are closed: reports, logs, old trees, and records of exploded forms.

What a user typed is in ``open`` (``state_directory``), which is not touched.  Old state is looked for once a day, at
the end of a mount.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
import time
from collections.abc import Iterator
from typing import Final

from asdffs.cli.state_directory import lock_directory, state_home
from asdffs.errors import reason_of

logger = logging.getLogger(__name__)

#: For how long state stays after it was last used, and how often this looks, in seconds.
_STAYS: Final = 90 * 86400
_PAUSE: Final = 86400
#: Files that are looked at, at a time.
_MOST: Final = 1000
_MARK: Final = ".swept"


def remove_unused_states() -> None:
    """Remove it.  What cannot be removed stays, and is logged."""
    home, now = os.path.join(state_home(), "asdffs"), time.time()
    mark = os.path.join(home, _MARK)
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.stat(mark).st_mtime > now - _PAUSE:
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
    """Yield the directories in ``folder`` in which no name was made or removed since then."""
    return (place for place in _directories(folder) if os.stat(place).st_mtime < before)


def _directories(folder: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [entry.path for entry in itertools.islice(entries, _MOST) if entry.is_dir(follow_symlinks=False)]
    return []

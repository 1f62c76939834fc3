"""The names of the files that asdffs changed lately, for this user: what catalogues look at again before they answer.

They are in one file of the cache, each ended by a NUL, the last ones at the end.  It is a hint: a name that is
missing, because the disk was full or there were too many, costs an answer that the next index corrects.  So nothing
here waits for anybody: a save must not.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Final

from asdffs.errors import MountError
from asdffs.storage.own_files import cache_folder

logger = logging.getLogger(__name__)

#: Bytes of names that are kept, and that stay when there are more.
_MOST: Final = 1 << 20
_KEPT: Final = 1 << 19


def note_changed(path: str) -> None:
    """Note that this process changed the file at ``path``, which is absolute.  Raises nothing."""
    import fcntl

    try:
        with _opened() as fd:
            os.write(fd, os.fsencode(path) + b"\0")  # at the end, whoever else writes
            if os.fstat(fd).st_size > _MOST:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                names = dict.fromkeys(os.pread(fd, 2 * _MOST, 0).split(b"\0")[-1:0:-1])  # the last first, each once
                kept = b"\0".join(reversed(list(filter(None, names))))[-_KEPT:].partition(b"\0")[2]
                fcntl.fcntl(fd, fcntl.F_SETFL, 0)  # not at the end any more
                os.ftruncate(fd, os.pwrite(fd, kept + b"\0", 0))  # after a kill between them there are more names
    except (OSError, MountError) as err:
        logger.info("catalogues are not told of %s: %s", path, err)


def changed_files() -> list[bytes]:
    """Return the names of files that were changed lately, each once.  Raises nothing."""
    try:
        with _opened() as fd:
            return list(dict.fromkeys(filter(os.path.isabs, os.pread(fd, 2 * _MOST, 0).split(b"\0"))))
    except (OSError, MountError) as err:
        logger.info("it is not known what was changed: %s", err)
        return []


@contextlib.contextmanager
def _opened() -> Iterator[int]:
    """Open the file with the names.  Raises ``OSError``, ``MountError``."""
    folder = cache_folder()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(os.path.join(folder, "changed"), flags, 0o600)
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise MountError("belongs to somebody else", path=folder)
        yield fd
    finally:
        os.close(fd)

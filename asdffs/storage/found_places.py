"""Keeps what was found out about a file by slow work, in the cache directory, for the next time.

A file of the cache belongs to one version of one file: its name is a hash of the signature of the file.  So it is
never used after a change.  It may be removed at any time.  Only files of this system have such a signature: nothing
is kept for remote files, whose users may have asked for that.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
import time
from typing import Final

from asdffs.storage.backend import Signature
from asdffs.storage.remote_options import cache_folder

logger = logging.getLogger(__name__)

#: Ending of these files, which ``asdffs cache`` removes as well.
PLACES_ENDING: Final = ".places"
#: A larger file was not written here.
_LARGEST: Final = 64 << 20
#: Nanoseconds in which two changes of a file may get the same times; Linux counts in 1 to 10 ms.
_TICK: Final = 100_000_000


def load_places(known: Signature, key: str) -> bytes:
    """Return what was kept of the part ``key`` of the file with the signature ``known``; empty without any."""
    if not known.device:
        return b""
    with contextlib.suppress(OSError):
        fd = os.open(_path(known, key), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(fd, "rb") as file:
            if os.fstat(fd).st_uid == os.geteuid():
                return file.read(_LARGEST)
    return b""


def save_places(known: Signature, key: str, content: bytes) -> None:
    """Keep ``content`` for ``load_places``.  Without room or permission nothing is kept, and nothing is raised.

    Nothing is kept of a file that was just changed: another change in the same tick would have the same signature.
    """
    if not known.device or time.time_ns() - known.ctime_ns < _TICK:
        return
    path = _path(known, key)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd, draft = tempfile.mkstemp(dir=os.path.dirname(path), suffix=PLACES_ENDING)  # a killed one is trimmed
        try:
            with open(fd, "wb") as file:
                file.write(content)
            os.replace(draft, path)
        except OSError:
            os.unlink(draft)
            raise
    except OSError as err:
        logger.info("%s: %s", path, err.strerror)


def _path(known: Signature, key: str) -> str:
    mark = hashlib.sha256(repr((known[:5], key)).encode()).hexdigest()
    return os.path.join(cache_folder(), mark + PLACES_ENDING)

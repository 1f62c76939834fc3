"""Files of asdffs outside the user's directories: where state and caches are, results of slow work, scratch files.

Only files of this user are read and written.  One thread at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from typing import Final

from asdffs.errors import MountError
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent, Signature
from asdffs.storage.descriptors import duplicate_fd, kept_files
from asdffs.storage.file_backend import write_all
from asdffs.storage.linux_calls import KEEP_SIZE, PUNCH_HOLE, fallocate

logger = logging.getLogger(__name__)


def own_directory(variable: str, default: str) -> str:
    """Return ``$variable``, else ``default`` in the home directory; absolute, and perhaps missing.

    The first of them that this user may use.  A relative value is ignored, as the specification says.  If there is
    none, a temporary directory.  Raises ``MountError``, ``OSError``.
    """
    homes = [os.environ.get("HOME", ""), _home_of_user()]
    wanted = [os.environ.get(variable, ""), *(os.path.join(home, default) for home in homes if home)]
    usable = (place for place in wanted if os.path.isabs(place) and _is_usable(place))
    return next(usable, "") or os.path.join(_own_temporary(), default)


def _home_of_user() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_dir
    except (KeyError, ImportError):  # Windows has none
        return ""


def _is_usable(place: str) -> bool:
    """Return whether it can be written, or made; for root also whether nobody else can replace it."""
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    usable = os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK)
    return usable and (os.geteuid() != 0 or _is_of_root(os.path.realpath(place)))


def _is_of_root(place: str) -> bool:
    """Return whether the directory is root's, and all above it are, or are sticky."""
    while os.stat(place).st_uid == 0:
        above = os.path.dirname(place)
        if above == place:
            return True
        place = above
    return False


def _own_temporary() -> str:
    """Return a temporary directory of this user alone; another user's could read or redirect our files."""
    import tempfile  # which few need

    place = os.path.join(tempfile.gettempdir(), f"asdffs-of-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    facts = os.lstat(place)
    if facts.st_uid == os.geteuid() and stat.S_ISDIR(facts.st_mode) and not facts.st_mode & 0o022:
        return place
    raise MountError(
        "belongs to somebody else, and there is no other place for state; set XDG_STATE_HOME", path=place
    )


def cache_folder() -> str:
    """Return the directory of the cache: ``$XDG_CACHE_HOME/asdffs``, or ``~/.cache/asdffs``."""
    return os.path.join(own_directory("XDG_CACHE_HOME", ".cache"), "asdffs")


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
    import tempfile  # which few need

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
    import hashlib  # only slow work is kept

    mark = hashlib.sha256(repr((known[:5], key)).encode()).hexdigest()
    return os.path.join(cache_folder(), mark + PLACES_ENDING)


class ScratchFile:
    """The file at ``path``, which exists already.  Sizes and offsets are in bytes."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """The current size.  Raises ``OSError``."""
        return os.stat(self.path).st_size

    def read(self, offset: int, length: int) -> Extent:
        """Return where the bytes are, fewer at the end of the file.

        Read them before another file is used.  Raises ``OSError``.
        """
        fd = self._fd()
        return Extent(fd, offset, max(0, min(length, os.fstat(fd).st_size - offset)))

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload`` at ``offset``.  Raises ``OSError``."""
        write_all(self._fd(), payload, offset)

    def truncate(self, size: int) -> None:
        """Set the size.  Raises ``OSError``."""
        os.ftruncate(self._fd(), size)

    def allocate(self, offset: int, length: int, *, keep_size: bool, zero: bool) -> None:
        """Reserve disk space for these bytes, or make them zeros if ``zero``.  Raises ``OSError``.

        The errno is EOPNOTSUPP if the file system of the spool does not support it.
        """
        if not keep_size and not zero:
            os.posix_fallocate(self._fd(), offset, length)
            return
        if zero and not keep_size and offset + length > self.size:
            os.ftruncate(self._fd(), offset + length)
        fallocate(self._fd(), KEEP_SIZE | (PUNCH_HOLE if zero else 0), offset, length)

    def sync(self, scheduler: Scheduler) -> None:
        """Make the file durable; releases the main lock meanwhile.  Raises ``OSError``."""
        fd = duplicate_fd(self._fd())  # another thread may close the original during the wait
        try:
            with scheduler.waiting():
                os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, path: str) -> None:
        """Rename the file, over an existing file at ``path``.  Raises ``OSError``."""
        os.replace(self.path, path)
        kept_files.close(path)
        kept_files.renamed(self.path, path)
        self.path = path

    def drop(self) -> None:
        """Remove the file.  Raises ``OSError``."""
        kept_files.close(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _fd(self) -> int:
        return kept_files.get(self.path)

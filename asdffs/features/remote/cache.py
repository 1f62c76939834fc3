"""The cache of one version of a remote file: a sparse file with a map of the pages that are in it.

Its name is a hash of what the file is (``stores.identity_of``) and of its version.  It has, each from a multiple of
``_ALIGNMENT`` on:

* a header: a mark, the boot of the machine, the URL without its secrets;
* a byte for each page: 0 if the page is not here;
* the pages at their places; the rest is a hole.

Rules that keep wrong bytes from being served:

* A page is written before its byte in the map is set.  So a process that shares the file, or that starts after one
  was killed, never reads a page that is not there.
* After a crash of the system the map may be on the disk and a page not.  The header tells that the machine was
  started again.  Then only pages count that were synced: ``keep`` syncs the pages, then writes 2 into their bytes.
* Nothing is overwritten or punched out.  If there is too much, whole files are removed by ``trim``; whoever has them
  open still reads them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import Final

from asdffs.features.remote.transport import Validator
from asdffs.storage.own_files import PLACES_ENDING, cache_folder

#: Bytes of a page of the cache.
PAGE: Final = 1 << 14
_MAGIC: Final = b"asdffs remote cache 1\n"
_ALIGNMENT: Final = max(1 << 16, mmap.ALLOCATIONGRANULARITY)
_ENDING: Final = ".cache"
#: Bytes that are stored between two looks at the size of the cache.
_TRIMMED_EACH: Final = 64 << 20
#: Bytes of the map that are read at a time.
_READ: Final = 1 << 20
_HERE: Final = 1
_KEPT: Final = 2
_BOOT: Final = "/proc/sys/kernel/random/boot_id"


class CacheFile:
    """The pages of one version of a remote file.  Offsets and lengths are in bytes.

    Several threads may use it.  Only one of them writes a page, or several write the same bytes.
    """

    def __init__(self, fd: int, base: int, pages: mmap.mmap, size: int) -> None:
        """``fd``: the file; ``base``: the offset of the first page in it; ``pages``: its map."""
        self.fd = fd
        self.base = base
        self.size = size
        self._pages = pages
        self._lock = threading.Lock()

    @classmethod
    def open(cls, identity: str, shown: str, validator: Validator, *, kept: bool) -> CacheFile:
        """Return the cache of a version of the file with this ``identity``; ``shown``: its URL for people.

        ``kept``: for later runs; otherwise it vanishes when it is closed.  Raises ``OSError``.
        """
        size = validator.size
        if not kept:
            with tempfile.TemporaryFile() as file:
                fd = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, 0)
            os.ftruncate(fd, size)
            return cls(fd, 0, mmap.mmap(-1, max(1, _count(size))), size)
        folder = cache_folder()
        os.makedirs(folder, 0o700, exist_ok=True)
        name = hashlib.sha256(repr((identity, validator)).encode()).hexdigest()[:40] + _ENDING
        with _locked(folder):
            fd = _open_file(os.path.join(folder, name), shown, size)
        os.utime(fd)
        count = _count(size)
        pages = mmap.mmap(fd, count, offset=_ALIGNMENT) if count else mmap.mmap(-1, 1)  # mmap cannot map nothing
        return cls(fd, _base(size), pages, size)

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the runs of pages, as offsets, that are not here among those that overlap ``start`` to ``stop``."""
        first, last = start // PAGE, -(-min(stop, self.size) // PAGE)
        row = self._pages[first:last]
        runs = (run.span() for run in re.finditer(rb"\0+", row))
        return [((first + low) * PAGE, min((first + high) * PAGE, self.size)) for low, high in runs]

    def has(self, start: int, stop: int) -> bool:
        """Return whether all bytes from ``start`` to ``stop`` are here."""
        return self._pages.find(b"\0", start // PAGE, -(-min(stop, self.size) // PAGE)) < 0

    @property
    def held(self) -> int:
        """Bytes that the cache has on the disk; 0 if it is closed."""
        with self._lock:
            return os.fstat(self.fd).st_blocks * 512 if self.fd >= 0 else 0

    def store(self, start: int, content: memoryview) -> None:
        """Keep ``content``, bytes of the file from ``start``.  Partial pages at its ends are not kept.

        Raises ``OSError``.
        """
        first, stop = -(-start // PAGE), start + len(content)
        last = -(-stop // PAGE) if stop == self.size else stop // PAGE
        if first >= last:
            return
        piece, place = content[first * PAGE - start : last * PAGE - start], first * PAGE
        while piece:
            done = os.pwrite(self.fd, piece, self.base + place)
            piece, place = piece[done:], place + done
        held = self._pages[first:last]
        self._pages[first:last] = bytes(byte or _HERE for byte in held)

    def keep(self) -> None:
        """Sync the pages to the disk, so that they count after the machine was started again.  Raises ``OSError``.

        Does nothing if the file vanishes when it is closed.
        """
        with self._lock:
            if not self.base or self.fd < 0:
                return
            fd = os.dup(self.fd)  # ``close`` does not wait for the disk
        try:
            held = list(_stated_pages(fd, self.size, bytes([_HERE])))
            os.fdatasync(fd)
        finally:
            os.close(fd)
        for first, last in held:  # the bytes of pages that came meanwhile stay
            self._pages[first:last] = bytes([_KEPT]) * (last - first)

    def shorten(self, size: int) -> None:
        """Make the file have ``size`` bytes, if that is less; only what vanishes when it is closed is shortened."""
        if size < self.size:
            os.ftruncate(self.fd, self.base + size)
            self.size = size

    def close(self) -> None:
        """Close the file.  May be called twice."""
        with self._lock:
            if self.fd >= 0:
                fcntl.flock(self.fd, fcntl.LOCK_UN)  # the map has a copy of the descriptor
                os.close(self.fd)
                self.fd = -1


def trim(most: int) -> int:
    """Remove files of the cache, the least recently opened first, until it has at most ``most`` bytes.

    Files that a process has open stay.  Return the bytes that it has then.  Raises nothing.
    """
    found = sorted(_files())
    total = sum(size for _, size, _ in found)
    if total > most:
        with _locked(cache_folder()):
            for _, size, path in found:
                if total > most and _remove(path):
                    total -= size
    return total


class Trimmer:
    """Trims the cache now and then: at the first call, and after every 64 MiB that were stored.  Any thread."""

    def __init__(self) -> None:
        self._left = 0
        self._lock = threading.Lock()

    def note(self, stored: int, most: int) -> None:
        """Note that so many bytes were stored in the cache, which may have at most ``most`` bytes."""
        with self._lock:
            self._left -= stored
            if self._left > 0:
                return
            self._left = _TRIMMED_EACH
        trim(most)


def used() -> tuple[int, int]:
    """Return the number of files in the cache, and their bytes."""
    found = _files()
    return len(found), sum(size for _, size, _ in found)


def _files() -> list[tuple[float, int, str]]:
    """Return the time of the last open, the bytes and the path of each file of the cache."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(cache_folder()):
            with contextlib.suppress(OSError):
                if entry.name.endswith((_ENDING, PLACES_ENDING)) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime, status.st_blocks * 512, entry.path))
    return found


def _remove(path: str) -> bool:
    """Remove a file of the cache, unless a process has it open; return whether it is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def _count(size: int) -> int:
    return -(-size // PAGE)


def _base(size: int) -> int:
    """Return the offset of the first page in a cache file."""
    return _ALIGNMENT + -(-_count(size) // _ALIGNMENT) * _ALIGNMENT


def _open_file(path: str, shown: str, size: int) -> int:
    """Open the cache file at ``path``, and make it, or begin it anew, if it is not right.  Raises ``OSError``."""
    with open(_BOOT, "rb") as file:
        boot = file.read().strip()
    header = (_MAGIC + boot + b"\n" + shown.encode("utf-8", "surrogateescape")[:2048] + b"\n").ljust(4096, b"\0")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.pread(fd, len(header), 0)
        if not before.startswith(_MAGIC) or os.fstat(fd).st_size != _base(size) + size:
            os.unlink(path)  # a process may have it mapped
            os.close(fd)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.ftruncate(fd, _base(size) + size)
        elif before != header:  # no process of another boot is alive
            for first, last in _stated_pages(fd, size, bytes([_HERE])):
                os.pwrite(fd, bytes(last - first), _ALIGNMENT + first)
        os.pwrite(fd, header, 0)
        fcntl.flock(fd, fcntl.LOCK_SH)  # ``trim`` leaves files alone that are in use
    except BaseException:
        os.close(fd)
        raise
    return fd


def _stated_pages(fd: int, size: int, state: bytes) -> Iterator[tuple[int, int]]:
    """Yield the runs of pages whose byte in the map is ``state``.  Holes of the map are not read."""
    place, stop = _ALIGNMENT, _ALIGNMENT + _count(size)
    while place < stop:
        try:
            place = os.lseek(fd, place, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing follows
            return
        row = os.pread(fd, min(_READ, stop - place), place) if place < stop else b""
        for run in re.finditer(re.escape(state) + b"+", row):
            yield place - _ALIGNMENT + run.start(), place - _ALIGNMENT + run.end()
        place += len(row) or _READ


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep other processes from making or removing files in ``folder`` inside the block."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)

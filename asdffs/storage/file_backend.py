"""``MovableBackend`` and ``Folder`` on a real file system; the Linux-only features are missing on other systems.

``write_at`` writes all bytes or raises.  ``sync`` is fdatasync for a file and fsync for a directory.  A write
is not atomic, and not durable before ``sync``.  Only one thread at a time may use a backend.

A folder keeps a descriptor of its directory, and reaches everything in it through that.  So another user who may
change the path, for example put a symbolic link in place of the directory, cannot lead us elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import LockedError
from asdffs.scheduling import CHUNK
from asdffs.storage import linux_calls
from asdffs.storage.backend import Access, Extent, PhysicalExtent, ReadBackend, Signature, WriteBackend, read_bytes
from asdffs.storage.descriptors import duplicate_fd, open_fd

with contextlib.suppress(ImportError):  # Windows has none; there, files are only read
    import fcntl
    import resource

#: Errors of link(2) if the file system, or a rule of the system, does not allow hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
#: Errors of open(2) with O_TMPFILE if the file system, such as NFS, or the system has no files without a name.
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
#: How directories are opened: with O_PATH the right to search them is enough.
#: The extended attribute with the access ACL.
ACL: Final = "system.posix_acl_access"
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

_make: Final[Any] = tuple.__new__


def _signature(status: os.stat_result) -> Signature:
    """Return the signature of an fstat or lstat result.

    Every write makes two signatures, so this avoids the Python calls in the constructors of the classes.
    """
    access = _make(Access, (status.st_mode & 0o7777, status.st_uid, status.st_gid, status.st_nlink))
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, access)
    signature: Signature = _make(Signature, facts)
    return signature


class FileBackend:
    """One open file, ``name`` in its folder.  See ``MovableBackend``."""

    def __init__(self, fd: int, name: str) -> None:
        self._fd = fd
        self.name = name
        self._unit = 0

    def fileno(self) -> int:
        """Return the file descriptor, which this backend owns."""
        return self._fd

    def size(self) -> int:
        """Return the size in bytes."""
        return os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes from ``offset``, fewer only at the end; raises ``OSError``."""
        return read_bytes(Extent(self._fd, offset, length))

    def write_at(self, offset: int, payload: bytes | memoryview) -> None:
        """Write all of ``payload``; raises ``OSError``."""
        write_all(self._fd, payload, offset)

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros; raises ``OSError``."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Call fdatasync, or a call that does at least as much; raises ``OSError``."""
        if hasattr(fcntl, "F_FULLFSYNC"):  # on macOS, fsync leaves the bytes in the disk's cache
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        elif hasattr(os, "fdatasync"):
            os.fdatasync(self._fd)
        else:
            os.fsync(self._fd)

    def allocate(self, offset: int, length: int) -> None:
        """Call posix_fallocate if the system has it, else only extend the file; raises ``OSError``."""
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, offset, length)
        elif self.size() < offset + length:
            os.ftruncate(self._fd, offset + length)

    def unit(self) -> int:
        """Return the block size of the file system, in bytes."""
        self._unit = self._unit or os.fstatvfs(self._fd).f_bsize
        return self._unit

    def can_insert(self) -> bool:
        """Return whether the file system supports insertion."""
        unit = self.unit()
        try:  # after the end of the file it always fails, and the errno shows whether it is supported
            linux_calls.fallocate(self._fd, linux_calls.INSERT_RANGE, (self.size() // unit + 2) * unit, unit)
        except OSError as err:
            return err.errno == errno.EINVAL
        return False

    def forget_pages(self, offset: int) -> None:
        """Call posix_fadvise; raises ``OSError``."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, offset, 0, os.POSIX_FADV_DONTNEED)

    def insert_range(self, offset: int, length: int) -> None:
        """Call fallocate with FALLOC_FL_INSERT_RANGE; raises ``OSError``."""
        # the kernel does not check this limit, and nothing could be written after it
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and self.size() + length > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        linux_calls.fallocate(self._fd, linux_calls.INSERT_RANGE, offset, length)

    def collapse_range(self, offset: int, length: int) -> None:
        """Call fallocate with FALLOC_FL_COLLAPSE_RANGE; raises ``OSError``."""
        linux_calls.fallocate(self._fd, linux_calls.COLLAPSE_RANGE, offset, length)

    def extents(self) -> list[PhysicalExtent]:
        """Return the extents by FIEMAP; raises ``OSError``."""
        return linux_calls.extents(self._fd)

    def extent(self, offset: int, length: int) -> Extent:
        """Return the place of these bytes in the open file."""
        return Extent(self._fd, offset, length)

    def signature(self) -> Signature:
        """Return the signature by fstat of the file descriptor."""
        return _signature(os.fstat(self._fd))

    def close(self) -> None:
        """Close the file descriptor.  May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def renamed(self, name: str) -> FileBackend:
        """Return a backend with another name for this file descriptor; the old backend is closed."""
        backend = FileBackend(self._fd, name)
        self._fd = -1
        return backend


class FileFolder:
    """A directory.  ``directory`` is an absolute path without symbolic links.  See ``Folder``.

    ``fd``: a descriptor of it, which this folder then owns; else the path is opened when it is first needed.
    """

    def __init__(self, directory: str, fd: int = -1) -> None:
        self.directory = directory
        self._prefix = os.path.join(directory, "")
        self._fd = fd
        self._by_path = fd < 0

    def release(self) -> None:
        """Close a descriptor that the path was opened for; that is done again when it is needed."""
        if self._by_path:
            self.__del__()
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def fileno(self) -> int:
        """Return the descriptor of the directory, which this folder owns.  Raises ``OSError``."""
        if self._fd < 0:
            self._fd = open_fd(self.directory, _DIRECTORY)
        return self._fd

    def below(self, path: str, *, create: bool = False) -> FileFolder:
        """Return the directory at the relative ``path`` in this one, which no step leaves.

        ``create``: make what is missing.  Raises ``NotADirectoryError`` at a symbolic link, other ``OSError``.
        """
        found = self
        for name in filter(None, path.split("/")):
            if name in (".", ".."):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path(path))
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=found.fileno())
            fd = open_fd(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=found.fileno())
            found = FileFolder(found.path(name), fd)
        return found

    def whereabouts(self) -> str:
        """Return the path by which the directory is reached now, without symbolic links; raises ``OSError``."""
        return os.readlink(f"/proc/self/fd/{self.fileno()}")

    @contextlib.contextmanager
    def readable(self) -> Iterator[int]:
        """Open a descriptor of the directory that can be listed, locked and synced.  Raises ``OSError``."""
        fd = open_fd(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fileno())
        try:
            yield fd
        finally:
            os.close(fd)

    def status(self, name: str) -> os.stat_result:
        """Return the status of ``name`` by lstat; raises ``OSError``."""
        return os.stat(name, dir_fd=self._fd if self._fd >= 0 else self.fileno(), follow_symlinks=False)

    def has(self, name: str) -> bool:
        """Return whether anything has this name."""
        with contextlib.suppress(OSError):
            return bool(self.status(name))
        return False

    def path(self, name: str) -> str:
        """Return the absolute path of ``name``."""
        return self._prefix + name

    def names(self) -> list[str]:
        """Return the names in the directory; raises ``OSError``."""
        with self.readable() as fd:
            return os.listdir(fd)

    def open(self, name: str, *, writable: bool, create: bool = False) -> FileBackend:
        """Open or create ``name``; raises ``OSError``."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        try:
            fd = self._open(name, flags)
        except OSError as err:
            err.filename = self.path(name)  # for the user, who does not know the directory
            raise
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise PermissionError(errno.EPERM, "is not a regular file", self.path(name))
        return FileBackend(fd, name)

    def _open(self, name: str, flags: int) -> int:
        try:
            return open_fd(name, flags, 0o600, dir_fd=self.fileno())
        except BlockingIOError:  # another process has a lease: wait until it has finished the file
            return open_fd(name, flags & ~os.O_NONBLOCK, 0o600, dir_fd=self.fileno())

    def open_unnamed(self) -> FileBackend:
        """See ``Folder``: O_TMPFILE, or a temporary file; raises ``OSError``."""
        try:
            flags = getattr(os, "O_TMPFILE", os.O_DIRECTORY) | os.O_RDWR | os.O_CLOEXEC
            return FileBackend(open_fd(".", flags, 0o600, dir_fd=self.fileno()), "")
        except OSError as err:
            if err.errno not in _NO_UNNAMED:
                raise
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            return FileBackend(duplicate_fd(file.fileno()), "")

    def signature(self, name: str) -> Signature:
        """Return the signature by lstat, because a symbolic link is not the file to which it leads."""
        return _signature(self.status(name))

    def why_kept(self, name: str) -> str:
        """See ``Folder``.  rename(2) over a mount point, as containers make them of single files, is EBUSY."""
        if self.status(name).st_nlink > 1:
            return "it has several names (hard links)"
        return "it is a mount point" if linux_calls.is_mount_point(self.fileno(), name) else ""

    def lock(self, backend: ReadBackend) -> bool:
        """Call flock without waiting; False if another process holds the lock; raises other ``OSError``."""
        return _lock(_fd(backend))

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the directory against other asdffs that choose names in it.  Raises ``LockedError``, ``OSError``."""
        with self.readable() as fd:
            if not _lock(fd):
                sentence = "another asdffs is writing files into this directory; wait until it ends"
                raise LockedError(sentence, path=self.directory)
            yield

    def copy_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Copy only the extents with data, so that holes stay holes; raises ``OSError``."""
        if not isinstance(source, FileBackend):  # an overlay over a file with an unfinished change
            for place in range(0, length, CHUNK):
                target.write_at(to + place, source.read_at(start + place, min(CHUNK, length - place)))
            return
        from asdffs.storage.copying import copy_data

        target.truncate(max(target.size(), to + length))
        copy_data(_fd(source), start, _fd(target), to, length)

    def clone_range(self, source: ReadBackend, start: int, target: WriteBackend, to: int, length: int) -> None:
        """Call FICLONERANGE; raises ``OSError``."""
        if not isinstance(source, FileBackend):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        linux_calls.clone_range(_fd(source), start, _fd(target), to, length)

    def free(self, of: ReadBackend | None = None, *, after_sync: bool = False) -> int:
        """Return the space for ordinary users by statvfs, ``after_sync`` after syncfs; raises ``OSError``."""
        if after_sync:
            with contextlib.nullcontext(_fd(of)) if of is not None else self.readable() as fd:
                linux_calls.syncfs(fd)
        found = os.statvfs(self.fileno() if of is None else _fd(of))
        return found.f_bavail * found.f_frsize

    def set_mode(self, backend: WriteBackend, mode: int) -> None:
        """Call fchmod(2); raises ``OSError``."""
        os.fchmod(_fd(backend), mode)

    def copy_attributes(self, source: ReadBackend, target: WriteBackend, *, most: int = 0o7777) -> None:
        """Copy mode, owner and extended attributes.  These include the ACL, if ``most`` lets all users read.

        Raises ``OSError``.
        """
        status, mine = os.fstat(_fd(source)), os.fstat(_fd(target))
        if (mine.st_uid, mine.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(_fd(target), status.st_uid, status.st_gid)
        os.fchmod(_fd(target), status.st_mode & most & 0o7777)
        for name in os.listxattr(_fd(source)) if hasattr(os, "listxattr") else ():
            if name == ACL and not most & stat.S_IROTH:
                continue  # it could let users read the new file who may not
            with contextlib.suppress(PermissionError):  # security.* and trusted.* may need more privileges
                os.setxattr(_fd(target), name, os.getxattr(_fd(source), name))
        os.fchmod(_fd(target), status.st_mode & most & 0o7777)  # an ACL sets it anew

    def replace(self, backend: WriteBackend, name: str) -> FileBackend:
        """Call rename(2) over ``name``; raises ``OSError``."""
        os.rename(backend.name, name, src_dir_fd=self.fileno(), dst_dir_fd=self.fileno())
        return _file_store(backend).renamed(name)

    def place(self, backend: WriteBackend, name: str) -> FileBackend:
        """Call link(2) and unlink(2), or rename(2) if hard links are not supported; raises ``OSError``."""
        if not backend.name:
            linux_calls.name_file(_fd(backend), self.fileno(), name)
            return _file_store(backend).renamed(name)
        try:
            fd = self.fileno()
            os.link(backend.name, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except OSError as err:
            if err.errno not in _NO_LINKS:
                raise
            if self.has(name):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path(name)) from err
            return self.replace(backend, name)
        self.remove(backend.name)
        return _file_store(backend).renamed(name)

    def remove(self, name: str) -> None:
        """Call unlink(2); raises ``OSError``."""
        os.unlink(name, dir_fd=self.fileno())

    def sync(self) -> None:
        """Call fsync(2) on the directory; raises ``OSError``."""
        with self.readable() as fd:
            os.fsync(fd)


def write_all(fd: int, payload: bytes | memoryview, offset: int) -> None:
    """Write all of ``payload`` at ``offset`` of ``fd``; raises ``OSError``."""
    rest = memoryview(payload)
    while rest:
        written = os.pwrite(fd, rest, offset)
        offset, rest = offset + written, rest[written:]


def _lock(fd: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _file_store(backend: ReadBackend) -> FileBackend:
    if not isinstance(backend, FileBackend):
        raise TypeError("a file folder accepts only its own files")
    return backend


def _fd(backend: ReadBackend) -> int:
    return _file_store(backend).fileno()

"""Change by a new file and a rename: the strategies ``clone`` and ``copy`` of ``gap``, and ``rewrite``.

At every instant the name leads to the old file or to the complete new one (invariant 5).  The new file has the
same mode, owner, ACL and extended attributes, and holes stay holes.  But it has a new inode, so a file with
several names is not replaced, nor can one be that is a mount point.  No journal is needed.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import Final

from asdffs.errors import LockedError
from asdffs.format.plan import Plan
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.open_file import OpenFile
from asdffs.storage.payload import create_temporary
from asdffs.storage.record import writes_around
from asdffs.storage.strategy import Unsuitable, checked_shift

#: Errors of FICLONERANGE if it does not work between these two files.
_NO_CLONE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EXDEV})
#: Errors if a new file cannot be created here, or cannot get the owner of the old one.
_NO_NEW_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Free space that a copy must leave on the disk, in bytes.
_MARGIN: Final = 1 << 20


def clone(file: OpenFile, plan: Plan) -> Backend:
    """Make a new file that shares the blocks.  Raises ``Unsuitable``, and the errors of ``gap.open_gap``."""
    unit = file.backend.unit()
    shift = checked_shift(plan, unit)
    move = plan.checked_move
    offset = move.source // unit * unit

    def fill(new: Backend) -> None:
        try:
            file.folder.clone_range(file.backend, offset, new, offset + shift, 0)
            if offset and not _covers(plan, offset):
                file.folder.clone_range(file.backend, 0, new, 0, offset)
        except OSError as err:
            if err.errno in _NO_CLONE:
                raise Unsuitable("the file system cannot clone") from err
            raise
        for write in writes_around(file.backend, plan, offset):
            new.write_at(write.offset, write.payload)
        new.truncate(plan.new_size)

    return _replaced(file, fill)


def copy(file: OpenFile, plan: Plan) -> Backend:
    """Make a new file with copies of the blocks.  Raises ``Unsuitable``, and the errors of ``gap.open_gap``."""
    move = plan.checked_move
    needed, free = plan.new_size + _MARGIN, file.folder.free()
    if free < needed:
        raise OSError(errno.ENOSPC, f"a copy needs {needed} bytes, and {free} are free")

    def fill(new: Backend) -> None:
        new.truncate(plan.new_size)
        before = min(move.source, move.target)
        if not _covers(plan, before):
            file.folder.copy_range(file.backend, 0, new, 0, before)
        file.folder.copy_range(file.backend, move.source, new, move.target, move.length)
        for write in plan.writes:
            new.write_at(write.offset, write.payload)

    return _replaced(file, fill)


def rewrite(file: OpenFile, fill: Callable[[Backend], None]) -> Backend:
    """Replace the file by an empty one that ``fill`` writes.

    Raises ``Unsuitable``, and the errors of ``gap.open_gap``.
    """
    return _replaced(file, fill)


def _covers(plan: Plan, stop: int) -> bool:
    """Return whether ``plan`` writes all of ``[0, stop)`` anyway."""
    return any(write.offset == 0 and len(write.payload) >= stop for write in plan.writes)


def _replaced(file: OpenFile, fill: Callable[[Backend], None]) -> Backend:
    """Make a temporary file, fill, sync and lock it, rename it over the file, and sync the folder.

    Returns the new file.
    """
    why = file.folder.why_kept(file.backend.name)
    if why:
        raise Unsuitable(why)
    failure = None
    with file.scheduler.waiting():  # readers use the old file until the caller knows the new offsets
        new = _made(file, fill)
        try:
            file.folder.sync()  # invariant 5
        except OSError as err:
            failure = err
    if failure is not None:
        file.fail(f"the new file's name could not be made durable ({failure.strerror})")
    return new


def _made(file: OpenFile, fill: Callable[[Backend], None]) -> Backend:
    folder, backend = file.folder, file.backend
    temporary = _temporary(folder, backend.name)
    try:
        fill(temporary)
        _copy_attributes(folder, backend, temporary)
        temporary.sync()  # invariant 5
        if folder.signature(backend.name) != file.signature:  # invariant 1
            raise file.stale()
        if not folder.lock(temporary):
            raise LockedError("another program locked the new copy", path=folder.path(temporary.name))
        file.replacing(folder.path(temporary.name))
        return _renamed(folder, temporary, backend.name)
    except BaseException:  # also an interrupt: remove the temporary file, and raise again
        temporary.close()
        with contextlib.suppress(OSError):  # recovery removes what cannot be removed now
            folder.remove(temporary.name)
        raise


def _renamed(folder: Folder, temporary: Backend, name: str) -> Backend:
    try:
        return folder.replace(temporary, name)
    except OSError as err:
        if err.errno == errno.EBUSY:  # a mount point that is reached by another path than the one that was mounted on
            raise Unsuitable("it is a mount point") from err
        raise


def _temporary(folder: Folder, name: str) -> Backend:
    try:
        return create_temporary(folder, name, ".tmp")
    except OSError as err:
        if err.errno in _NO_NEW_FILE:
            raise Unsuitable("no file can be created in the directory") from err
        raise


def _copy_attributes(folder: Folder, source: Backend, target: Backend) -> None:
    try:
        folder.copy_attributes(source, target)
    except OSError as err:
        if err.errno in _NO_NEW_FILE:
            raise Unsuitable("a new file would get another owner") from err
        raise

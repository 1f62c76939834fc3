"""Growth of a file: carry out a plan that moves the blocks ("open a gap").

The strategies are tried in this order until one suits the file and the file system:

| strategy | how                                              | needs                                  |
|----------|--------------------------------------------------|----------------------------------------|
| clone    | new file that shares the blocks, and a rename    | FICLONERANGE (XFS, btrfs), one name    |
| insert   | the file system opens the gap                    | INSERT_RANGE (ext4, XFS), the journal  |
| copy     | new file with copied blocks, and a rename        | room for a second copy, one name       |

``clone`` and ``insert`` need a gap of whole file-system blocks.  Each strategy is atomic: after a crash at any
moment the file is the old or the new one, either at once or after recovery (docs/design/journal.md).

A new file (``clone``, ``copy``, ``rewrite``) has the same mode, owner, ACL and extended attributes, and holes stay
holes.  But it has a new inode, so a file with several names or a mount point is not replaced.  No journal is needed,
because at every instant the name leads to the old file or to the complete new one (invariant 5).

``insert`` keeps the inode, and so all names, modes and attributes.  It is not atomic: after a crash, XFS and ext4
leave files of which only some extents have moved.  So the record holds the old address of every extent, and recovery
compares addresses to find out what was done.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Callable, Container
from typing import Final

from asdffs.errors import DiskFullError, LockedError, NoRoomError, Remedy, StaleFileError
from asdffs.format.plan import Plan
from asdffs.storage.backend import MovableBackend
from asdffs.storage.open_file import AUTO, STRATEGIES, OpenFile, Unsuitable
from asdffs.storage.record import Gap, Record, RecordImage, make_insertion, writes_around
from asdffs.storage.sidecars import create_temporary
from asdffs.storage.unfinished import Position, finish_insertion, locate

logger = logging.getLogger(__name__)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_INSERT: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM})
#: Errors of FICLONERANGE if it does not work between these two files.
_NO_CLONE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EXDEV})
_CANNOT_CLONE: Final = "the file system cannot clone"
#: Errors if a new file cannot be created here, or cannot get the owner of the old one.
_NO_NEW_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: Free space that a copy must leave on the disk, in bytes.
_MARGIN: Final = 1 << 20


def open_gap(file: OpenFile, plan: Plan, growth: str = AUTO) -> tuple[MovableBackend, str]:
    """Carry out ``plan``; return the backend to use from now on, and the strategy.  ``growth`` forces one.

    When it returns, the file is the new one, even if ``file.mode`` allows no more writes.  Raises
    ``NoRoomError``, which says why no strategy works, ``DiskFullError``, ``StaleFileError``, ``LockedError``,
    ``FailedFileError`` or ``OSError``; the file is then the old one.
    """
    reasons: list[str] = []
    shortage: OSError | None = None
    for name in STRATEGIES if growth == AUTO else (growth,):
        try:
            backend = _OPENING[name](file, plan)
        except Unsuitable as err:
            reasons.append(f"{name}: {err}")
        except OSError as err:
            file.mode.check_healthy()
            if err.errno not in _FULL:
                raise
            shortage = err
            reasons.append(f"{name}: {err.strerror}")
        else:
            logger.info("%s: opened a gap by %s%s", file.path, name, "".join(f"; not by {why}" for why in reasons))
            return backend, name
    sentence = f"the blocks cannot be moved to make room ({'; '.join(reasons)})"
    if shortage is not None:
        raise DiskFullError(f"{sentence}; free disk space, and try again", path=file.path) from shortage
    raise NoRoomError(f"{sentence}; a copy made by repack can grow", path=file.path, remedy=Remedy.MAKE_LOCAL)


def insert(file: OpenFile, plan: Plan) -> MovableBackend:
    """Let the file system open the gap.  Raises ``Unsuitable``, and the errors of ``open_gap``."""
    if file.journal is None:
        raise Unsuitable("there is no journal")
    unit = file.backend.unit()
    _checked_shift(plan, unit)
    if not file.journal.can_insert(file.signature.device, unknown=True):
        raise Unsuitable("the file system cannot insert")
    file.sync()  # invariant 8
    record, gap = _record(file, plan, plan.checked_move.source // unit * unit)
    file.write_record(record)  # invariants 1 and 2
    with file.moving.entered():
        _open(file, record, gap)
        _fill(file, record, gap)
        file.conclude()
    return file.backend  # no thread gets the main lock before the caller knows the new offsets


def _record(file: OpenFile, plan: Plan, offset: int) -> tuple[Record, Gap]:
    with file.scheduler.waiting():
        try:
            file.backend.forget_pages(offset)
            extents = file.backend.extents()
        except OSError as err:
            raise Unsuitable("the file system does not report the addresses of the file") from err
    if any(extent.shared for extent in extents):
        raise Unsuitable("the file shares bytes with another file, so a write would change their addresses")
    record = make_insertion(file.backend, plan, offset, extents)
    if record.gap is None:
        raise ValueError("the record of an insertion needs a gap")
    return record, record.gap


def _open(file: OpenFile, record: Record, gap: Gap) -> None:
    """Open the gap, or leave the file as it was.  Raises ``Unsuitable``, ``OSError`` and errors of ``OpenFile``."""
    try:
        with file.scheduler.waiting():
            file.check_unchanged()  # invariant 1
            file.backend.insert_range(gap.offset, gap.length)
    except StaleFileError:
        file.retire()
        raise
    except OSError as err:
        _take_back(file, record, gap, [])
        if err.errno in _NO_INSERT:
            raise Unsuitable(f"the file system refused to insert ({err.strerror})") from err
        raise


def _fill(file: OpenFile, record: Record, gap: Gap) -> None:
    """Reserve the space of the gap and write around it.  If that fails, everything is undone."""
    written: list[RecordImage] = []
    try:
        with file.scheduler.waiting():
            file.backend.allocate(gap.offset, gap.length)
        file.sync()  # invariant 9
        for image in record.images:
            written.append(image)
            file.backend.write_at(image.offset, image.after)
        if file.backend.size() != record.new_size:
            file.backend.truncate(record.new_size)
    except OSError:
        _take_back(file, record, gap, written)
        raise
    file.note_signature()  # before another thread gets the main lock
    file.sync()  # invariant 3


def _take_back(file: OpenFile, record: Record, gap: Gap, written: list[RecordImage]) -> None:
    """Undo the ``written`` images and the insertion, as far as it happened (invariant 4).

    Raises ``FailedFileError``.
    """
    try:
        for image in written:
            file.backend.write_at(image.offset, image.before.ljust(len(image.after), b"\0"))
        file.sync()  # invariant 9
        with file.scheduler.waiting():
            _collapse(file, record, gap)
    except OSError as err:
        raise file.fail(f"a growth failed half-way and could not be undone ({err.strerror})") from err
    file.retire()
    file.note_signature()


def _collapse(file: OpenFile, record: Record, gap: Gap) -> None:
    """Close the gap durably, if it was opened.  Raises ``OSError``."""
    if locate(file.backend, record, gap)[0] is Position.NEW:
        file.backend.collapse_range(gap.offset, gap.length)
        file.backend.sync()  # invariant 3
    if finish_insertion(file.backend, record, gap):
        raise OSError(errno.EIO, "the gap is still open")


def clone(file: OpenFile, plan: Plan) -> MovableBackend:
    """Make a new file that shares the blocks.  Raises ``Unsuitable``, and the errors of ``open_gap``."""
    unit = file.backend.unit()
    shift = _checked_shift(plan, unit)
    offset = plan.checked_move.source // unit * unit
    if not file.can_clone:
        raise Unsuitable(_CANNOT_CLONE)

    def fill(new: MovableBackend) -> None:
        try:
            file.folder.clone_range(file.backend, offset, new, offset + shift, 0)
            if offset and not _covers(plan, offset):
                file.folder.clone_range(file.backend, 0, new, 0, offset)
        except OSError as err:
            if err.errno in _NO_CLONE:
                file.can_clone = False
                raise Unsuitable(_CANNOT_CLONE) from err
            raise
        for write in writes_around(file.backend, plan, offset):
            new.write_at(write.offset, write.payload)
        new.truncate(plan.new_size)

    return rewrite(file, fill)


def copy(file: OpenFile, plan: Plan) -> MovableBackend:
    """Make a new file with copies of the blocks.  Raises ``Unsuitable``, and the errors of ``open_gap``."""
    move = plan.checked_move
    if why := file.folder.why_kept(file.backend.name):  # else more room on the disk would seem to help
        raise Unsuitable(why)
    needed, free = plan.new_size + _MARGIN, file.folder.free()
    if free < needed:
        raise OSError(errno.ENOSPC, f"a copy needs {needed} bytes, and {free} are free")

    def fill(new: MovableBackend) -> None:
        new.truncate(plan.new_size)
        before = min(move.source, move.target)
        if not _covers(plan, before):
            file.folder.copy_range(file.backend, 0, new, 0, before)
        file.folder.copy_range(file.backend, move.source, new, move.target, move.length)
        for write in plan.writes:
            new.write_at(write.offset, write.payload)

    return rewrite(file, fill)


def _covers(plan: Plan, stop: int) -> bool:
    """Return whether ``plan`` writes all of ``[0, stop)`` anyway."""
    return any(write.offset == 0 and len(write.payload) >= stop for write in plan.writes)


def rewrite(file: OpenFile, fill: Callable[[MovableBackend], None]) -> MovableBackend:
    """Replace the file by an empty one that ``fill`` writes, and return the new file.

    Raises ``Unsuitable``, and the errors of ``open_gap``.
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


def _made(file: OpenFile, fill: Callable[[MovableBackend], None]) -> MovableBackend:
    folder, backend = file.folder, file.backend
    with _Unsuitable(_NO_NEW_FILE, "no file can be created in the directory"):
        temporary = create_temporary(folder, backend.name, ".tmp")
    try:
        fill(temporary)
        with _Unsuitable(_NO_NEW_FILE, "a new file would get another owner"):
            folder.copy_attributes(backend, temporary)
        temporary.sync()  # invariant 5
        if folder.signature(backend.name) != file.signature:  # invariant 1
            raise file.stale()
        if not folder.lock(temporary):
            raise LockedError("another program locked the new copy", path=folder.path(temporary.name))
        file.replacing(folder.path(temporary.name))
        # EBUSY: it is reached by another path than the one that was mounted on
        with _Unsuitable((errno.EBUSY,), "it is a mount point"):
            return folder.replace(temporary, backend.name)
    except BaseException:  # also an interrupt: remove the temporary file, and raise again
        temporary.close()
        with contextlib.suppress(OSError):  # recovery removes what cannot be removed now
            folder.remove(temporary.name)
        raise


class _Unsuitable:
    """Raise ``Unsuitable`` with ``sentence`` for an ``OSError`` of one of ``errnos`` inside the block."""

    def __init__(self, errnos: Container[int], sentence: str) -> None:
        self._errnos, self._sentence = errnos, sentence

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, OSError) and error.errno in self._errnos:
            raise Unsuitable(self._sentence) from error


def _checked_shift(plan: Plan, unit: int) -> int:
    """Return how many bytes ``plan`` moves the blocks toward the end, a multiple of ``unit``.

    Raises ``Unsuitable``.
    """
    length = plan.checked_move.shift
    if length <= 0:
        raise Unsuitable("the blocks move toward the start of the file")
    if length % unit:
        raise Unsuitable(f"the blocks move by {length} bytes, which is not a multiple of {unit}")
    return length


_OPENING: Final[dict[str, Callable[[OpenFile, Plan], MovableBackend]]] = dict(
    zip(STRATEGIES, (clone, insert, copy), strict=True)
)

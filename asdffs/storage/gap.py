"""The one primitive of growth: carry out a plan that moves the blocks ("open a gap").

Today there is one strategy, ``copy``: to a temporary in the same folder, and a rename over
the file.  Cheaper ones (clone, insert range, shift) are further functions here, chosen by
``open_gap``.

Guarantee of ``copy``: the name holds the old file or the whole new one at every instant,
and the new one is durable when the folder is synced, which the caller does.  Limits: the
file gets a new inode, so it refuses a file with several names; it needs room for a second
copy.  User: ``document/transaction``, under the exclusive lock.
"""

from __future__ import annotations

import contextlib

from asdffs.errors import LockedError, NoRoomError, StaleFileError
from asdffs.format.plan import Plan
from asdffs.storage.recovery import temporary_prefix
from asdffs.storage.store import Folder, Signature, Store


def open_gap(folder: Folder, store: Store, plan: Plan, expected: Signature) -> Store:
    """Carry out ``plan`` and return the store to use from now on; the caller closes the old one.

    ``expected`` is checked once more at the last moment.  Raises ``NoRoomError``,
    ``StaleFileError``, ``LockedError`` or ``OSError``; the file is then as it was.
    """
    return _copy(folder, store, plan, expected)


def _copy(folder: Folder, store: Store, plan: Plan, expected: Signature) -> Store:
    """Temporary copy, synced, locked, renamed over the file; the caller syncs the folder."""
    if folder.links(store.name) > 1:
        raise NoRoomError(
            "the tree needs more room, and a file with several hard links cannot be replaced by a larger copy; "
            "give the mount a file with one name",
            path=folder.path(store.name),
        )
    name = _free_name(folder, store.name)
    temporary = folder.open(name, writable=True, create=True)
    try:
        _fill(folder, store, temporary, plan)
        if folder.signature(store.name) != expected:
            raise StaleFileError("another program changed the file", path=folder.path(store.name))
        if not folder.lock(temporary):
            raise LockedError("another program locked the new copy", path=folder.path(name))
        new = folder.replace(temporary, store.name)
    except BaseException:  # an interrupt as well: no temporary is left, and it goes on
        temporary.close()
        with contextlib.suppress(OSError):  # recovery removes what cannot be removed now
            folder.remove(name)
        raise
    return new


def _fill(folder: Folder, store: Store, temporary: Store, plan: Plan) -> None:
    temporary.truncate(plan.new_size)
    if plan.move:
        folder.copy_range(store, plan.move.source, temporary, plan.move.target, plan.move.length)
    for write in plan.writes:
        temporary.write_at(write.offset, write.payload)
    folder.copy_attributes(store, temporary)
    temporary.sync()


def _free_name(folder: Folder, name: str) -> str:
    taken = set(folder.names())
    prefix = temporary_prefix(name)
    return next(f"{prefix}{n}.tmp" for n in range(len(taken) + 1) if f"{prefix}{n}.tmp" not in taken)

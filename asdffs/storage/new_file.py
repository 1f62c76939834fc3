"""Files that get their names only when they are complete.

At every instant, even if the program crashes, the name leads either to the same file as before or to the
complete new file.  A temporary file that a crash leaves is removed when any process next writes that name,
mounts it or recovers it.

Unless ``durable``, the new name may lead to an incomplete file after the machine itself fails, as after cp(1).
A new file that replaces another one is always made durable first.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from typing import Final

from asdffs import interrupts
from asdffs.errors import LockedError, NameExistsError, Remedy, StorageError
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.storage.changed_files import note_changed
from asdffs.storage.sidecars import create_temporary, temporaries

_SUFFIX: Final = ".tmp"


def write_new(folder: Folder, name: str, fill: Callable[[WriteBackend], None], *, durable: bool, mode: int) -> None:
    """Create the file ``name`` with permissions ``mode``; ``fill`` writes its content.

    Raises ``NameExistsError`` if the name exists, and the errors of ``fill``; nothing is left then.
    """

    def finish(backend: WriteBackend) -> WriteBackend:
        folder.set_mode(backend, mode)
        if durable:
            backend.sync()
        try:
            return folder.place(backend, name)
        except FileExistsError as err:
            sentence = "already exists; give another name"
            raise NameExistsError(sentence, path=folder.path(name), remedy=Remedy.FORCE_REPLACE) from err

    _write(folder, name, fill, finish, durable=durable)


def write_over(
    folder: Folder,
    name: str,
    fill: Callable[[WriteBackend], None],
    *,
    check: Callable[[], None] = lambda: None,
    most: int = 0o7777,
) -> None:
    """Replace the file ``name`` durably, and keep its permissions, owner and attributes; ``fill`` writes its content.

    ``check`` may raise at the last moment.  ``most``: the permissions of the new file are among these.  Raises
    ``LockedError`` while another asdffs writes the old file, ``StorageError`` if it has several names or is a mount
    point, and the errors of ``fill``.
    """
    why = folder.why_kept(name)
    if why:
        raise StorageError(f"cannot be replaced, because {why}; write to another file", path=folder.path(name))
    old = folder.open(name, writable=True)
    try:
        if not folder.lock(old):
            raise LockedError("another asdffs has it open for writing; unmount it first", path=folder.path(name))

        def finish(backend: WriteBackend) -> WriteBackend:
            folder.copy_attributes(old, backend, most=most)
            backend.sync()
            check()
            return folder.replace(backend, name)

        _write(folder, name, fill, finish, durable=True)
        note_changed(folder.path(name))
    finally:
        old.close()


@interrupts.critical()
def _write(
    folder: Folder,
    name: str,
    fill: Callable[[WriteBackend], None],
    finish: Callable[[WriteBackend], WriteBackend],
    *,
    durable: bool,
) -> None:
    remove_stale(folder, name)
    temporary = create_temporary(folder, name, _SUFFIX)
    try:
        folder.lock(temporary)  # so that no other process removes it as a leftover
        fill(temporary)
        backend = finish(temporary)
    except BaseException:  # also an interrupt: remove the temporary file, and raise again
        with interrupts.cleaning():
            temporary.close()
            with contextlib.suppress(OSError):
                folder.remove(temporary.name)
        raise
    backend.close()
    if durable:
        folder.sync()


def remove_stale(folder: Folder, name: str) -> None:
    """Remove temporary files of a program that was killed while it wrote ``name``.

    Those of a live program are locked, and stay.  Raises ``OSError`` if the folder cannot be read.
    """
    for found in temporaries(name, folder.names()):
        if found.endswith(_SUFFIX):
            with contextlib.suppress(OSError):
                backend = folder.open(found, writable=True)
                if folder.lock(backend):
                    folder.remove(found)
                backend.close()


def mode_of_copy(paths: Iterable[str], directory: str) -> int:
    """Return the permissions of a new file in ``directory`` that has content of the files at ``paths``.

    Only who may read all of them may read it, after the user's umask.  A new file may get another group than they
    have; then its group may do what the group and all others may do.  Raises ``OSError``.
    """
    group = _group_in(directory)
    return 0o666 & ~current_umask() & shared_mode(paths, group)


def shared_mode(paths: Iterable[str], group: int) -> int:
    """Return the permissions that whoever has in all files at ``paths`` has in a file of ``group`` with this mode.

    Raises ``OSError``.
    """
    mode = 0o7777
    for path in paths:
        status = os.stat(path)
        both = status.st_mode >> 3 & status.st_mode & 0o006
        mode &= status.st_mode if status.st_gid == group else status.st_mode & 0o600 | both << 3 | both
    return mode


def _group_in(directory: str) -> int:
    """Return the group that a new file in ``directory`` gets."""
    with contextlib.suppress(OSError):  # whoever creates the file tells that the directory is missing
        status = os.stat(directory)
        if status.st_mode & stat.S_ISGID:
            return status.st_gid
    return os.getegid()


def current_umask() -> int:
    """Return the user's umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

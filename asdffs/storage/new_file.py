"""A file that gets its name when all of it is there.

Guarantee: at every instant, a crash of the program included, the name leads to what it led to before or to the whole
new file; a temporary file that a crash leaves is removed by whoever next writes that name, mounts it or recovers it.
Limit: unless ``durable``, when the machine itself fails, the new name may lead to a file that is not all there, as
after cp(1).  A file that is replaced is always durable first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Final

from asdffs import interrupts
from asdffs.errors import LockedError, NameExistsError, Remedy, StorageError
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.payload import create_temporary, temporary_prefix

_SUFFIX: Final = ".tmp"


def write_new(folder: Folder, name: str, fill: Callable[[Backend], None], *, durable: bool, mode: int) -> None:
    """Have ``fill`` write the new file ``name`` of the permissions ``mode``.

    Raises ``NameExistsError`` when there is such a file, and what ``fill`` raises; nothing is left then.
    """

    def place(backend: Backend) -> Backend:
        try:
            return folder.place(backend, name)
        except FileExistsError as err:
            sentence = "is there already; remove it"
            raise NameExistsError(sentence, path=folder.path(name), remedy=Remedy.FORCE_REPLACE) from err

    def finish(backend: Backend) -> Backend:
        folder.set_mode(backend, mode)
        if durable:
            backend.sync()
        return place(backend)

    _write(folder, name, fill, finish, durable=durable)


def write_over(
    folder: Folder, name: str, fill: Callable[[Backend], None], *, check: Callable[[], None] = lambda: None
) -> None:
    """Have ``fill`` write what replaces the file ``name``, with its permissions, owner and attributes; durably.

    ``check`` may raise at the last moment.  Raises ``LockedError`` while another asdffs writes the old file,
    ``StorageError`` when it has several names, and what ``fill`` raises.
    """
    if folder.links(name) > 1:
        sentence = "has several names, of which one would be replaced; write another file"
        raise StorageError(sentence, path=folder.path(name))
    old = folder.open(name, writable=True)
    try:
        if not folder.lock(old):
            raise LockedError("another asdffs has it open for writing; unmount it first", path=folder.path(name))

        def finish(backend: Backend) -> Backend:
            folder.copy_attributes(old, backend)
            backend.sync()
            check()
            return folder.replace(backend, name)

        _write(folder, name, fill, finish, durable=True)
    finally:
        old.close()


def _write(
    folder: Folder, name: str, fill: Callable[[Backend], None], finish: Callable[[Backend], Backend], *, durable: bool
) -> None:
    with interrupts.critical():
        _write_critical(folder, name, fill, finish, durable=durable)


def _write_critical(
    folder: Folder, name: str, fill: Callable[[Backend], None], finish: Callable[[Backend], Backend], *, durable: bool
) -> None:
    remove_stale(folder, name)
    temporary = create_temporary(folder, name, _SUFFIX)
    try:
        folder.lock(temporary)  # it is nobody's leftover
        fill(temporary)
        backend = finish(temporary)
    except BaseException:  # an interrupt as well: no temporary is left, and it goes on
        temporary.close()
        with contextlib.suppress(OSError):
            folder.remove(temporary.name)
        raise
    backend.close()
    if durable:
        folder.sync()


def remove_stale(folder: Folder, name: str) -> None:
    """Remove temporary files that a program left which was killed while it wrote ``name``; a living one's are locked.

    Raises ``OSError`` when the folder cannot be read.
    """
    for found in folder.names():
        if found.startswith(temporary_prefix(name)) and found.endswith(_SUFFIX):
            with contextlib.suppress(OSError):
                backend = folder.open(found, writable=True)
                if folder.lock(backend):
                    folder.remove(found)
                backend.close()


def default_mode(of: int = 0o666) -> int:
    """The permissions of a new file that is made of one with the mode ``of``, as the user's umask has them."""
    return of & 0o666 & ~current_umask()


def current_umask() -> int:
    """The user's umask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

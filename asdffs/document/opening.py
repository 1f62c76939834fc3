"""Opens a document: takes the lock, recovers the file, scans it and finds its dialect.

Only this module chooses real files; tests pass a ``MemoryFolder`` instead.  All errors have the path of the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, cast

from asdffs.document.blocks.transaction import ChangePolicy, Transaction
from asdffs.document.document import Document
from asdffs.document.linked_files import LinkedFiles
from asdffs.document.scanning import find_embedded, naming, place_of, resolve, scan, window_of, with_pending_record
from asdffs.document.state import FileState, Parts
from asdffs.document.state import Settings as Settings
from asdffs.errors import NotFollowedError, NotPermittedError
from asdffs.format.layout import Padding
from asdffs.scheduling import SerialCalls
from asdffs.storage.backend import Access, Folder, MovableBackend, ReadBackend, ReadFolder
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.sidecars import UNDO_SUFFIX, journal_name
from asdffs.storage.urls import RemoteOptions, is_remote

if TYPE_CHECKING:
    from asdffs.storage.journal import Journal
    from asdffs.storage.stores import Store

#: The largest block size of a file system by which blocks of the ASDF file are moved, in bytes.
_LARGEST_UNIT: Final = 1 << 16
#: The journal reserves room at open for the old and new image of a text up to this size, in bytes; for a larger text,
#: it takes the room when it needs it.
_LARGEST_RESERVE: Final = 128 << 20
_LEAST_RESERVE: Final = 1 << 14
#: Seconds for which an open waits for a daemon that is finishing the same file.
PATIENCE = 600.0


def open_document(path: str, *, writable: bool, settings: Settings | None = None) -> Document:
    """Open the ASDF file at ``path``; with ``writable``, take the lock and recover the file first.

    ``path`` may be the URL of a remote file, which is read-only.

    Raises ``MissingFileError``, ``NotAsdfError``, ``DamagedFileError``, ``LockedError``, ``RemoteError``,
    ``ReadOnlyError``, ``OSError``.
    """
    chosen = settings or Settings()
    folder, name = _local(path) if writable else place_of(path, chosen.remote, chosen.scheduler)
    return open_in_folder(folder, name, writable=writable, settings=chosen)


def _local(path: str) -> tuple[Folder, str]:
    directory, name = resolve(path)
    return FileFolder(directory), name


def open_shared(path: str | os.PathLike[str], *, writable: bool) -> Document:
    """Open a document as ``open_document`` for the threads of a program, whose calls run one at a time."""
    document = open_document(os.fspath(path), writable=writable, settings=Settings(scheduler=SerialCalls()))
    if writable:
        from asdffs.document import preloading  # who only reads does without

        preloading.load()
        document.note_owner({"pid": os.getpid(), "program": "a Python program"})
    return document


def open_to_read(path: str) -> Document:
    """Open the document at ``path``, which may be a URL, for reading by the threads of a program."""
    return open_shared(path, writable=False)


def open_with_store(store: Store, path: str, url: str) -> Document:
    """Open the document at ``path`` of an object store for reading, by the threads of a program.

    ``url``: its name for messages and references.  Raises as ``open_document``, and what the store raises.
    """
    from asdffs.storage.stores import StoreFolder

    settings = Settings(scheduler=SerialCalls())
    return open_in_folder(StoreFolder(store, path, url), url.rpartition("/")[2], writable=False, settings=settings)


def open_in_folder(
    folder: ReadFolder,
    name: str,
    *,
    writable: bool,
    settings: Settings | None = None,
    linked_files: LinkedFiles[FileState] | None = None,
) -> Document:
    """Open a document as ``open_document``, in any folder.

    ``linked_files``: the linked files of the file that refers to this one, if there is one.
    """
    story: list[str] = []
    chosen = settings or Settings()

    def reopen_parts(current: Transaction) -> Parts:
        with naming(folder.path(name)):
            return _reopen_parts(folder, name, current, chosen)

    with naming(folder.path(name)):
        parts = _open_parts(folder, name, story, chosen, writable=writable)
    document = Document(
        folder.path(name),
        parts,
        chosen._replace(padding=_fitting(chosen.padding, parts.transaction.backend)),
        reopen=reopen_parts,
        open_again=open_to_read,
        opener=_Beside(chosen, folder),
        linked_files=linked_files,
        recovery="; ".join(story),
    )
    if writable and isinstance(folder, FileFolder) and folder.has(name + UNDO_SUFFIX):
        document.contents.end_killed_session(folder, name)
    return document


class _Beside:
    """Opens the files to which a file in ``home``, opened with ``settings``, refers.  See ``Opener``."""

    def __init__(self, settings: Settings, home: ReadFolder) -> None:
        self._settings = settings
        self._home = home

    def document(self, path: str, linked_files: LinkedFiles[FileState]) -> FileState:
        """See ``Opener``."""
        settings = _beside(self._settings)
        folder, name = place_of(path, settings.remote, settings.scheduler)
        return open_in_folder(folder, name, writable=False, settings=settings, linked_files=linked_files)

    def data(self, path: str) -> tuple[ReadFolder, ReadBackend]:
        """See ``Opener``."""
        from asdffs.storage.stores import StoreFolder

        if isinstance(self._home, StoreFolder):  # with credentials that are not ours
            raise NotFollowedError("only the program that opened this file can read it", path=path)
        settings = _beside(self._settings)
        folder, name = place_of(path, settings.remote, settings.scheduler)
        with naming(folder.path(name)):
            return folder, folder.open(name, writable=False)


def _beside(settings: Settings) -> Settings:
    """Return the settings of a linked file: it shares scheduler and spool with the file that refers to it.

    Redirects to other servers are not followed, because the user allowed only this one.
    """
    remote = (settings.remote or RemoteOptions())._replace(redirects=False, downloaded=None)
    spool, budget = settings.spool_max, settings.budget
    return Settings(settings.spool, settings.scheduler, spool_max=spool, budget=budget, remote=remote)


def _fitting(policy: Padding, backend: ReadBackend) -> Padding:
    """Return ``policy`` with moves aligned to blocks of the file system, unless these are huge, as on a network."""
    unit = backend.unit()
    return policy._replace(alignment=unit) if policy.alignment < unit <= _LARGEST_UNIT else policy


def _open_parts(folder: ReadFolder, name: str, story: list[str], settings: Settings, *, writable: bool) -> Parts:
    journal = file = None
    place = cast(Folder, folder)  # a remote file is never opened for writing
    if writable:
        from asdffs.storage.lock import open_locked

        file = open_locked(place, name, patience=PATIENCE, noted=settings.holder)
    backend = file or with_pending_record(folder, folder.open(name, writable=False))
    try:
        if file is not None:
            journal = _open_recovered(place, file, story, create=settings.journal)
        known = backend.signature()  # before the scan, so that a change during the scan is noticed
        embedded = find_embedded(backend)
        layout, dialect = scan(window_of(backend, embedded), trusting=is_remote(folder.path(name)))
        if journal is not None:
            journal.reserve(2 * min(layout.padding.stop, _LARGEST_RESERVE) + _LEAST_RESERVE)
    except BaseException:  # also an interrupt: leave nothing open, then raise
        if journal is not None:
            journal.discard()
        backend.close()
        raise
    policy = ChangePolicy(writable, settings.growth, settings.replacing, settings.noting, _note_changed)
    transaction = Transaction(folder, backend, journal, settings.scheduler, policy, known, embedded)
    return Parts(transaction, layout, dialect)


def _note_changed(path: str) -> None:
    from asdffs.storage.changed_files import note_changed  # who only reads does without

    note_changed(path)


def _reopen_parts(folder: ReadFolder, name: str, current: Transaction, settings: Settings) -> Parts:
    """Return the parts of a file that another program changed in place or replaced.

    Raises ``NotPermittedError`` if others see it, and may do less with the new file than with the old one.
    """
    backend = current.whole
    if not current.mode.writable:
        backend = with_pending_record(folder, folder.open(name, writable=False))
    elif folder.signature(name).inode != backend.signature().inode:
        from asdffs.storage.lock import open_locked

        backend = open_locked(cast(Folder, folder), name, patience=0, noted=settings.holder)
    try:
        known = backend.signature()
        if settings.others is not None:
            _check_as_open(known.access, current.known.access, settings.others)
        embedded = find_embedded(backend)
        layout, dialect = scan(window_of(backend, embedded))
        if backend is not current.whole:
            settings.replacing(folder.path(name))
    except BaseException:  # as above
        if backend is not current.whole:
            backend.close()
        raise
    return Parts(current.hand_over(backend, known, embedded), layout, dialect)


def _check_as_open(new: Access, old: Access, others: int) -> None:
    """Raise ``NotPermittedError`` if others may do less with the file ``new`` than with ``old``."""
    from asdffs.storage.permissions import is_as_open  # most mounts are for one user

    if not is_as_open(new, old, others):
        raise NotPermittedError("was replaced by a file with other permissions; mount it again")


def _open_recovered(folder: Folder, backend: MovableBackend, story: list[str], *, create: bool) -> Journal | None:
    """Recover the file and return its journal.

    Without ``create``, return None, and remove a journal that a dead process left after its recovery.
    """
    if not create and journal_name(backend.name) not in folder.names():
        return None
    from asdffs.storage.journal import Journal
    from asdffs.storage.recovery import recover

    journal = Journal.open(folder, backend.name)
    try:
        sentence = recover(folder, backend, journal)
    except BaseException:  # it stays for the next time, and its lock must not
        journal.close()
        raise
    if sentence:
        story.append(sentence)
        journal.close()
        journal = Journal.open(folder, backend.name)
    if create:
        return journal
    journal.discard()
    return None

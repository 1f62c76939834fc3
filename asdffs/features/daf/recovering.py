"""Recovers changes to a store that a killed mount had not committed: replays its log and commits the result.

The caller holds the file's lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, Final

from asdffs.document.document import Document
from asdffs.errors import (
    AsdffsError,
    FileExpectedError,
    NameExistsError,
    NoSuchNameError,
    NotDirectoryError,
    NotEmptyError,
    NotPermittedError,
    UnfinishedError,
    reason_of,
)
from asdffs.features.daf.format import LOG
from asdffs.features.daf.live import LiveStore
from asdffs.features.daf.live_directory import LiveDirectory
from asdffs.features.daf.live_file import LiveFile
from asdffs.features.daf.loose import Loose, remove_logs, take_log

#: What an operation raises that cannot be replayed.
_IMPOSSIBLE: Final = (
    *(NoSuchNameError, NameExistsError, NotEmptyError, NotPermittedError),
    *(FileExpectedError, NotDirectoryError),
)


def recover_store(document: Document, spool: str) -> Iterator[str]:
    """Replay and commit the log in ``spool``; yield sentences that report it.

    Raises ``UnfinishedError`` if the log cannot be read or its changes cannot be committed; the spool stays as it is.
    """
    store = LiveStore(document, spool, logged=False)
    try:
        operations = take_log(spool, document.tree.text())
    except ValueError as err:
        raise UnfinishedError(
            f"the store log that the last mount left cannot be read: {reason_of(err)}", path=os.path.join(spool, LOG)
        ) from err
    store.refresh()
    for operation in operations:
        _replay(store, operation)
    count = len(list(store.loose_files()))
    try:
        store.commit(final=True, forced=True)
        document.finish()
    except (AsdffsError, OSError) as err:
        sentence = (
            f"changes of the last mount to the FilesDaf store cannot be committed: {reason_of(err)}; kept in {spool}"
        )
        raise UnfinishedError(sentence, path=document.path) from err
    remove_logs(spool)
    if operations:
        yield f"the last mount was killed; its changes to the FilesDaf store are in the file now ({count} files)"


def _replay(store: LiveStore, operation: list[Any]) -> None:
    """Replay one operation as far as possible: the tree may have its result already."""
    kind, path, *rest = operation
    root, name = store.root, path.rpartition("/")[2]
    folder = root.find(path.rpartition("/")[0])
    with contextlib.suppress(*_IMPOSSIBLE):
        if kind == "loose":
            _restore(store, path, rest[0])
        elif kind == "mkdir":
            root.make(path)
        elif not isinstance(folder, LiveDirectory):
            return
        elif kind == "rmdir":
            folder.rmdir(name)
        elif kind == "unlink":
            folder.unlink(name)
        elif kind == "link":
            file, target = folder.entries.get(name), root.find(rest[0].rpartition("/")[0])
            if isinstance(file, LiveFile) and isinstance(target, LiveDirectory):
                target.link(file, rest[0].rpartition("/")[2])
        elif kind == "rename" and root.find(path) not in (None, root.find(rest[0])):
            new = root.make(rest[0].rpartition("/")[0])
            if new is not None:
                folder.rename(name, new, rest[0].rpartition("/")[2])


def _restore(store: LiveStore, path: str, spooled: str) -> None:
    """Give the file at ``path`` the content of the spool file ``spooled``, unless that was removed."""
    file = store.root.find(path)
    if not os.path.exists(spooled):
        return
    if isinstance(file, LiveFile):
        file.become(Loose(spooled), same=False)
    elif file is None:
        store.root.make(path.rpartition("/")[0])
        store.root.place(path, LiveFile(store, Loose(spooled)))

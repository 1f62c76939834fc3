"""Recovers changes to a store that a killed mount had not committed: replays its log and commits the result.

The caller holds the file's lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, UnfinishedError, reason_of
from asdffs.features.daf.format import LOG
from asdffs.features.daf.live import LiveStore
from asdffs.features.daf.live_directory import LiveDirectory
from asdffs.features.daf.live_file import LiveFile
from asdffs.features.daf.loose import Loose, remove_logs, take_log

logger = logging.getLogger(__name__)


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
    """Replay one operation if its files exist; it is skipped if the tree has its result already."""
    kind, path, *rest = operation
    root, other = store.root, rest[0] if rest else ""
    if kind == "loose":
        _loosen(store, path, other)
    elif kind == "mkdir":
        root.make(path)
    elif kind == "rmdir":
        entry = root.find(path)
        if isinstance(entry, LiveDirectory) and not entry.entries:
            _folder(store, path).entries.pop(_name(path))
    elif kind == "unlink" and isinstance(root.find(path), LiveFile):
        root.displace(path)
    elif kind == "link":
        file = root.find(path)
        if isinstance(file, LiveFile) and root.find(other) is None:
            root.place(other, file)
    elif kind == "rename":
        _rename(store, path, other)


def _loosen(store: LiveStore, path: str, spooled: str) -> None:
    file = store.root.find(path)
    if not os.path.exists(spooled):  # it was removed
        return
    if isinstance(file, LiveFile):
        file.become(Loose(spooled), same=False)
    elif file is None:
        store.root.make(path.rpartition("/")[0])
        store.root.place(path, LiveFile(store, Loose(spooled)))


def _rename(store: LiveStore, path: str, new: str) -> None:
    entry, there = store.root.find(path), store.root.find(new)
    if entry is None or there is entry or isinstance(there, LiveDirectory) > isinstance(entry, LiveDirectory):
        return
    if isinstance(there, LiveDirectory):
        if there.entries:
            return
        _folder(store, new).entries.pop(_name(new))
    elif there is not None:
        store.root.displace(new)
    target = store.root.make(new.rpartition("/")[0])
    if target is not None:
        _folder(store, path).rename(_name(path), target, _name(new))


def _folder(store: LiveStore, path: str) -> LiveDirectory:
    above = path.rpartition("/")[0]
    found = store.root.find(above)
    if not isinstance(found, LiveDirectory):
        raise TypeError("the parent of an entry must be a directory")
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]

"""Recovery: what is done with a journal that a dead process left behind.

Run at every open that holds the exclusive lock; idempotent, and safe to be cut anywhere.

| found                                                   | done                                    |
|---------------------------------------------------------|-----------------------------------------|
| no record, or a torn one                                | nothing: the file was not touched       |
| the record's file, every byte of it as before or after  | the change is made (again), then retired|
| another inode, size or content                          | record set aside, file untouched        |
| such a record in the sidecar of another name of the file| the same, then that sidecar is removed  |

A file replaced by growth needs no record: the rename is atomic; its temporary is removed.
Users: ``document/opening``.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import logging
import os
import zlib
from collections.abc import Iterable

from asdffs.storage.journal import JOURNAL_SUFFIX, Image, Journal, Record, journal_name, read_record
from asdffs.storage.store import Folder, Store

logger = logging.getLogger(__name__)

_STEP = 1 << 16


class Outcome(enum.Enum):
    """What recovery found and did."""

    CLEAN = "clean"
    COMPLETED = "completed"
    SET_ASIDE = "set aside"


def recover(folder: Folder, store: Store, journal: Journal) -> tuple[Outcome, str]:
    """Bring ``store`` to a whole state; what was done, and a sentence (empty when clean).

    Raises ``OSError``; the record then stays pending and recovery can be run again.
    """
    _remove_temporaries(folder, store.name)
    outcome = Outcome.CLEAN, ""
    for name, left in _records_of_other_names(folder, store):
        outcome = _complete(store, left)
        with contextlib.suppress(FileNotFoundError):
            folder.remove(name)
        folder.sync()
    record = journal.pending()
    if record is None:
        return outcome
    if not belongs(store, record):
        kept = journal.set_aside()
        return Outcome.SET_ASIDE, f"a journal that does not match the file was set aside as {kept}"
    outcome = _complete(store, record)
    journal.retire()
    return outcome


def _complete(store: Store, record: Record) -> tuple[Outcome, str]:
    apply(store, record.images, record.new_size)
    store.sync()
    return Outcome.COMPLETED, "a change that was interrupted has been completed from the journal"


def _records_of_other_names(folder: Folder, store: Store) -> list[tuple[str, Record]]:
    """Sidecars with records of this file that were left under another name: a hard link, or its name before."""
    found = []
    for name in folder.names():
        if name == journal_name(store.name) or not name.endswith(JOURNAL_SUFFIX):
            continue
        record = _read_foreign(folder, name)
        if record is not None and belongs(store, record):
            found.append((name, record))
    return found


def _read_foreign(folder: Folder, name: str) -> Record | None:
    """The record in a sidecar of, most likely, another file: of another user, or just being removed."""
    try:
        sidecar = folder.open(name, writable=False)
    except OSError as err:
        logger.info("%s is not looked at: %s", folder.path(name), err.strerror)
        return None
    try:
        return read_record(sidecar)
    except OSError as err:
        logger.info("%s is not looked at: %s", folder.path(name), err.strerror)
        return None
    finally:
        sidecar.close()


def belongs(store: Store, record: Record) -> bool:
    """Whether ``store`` is in a state that the interrupted change of ``record`` can leave."""
    least, most = sorted((record.old_size, record.new_size))
    if store.signature().inode != record.inode or not least <= store.size() <= most:
        return False
    witness = store.read_at(record.witness_offset, record.witness_length)
    if zlib.crc32(witness) != record.witness_crc:
        return False
    return all(_old_or_new(store, image) for image in record.images)


def apply(store: Store, images: Iterable[Image], new_size: int) -> None:
    """Make a change: extend first and cut last, so that the size is the old or the new one.  Not synced."""
    if store.size() < new_size:
        store.truncate(new_size)
    for image in images:
        store.write_at(image.offset, image.after)
    if store.size() > new_size:
        store.truncate(new_size)


def undo(store: Store, images: Iterable[Image], old_size: int) -> None:
    """Put the before-images and the old size back.  Not synced."""
    for image in images:
        store.write_at(image.offset, image.before)
    store.truncate(old_size)


def temporary_prefix(name: str) -> str:
    """How names of temporary copies of the file ``name`` begin; short enough for any name."""
    return f".asdffs-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}-"


def _old_or_new(store: Store, image: Image) -> bool:
    """Each byte is the one before or the one after; past the old end, before is zero."""
    for start in range(0, len(image.after), _STEP):
        now = store.read_at(image.offset + start, min(_STEP, len(image.after) - start))
        after = image.after[start : start + len(now)]
        before = image.before[start : start + len(now)].ljust(len(now), b"\0")
        if now not in (before, after) and any(n not in pair for n, *pair in zip(now, before, after, strict=True)):
            return False
    return True


def _remove_temporaries(folder: Folder, name: str) -> None:
    for found in folder.names():
        if found.startswith(temporary_prefix(name)):
            logger.info("removing %s, left by an interrupted growth", folder.path(found))
            folder.remove(found)

"""Recovery: complete or undo the change in a journal that a dead process left behind.

Runs at every open that holds the exclusive lock, and in ``asdffs recover``.  It is idempotent, and may be
interrupted at any point.  docs/design/journal.md has the table of what may be found, and what is done about it.

Then the file is synced and the record retired.  A file that growth replaces needs no record, because the rename
is atomic; its temporary file is removed.  ``find_leftovers`` only lists what a crash or a conflict has left.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from asdffs.errors import RecoveryError, Remedy, UntrustedFileError
from asdffs.storage.backend import Folder, MovableBackend, ReadBackend
from asdffs.storage.journal import Journal, read_record, read_trusted
from asdffs.storage.lock import read_owner
from asdffs.storage.sidecars import (
    JOURNAL_SUFFIX,
    PAYLOAD_SUFFIX,
    check_name_trusted,
    check_trusted,
    is_poured,
    journal_name,
    open_payload,
    temporaries,
)

if TYPE_CHECKING:
    from asdffs.storage.record import Record

logger = logging.getLogger(__name__)

_SIDECAR = re.compile(rf"{re.escape(JOURNAL_SUFFIX)}(\.orphan-\d+)?\Z")


def recover(folder: Folder, backend: MovableBackend, journal: Journal) -> str:
    """Complete or undo the interrupted change of ``backend``, and return a sentence about it; empty without one.

    Raises ``RecoveryError`` or ``OSError``; the record then stays pending, and recovery can run again.
    """
    sentence = ""
    hidden = [name for name in folder.names() if name.startswith(".")]  # there may be 100,000 others
    for other in _journals_of_other_names(folder, backend, hidden):
        sentence = _complete_or_undo(folder, backend, other) or sentence
        other.discard()
        folder.sync()  # invariant 3
    sentence = _complete_or_undo(folder, backend, journal) or sentence
    _remove_temporaries(folder, backend.name, hidden)
    return sentence


def _complete_or_undo(folder: Folder, backend: MovableBackend, journal: Journal) -> str:
    record = journal.pending()
    if record is None:
        return ""
    from asdffs.storage.unfinished import belongs, finish  # most files have no record

    if not belongs(backend, record):
        _check_position(folder, backend, record)
        kept = journal.set_aside()
        _keep_payload(folder, record, kept)
        return f"a journal that does not match the file was set aside as {kept}"
    names = _payload_names(record, journal)
    payload = _payload_of(folder, backend, record, names)
    with contextlib.nullcontext() if payload is None else contextlib.closing(payload):
        completed = finish(backend, record, payload)
    journal.retire()
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            folder.remove(name)
    if completed:
        return "a change that was interrupted has been completed from the journal"
    return "a change that was interrupted before it took effect has been undone"


def _payload_names(record: Record, journal: Journal) -> list[str]:
    """Return the possible names of a record's payload.  Setting a journal aside also renames its payload."""
    return [] if record.fill is None else [record.fill.name, journal.name + PAYLOAD_SUFFIX]


def _payload_of(folder: Folder, backend: MovableBackend, record: Record, names: list[str]) -> ReadBackend | None:
    """Return the payload of a record's fill, in the first of ``names`` that has it.

    None if there is no fill, or if the payload is lost but the file has all its bytes.  Raises ``RecoveryError`` if
    the payload is lost and bytes are missing.
    """
    fill = record.fill
    if fill is None:
        return None
    for name in names:
        payload = open_payload(folder, backend.name, fill._replace(name=name))
        if payload is not None:
            return payload
    if not is_poured(backend, fill):
        raise RecoveryError(
            f"{folder.path(fill.name)}, which holds the new content of a block, is missing or was changed; put "
            f"it back, or move {folder.path(journal_name(backend.name))} away and lose that block",
            path=folder.path(backend.name),
        )
    return None


def _keep_payload(folder: Folder, record: Record, kept: str) -> None:
    """Rename the payload of a set-aside record, so that both stay together."""
    if record.fill is None:
        return
    with contextlib.suppress(FileNotFoundError):
        payload = folder.open(record.fill.name, writable=True)
        folder.replace(payload, os.path.basename(kept) + PAYLOAD_SUFFIX).close()


def _check_position(folder: Folder, backend: MovableBackend, record: Record) -> None:
    """Raise ``RecoveryError`` if some bytes of the file may have moved, and it is unknown which."""
    from asdffs.storage.record import Kind
    from asdffs.storage.unfinished import Position, locate

    gap = record.gap
    if gap is None or gap.kind is not Kind.INSERT or backend.signature().inode != record.inode:
        return
    if backend.size() == record.old_size + gap.length or locate(backend, record, gap)[0] is Position.MIXED:
        name = folder.path(journal_name(backend.name))
        raise RecoveryError(
            f"growing the file was interrupted, and since then it was changed or moved on the disk; if it is intact, "
            f"move {name} away",
            path=folder.path(backend.name),
            remedy=Remedy.LOOK,
        )


def _journals_of_other_names(folder: Folder, backend: MovableBackend, hidden: list[str]) -> list[Journal]:
    """Return sidecars with records of this file under another name: a hard link, or an earlier name.

    Also those that were set aside, because another file got that name and was opened before this one.
    """
    found = []
    own = journal_name(backend.name)
    for name in hidden:
        if name == own or _SIDECAR.search(name) is None:
            continue
        journal = _open_foreign(folder, name, backend)
        if journal is not None:
            found.append(journal)
    return found


def _open_foreign(folder: Folder, name: str, backend: MovableBackend) -> Journal | None:
    """Return the journal ``name`` if its record belongs to ``backend``, else None.

    Most sidecars belong to other files, other users, or are just being removed.
    """
    try:
        sidecar = folder.open(name, writable=True)
    except OSError as err:
        logger.info("%s is ignored: %s", folder.path(name), err.strerror)
        return None
    from asdffs.storage.unfinished import belongs

    try:
        check_trusted(folder, backend.name, sidecar)
        record = read_record(sidecar)
        if record is not None and belongs(backend, record):
            return Journal(folder, sidecar, name)
    except (UntrustedFileError, OSError) as err:
        logger.info("%s is ignored: %s", folder.path(name), err)
    sidecar.close()
    return None


def _remove_temporaries(folder: Folder, name: str, hidden: list[str]) -> None:
    for found in temporaries(name, hidden):
        logger.info("removing %s, left by an interrupted change", folder.path(found))
        try:
            with contextlib.suppress(FileNotFoundError):  # another name of it, as a payload
                folder.remove(found)
        except PermissionError as err:  # another user owns it, in a sticky directory
            logger.warning("%s could not be removed: %s", folder.path(found), err.strerror)


#: A journal that was set aside: what follows the name of the journal.
_ORPHAN: Final = re.compile(r"\.orphan-\d+")
#: What is kept for the user: what follows the name of the file.
_KEPT: Final = re.compile(r"\.(rejected-\d+\.yaml|(conflict|unsaved)-\d+\..*|leftover(-\d+)?)")


class Leftover(NamedTuple):
    """One file that was left behind.

    ``sentence``: describes it for messages.  ``repairable``: the next open for writing repairs or removes it.
    ``kept``: it holds changes made by a user.
    """

    sentence: str
    repairable: bool = False
    kept: bool = False


def find_leftovers(folder: Folder, backend: MovableBackend) -> list[Leftover]:
    """Return everything that was left beside the file of ``backend``.  Raises ``OSError``."""
    name, journal = backend.name, journal_name(backend.name)
    all_names = folder.names()
    names = sorted(
        {*(other for other in all_names if other.startswith((name, journal))), *temporaries(name, all_names)}
    )
    found = [] if _is_mounted(folder, name) else _unfinished(folder, backend, names)
    found += [
        Leftover(f"{folder.path(other)} is a journal that did not match the file and was set aside", kept=True)
        for other in names
        if other.startswith(journal) and _ORPHAN.fullmatch(other, len(journal))
    ]
    found += [
        Leftover(
            f"{folder.path(other)} keeps {_kept_kind(other)}; remove it when you no longer need it",
            kept=True,
        )
        for other in names
        if other.startswith(name) and _KEPT.fullmatch(other, len(name))
    ]
    return found


def _kept_kind(name: str) -> str:
    """Return what a file or directory ``name`` beside the ASDF file keeps."""
    return "files that were left in a mount" if ".leftover" in name else "a save that is not in the file"


def _is_mounted(folder: Folder, name: str) -> bool:
    """Return whether the journal belongs to a live daemon, and so is not a leftover."""
    pid = read_owner(folder, name).get("pid")
    return isinstance(pid, int) and _lives(pid)


def _lives(pid: int) -> bool:
    """Return whether the process exists and is not a zombie (proc(5), stat)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return not os.path.isdir("/proc/self") and _is_there(pid)


def _is_there(pid: int) -> bool:
    """Return whether the process exists, on a system without proc(5)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _unfinished(folder: Folder, backend: MovableBackend, names: list[str]) -> list[Leftover]:
    found = [
        Leftover(f"{folder.path(other)} is left over from an interrupted change", repairable=True)
        for other in temporaries(backend.name, names)
    ]
    if journal_name(backend.name) in names:
        found.append(_journal(folder, backend))
    return found


def _journal(folder: Folder, backend: MovableBackend) -> Leftover:
    path = folder.path(journal_name(backend.name))
    try:
        check_name_trusted(folder, backend.name, journal_name(backend.name))
    except UntrustedFileError as err:
        return Leftover(str(err))
    found = read_trusted(folder, backend.name)
    if found is None:
        return Leftover(
            f"{path} is the journal of a mount that was killed; nothing is pending in it", repairable=True
        )
    from asdffs.storage.unfinished import belongs

    if belongs(backend, found):
        return Leftover(
            f"{path} holds an interrupted change; the file is shown as recovery will leave it", repairable=True
        )
    return Leftover(f"{path} holds a change that does not match the file", repairable=True)

"""Find the files that a crash or a conflict has left beside a file.  Reads only."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from asdffs.errors import UntrustedFileError
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.journal import read_owner, read_trusted
from asdffs.storage.journal_name import journal_name
from asdffs.storage.payload import temporary_prefix
from asdffs.storage.trust import check_name_trusted
from asdffs.storage.unfinished import belongs

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


def find_leftovers(folder: Folder, backend: Backend) -> list[Leftover]:
    """Return everything that was left beside the file of ``backend``.  Raises ``OSError``."""
    name, journal = backend.name, journal_name(backend.name)
    beside = (name, journal, temporary_prefix(name))
    names = sorted(other for other in folder.names() if other.startswith(beside))
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


def _unfinished(folder: Folder, backend: Backend, names: list[str]) -> list[Leftover]:
    found = [
        Leftover(f"{folder.path(other)} is left over from an interrupted change", repairable=True)
        for other in names
        if other.startswith(temporary_prefix(backend.name))
    ]
    if journal_name(backend.name) in names:
        found.append(_journal(folder, backend))
    return found


def _journal(folder: Folder, backend: Backend) -> Leftover:
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
    if belongs(backend, found):
        return Leftover(
            f"{path} holds an interrupted change; the file is shown as recovery will leave it", repairable=True
        )
    return Leftover(f"{path} holds a change that does not match the file", repairable=True)

"""Where a mount keeps drafts, scratch, log and report: under the user's state directory.

``$XDG_STATE_HOME/asdffs/ID`` (default ``~/.local/state``), ID a hash of the file's path, so
that the next command on the same file finds what a daemon left.  Falls back to the system's
temporary directory where there is no home.  Users: ``mount``, ``umount``.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile

from asdffs.mount.daemon import Places


def places_of(path: str) -> Places:
    """The places of the writing mount of the file at ``path``; created.  Raises ``OSError``."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    top = os.path.join(_state_home(), "asdffs", name)
    places = Places(
        os.path.join(top, "spool"),
        os.path.join(top, "rejected"),
        os.path.join(top, "log"),
        os.path.join(top, "report.json"),
    )
    make(places)
    return places


def private_places() -> Places:
    """Places of a read-only mount: in a temporary directory, without a report."""
    top = tempfile.mkdtemp(prefix="asdffs-")
    places = Places(os.path.join(top, "spool"), os.path.join(top, "rejected"), os.path.join(top, "log"))
    make(places)
    return places


def make(places: Places) -> None:
    """Create the directories, for the user alone."""
    for folder in (places.spool, places.rejected):
        os.makedirs(folder, mode=0o700, exist_ok=True)


def clear(places: Places) -> None:
    """Remove drafts and scratch: all of it is in the file or beside it.  The log and the report stay."""
    shutil.rmtree(places.spool, ignore_errors=True)
    shutil.rmtree(places.rejected, ignore_errors=True)
    if not places.report:
        shutil.rmtree(os.path.dirname(places.spool), ignore_errors=True)


def take_report(path: str) -> tuple[list[str], list[str]] | None:
    """What was kept and what failed when a mount ended, told once; None when no mount left a report."""
    try:
        with open(path) as file:
            report = json.load(file)
        os.unlink(path)
    except (OSError, ValueError):
        return None
    return list(report.get("kept", [])), list(report.get("failures", []))


def _state_home() -> str:
    chosen = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    try:
        os.makedirs(chosen, mode=0o700, exist_ok=True)
    except OSError:
        return tempfile.gettempdir()
    return chosen if os.access(chosen, os.W_OK) else tempfile.gettempdir()

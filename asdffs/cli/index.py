"""``asdffs index DIR...``: bring a catalogue up to date."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from asdffs.cli.bars import shown
from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.saying import say
from asdffs.errors import MissingFileError, UsageError
from asdffs.storage.remote.options import cache_folder
from asdffs.storage.remote.urls import is_remote
from asdffs.workflows.catalog.indexing import WHOLE, Indexed, Part, update, writing
from asdffs.workflows.catalog.store import open_catalog

logger = logging.getLogger(__name__)

#: The query that lists the files that cannot be read, quoted for a shell.
BROKEN: Final = "\"SELECT path, error FROM file WHERE error != ''\""


def run(arguments: argparse.Namespace) -> int:
    """Index the files, and print how many there were.  Raises ``AsdffsError``, ``OSError``."""
    path, part = catalog_of(arguments.catalog), _part_of(arguments.part)
    places = [*arguments.places, *_listed(arguments.files_from)]
    if not places:
        raise UsageError("give a directory, or --files-from")
    if arguments.merge:
        return _merge(arguments, path, places)
    done = indexed(path, roots_of(places), arguments.jobs, part)
    if arguments.json:
        print(json.dumps({"catalog": path, **done._asdict()}, indent=2))
    else:
        say(f"{path}: {_told(done)}")
    if done.unread:
        logger.warning("%s: %d files cannot be read: asdffs find --sql %s", path, done.unread, BROKEN)
    return int(ExitCode.OK)


def _merge(arguments: argparse.Namespace, path: str, parts: Sequence[str]) -> int:
    """Join catalogues, and print how many files they had."""
    if arguments.part or arguments.files_from:
        raise UsageError("--merge takes the names of catalogues alone")
    with closing(open_catalog(path, writable=True)) as catalog, writing(path):
        merged = sum(catalog.merge(part) for part in parts)
        count, unread = catalog.counts()
    if arguments.json:
        facts = {"catalog": path, "found": count, "read": merged, "unread": unread, "removed": 0}
        print(json.dumps(facts, indent=2))
    else:
        say(f"{path}: {count} files, {merged} merged")
    return int(ExitCode.OK)


def _part_of(text: str | None) -> Part:
    """Return the part that ``--part`` names.  Raises ``UsageError``."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text or "1/1")
    part = Part(*map(int, found.groups())) if found is not None else None
    if part is None or not 1 <= part.number <= part.total:
        raise UsageError(f"--part {text}: give I/N, such as 3/8")
    return part


def indexed(path: str, roots: Sequence[bytes], jobs: int | None = None, part: Part = WHOLE) -> Indexed:
    """Bring the catalogue at ``path`` up to date with ``roots``, with a bar on the terminal.  Raises as ``run``."""
    if jobs is not None and not 1 <= jobs <= 1024:
        raise UsageError(f"--jobs {jobs}: give a number from 1 to 1024")
    facts = {"operation": "reading", "block": None, "done": 0, "total": 0, "unit": "files"}

    def note(done: int, total: int) -> None:
        facts.update(done=done, total=total)

    with closing(open_catalog(path, writable=True)) as catalog, shown(lambda: [facts], "indexing"):
        return update(catalog, roots, jobs or len(os.sched_getaffinity(0)), note, part)


def catalog_of(path: str | None) -> str:
    """Return the path of the catalogue that ``--catalog`` names."""
    return path or os.path.join(cache_folder(), "catalog.sqlite")


def roots_of(places: Sequence[str]) -> list[bytes]:
    """Return the absolute paths of directories and files.  Raises ``MissingFileError``, ``UsageError``."""
    for place in places:
        if is_remote(place):
            raise UsageError("is a remote file; only local files can be indexed", path=place)
        if not os.path.exists(place):
            raise MissingFileError("there is no such file or directory", path=place)
    return [os.fsencode(os.path.realpath(place)) for place in places]


def _listed(name: str | None) -> list[str]:
    """Return the names in the file that ``--files-from`` names; ends of lines or NULs end them."""
    if name is None:
        return []
    if name == "-":
        content = sys.stdin.buffer.read()
    else:
        with open(name, "rb") as file:
            content = file.read()
    separator = b"\0" if b"\0" in content else b"\n"
    return [os.fsdecode(line) for line in content.split(separator) if line]


def _told(done: Indexed) -> str:
    parts = [f"{done.found} {'file' if done.found == 1 else 'files'}", f"{done.read} read"]
    parts += [f"{done.removed} removed"] if done.removed else []
    return ", ".join(parts)

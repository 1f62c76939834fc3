"""Finds the files of directories for a catalogue: by their names, without opening them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from asdffs.format.constants import FILE_ENDINGS
from asdffs.workflows.catalog.reading import identity_of

logger = logging.getLogger(__name__)

_ENDINGS: Final = tuple(map(str.encode, FILE_ENDINGS))


def files_below(roots: Iterable[bytes]) -> Iterator[tuple[bytes, str]]:
    """Yield path and identity of each file with a fitting name below the directories ``roots``.

    A root that is a file is taken whatever its name is.  Links to files are files.  Links to directories are not
    followed, so a loop of links ends.  What cannot be looked at is logged, and left out.
    """
    for root in roots:
        try:
            status = os.stat(root)
        except OSError as err:
            logger.warning("%s: %s", os.fsdecode(root), err.strerror)
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _below(root)
        else:
            yield root, identity_of(status)


def _below(directory: bytes) -> Iterator[tuple[bytes, str]]:
    waiting = [directory]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as err:
            logger.warning("%s: %s", os.fsdecode(place), err.strerror)
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.name.lower().endswith(_ENDINGS) and not entry.name.startswith(b"."):
                yield from _regular(entry)


def _regular(entry: os.DirEntry[bytes]) -> Iterator[tuple[bytes, str]]:
    try:
        status = entry.stat()
    except OSError as err:
        logger.warning("%s: %s", os.fsdecode(entry.path), err.strerror)
        return
    if stat.S_ISREG(status.st_mode):
        yield entry.path, identity_of(status)

"""Finds the files of directories and prefixes for a catalogue: by their names, without opening them."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from asdffs.format.constants import FILE_ENDINGS
from asdffs.storage.remote.urls import is_remote
from asdffs.workflows.catalog.reading import identity_of, version_of

if TYPE_CHECKING:
    from asdffs.storage.remote.options import RemoteOptions

logger = logging.getLogger(__name__)

_ENDINGS: Final = tuple(map(str.encode, FILE_ENDINGS))


def files_below(roots: Iterable[bytes], remote: RemoteOptions | None = None) -> Iterator[tuple[bytes, str]]:
    """Yield path and identity of each file with a fitting name below the directories ``roots``.

    A root that is a file is taken whatever its name is.  Links to files are files.  Links to directories are not
    followed, so a loop of links ends.  What cannot be looked at is logged, and left out.

    A root may also be the URL of a prefix of an object store, or of a file; ``remote``: settings for these.  Raises
    ``RemoteError``, ``MissingFileError`` if a prefix cannot be listed: its files are not gone.
    """
    for root in roots:
        if is_remote(os.fsdecode(root)):
            yield from _remote(os.fsdecode(root), remote)
            continue
        try:
            status = os.stat(root)
        except OSError as err:
            logger.warning("%s: %s", os.fsdecode(root), err.strerror)
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _below(root)
        else:
            yield root, identity_of(status)


def _remote(root: str, remote: RemoteOptions | None) -> Iterator[tuple[bytes, str]]:
    """Yield the files below a prefix.  A URL that ends as a name of a file is a file, without an identity."""
    from asdffs.storage.remote.listing import Prefix
    from asdffs.storage.remote.options import RemoteOptions

    if root.lower().endswith(FILE_ENDINGS):
        yield os.fsencode(root), ""
        return
    prefix = Prefix(root, remote or RemoteOptions())
    for name, version in prefix.objects():
        if name.lower().endswith(FILE_ENDINGS) and not name.rpartition("/")[2].startswith("."):
            yield os.fsencode(prefix.url_of(name)), version_of(version)


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

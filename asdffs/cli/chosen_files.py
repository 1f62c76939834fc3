"""Finds the files that a command changes: named files, and files in directories, which ``--where`` selects."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence

from asdffs.errors import AsdffsError, UsageError
from asdffs.storage.urls import is_remote

logger = logging.getLogger(__name__)


def chosen_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files of a command that changes values.

    A directory stands for the files in it for which ``--where`` may hold, as its catalogue says after it was brought
    up to date.  Raises ``UsageError`` for a directory without ``--where``, and as ``indexed``.
    """
    files: list[str] = arguments.files
    directories = [file for file in files if not is_remote(file) and os.path.isdir(file)]
    if not directories:
        if arguments.catalog:
            raise UsageError("--catalog is for directories")
        return files
    if not arguments.where:
        raise UsageError("is a directory; --where selects files in it", path=directories[0])
    found = _selected(arguments, directories)
    return list(dict.fromkeys([*(file for file in files if file not in directories), *found]))


def _selected(arguments: argparse.Namespace, directories: list[str]) -> list[str]:
    from asdffs.features.catalog.commands.index import indexed, tell_unread
    from asdffs.tree.conditions import parse_condition
    from asdffs.features.catalog.places import catalog_of, roots_of
    from asdffs.features.catalog.query import candidates
    from asdffs.features.catalog.store import open_catalog
    from asdffs.features.catalog.walking import Walk

    path, roots = catalog_of(arguments.catalog), roots_of(directories)
    condition = parse_condition(arguments.where)
    indexed(path, roots)
    there = {file for file, _ in Walk(roots).files()}  # whatever paths the catalogue, which others may write, has now
    with open_catalog(path, writable=False) as catalog:
        tell_unread(catalog, roots)
        found = [match.path for match in candidates(catalog, condition, roots)]
        return sorted(os.fsdecode(file) for file in found if file in there)


def index_again(catalog: str | None, directories: Sequence[str], files: Sequence[str]) -> None:
    """Bring the catalogue up to date with those of ``files`` that are below ``directories``.

    If that is not possible, it is told; the next index does it.
    """
    inside = [file for file in files if file.startswith(tuple(os.path.join(one, "") for one in directories))]
    from asdffs.features.catalog.commands.index import indexed
    from asdffs.features.catalog.places import catalog_of

    path = catalog_of(catalog)
    try:
        indexed(path, [os.fsencode(file) for file in inside])
    except (AsdffsError, OSError) as err:
        logger.warning("%s: has old values of the files that were changed, until the next index: %s", path, err)

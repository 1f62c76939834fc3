"""Finds the files that a command changes: named files, and files in directories, which ``--where`` selects."""

from __future__ import annotations

import argparse
import os

from asdffs import registry
from asdffs.errors import UsageError
from asdffs.storage.urls import is_remote


def chosen_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files of a command that changes values.

    A directory stands for the files in it for which ``--where`` may hold, as its catalogue says after it was brought
    up to date.  Raises ``UsageError`` for a directory without ``--where``, and what indexing raises.
    """
    files: list[str] = arguments.files
    directories = [file for file in files if not is_remote(file) and os.path.isdir(file)]
    if not directories:
        if arguments.catalog:
            raise UsageError("--catalog is for directories")
        return files
    if not arguments.where:
        raise UsageError("is a directory; --where selects files in it", path=directories[0])
    catalog = registry.needed_feature("catalog")
    found = catalog.selected_files(arguments.catalog, directories, arguments.where)
    return list(dict.fromkeys([*(file for file in files if file not in directories), *found]))

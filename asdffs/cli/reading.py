"""Opens a file for a command that only reads it."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from asdffs.cli.bars import shown
from asdffs.cli.budgets import stated_budget
from asdffs.cli.file_errors import name_file
from asdffs.cli.remote import remote_of
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.document.scanning import resolve
from asdffs.errors import AsdffsError
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.remote_options import RemoteOptions
from asdffs.storage.urls import is_remote, shown_url


def open_to_read(path: str, arguments: argparse.Namespace) -> Document:
    """Open the file at ``path``, which may be a URL.  Raises as ``open_document``, ``UsageError``.

    A bar shows how much is downloaded of a remote file whose server cannot send parts of it.
    """
    try:
        return _open(path, remote_of(arguments))
    except (AsdffsError, OSError) as err:
        name_file(err, path)
        raise


def read_whole(path: str) -> bytes:
    """Return the content of a regular file that is no ASDF file.  Raises ``MissingFileError``, ``OSError``."""
    directory, name = resolve(path)
    with closing(FileFolder(directory).open(name, writable=False)) as file:
        return file.read_at(0, file.size())


def _open(path: str, remote: RemoteOptions) -> Document:
    if not is_remote(path):
        return open_document(path, writable=False, settings=Settings(remote=remote, budget=stated_budget()))
    facts: list[dict[str, Any]] = []

    def note(done: int, total: int) -> None:
        facts[:] = [{"operation": "downloading", "block": None, "done": done, "total": total, "unit": "bytes"}]

    with shown(lambda: list(facts), f"opening {shown_url(path)}"):
        settings = Settings(remote=remote._replace(downloaded=note), budget=stated_budget())
        return open_document(path, writable=False, settings=settings)

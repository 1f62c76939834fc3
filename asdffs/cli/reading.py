"""Opens a file for a command that only reads it, with the settings that its options and the environment state."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from asdffs.cli.printing import shown
from asdffs.cli.results import name_file
from asdffs.errors import AsdffsError, UsageError
from asdffs.format.layout import parse_size
from asdffs.limits import MEMORY, Budget
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.urls import SETTINGS, RemoteOptions, is_remote, shown_url, with_setting

if TYPE_CHECKING:  # commands that only read the tree do without documents
    from asdffs.document.document import Document


def stated_budget() -> Budget:
    """Return the budget that ``ASDFFS_MEMORY`` states.  Raises ``UsageError``."""
    stated = os.environ.get("ASDFFS_MEMORY", str(MEMORY))
    memory = parse_size(stated)
    if memory is None:
        raise UsageError(f"ASDFFS_MEMORY={stated}: give bytes such as 4G")
    return Budget(memory)


def remote_of(arguments: argparse.Namespace, chosen: RemoteOptions | None = None) -> RemoteOptions:
    """Return the settings for remote files: ``chosen``, and what the options of the command say beside them.

    Raises ``UsageError``.
    """
    chosen = chosen or RemoteOptions()
    for name in SETTINGS:
        stated = getattr(arguments, name, None)
        for text in stated if isinstance(stated, list) else [stated] if stated is not None else []:
            chosen = with_setting(chosen, name, text)
    anonymous, cache = chosen.anonymous or arguments.anonymous, chosen.cache and not arguments.no_cache
    return chosen._replace(anonymous=anonymous, cache=cache)


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
    from asdffs.document.scanning import resolve

    directory, name = resolve(path)
    with closing(FileFolder(directory).open(name, writable=False)) as file:
        return file.read_at(0, file.size())


def _open(path: str, remote: RemoteOptions) -> Document:
    from asdffs.document.opening import Settings, open_document

    if not is_remote(path):
        return open_document(path, writable=False, settings=Settings(remote=remote, budget=stated_budget()))
    facts: list[dict[str, Any]] = []

    def note(done: int, total: int) -> None:
        facts[:] = [{"operation": "downloading", "block": None, "done": done, "total": total, "unit": "bytes"}]

    with shown(lambda: list(facts), f"opening {shown_url(path)}"):
        settings = Settings(remote=remote._replace(downloaded=note), budget=stated_budget())
        return open_document(path, writable=False, settings=settings)

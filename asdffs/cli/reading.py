"""Opens a file for a command that only reads it."""

from __future__ import annotations

import argparse

from asdffs.cli.remote import remote_of
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document


def open_to_read(path: str, arguments: argparse.Namespace) -> Document:
    """Open the file at ``path``, which may be a URL.  Raises as ``open_document``, ``UsageError``."""
    return open_document(path, writable=False, settings=Settings(remote=remote_of(arguments)))

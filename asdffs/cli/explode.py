"""``asdffs explode FILE DIR``: the tree, and a file for each block."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing

from asdffs.cli.bars import shown
from asdffs.document.exploded_files import explode
from asdffs.document.exploding import stem_of
from asdffs.document.opening import open_document
from asdffs.errors import MissingFileError
from asdffs.storage.file_store import FileFolder


def run(arguments: argparse.Namespace) -> int:
    """Write the files.  Raises ``AsdffsError``, ``OSError``."""
    with closing(open_document(arguments.file, writable=False)) as document:
        make_directory(arguments.directory)
        folder = FileFolder(os.path.realpath(arguments.directory))
        stem = stem_of(document.path)
        with shown(document.report.progress.facts, f"exploding {arguments.file}"):
            names = explode(document, folder, stem, force=arguments.force, durable=arguments.sync)
    paths = [os.path.join(arguments.directory, name) for name in names]
    if arguments.json:
        print(json.dumps({"file": document.path, "tree": folder.path(names[0]), "blocks": len(names) - 1}, indent=2))
    else:
        print(f"{paths[0]}" + (f", and {len(paths) - 1} blocks from {paths[1]}" if len(paths) > 1 else ""))
    return 0


def make_directory(path: str) -> None:
    """Create the directory where it is not there.  Raises ``MissingFileError``, ``OSError``."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as err:
        raise MissingFileError("is no directory; give another one", path=path) from err

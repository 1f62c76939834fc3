"""``asdffs explode FILE DIR``: writes the tree, and a file for each block."""

from __future__ import annotations

import argparse
import contextlib
import os
from contextlib import closing
from typing import Final

from asdffs import registry
from asdffs.cli.arguments import add_file, add_json, add_output, add_remote
from asdffs.cli.outputs import check_alone, check_whole, mode_like
from asdffs.cli.printing import print_json, say, shown
from asdffs.cli.reading import open_to_read
from asdffs.cli.state_files import mirrors_of
from asdffs.document.document import Document
from asdffs.errors import MissingFileError, NotPermittedError
from asdffs.printable import as_words
from asdffs.storage.file_backend import FileFolder
from asdffs.workflows.exploded_files import explode
from asdffs.workflows.exploded_names import stem_of

SUMMARY: Final = "write the exploded form: a tree, and a file for each block"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs explode data.asdf parts      parts/data.asdf, parts/data0000.asdf, parts/data0001.asdf ...

The asdf library opens parts/data.asdf.  'asdffs implode' or 'asdftool implode' makes one file of it again.
On XFS and btrfs the files share their bytes with FILE, so this takes no time and no space.
"""
    add_file(parser)
    parser.add_argument(
        "directory", metavar="DIR", nargs="?", default=".", help="where to write (default: here); created if missing"
    )
    add_output(parser, "an existing exploded form; drop bytes that belong to no block")
    add_json(parser)
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the files.  Raises ``AsdffsError``, ``OSError``."""
    check_whole(arguments.file)
    with closing(open_to_read(arguments.file, arguments)) as document:
        check_alone(document, "explode")
        _check_elsewhere(arguments, document)
        make_directory(arguments.directory)
        folder = FileFolder(os.path.realpath(arguments.directory))
        stem = stem_of(document.path)
        with shown(document.report.progress.facts, f"exploding {arguments.file}"):
            mode = mode_like(document.path, into=folder.directory)
            names = explode(document, folder, stem, mode=mode, force=arguments.force, durable=arguments.sync)
        if not document.is_remote:
            _remember(document, folder, names)
    paths = [os.path.join(arguments.directory, name) for name in names]
    if arguments.json:
        print_json({"file": document.path, "tree": folder.path(names[0]), "blocks": len(names) - 1})
    else:
        say(f"{paths[0]}" + (f", and {len(paths) - 1} blocks from {paths[1]}" if len(paths) > 1 else ""))
    return 0


def _check_elsewhere(arguments: argparse.Namespace, document: Document) -> None:
    """Refuse the file's own directory, where ``STEM.asdf`` is the file itself.  Raises ``NotPermittedError``."""
    if not document.is_remote and os.path.realpath(arguments.directory) == os.path.dirname(document.path):
        words = as_words("asdffs", "explode", arguments.file, stem_of(document.path))
        sentence = f"the exploded form would replace the file itself; run: {words}"
        raise NotPermittedError(sentence, path=document.path)


def _remember(document: Document, folder: FileFolder, names: list[str]) -> None:
    """Record both states, so that a later ``watch`` knows which side changed.  Failing to do so is harmless."""
    watch = registry.feature("watch")
    if watch is None:
        return
    with contextlib.suppress(OSError):
        seen = {name: folder.signature(name) for name in names}
        watch.note_equal(mirrors_of(document.path), folder.directory, document.signature, seen)


def make_directory(path: str) -> None:
    """Create the directory where it is not there.  Raises ``MissingFileError``, ``OSError``."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as err:
        raise MissingFileError("is no directory; give another one", path=path) from err

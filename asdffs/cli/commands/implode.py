"""``asdffs implode DIR/STEM.asdf OUT``: one file of an exploded form."""

from __future__ import annotations

import argparse
import logging
import os
import re
from contextlib import closing
from typing import Final

from asdffs import registry
from asdffs.cli.arguments import add_json, add_output, add_padding
from asdffs.cli.outputs import check_alone, padding_of, write_out
from asdffs.cli.printing import print_json, say, shown
from asdffs.cli.state_files import all_mirrors
from asdffs.document.opening import open_document
from asdffs.document.report import Progress
from asdffs.errors import UsageError
from asdffs.storage.urls import is_remote, shown_url
from asdffs.workflows.assembling import RoomPolicy
from asdffs.workflows.imploding import read_exploded

SUMMARY: Final = "join an exploded form into one file"
logger = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs implode parts/data.asdf whole.asdf

Every file in DIR that an array's source names becomes a block; files elsewhere only with --follow.  A numbered
file between these becomes one too, even if no array uses it.  A block file that was edited after 'asdffs explode'
gets a new checksum; the other checksums are copied.  OUT appears only when it is complete.  Only who may read all
of the files may read it.
"""
    parser.add_argument("file", metavar="DIR/STEM.asdf", help="file with the tree")
    parser.add_argument("out", metavar="OUT", help="new file")
    add_padding(parser)
    parser.add_argument("--follow", action="store_true", help="also take blocks of files outside DIR")
    add_output(parser, "OUT if it exists")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the file.  Raises ``AsdffsError``, ``OSError``."""
    arguments.file = _tree_file(arguments.file)
    room = RoomPolicy(padding_of(arguments.padding))
    with closing(open_document(arguments.file, writable=False)) as document:
        check_alone(document, "implode")
    watch, directory = registry.feature("watch"), os.path.dirname(os.path.realpath(arguments.file))
    was_edited = (lambda path, now: False) if watch is None else watch.was_edited_in(all_mirrors(), directory)
    exploded = read_exploded(
        arguments.file,
        was_edited,
        follow=arguments.follow,
    )
    for piece in exploded.pieces:
        if piece.edited:
            logger.info("%s was edited after it was exploded, and gets a new checksum", piece.path)
    files = {exploded.path, *(piece.path for piece in exploded.pieces)}
    if os.path.realpath(arguments.out) in files:
        raise UsageError("is a part of the exploded form; give OUT another name", path=arguments.out)
    for source in exploded.remote:
        logger.warning("%s: the source %s is no file on this machine and stays as it is", arguments.file, source)
    progress = Progress()
    with shown(progress.facts, f"imploding {arguments.file}"):
        path = write_out(arguments, lambda folder, store: exploded.write(folder, store, room, progress), files)
    if arguments.json:
        facts = {"file": path, "blocks": len(exploded.pieces), "remote": list(exploded.remote)}
        print_json(facts)
    else:
        say(f"{arguments.out}: {len(exploded.pieces)} blocks")
    return 0


def _tree_file(given: str) -> str:
    """Return the file with the tree of the exploded form ``given``: a file, or the directory that has only one form.

    Raises ``UsageError``.
    """
    if is_remote(given):
        raise UsageError("is a remote file; give an exploded form on this machine", path=shown_url(given))
    if not os.path.isdir(given):
        return given
    names = [name for name in os.listdir(given) if name.endswith(".asdf")]
    stems = [name for name in names if not re.search(r"\d{4}\.asdf$", name)]
    if len(stems) != 1:
        raise UsageError(f"is a directory with {len(stems)} exploded forms; give DIR/STEM.asdf", path=given)
    return os.path.join(given, stems[0])

"""``asdffs recover FILE``: completes what a crash interrupted, without a mount."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from typing import Final

from asdffs import interrupts
from asdffs.cli.arguments import add_file, add_json
from asdffs.cli.printing import print_json, say
from asdffs.cli.results import ExitCode
from asdffs.cli.state_directory import Recovered, StateDirectory, recover_edits
from asdffs.document.opening import open_document
from asdffs.document.scanning import resolve

SUMMARY: Final = "complete interrupted changes; save unsaved edits beside the file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs recover data.asdf

The next mount does the same.  Edits that a killed mount had not written yet (drafts, scratch files) are
saved beside the file.
"""
    add_file(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Recover the file by opening it for writing, and keep the edits of a killed mount.

    Raises ``AsdffsError``, ``OSError``.
    """
    path = os.path.join(*resolve(arguments.file))
    past = recover(path)
    if arguments.json:
        print_json({"file": path, "recovered": past.sentences, "kept": past.kept})
    else:
        say(*(f"{path}: {sentence}" for sentence in past.sentences or ["nothing to recover"]))
    return ExitCode.EDITS_KEPT if past.kept else ExitCode.OK


def recover(path: str) -> Recovered:
    """Complete interrupted changes of the file at ``path``; save unsaved edits beside it.

    Raises ``AsdffsError``, ``OSError``.
    """
    with (
        interrupts.critical(),
        closing(open_document(path, writable=True)) as document,
        closing(StateDirectory()) as state,
    ):
        past = recover_edits(document, state)
        state.release()
        return past

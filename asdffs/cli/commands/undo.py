"""``asdffs undo RECORD``: takes back the changes that set, unset and rename recorded."""

from __future__ import annotations

import argparse
import json
from typing import Final

from asdffs.cli.arguments import add_how
from asdffs.cli.reading import read_whole
from asdffs.cli.value_files import Task, change_files
from asdffs.errors import UsageError
from asdffs.workflows.value_changes import Note, from_facts

SUMMARY: Final = "take back what set, unset and rename recorded"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs set --record changes.jsonl meta.version=2 *.asdf
  asdffs undo changes.jsonl

A value that was changed again since then stays, and is named.
"""
    parser.add_argument("record", metavar="RECORD", help="file that --record wrote")
    add_how(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take the edits back in each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    notes = _read(arguments.record)
    task = Task(arguments.command, notes=notes, dry_run=arguments.dry_run, schema=arguments.schema)
    return change_files(arguments, list(notes), task)


def _read(record: str) -> dict[str, list[Note]]:
    """Return the notes of each file, in the order in which they were made.

    Raises ``UsageError``, ``MissingFileError``, ``OSError``.
    """
    found: dict[str, list[Note]] = {}
    for number, line in enumerate(read_whole(record).splitlines(), 1):
        try:
            facts = json.loads(line)
            notes = [from_facts(edit) for edit in facts["edits"]]
            found.setdefault(str(facts["file"]), []).extend(notes)
        except (ValueError, TypeError, KeyError, RecursionError) as err:
            raise UsageError(f"line {number} is not a line that --record writes", path=record) from err
    return {path: notes for path, notes in found.items() if notes}

"""``asdffs undo``: takes back what set, unset and rename recorded, or the pixels of the last mount with -o undo."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import stat
from contextlib import closing
from typing import Final

from asdffs import interrupts
from asdffs.cli.arguments import add_how
from asdffs.cli.printing import say_or_json
from asdffs.cli.reading import read_whole
from asdffs.cli.results import ExitCode
from asdffs.cli.value_files import Task, change_files
from asdffs.document.opening import open_document
from asdffs.errors import AsdffsError, UsageError
from asdffs.workflows.value_changes import Note, from_facts

SUMMARY: Final = "take back what set, unset and rename recorded, or pixels"

#: What an ASDF file begins with.
_HEAD: Final = b"#ASDF"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs set --record changes.jsonl meta.version=2 *.asdf
  asdffs undo changes.jsonl
  asdffs mount -o undo=10G data.asdf mnt      pixels are changed, then it is unmounted
  asdffs undo data.asdf

A value that somebody changed again is left as it is, and named.  If RECORD is an ASDF file, its blocks get the bytes
back that they had before the last mount with -o undo=SIZE.  Called again, it goes back by one more mount.
"""
    parser.add_argument("record", metavar="RECORD", help="file that --record wrote; or an ASDF file")
    add_how(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take the edits back in each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    if _is_asdf(arguments.record):
        return _take_back(arguments)
    notes = _read(arguments.record)
    task = Task(arguments.command, notes=notes, dry_run=arguments.dry_run, schema=arguments.schema)
    return change_files(arguments, list(notes), task)


def _is_asdf(record: str) -> bool:
    """Return whether the file is no record of values, by its first bytes.  Raises as ``read_whole``."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.stat(record).st_mode):  # a pipe would be empty afterwards
            with open(record, "rb") as file:
                return file.read(len(_HEAD)) == _HEAD
    return False


def _take_back(arguments: argparse.Namespace) -> int:
    from asdffs.workflows.undoing import take_back

    with interrupts.critical(), closing(open_document(arguments.record, writable=True)) as document:
        try:
            done = take_back(document, dry_run=arguments.dry_run)
        except AsdffsError as err:
            err.path = err.path or document.path
            raise
    verb = "would get back" if arguments.dry_run else "got back"
    rest = f"; {done.rest} earlier session{'s' if done.rest != 1 else ''}" if done.rest else ""
    blocks = f"{done.blocks} block{'s' if done.blocks != 1 else ''}"
    facts = {"file": arguments.record, **done._asdict()}
    say_or_json(arguments, [facts], f"{arguments.record}: {blocks} {verb} {done.bytes} bytes{rest}")
    return int(ExitCode.OK)


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

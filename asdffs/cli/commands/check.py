"""``asdffs check FILE...``: checks files.  ``--repair`` mends what can be mended without losing anything."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import closing
from functools import partial
from typing import Any, Final

from asdffs import interrupts
from asdffs.cli.arguments import SCHEMA, add_files, add_json, add_remote
from asdffs.cli.logs import silence
from asdffs.cli.printing import print_json, say, shown
from asdffs.cli.reading import open_to_read
from asdffs.cli.results import ExitCode, for_each, sentence_and_code, with_remedy
from asdffs.document.opening import open_document
from asdffs.document.scanning import resolve
from asdffs.document.schema import check_available
from asdffs.errors import AsdffsError, Remedy
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.own_files import own_directory
from asdffs.storage.recovery import find_leftovers
from asdffs.storage.urls import is_remote
from asdffs.workflows.checking import Finding, Level, check_document

SUMMARY: Final = "validate files"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs check --json *.asdf | jq '.[] | select(.ok | not) | {file, error, findings}'

Checks layout, index, tree, arrays, checksums, and files that a crash left beside the file.  Exit code 0: no
findings, or only notes; 9: warnings; 4: errors.  Only --repair changes anything: it completes an interrupted
change and writes the block index, and says so first.
"""
    add_files(parser)
    parser.add_argument("--deep", action="store_true", help="also decode compressed blocks")
    parser.add_argument("--schema", action="store_true", help=SCHEMA)
    parser.add_argument("--repair", action="store_true", help="make only lossless repairs")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no findings; the exit code tells")
    add_json(parser, "one JSON array, an object for each file")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check each file, and return the worst exit code."""
    silence("asdffs.document.tree_fit")
    if arguments.schema:
        check_available()
    results: list[dict[str, Any]] = []

    def take(path: str, found: tuple[dict[str, Any], ExitCode]) -> ExitCode:
        results.append(found[0])
        return found[1]

    def fail(path: str, err: AsdffsError | OSError) -> ExitCode:
        sentence, code = sentence_and_code(path, err)
        if code is ExitCode.NOT_ASDF:  # what is wrong with the file is the output of this command
            _say(arguments, path, f"error: {sentence.removeprefix(f'{path}: ')}")
        else:
            say(f"asdffs: {sentence}", file=sys.stderr)
        return take(path, ({"file": path, "ok": False, "findings": [], "repaired": [], "error": sentence}, code))

    code = for_each(((path, partial(_check, path, arguments)) for path in arguments.files), take, fail)
    if arguments.json:
        print_json(results)
    return code


def _check(path: str, arguments: argparse.Namespace) -> tuple[dict[str, Any], ExitCode]:
    findings = _find(path, arguments)
    repaired: list[str] = []
    wanted = [finding for finding in findings if finding.repairable]
    if arguments.repair and wanted:
        for finding in wanted:
            _say(arguments, path, f"will put right: {finding.sentence}")
        repaired = _repair(path)
        findings = _find(path, arguments)
    worst = max((finding.level for finding in findings), default=Level.NOTE)
    for finding in findings:
        _say(arguments, path, f"{finding.level.name.lower()}: {_place(finding)}{_sentence_of(finding, path)}")
    if worst is Level.NOTE:
        _say(arguments, path, "nothing wrong")
    rows = [_facts(finding, path) for finding in findings]
    facts = {"file": path, "ok": worst is Level.NOTE, "findings": rows, "repaired": repaired}
    return facts, {Level.ERROR: ExitCode.NOT_ASDF, Level.WARNING: ExitCode.FINDINGS}.get(worst, ExitCode.OK)


def _sentence_of(finding: Finding, path: str) -> str:
    return with_remedy(finding.sentence, finding.remedy, file=path, block=finding.block)


def _facts(finding: Finding, path: str) -> dict[str, Any]:
    """Return a finding as ``--json`` prints it."""
    facts = finding._asdict() | {"level": finding.level.name.lower(), "sentence": _sentence_of(finding, path)}
    del facts["remedy"]
    return facts


def _find(path: str, arguments: argparse.Namespace) -> list[Finding]:
    with (
        closing(open_to_read(path, arguments)) as document,
        shown(document.report.progress.facts, f"checking {path}"),
    ):
        return [*check_document(document, deep=arguments.deep, schema=arguments.schema), *_leftovers(path)]


def _leftovers(path: str) -> list[Finding]:
    """Return findings about what a crash, or a killed mount, left beside the file and in the state directory."""
    if is_remote(path):
        return []
    directory, name = resolve(path)
    folder = FileFolder(directory)
    with closing(folder.open(name, writable=False)) as backend:
        found = find_leftovers(folder, backend)
    return [
        *(
            Finding(Level.NOTE if left.kept else Level.WARNING, left.sentence, repairable=left.repairable)
            for left in found
        ),
        *_unsaved(os.path.join(directory, name)),
    ]


def _unsaved(path: str) -> list[Finding]:
    """Return findings about edits of a killed mount that are still in the state directory."""
    if not os.path.isdir(os.path.join(own_directory("XDG_STATE_HOME", ".local/state"), "asdffs", "open")):
        return []
    from asdffs.cli.state_files import work_of_killed  # slow to import

    return [
        Finding(Level.WARNING, f"a mount that was killed left unsaved edits in {place}", remedy=Remedy.RECOVER)
        for place in work_of_killed(path)
    ]


def _repair(path: str) -> list[str]:
    """Complete an interrupted change and write the index; return sentences about it."""
    with interrupts.critical(), closing(open_document(path, writable=True)) as document:
        done = [document.report.recovery] if document.report.recovery else []
        if document.repair_index():
            done.append("the block index was written")
    return done


def _say(arguments: argparse.Namespace, path: str, sentence: str) -> None:
    if not (arguments.json or arguments.quiet):
        say(f"{path}: {sentence}")


def _place(finding: Finding) -> str:
    block = f"block {finding.block}, " if finding.block is not None else ""
    return f"{block}offset {finding.offset}: " if finding.offset is not None else block.replace(", ", ": ")

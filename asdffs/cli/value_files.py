"""Changes values in many files, one after the other or in several processes.  Each file is changed atomically.

If a file cannot be changed, it is named and decides the exit code, and the others go on.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from asdffs import registry
from asdffs.cli.logs import silence
from asdffs.cli.printing import counted, log_to_the_error_output, print_json, say
from asdffs.cli.results import for_each, sentence_and_code
from asdffs.document.scanning import footprint_in, read_text
from asdffs.errors import AsdffsError, NameExistsError, UsageError, ValueRefusedError
from asdffs.failures import Failure, attempt
from asdffs.storage.urls import is_remote, shown_url
from asdffs.tree.conditions import parse_condition
from asdffs.tree.lookups import Values
from asdffs.tree.paths import format_path
from asdffs.tree.tape import Tape
from asdffs.workflows.value_changes import Note, Rules, ValueChange, change_values, take_back


def chosen_files(arguments: argparse.Namespace) -> list[str]:
    """Return the files of a command that changes values.

    A directory stands for the files in it for which ``--where`` may hold, as its catalogue says after it was brought
    up to date.  Raises ``UsageError`` for a directory without ``--where``, and what indexing raises.
    """
    files: list[str] = arguments.files
    directories = [file for file in files if not is_remote(file) and os.path.isdir(file)]
    if not directories:
        if arguments.catalog:
            raise UsageError("--catalog is for directories")
        return files
    if not arguments.where:
        raise UsageError("is a directory; --where selects files in it", path=directories[0])
    catalog = registry.needed_feature("catalog")
    found = catalog.selected_files(arguments.catalog, directories, arguments.where)
    return list(dict.fromkeys([*(file for file in files if file not in directories), *found]))


_SHORT = 60


class Task(NamedTuple):
    """What to do with each file.  Other processes get a copy.

    ``notes``: changes to take back, instead of making ``changes``.  ``record``: the file to append notes to, or
    empty.  ``below``: see ``opened_to_write``.
    """

    command: str
    changes: tuple[ValueChange, ...] = ()
    notes: dict[str, list[Note]] | None = None
    rules: Rules = Rules()
    where: str = ""
    record: str = ""
    dry_run: bool = False
    schema: bool = False
    below: tuple[str, ...] = ()


class Result:
    """What became of one file.  ``edits``: path, old and new text of each.  ``diff``: for a dry run.

    ``doubts``: sentences about the file around the ASDF file, if there is one.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.changed = False
        self.selected = True
        self.edits: list[dict[str, str]] = []
        self.diff = ""
        self.error = ""
        self.code = 0
        self.doubts: list[str] = []

    def failed(self, err: AsdffsError | OSError) -> Result:
        """Note the error, and return this."""
        self.error, self.code = sentence_and_code(self.file, err)
        return self


def task_of(arguments: argparse.Namespace, changes: Iterable[ValueChange], rules: Rules) -> Task:
    """Return what the options of a command ask for.  Raises ``UsageError``, ``NameExistsError``, ``OSError``."""
    if arguments.where is not None:
        parse_condition(arguments.where)  # refused before any file is touched
    record = os.path.realpath(arguments.record) if arguments.record and not arguments.dry_run else ""
    if record:
        _create(record, arguments.record)
    return Task(
        arguments.command,
        tuple(changes),
        rules=rules,
        where=arguments.where or "",
        record=record,
        dry_run=arguments.dry_run,
        schema=arguments.schema,
        below=tuple(map(os.path.realpath, arguments.files)) if any(map(os.path.isdir, arguments.files)) else (),
    )


def _create(record: str, name: str) -> None:
    """Create the record, for the user alone: it has values of files that others may not read."""
    try:
        os.close(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as err:
        raise NameExistsError("already exists; give --record another name", path=name) from err


def change_files(arguments: argparse.Namespace, files: Sequence[str], task: Task) -> int:
    """Change each of ``files`` and print what happened; return the exit code."""
    if arguments.jobs < 1:
        raise UsageError(f"--jobs {arguments.jobs}: give a number of processes from 1 on")
    if task.schema:
        from asdffs.document.schema import check_available

        check_available()
    results: list[Result] = []

    def take(path: str, result: Result) -> int:
        results.append(result)
        note(len(results), len(files))
        _print(arguments, result, alone=len(files) == 1)
        return result.code

    with (
        counted("", f"{task.command} in {len(files)} files") as note,
        closing(_work(files, task, arguments.jobs)) as work,  # an interrupt, too, ends the processes
    ):
        note(0, len(files))
        code = for_each(work, take, lambda path, err: take(path, Result(path).failed(err)))
    _remove_empty(task.record)
    if task.below and any(one.changed for one in results):
        catalog = registry.needed_feature("catalog")
        catalog.index_again(arguments.catalog, task.below, files)  # all: a link leads to what was changed
    if arguments.json:
        print_json([vars(result) for result in results])
    elif len(files) != 1:
        say(_summary(results, dry_run=task.dry_run), file=sys.stderr if task.dry_run else sys.stdout)
    if not arguments.json:
        _tell_notes(results)
    return code


def _remove_empty(record: str) -> None:
    """Remove a record without a change, so that the command can be given again."""
    with contextlib.suppress(OSError):
        if record and os.path.getsize(record) == 0:
            os.unlink(record)
            say(f"asdffs: {record} is not written, because nothing changed", file=sys.stderr)


def _work(files: Sequence[str], task: Task, jobs: int) -> Generator[tuple[str, Callable[[], Result]]]:
    """Yield each file with what returns its result."""
    if jobs == 1 or len(files) == 1:
        yield from ((path, partial(change_file, path, task)) for path in files)
        return
    from asdffs.workers.pool import worker_processes

    begin = partial(log_to_the_error_output, logging.getLogger().level)
    with worker_processes(min(jobs, len(files)), complete=True, begin=begin) as pool:
        yield from [(path, pool.submit(change_file, path, task).result) for path in files]


def change_file(path: str, task: Task) -> Result:
    """Change one file; an error is part of the result."""
    result = Result(path)
    found = attempt(lambda: _changed_where_it_is(path, task, result))
    return result.failed(found.error) if isinstance(found, Failure) else result


def _changed_where_it_is(path: str, task: Task, result: Result) -> None:
    """Change a local file, or an object in S3 by a copy of it."""
    if not is_remote(path):
        _change(path, task, result)
        return
    if task.record or task.notes is not None:
        raise UsageError("a record is of local files", path=shown_url(path))
    try:
        registry.needed_feature("remote").change_object(
            path, lambda copy: _change(copy, task, result, shown_url(path))
        )
    except BaseException:
        result.changed, result.edits = False, []  # only the copy was
        raise


def _change(path: str, task: Task, result: Result, shown: str = "") -> None:
    """Change a local file, which a dry run calls ``shown``."""
    text = b""
    if task.where or task.dry_run:
        text = read_text(path)
        values = Values(text)
        if not _is_selected(values, text, task, result):
            return
        if task.dry_run:
            new, _ = _edited(path, values.tape, task, result)
            from asdffs.workflows.comparing import unified

            name = shown or path
            lines = unified(text.decode().split("\n"), new.split("\n"), name, name)
            result.diff = "".join(f"{line}\n" for line in lines)
            return
    from asdffs.cli.outputs import is_tree_of_mount
    from asdffs.cli.writing import opened_to_write
    from asdffs.document.opening import Settings

    if is_tree_of_mount(path):
        silence("asdffs.document.tree_fit")  # the mount warns, which knows the blocks
    settings = Settings(schema=task.schema)
    with opened_to_write(path, task.command, settings, stateless=True, below=task.below) as (document, _):
        now = document.tree.text()
        values = Values(now)
        if now != text and not _is_selected(values, now, task, result):  # it was changed before it was locked
            return
        new, notes = _edited(path, values.tape, task, result)
        if result.edits:
            document.note_tape(values.tape)
            _record(task, path, state="begun", notes=notes)
            document.commit_tree(new.encode(), last=True)
            document.finish()
            _record(task, path, state="done")
            result.changed = True
            result.doubts = document.contradictions()


def _is_selected(values: Values, text: bytes, task: Task, result: Result) -> bool:
    """Return whether ``--where`` selects a file with these values, and note it in ``result``.  ``text``: its own."""
    result.selected = not task.where or values.hold(parse_condition(task.where), partial(footprint_in, text))
    return result.selected


def _edited(path: str, tape: Tape, task: Task, result: Result) -> tuple[str, list[Note]]:
    """Return the new text and the notes for the record, and add the edits to ``result``."""
    if task.notes is not None:
        new, taken, stayed = take_back(tape.text, task.notes[path])
        result.edits = [_shown(note.path, note.new, note.old, "") for note in taken]
        if stayed:
            sentence = f"{', '.join(sorted(set(stayed)))}: not what was set, because it was changed since; it stays"
            result.failed(ValueRefusedError(sentence))
        return new, []
    changed = change_values(tape, task.changes, task.rules)
    result.edits = [_shown(format_path(edit.path), edit.old, edit.new, edit.note) for edit in changed.edits]
    return changed.text, changed.notes


def _shown(path: str, old: str, new: str, note: str) -> dict[str, str]:
    return {"path": path, "old": old, "new": new, "note": note}


def _record(task: Task, path: str, *, state: str, notes: Sequence[Note] = ()) -> None:
    """Append a line to the record, in one write(2).  What is begun and not done is told from the text itself."""
    if not task.record:
        return
    from json import dumps

    line = {"file": os.path.realpath(path), "state": state, "edits": [note._asdict() for note in notes]}
    file = os.open(task.record, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, dumps(line).encode() + b"\n")
    finally:
        os.close(file)


# -- what is printed --------------------------------------------------------------


def _print(arguments: argparse.Namespace, result: Result, *, alone: bool) -> None:
    if result.error:
        say(f"asdffs: {result.error}", file=sys.stderr)
    if arguments.json:
        return
    if result.diff:
        say(*result.diff.removesuffix("\n").split("\n"))
    elif alone and not result.selected:
        say(f"{result.file}: the condition does not hold")
    elif alone and not result.edits and not result.error and not arguments.dry_run:
        say(f"{result.file}: nothing to change")
    elif result.changed and (alone or arguments.verbose):
        say(*(f"{result.file}: {_sentence(**edit)}" for edit in result.edits))


def _tell_notes(results: Sequence[Result]) -> None:
    """Print the first note and the first doubt, and how many there are."""
    noted = [(one.file, edit) for one in results for edit in one.edits if edit["note"]]
    if noted:
        file, edit = noted[0]
        more = f" (and {len(noted) - 1} more)" if len(noted) > 1 else ""
        say(f"asdffs: {file}: {edit['path']} {edit['note']}{more}", file=sys.stderr)
    doubted = [one for one in results if one.doubts]
    if doubted:
        more = f" (and so in {len(doubted) - 1} more files)" if len(doubted) > 1 else ""
        say(f"asdffs: {doubted[0].file}: {doubted[0].doubts[0]}{more}", file=sys.stderr)


def _sentence(path: str, old: str, new: str, note: str) -> str:
    was, is_ = _short(old), _short(new)
    if not was:
        return f"{path}: added {is_}"
    return f"{path}: {was} -> {is_}" if is_ else f"{path}: removed {was}"


def _short(text: str) -> str:
    words = " ".join(text.split()).removeprefix(",").strip()  # in flow style an item is added with its comma
    return words if len(words) <= _SHORT else f"{words[: _SHORT - 3]}..."


def _summary(results: Sequence[Result], *, dry_run: bool) -> str:
    def count(test: Callable[[Result], bool]) -> int:
        return sum(map(test, results))

    changed = count(lambda one: bool(one.edits) and not one.error)
    failed = count(lambda one: bool(one.error))
    left_out = count(lambda one: not one.selected)
    same = len(results) - changed - failed - left_out
    parts = [f"{changed} {'would change' if dry_run else 'changed'}", f"{same} already so"]
    parts += [f"{left_out} not selected"] if left_out else []
    parts += [f"{failed} failed"] if failed else []
    return f"{len(results)} files: {', '.join(parts)}"

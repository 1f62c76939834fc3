"""Runs a command on its files, one after the other: the one loop of all commands.

An error in one file is printed, or has its place in the output, and the others go on.

New files go into a directory, which is the last operand, as with cp(1).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from asdffs.cli.exit_codes import worse
from asdffs.cli.file_errors import failed
from asdffs.errors import AsdffsError, UsageError
from asdffs.failures import Failure, attempt

T = TypeVar("T")


class Answer(NamedTuple):
    """The result for one file: ``facts`` for ``--json``; ``show`` prints it for people.

    ``code``: the exit code, if not all that was asked for could be done.
    """

    facts: dict[str, Any]
    show: Callable[[], None]
    code: int = 0


def with_outputs(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return each FILE and its OUT, from the operands ``FILE``, ``FILE OUT`` or ``FILE... DIRECTORY``.

    OUT is None where only FILE is given.  Raises ``UsageError``.
    """
    *files, last = words
    if not files:
        return [(last, None)]
    if os.path.isdir(last):
        return [(file, os.path.join(last, os.path.basename(file))) for file in files]
    if len(files) > 1:
        raise UsageError("is no directory, and there are several files; name a directory last", path=last)
    return [(files[0], last)]


def for_each(
    files: Iterable[tuple[str, Callable[[], T]]],
    take: Callable[[str, T], int],
    fail: Callable[[str, AsdffsError | OSError], int] = failed,
) -> int:
    """Do the work on each file, and call ``take(file, result)``, or ``fail(file, error)``: each returns an exit code.

    Returns the worst of these codes.
    """
    code = 0
    for file, work in files:
        found = attempt(work)
        code = worse(code, fail(file, found.error) if isinstance(found, Failure) else take(file, found))
    return code


def answer_each(
    arguments: argparse.Namespace,
    files: Sequence[tuple[str, str | None]],
    work: Callable[[argparse.Namespace], Answer],
) -> int:
    """Call ``work`` for each FILE and OUT, which are ``file`` and ``out`` of its argument, and print the answers.

    ``--json`` prints an array for several files.  Returns the exit code.
    """
    facts, as_json = [], getattr(arguments, "json", False)

    def take(file: str, answer: Answer) -> int:
        if as_json:
            facts.append(answer.facts)
        else:
            answer.show()
        return answer.code

    def bound(file: str, out: str | None) -> Callable[[], Answer]:
        return lambda: work(argparse.Namespace(**{**vars(arguments), "file": file, "out": out}))

    code = for_each(((file, bound(file, out)) for file, out in files), take)
    if as_json and facts:
        import json

        print(json.dumps(facts if len(files) > 1 else facts[0], indent=2))
    return code

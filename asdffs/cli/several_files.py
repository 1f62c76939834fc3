"""Runs a command on several files, one after the other.  An error in one is printed, and the others go on.

New files go into a directory, which is the last operand, as with cp(1).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from asdffs.cli.file_errors import failed, name_file
from asdffs.errors import AsdffsError, UsageError


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
    arguments: argparse.Namespace,
    files: Sequence[tuple[str, str | None]],
    work: Callable[[argparse.Namespace], Answer],
) -> int:
    """Call ``work`` for each FILE and OUT, which are ``file`` and ``out`` of its argument, and print the answers.

    ``--json`` prints an array for several files.  Returns the largest exit code.  Raises what ``work`` raises for a
    single file.
    """
    code, facts, as_json = 0, [], getattr(arguments, "json", False)
    for file, out in files:
        try:
            answer = work(argparse.Namespace(**{**vars(arguments), "file": file, "out": out}))
        except (AsdffsError, OSError) as err:
            if len(files) == 1:
                name_file(err, file)
                raise
            code = max(code, failed(file, err))
            continue
        code = max(code, answer.code)
        if as_json:
            facts.append(answer.facts)
        else:
            answer.show()
    if as_json and facts:
        import json

        print(json.dumps(facts if len(files) > 1 else facts[0], indent=2))
    return code

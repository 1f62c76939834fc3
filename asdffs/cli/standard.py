"""Prepares what a process has from its caller: standard streams, and the environment of its child processes.

A stream that the caller closed is opened.  Else the ASDF file would be opened as descriptor 0, 1 or 2, and libfuse
would write its messages into it.

Child processes import no modules of the working directory, which may hold a stranger's files.  ``python -c`` and
``python -m`` look there first, and so does each process that ``multiprocessing`` starts.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Final

_AS_POSSIBLE: Final = "asdffs-as-possible"
#: The variable that Python reads, and the value by which ours is known.
_SAFE_PATH: Final = ("PYTHONSAFEPATH", "asdffs")


def protect_children() -> None:
    """Have all Python processes that this one starts leave the working directory out of ``sys.path``."""
    os.environ.setdefault(*_SAFE_PATH)


def environment_for_programs() -> dict[str, str]:
    """Return the environment for a program of the user, such as an editor: as it was when the command began."""
    return dict(item for item in os.environ.items() if item != _SAFE_PATH)


def open_standard_streams() -> None:
    """Have all three open, and names that are not UTF-8 printed as they are."""
    null = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: maybe one of the three already
    while null <= 2:
        null = os.dup(null)
    os.close(null)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error(_AS_POSSIBLE, _as_possible)
        sys.stdout.reconfigure(errors=_AS_POSSIBLE)


def _as_possible(error: UnicodeError) -> tuple[str | bytes, int]:
    """Print bytes of a name as they are, and characters that the terminal does not have as escapes."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)


def forget_output() -> None:
    """The reader of the standard output went away: what is still to be written goes nowhere, at the end as well."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)

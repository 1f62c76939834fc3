"""Reports that a file, perhaps one of many, could not be read or changed."""

from __future__ import annotations

import os
import sys
from typing import Any

from asdffs.cli.exit_codes import ExitCode, exit_code_of
from asdffs.cli.remedies import told
from asdffs.cli.saying import say
from asdffs.errors import AsdffsError, UsageError
from asdffs.storage.urls import shown_name


def name_file(err: AsdffsError | OSError, file: str | None) -> None:
    """Have the error name ``file`` as the user typed it, if it names no other file.

    An error about the command line is about no file.
    """
    if isinstance(err, OSError):
        err.filename = _as_typed(err.filename, file)
    elif err.path is not None or not isinstance(err, UsageError):
        err.path = _as_typed(err.path, file)


def _as_typed(named: Any, file: str | None) -> Any:
    """Return ``file`` if ``named``, the path in an error, is the same file or None; else ``named``."""
    if file is not None and (named is None or named == os.path.realpath(file)):
        return shown_name(file)
    return named


def sentence_and_code(file: str | None, err: AsdffsError | OSError) -> tuple[str, ExitCode]:
    """Return the error about ``file`` as users read it, and its exit code."""
    name_file(err, file)
    return told(err), exit_code_of(err) if isinstance(err, AsdffsError) else ExitCode.UNFINISHED


def failed(file: str | None, err: AsdffsError | OSError) -> ExitCode:
    """Print the error about ``file`` and the next step; return its exit code."""
    sentence, code = sentence_and_code(file, err)
    say(f"asdffs: {sentence}", file=sys.stderr)
    return code

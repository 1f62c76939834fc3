"""Says that one of many files could not be read, and goes on."""

from __future__ import annotations

import sys

from asdffs.cli.exit_codes import ExitCode, exit_code_of
from asdffs.cli.remedies import told
from asdffs.cli.saying import say
from asdffs.errors import AsdffsError


def sentence_and_code(file: str, err: AsdffsError | OSError) -> tuple[str, int]:
    """Return the error about ``file`` as users read it, and its exit code."""
    if isinstance(err, AsdffsError):
        err.path = err.path or file
        return told(err), int(exit_code_of(err))
    err.filename = err.filename or file
    return told(err), int(ExitCode.UNFINISHED)


def failed(file: str, err: AsdffsError | OSError) -> int:
    """Print the error about ``file``; return its exit code."""
    sentence, code = sentence_and_code(file, err)
    say(f"asdffs: {sentence}", file=sys.stderr)
    return code

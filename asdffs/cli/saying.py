"""Prints lines whose text may come from files, names and other programs."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

from asdffs.printable import printable


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each of ``lines`` as one line, to the standard output or ``file``; controls are escaped."""
    stream = file or sys.stdout
    terminal = stream.isatty()
    for line in lines:
        print(printable(line.removesuffix("\r"), terminal=terminal), file=stream)


class Rows:
    """A text file for ``csv``: the standard output.  On a terminal each row is one line, and controls are escaped."""

    def write(self, text: str) -> None:
        """Print one row."""
        if sys.stdout.isatty():
            say(text.removesuffix("\n"))
        else:
            sys.stdout.write(text)


class SafeFormatter(logging.Formatter):
    """Keeps a message on one line of the log; a traceback follows it, indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # as above
        """See ``logging.Formatter``."""
        return "\n".join(f"  {printable(line)}" for line in super().formatException(ei).split("\n"))


class CommandFormatter(SafeFormatter):
    """Writes the messages of a command for its user.  A warning begins with that word, unlike the final error."""

    def __init__(self) -> None:
        super().__init__("asdffs: %(word)s%(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.word = "warning: " if record.levelno == logging.WARNING else ""
        return super().formatMessage(record)


def log_to_the_error_output(level: int) -> None:
    """Print what is logged from now on in this process, at ``level`` or above.  A process that works for it, too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CommandFormatter())
    logging.basicConfig(handlers=[handler], level=level)


def on_one_line(text: str) -> str:
    """Return ``text`` as a cell of a table with tabs: tabs and ends of lines are escaped."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")

"""Prints lines whose text may come from files, names and other programs."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from asdffs.printable import printable


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print each of ``lines`` as one line, to the standard output or ``file``; controls are escaped."""
    stream = file or sys.stdout
    terminal = stream.isatty()
    for line in lines:
        print(printable(line, terminal=terminal), file=stream)


class SafeFormatter(logging.Formatter):
    """Keeps a message on one line of the log; a traceback follows it as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.message = printable(record.message)
        return super().formatMessage(record)


class CommandFormatter(SafeFormatter):
    """Writes the messages of a command for its user.  A warning begins with that word, unlike the final error."""

    def __init__(self) -> None:
        super().__init__("asdffs: %(word)s%(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """See ``logging.Formatter``."""
        record.word = "warning: " if record.levelno == logging.WARNING else ""
        return super().formatMessage(record)


def on_one_line(text: str) -> str:
    """Return ``text`` as a cell of a table with tabs: tabs and ends of lines are escaped."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")

"""``asdffs``: parses the command line, runs one command, turns errors into exit codes."""

from __future__ import annotations

import importlib
import logging
import sys

from asdffs.cli.exit_codes import ExitCode, exit_code_of
from asdffs.cli.parser import build_parser
from asdffs.errors import AsdffsError


def main(argv: list[str] | None = None) -> int:
    """Run the command in ``argv`` (default: of the process); the exit code."""
    arguments = build_parser().parse_args(argv)
    level = logging.INFO if arguments.verbose else logging.WARNING
    logging.basicConfig(format="asdffs: %(message)s", level=level, stream=sys.stderr)
    command = importlib.import_module(f"asdffs.cli.{arguments.command}")
    try:
        return int(command.run(arguments))
    except AsdffsError as err:
        print(f"asdffs: {err}", file=sys.stderr)
        return exit_code_of(err)
    except OSError as err:
        where = f"{err.filename}: " if err.filename else ""
        print(f"asdffs: {where}{err.strerror}", file=sys.stderr)
        return ExitCode.UNFINISHED
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT, as shells count

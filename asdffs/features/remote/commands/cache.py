"""``asdffs cache``: what is kept of remote files, and clearing it."""

from __future__ import annotations

import argparse
import json
from typing import Final

from asdffs.cli.arguments import add_json
from asdffs.cli.printing import say
from asdffs.features.remote.cache import trim, used
from asdffs.storage.own_files import cache_folder

SUMMARY: Final = "show or clear what is kept of remote files"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs cache --clear

The cache is in $XDG_CACHE_HOME/asdffs, or ~/.cache/asdffs.  It may be removed at any time.  Files that a mount or a
command reads just now stay.
"""
    parser.add_argument("--clear", action="store_true", help="remove everything that is not in use")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the number of files and bytes, after removing those that no process uses, if asked to."""
    before, total = used()
    if arguments.clear:
        trim(0)
    count, size = used()
    if arguments.clear and not arguments.json:
        say(f"{cache_folder()}: removed {_summary(before - count, max(0, total - size))}")
    if arguments.json:
        print(json.dumps({"directory": cache_folder(), "files": count, "bytes": size}, indent=2))
    else:
        say(f"{cache_folder()}: {_summary(count, size)}")
    return 0


def _summary(count: int, size: int) -> str:
    return f"{size} bytes in {count} {'file' if count == 1 else 'files'}"

"""``asdffs cache``: what is kept of remote files, and clearing it."""

from __future__ import annotations

import argparse
import json

from asdffs.cli.saying import say
from asdffs.features.remote.cache import trim, used
from asdffs.storage.remote_options import cache_folder


def run(arguments: argparse.Namespace) -> int:
    """Print the number of files and bytes, after removing those that no process uses, if asked to."""
    before, total = used()
    if arguments.clear:
        trim(0)
    count, size = used()
    if arguments.clear and not arguments.json:
        say(f"{cache_folder()}: removed {_told(before - count, max(0, total - size))}")
    if arguments.json:
        print(json.dumps({"directory": cache_folder(), "files": count, "bytes": size}, indent=2))
    else:
        say(f"{cache_folder()}: {_told(count, size)}")
    return 0


def _told(count: int, size: int) -> str:
    return f"{size} bytes in {count} {'file' if count == 1 else 'files'}"

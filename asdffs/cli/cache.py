"""``asdffs cache``: what is kept of remote files, and clearing it."""

from __future__ import annotations

import argparse
import json

from asdffs.cli.saying import say
from asdffs.storage.remote.cache import trim, used
from asdffs.storage.remote.options import cache_folder


def run(arguments: argparse.Namespace) -> int:
    """Print the number of files and bytes, after removing those that no process uses, if asked to."""
    if arguments.clear:
        trim(0)
    count, size = used()
    if arguments.json:
        print(json.dumps({"directory": cache_folder(), "files": count, "bytes": size}, indent=2))
    else:
        say(f"{cache_folder()}: {size} bytes of {count} remote {'file' if count == 1 else 'files'}")
    return 0

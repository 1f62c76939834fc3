"""Keeps secrets of URLs out of the list of processes.

Everybody can see the command line of a process.  A presigned URL in it is a key, and so is a password.  So asdffs
starts itself again, with URLs without secrets in the command line, and the whole words in the environment, which only
the user and root can see.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from asdffs.storage.remote.urls import is_remote, shown_url

_WORDS: Final = "ASDFFS_WORDS"


def hidden_words() -> list[str]:
    """Return the words of the command line; start the process again if they have secrets."""
    stated = os.environ.pop(_WORDS, None)
    if stated is not None:
        from json import loads  # not above: every command comes here

        words: list[str] = loads(stated)
        return words
    words = sys.argv[1:]
    shown = [shown_url(word) if is_remote(word) else word for word in words]
    count = len(sys.orig_argv) - len(words)
    if shown != words and sys.executable and sys.orig_argv[count:] == words:
        start = [sys.executable, *sys.orig_argv[1:count], *shown]
        from json import dumps

        os.execve(sys.executable, start, {**os.environ, _WORDS: dumps(words)})
    return words

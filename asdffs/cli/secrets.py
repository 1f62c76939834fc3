"""Keeps secrets of URLs out of the list of processes.

Everybody can see the command line of a process.  A presigned URL in it is a key, and so is a password.  So the first
thing that asdffs does is to overwrite them in its own memory, where the kernel reads the command line; the processes
that it starts by a fork have it overwritten as well.  Until then, while Python itself starts, they can be seen.
``env://NAME`` instead of a URL avoids that: only the user and root see the environment of a process.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would make secrets longer visible
if TYPE_CHECKING:
    from typing import Final

_SCHEMES: Final = (b"http", b"https", b"s3", b"gs", b"az")
_STATED: Final = "env://"


def hide_secrets() -> None:
    """Overwrite users, passwords and queries of URLs in the command line, as other programs see it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            facts = file.read().rpartition(b")")[2].split()
        start, stop = int(facts[45]), int(facts[46])  # arg_start, arg_end: proc_pid_stat(5)
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    except (OSError, ValueError, IndexError):  # without /proc nobody reads the command line there
        return
    try:
        words = os.pread(memory, stop - start, start)
        hidden = b"\0".join(map(_hidden, words.split(b"\0")))
        if hidden != words:
            os.pwrite(memory, hidden, start)
    except OSError:
        return
    finally:
        os.close(memory)


def _hidden(word: bytes) -> bytes:
    """Return a word of the same length, without what is secret in a URL."""
    scheme, mark, rest = word.partition(b"://")
    if not scheme.lower().endswith(_SCHEMES) or not mark:
        return word
    place, question, query = rest.partition(b"?")
    host, slash, path = place.partition(b"/")
    user, at, server = host.rpartition(b"@")
    return b"".join([scheme, mark, b"*" * len(user), at, server, slash, path, question, b"*" * len(query)])


def stated_words(words: list[str]) -> list[str]:
    """Return the words of a command line, with a URL for each ``env://NAME``: the value of that variable.

    Raises ``UsageError`` if it has no URL.
    """
    return [_url_of(word.removeprefix(_STATED)) if word.startswith(_STATED) else word for word in words]


def _url_of(name: str) -> str:
    from asdffs.storage.urls import is_remote

    text = os.environ.get(name, "")
    if not is_remote(text):
        from asdffs.errors import UsageError

        raise UsageError(f"{_STATED}{name}: the environment variable {name} has no URL; set and export it")
    return text

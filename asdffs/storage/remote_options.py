"""Settings for remote files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from asdffs.errors import UsageError

#: Bytes that the cache may use by default.
CACHE_MAX: Final = 10 << 30
#: Largest file that is downloaded as a whole by default, in bytes, if the server cannot send parts of it.
WHOLE_MAX: Final = 1 << 30
#: Seconds after which a read gives up by default.
TIMEOUT: Final = 60.0


class RemoteOptions(NamedTuple):
    """Settings for remote files.

    ``anonymous``: send no credentials.  ``endpoint``: the URL of the object store, None for the provider's.
    ``region``: of a bucket.  ``timeout``: seconds after which a read gives up, retries included.  ``cache``: whether
    bytes are kept for later runs.  ``cache_max``: most bytes of the cache.  ``whole_max``: the largest file, in
    bytes, that is downloaded as a whole if the server cannot send parts of it.  ``downloaded(done, total)`` is called
    while that happens, with bytes.
    """

    anonymous: bool = False
    endpoint: str | None = None
    region: str | None = None
    timeout: float = TIMEOUT
    cache: bool = True
    cache_max: int = CACHE_MAX
    whole_max: int = WHOLE_MAX
    downloaded: Callable[[int, int], None] | None = None


def cache_folder() -> str:
    """Return the directory of the cache: ``$XDG_CACHE_HOME/asdffs``, or ``~/.cache/asdffs``."""
    from asdffs.storage.own_places import own_directory  # most commands have no cache

    return os.path.join(own_directory("XDG_CACHE_HOME", ".cache"), "asdffs")


def parse_seconds(text: str) -> float:
    """Return a time in seconds, at least one.  Raises ``UsageError``."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise UsageError(f"timeout {text}: give seconds, 1 to 86400")
    return seconds

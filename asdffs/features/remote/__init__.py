"""Files in object stores and on web servers, which are read through a cache on the disk.

``transport``: one request, by ``web`` (which uses ``connections``) or ``object_stores``; ``fetching``: which requests
are made; ``cache``: the bytes that are here; ``backends/remote``: the storage protocol on all of these.
``rewriting`` changes objects in S3.
"""

from __future__ import annotations

from collections.abc import Callable


def change_object(url: str, change: Callable[[str], None]) -> None:
    """Let ``change(path)`` change a local copy of an object in S3, and store that; see ``rewriting``."""
    from asdffs.features.remote import rewriting

    rewriting.change_object(url, change)

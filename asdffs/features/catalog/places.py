"""Where the catalogue is, and the places that it is about."""

from __future__ import annotations

import os
from collections.abc import Sequence

from asdffs import registry
from asdffs.errors import MissingFileError, UsageError
from asdffs.format.constants import FILE_ENDINGS
from asdffs.storage.remote_options import cache_folder
from asdffs.storage.urls import is_remote, parse_url


def catalog_of(path: str | None) -> str:
    """Return ``path``, or the path of the catalogue that is used if none is named."""
    return path or os.path.join(cache_folder(), "catalog.sqlite")


def roots_of(places: Sequence[str], *, gone: bool = False) -> list[bytes]:
    """Return the absolute paths of directories and files, or URLs.

    ``gone``: they need not be there.  Raises ``MissingFileError``, ``UsageError``.
    """
    for place in places:
        if not gone and not is_remote(place) and not os.path.exists(place):
            raise MissingFileError("there is no such file or directory", path=place)
    return [os.fsencode(_url_of(place) if is_remote(place) else os.path.realpath(place)) for place in places]


def _url_of(place: str) -> str:
    """Return the URL of a file or of a prefix, as a catalogue keeps it.  Raises ``UsageError``."""
    registry.needed_feature("remote")
    if not place.partition("?")[0].lower().endswith(FILE_ENDINGS):
        from asdffs.features.remote.object_stores import prefix_of

        return prefix_of(place)
    url = parse_url(place)
    if url.text != url.shown:
        raise UsageError("a catalogue keeps no URL with a query or a user, which may be secret", path=url.shown)
    return url.text

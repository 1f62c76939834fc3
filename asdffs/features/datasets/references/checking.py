"""Compares the files that references lead to with what they were when the references were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

from asdffs.document.document import Document
from asdffs.errors import AsdffsError, NotAsdfError, reason_of
from asdffs.features.datasets.references.making import FILES, LOCAL
from asdffs.storage.urls import is_remote


def changed_files(text: bytes, open_file: Callable[[str], Document]) -> Iterator[tuple[str, str]]:
    """Yield each file of references: its URL, and why the references do not fit any more; empty if they do.

    A file at a URL is not asked for: the text may be a stranger's, and the user's credentials would go along.
    ``text``: the JSON file.  ``open_file(path)`` opens a file.  Raises ``NotAsdfError`` if these are no references
    with files.
    """
    for stated in _files_of(text):
        url = str(stated["url"])
        path = url.removeprefix(LOCAL)
        if is_remote(path):
            yield url, "is not asked: a file of references leads to no server"
            continue
        try:
            with closing(open_file(path)) as document:
                now = document.validators()
        except (AsdffsError, OSError) as err:
            yield url, err.sentence if isinstance(err, AsdffsError) else reason_of(err)
            continue
        different = [key for key, value in stated.items() if key != "url" and now.get(key) != value]
        yield url, f"was changed: another {' and '.join(different)}" if different else ""


def _files_of(text: bytes) -> list[Mapping[str, Any]]:
    """Return the files that references name: mappings with ``url``."""
    try:
        refs = json.loads(text)["refs"]
        attributes = json.loads(refs[".zattrs"]) if ".zattrs" in refs else json.loads(refs["zarr.json"])["attributes"]
        files = attributes[FILES]
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        raise NotAsdfError("is no file of references that asdffs made") from err
    if not isinstance(files, list) or not all(isinstance(one, dict) and "url" in one for one in files):
        raise NotAsdfError("is no file of references that asdffs made")
    return files

"""What the commands that change values (``set --where``) ask of the catalogue of a directory."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from asdffs.errors import AsdffsError
from asdffs.features.catalog.commands.index import indexed, tell_unread
from asdffs.features.catalog.places import catalog_of, roots_of
from asdffs.features.catalog.query import candidates
from asdffs.features.catalog.store import open_catalog
from asdffs.features.catalog.walking import Walk
from asdffs.tree.conditions import parse_condition

logger = logging.getLogger(__name__)


def selected_files(catalog: str | None, directories: Sequence[str], where: str) -> list[str]:
    """Return the files below ``directories`` for which ``where`` may hold, sorted, after indexing what changed.

    ``catalog``: its file, or None for the usual one.  Raises ``UsageError``, and as ``indexed``.
    """
    path, roots = catalog_of(catalog), roots_of(directories)
    condition = parse_condition(where)
    indexed(path, roots)
    there = {file for file, _ in Walk(roots).files()}  # whatever paths the catalogue, which others may write, has now
    with open_catalog(path, writable=False) as opened:
        tell_unread(opened, roots)
        found = [match.path for match in candidates(opened, condition, roots)]
        return sorted(os.fsdecode(file) for file in found if file in there)


def index_again(catalog: str | None, directories: Sequence[str], files: Sequence[str]) -> None:
    """Bring the catalogue up to date with those of ``files`` that are below ``directories``.

    If that is not possible, it is told; the next index does it.
    """
    inside = [file for file in files if file.startswith(tuple(os.path.join(one, "") for one in directories))]
    path = catalog_of(catalog)
    try:
        indexed(path, [os.fsencode(file) for file in inside])
    except (AsdffsError, OSError) as err:
        logger.warning("%s: has old values of the files that were changed, until the next index: %s", path, err)

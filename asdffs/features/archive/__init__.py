"""The mount of a directory of ASDF files.

``content`` puts it together, ``directory`` shows the directory, ``documents`` opens and closes its files.
"""

from __future__ import annotations

from typing import Any


def archive_content(*arguments: Any) -> Any:
    """See ``content.ArchiveContent``."""
    from asdffs.features.archive.content import ArchiveContent

    return ArchiveContent(*arguments)

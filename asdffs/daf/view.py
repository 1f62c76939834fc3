"""``daf/``: the FilesDaf store that the file carries, if it carries one, to read and to write.

It enters the mount through the registry, like a view of another package.  User: ``vfs``.
"""

from __future__ import annotations

from collections.abc import Iterable

from asdffs.daf.live import LiveStore
from asdffs.daf.live_directory import LiveDirectory
from asdffs.document.document import Document
from asdffs.views.base import Options


class Daf(LiveDirectory):
    """See ``View``."""

    directory = "daf"
    scratch = False

    def __init__(self, document: Document, options: Options | None = None) -> None:
        self._live = LiveStore(document, self)
        super().__init__(self._live, None, "")

    def present(self) -> bool:
        """Whether the file carries a store."""
        return self._live.carried

    def takes(self, name: str) -> bool:
        """What is created is the directory's business."""
        return False

    def finish(self, *, final: bool) -> None:
        """Have the tree have what was written.  Raises ``AsdffsError``, ``OSError``."""
        self._live.commit(final=final)
        if not final:
            self._live.sync()

    def unsaved(self) -> Iterable[tuple[str, str]]:
        """What it does not have: paths here, and of files in the spool."""
        return self._live.loose_files()


PLUGIN = Daf

"""The view ``daf/``: the FilesDaf store of the file, if it has one, for reading and writing.

The mount finds it through the registry, like a view of another package.  The rest of this package is imported only if
a file has a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from asdffs.document.document import Document
from asdffs.errors import AsdffsError
from asdffs.features.daf.live_directory import LiveDirectory
from asdffs.views.base import Options

if TYPE_CHECKING:
    from asdffs.features.daf.live import LiveStore


class Daf(LiveDirectory):
    """The view ``daf/``; see ``View``."""

    directory = "daf"
    standalone = True
    scratch = False

    def __init__(self, document: Document, options: Options | None = None) -> None:
        super().__init__(None, "")
        self._document = document
        self._spool = (options or Options()).spool
        self._live: LiveStore | None = None
        self._looked = -1
        self._found = False

    @property
    def _store(self) -> LiveStore:
        if self._live is None:
            from asdffs.features.daf.live import LiveStore

            self._live = LiveStore(self._document, self._spool, self)
        return self._live

    def present(self) -> bool:
        """Return whether the file has a store."""
        if self._live is None and not self._mentioned():
            return False
        return self._store.has_store

    def trouble(self) -> AsdffsError | None:
        """See ``View``."""
        return None if self._live is None else self._live.trouble

    def _mentioned(self) -> bool:
        """Return whether the tree may have a store; the text of each tree is searched once for its key."""
        version = self._document.tree.version
        if self._looked != version:
            self._looked, self._found = version, self.directory.encode() in self._document.tree.text()
        return self._found

    def takes(self, name: str) -> bool:
        """Return False: the directory creates its entries itself."""
        return False

    def finish(self, *, final: bool) -> None:
        """Commit the store; unless ``final``, also make the remaining loose files durable.

        Raises ``AsdffsError``, ``OSError``.
        """
        if self._live is None:
            return
        self._live.commit(final=final)
        if not final:
            self._live.sync()

    def unsaved(self) -> Iterable[tuple[str, str]]:
        """Return the files that the ASDF file does not have: paths here, and paths in the spool."""
        return self._live.loose_files() if self._live is not None else ()


PLUGIN = Daf

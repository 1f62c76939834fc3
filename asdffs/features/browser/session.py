"""``Session``: the open file of a page.  Its text, saves and history; the same commit as in a mount.

Any thread calls; each call enters the scheduler of the document, so they run one at a time.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from asdffs.document.arrays.array import Array
from asdffs.document.document import Document
from asdffs.document.saves.drafts import Drafts
from asdffs.document.saves.history import History
from asdffs.errors import MissingValueError, ReadOnlyError, TreeChangedError
from asdffs.tree.lookups import Values

#: The largest tree that is checked when the page asks for the facts of its file, in bytes.
_CHECKED: Final = 1 << 20


class Session:
    """One document.  ``drafts`` and ``history``: None if it is read-only.  ``name``: as the user typed the file.

    A version of the text changes with each commit, here or by another program.
    """

    def __init__(self, document: Document, name: str, drafts: Drafts | None, history: History | None) -> None:
        self.document = document
        self.name = name
        self._drafts = drafts
        self._history = history
        self._values: tuple[str, Values] | None = None
        self._parsing = threading.Lock()
        self._checked = ""  # the version of the text that was checked
        self._opening = secrets.token_hex(4)  # a file that is opened again begins to count anew

    @contextmanager
    def entered(self) -> Iterator[Document]:
        """Use the document inside the block, as another program left it.  Raises as ``Document.follow``."""
        with self.document.scheduler.entered():
            self.document.check_open()
            self.document.follow()
            yield self.document

    def facts(self) -> dict[str, Any]:
        """Return what the head of the page shows."""
        with self.entered() as document:
            return {
                "name": self.name,
                "size": document.whole_size,
                "blocks": len(document.blocks),
                "writable": self._drafts is not None,
                "version": self._version(),
                "warnings": self._warnings(document),
            }

    def _warnings(self, document: Document) -> list[str] | None:
        """Return what a mount would warn of; None for a tree too large to be checked while others wait."""
        version = self._version()
        if self._checked != version and document.tree.size <= _CHECKED:
            document.check_tree()
            self._checked = version
        return [*document.report.warnings] if self._checked == version else None

    def text(self) -> tuple[bytes, str]:
        """Return the text of the tree, and its version."""
        with self.entered() as document:
            return document.tree.text(), self._version()

    def version(self) -> str:
        """Return the version of the text without reading it."""
        with self.entered():
            return self._version()

    def array(self, name: str) -> Array:
        """Return the array ``name``; the document is entered.  Raises ``MissingValueError``."""
        try:
            return self.document.arrays[name]
        except KeyError as err:
            raise MissingValueError(f"{name}: there is no such array") from err

    def values(self) -> Values:
        """Return the values of the tree, which are parsed once for each version.  Raises ``InvalidTreeError``."""
        text, version = self.text()
        with self._parsing:  # without the document, which others may use meanwhile
            if self._values is None or self._values[0] != version:
                values = Values(text)
                values.root()
                self._values = version, values
            return self._values[1]

    def save(self, text: bytes, over: str) -> str:
        """Make ``text`` the tree of the file, durably, if that still has the version ``over``; return the new one.

        Raises ``TreeChangedError`` if it has not, ``ReadOnlyError``, ``InvalidTreeError``, or as ``Drafts.commit``;
        then the text is kept in the state directory.
        """
        if self._drafts is None:
            raise ReadOnlyError("the page is read-only")
        with self.entered() as document:
            if over != self._version():
                self._drafts.keep(text)
                raise TreeChangedError("the tree was changed since the page read it", path=self.name)
            self._drafts.commit(text)
            document.finish()
            return self._version()

    def history(self) -> list[dict[str, Any]]:
        """Return the trees that were replaced, the newest first: number, time (seconds since 1970) and size."""
        found = []
        with self.entered():
            for path in reversed(self._history.paths if self._history is not None else ()):
                status = os.stat(path)
                found.append({"number": _number(path), "time": status.st_mtime, "size": status.st_size})
        return found

    def old_text(self, number: int) -> bytes:
        """Return a tree of the history.  Raises ``MissingValueError`` if there is none with this number."""
        with self.entered():
            for path in self._history.paths if self._history is not None else ():
                if _number(path) == number:
                    with open(path, "rb") as file:
                        return file.read()
        raise MissingValueError(f"the history has no tree {number}")

    def _version(self) -> str:
        return f"{self._opening}-{self.document.generation}-{self.document.tree.version}"


def _number(path: str) -> int:
    return int(os.path.basename(path).partition(".")[0])

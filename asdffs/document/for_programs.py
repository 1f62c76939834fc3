"""What programs call of a document, beside its blocks and arrays: the text that is staged, the commit, the end.

``Document`` is the only class on this base.  Every call takes a turn of its own (``turn``); docs/python.md.
"""

from __future__ import annotations

import abc
import contextlib
from typing import Final, Self

from asdffs.document.serialized import serialized
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, ReadOnlyError, StaleFileError

_OUTDATED: Final = "another program changed it since its tree was read; read tree_text again"


class ForPrograms(FileState, abc.ABC):
    """A file with a staged text: what ``tree_text`` was set to, until ``commit``."""

    _wanted: bytes | None = None
    _seen: int | None = None

    @abc.abstractmethod
    def commit_tree(self, draft: bytes) -> None:
        """Make ``draft`` the tree, durably."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Make the file complete, durably."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or after an exception only complete the file: a text that was set is dropped then.  Close."""
        try:
            if self.writable and kind is None:
                self.commit()
            elif self.writable:
                with contextlib.suppress(AsdffsError, OSError):  # the exception that is on its way says more
                    self._complete()
        finally:
            self.close()

    @property
    @serialized
    def tree_text(self) -> str:
        """Header, comments and tree up to the end marker, as in the mount's ``tree.yaml``; of the file, or as set.

        Line ends are what they are in the file; bytes that are not UTF-8 are surrogates (``surrogateescape``).
        Raises ``OSError``.
        """
        if self._wanted is None:
            self._seen = self.generation
            return self.tree.text().decode("utf-8", "surrogateescape")
        return self._wanted.decode("utf-8", "surrogateescape")

    @tree_text.setter
    @serialized
    def tree_text(self, text: str) -> None:
        """Raises ``ReadOnlyError``."""
        if not self.writable:
            raise ReadOnlyError("it was opened for reading; open it with mode 'r+'")
        if not isinstance(text, str):
            raise TypeError(f"the tree's text is a str, not {type(text).__name__}")
        self._seen = self.generation if self._seen is None else self._seen
        self._wanted = text.encode("utf-8", "surrogateescape")

    @serialized
    def commit(self) -> None:
        """Have all in the file, durably: the text that was set, what was written to blocks, checksums, the index.

        Raises ``InvalidTreeError`` with line and column, and the file has its old tree; ``StaleFileError`` when
        another program changed the file since ``tree_text`` was read (it is the file's again then); or as
        ``commit_tree``, ``finish``.  Where the text is refused the blocks are durable all the same.
        """
        try:
            self._commit_wanted()
        except (AsdffsError, OSError):
            with contextlib.suppress(AsdffsError, OSError):  # what is on its way says more
                self.finish()
            raise
        self.finish()

    def _commit_wanted(self) -> None:
        if self._wanted is None:
            return
        if self._seen != self.generation:
            self._wanted = self._seen = None
            raise StaleFileError(_OUTDATED)
        self.commit_tree(self._wanted)
        self._wanted = None

    @serialized
    def _complete(self) -> None:
        self.finish()

    @property
    def _file(self) -> FileState:
        """What ``serialized`` marks has one: here it is the object itself."""
        return self

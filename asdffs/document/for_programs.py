"""What programs call of a document, beside its blocks and arrays: the text that is staged, the commit, the end.

A base of ``Document``, and a part of no other class.  Users: programs, through ``asdffs.open`` (docs/python.md).
Every call is a turn of its own (``turn``).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, Self, cast

from asdffs.document.blocks.transaction import Foreign
from asdffs.document.turn import in_turn
from asdffs.errors import AsdffsError, ReadOnlyError, StaleFileError

if TYPE_CHECKING:
    from asdffs.document.document import Document

_OUTDATED: Final = "another program changed it since its tree was read; read tree_text again"
_MEANWHILE: Final = "another program changed it while blocks were being written; open it again"


class ForPrograms:
    """See the module."""

    def __init__(self) -> None:
        self._wanted: bytes | None = None
        self._seen: int | None = None
        self._closed = False
        self._opener = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit, or after an exception only complete the file: a text that was set is dropped then.  Close."""
        try:
            if self._document.writable and kind is None:
                self.commit()
            elif self._document.writable:
                with contextlib.suppress(AsdffsError, OSError):  # the exception that is on its way says more
                    self._complete()
        finally:
            self._document.close()

    @property
    @in_turn
    def tree_text(self) -> str:
        """Header, comments and tree up to the end marker, as in the mount's ``tree.yaml``; of the file, or as set.

        Line ends are what they are in the file; bytes that are not UTF-8 are surrogates (``surrogateescape``).
        Raises ``OSError``.
        """
        if self._wanted is None:
            self._seen = self._document.generation
            return self._document.tree.text().decode("utf-8", "surrogateescape")
        return self._wanted.decode("utf-8", "surrogateescape")

    @tree_text.setter
    @in_turn
    def tree_text(self, text: str) -> None:
        """Raises ``ReadOnlyError``."""
        if not self._document.writable:
            raise ReadOnlyError("it was opened for reading; open it with mode 'r+'")
        if not isinstance(text, str):
            raise TypeError(f"the tree's text is a str, not {type(text).__name__}")
        self._seen = self._document.generation if self._seen is None else self._seen
        self._wanted = text.encode("utf-8", "surrogateescape")

    @in_turn
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
                self._document.finish()
            raise
        self._document.finish()

    def _commit_wanted(self) -> None:
        if self._wanted is None:
            return
        if self._seen != self._document.generation:
            self._wanted = self._seen = None
            raise StaleFileError(_OUTDATED)
        self._document.commit_tree(self._wanted)
        self._wanted = None

    @in_turn
    def _complete(self) -> None:
        self._document.finish()

    def check_open(self) -> None:
        """Raise ``ValueError`` when a program closed it, or is not the one that opened it, but was forked from it."""
        if self._closed:
            raise ValueError(f"{self._document.path} is closed")
        if not self.is_opener:
            raise ValueError(f"{self._document.path} was opened by another process; a fork must open it itself")

    @property
    def is_opener(self) -> bool:
        """Whether this process opened it, and is not a fork."""
        return self._opener == os.getpid()

    def was_changed(self) -> bool:
        """Whether another program changed or replaced the file since it was read."""
        return self._document.foreign() in (Foreign.CHANGED, Foreign.REPLACED)

    def follow(self) -> None:
        """Read the file again if another program changed it.  Raises ``StaleFileError`` when changes are pending."""
        if not self.was_changed():
            return
        if self._document.pending:
            self._document.conflict = _MEANWHILE
            raise StaleFileError(_MEANWHILE, path=self._document.path)
        self._document.read_again()

    @property
    def _document(self) -> Document:
        """What ``in_turn`` marks has one: here it is the object itself."""
        return cast("Document", self)

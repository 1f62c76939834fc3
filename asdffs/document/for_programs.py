"""The calls of the Python API on a document as a whole: its text, the commit and the end.

Only ``Document`` derives from this class.  The calls of a program run one at a time (``serialized``).  See
docs/python.md.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator
from typing import Final, Self

from asdffs.document.serialized import serialized
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, ReadOnlyError, StaleFileError

_FOR_READING: Final = "it was opened for reading; open it with mode 'r+'"
_OUTDATED: Final = "another program changed it since its tree was read; read tree_text again"


class ForPrograms(FileState, abc.ABC):
    """An open file with a staged text: the value to which ``tree_text`` was set, until ``commit``."""

    _wanted: bytes | None = None
    _seen: int | None = None
    _editing = False

    @abc.abstractmethod
    def commit_tree(self, draft: bytes) -> None:
        """Make ``draft`` the text of the file, atomically and durably."""

    @abc.abstractmethod
    def finish(self) -> None:
        """Complete the file durably: dirty blocks, sizes, checksums, block index."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Commit and close.  After an exception, drop a text that was set, and only complete the file before."""
        try:
            if self.writable and kind is None:
                self.commit()
            elif self.writable:
                with contextlib.suppress(AsdffsError, OSError):  # the exception of the block is more useful
                    self._complete()
        finally:
            self.close()

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the outline of the tree.  Raises nothing about the file."""
        from asdffs.document.arrays.html import text
        from asdffs.document.html import document_html
        from asdffs.tree.lookups import Values

        try:
            return document_html(self.path, Values(self.tree_text.encode("utf-8", "surrogateescape")).root())
        except (AsdffsError, OSError, ValueError) as err:
            return f"<div>{text(str(err))}</div>"

    @property
    @serialized
    def tree_text(self) -> str:
        """The text of the file up to the end marker: header, comments and tree, as ``tree.yaml`` of a mount shows it.

        Set it to change the tree.  The new text enters the file at the next ``commit``; until then, this property
        returns the new text.  Line ends stay as they are in the file.  Bytes that are not UTF-8 are surrogates
        (``surrogateescape``).

        Raises ``OSError`` when read.  Raises ``ReadOnlyError`` when set in a document that was opened for reading,
        and ``TypeError`` if the value is not a str.
        """
        if self._wanted is None:
            self._seen = self.generation
            return self.tree.text().decode("utf-8", "surrogateescape")
        return self._wanted.decode("utf-8", "surrogateescape")

    @tree_text.setter
    @serialized
    def tree_text(self, text: str) -> None:
        """Stage ``text`` for the next commit.  Raises ``ReadOnlyError``, ``TypeError``."""
        if not self.writable:
            raise ReadOnlyError(_FOR_READING)
        if not isinstance(text, str):
            raise TypeError(f"tree_text must be a str, not {type(text).__name__}")
        self._seen = self.generation if self._seen is None else self._seen
        self._wanted = text.encode("utf-8", "surrogateescape")

    @property
    def staged_text(self) -> bytes | None:
        """The text that was set and is not committed yet; None without one."""
        return self._wanted

    @property
    def editing(self) -> bool:
        """Whether ``values`` can be changed now."""
        return self._editing

    @contextlib.contextmanager
    def edit(self) -> Iterator[None]:
        """Let ``values`` be changed inside the ``with`` block, and commit once at its end.

        After an exception, the changes of the block are dropped.  Raises ``ReadOnlyError`` in a document that was
        opened for reading, ``ValueError`` inside another ``edit``, and as ``commit``.
        """
        if not self.writable:
            raise ReadOnlyError(_FOR_READING, path=self.path)
        if self._editing:
            raise ValueError("this document is being edited already")
        before, self._editing = self._wanted, True
        try:
            yield
        except BaseException:
            self._wanted = before
            raise
        finally:
            self._editing = False
        self.commit()

    @serialized
    def commit(self) -> None:
        """Write all changes into the file, durably: the text that was set, blocks, checksums and the block index.

        Raises ``InvalidTreeError``, with line and column, if the text is not valid; then the file keeps its old tree,
        and ``tree_text`` keeps the new text.  Raises ``StaleFileError`` if another program changed the file after
        ``tree_text`` was read; then the new text is dropped, and ``tree_text`` is the text of the file again.  After
        an error of the text, changes of blocks are committed nevertheless.

        Also raises ``NoRoomError``, ``InUseError``, ``ReadOnlyError``, ``FailedFileError``, ``DamagedBlockError`` or
        ``OSError`` if the file cannot be changed.
        """
        try:
            self._commit_wanted()
        except (AsdffsError, OSError):
            with contextlib.suppress(AsdffsError, OSError):  # the first error is more useful
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
        """The file, for ``serialized``: the object itself."""
        return self

"""The calls of the Python API on a document as a whole: its text, the commit and the end.  See docs/python.md.

``serialized`` decorates all calls of the Python API, so that the calls of a program's threads run one at a time.  A
thread that already holds the main lock, as in a mount or a command, just continues.  Before each call, the file is
read again if another program changed it.  A read during which this happened is repeated.
"""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Concatenate, Final, ParamSpec, Self, TypeVar

from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, ReadOnlyError, StaleFileError

_FOR_READING: Final = "it was opened for reading; open it with mode 'r+'"
_OUTDATED: Final = "another program changed it since its tree was read; read tree_text again"

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

#: How often a read is tried while another program changes the file all the time.
_TRIES: Final = 100


def serialized(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method of an object with a ``_file``: only one thread at a time uses that file.

    The method also raises ``ValueError`` if the file is closed or was opened by another process, and
    ``StaleFileError`` if another program changed the file.  Errors get the path of the file if they have none.
    """

    @functools.wraps(method)
    def called(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        file: FileState = self._file  # type: ignore[attr-defined]
        if file.scheduler.held:
            return method(self, *args, **kwargs)
        with file.scheduler.entered():
            file.check_open()
            try:
                if not file.mode.writable:
                    return _steadily(file, lambda: method(self, *args, **kwargs))
                file.follow()  # from here on, the lock of the file keeps other programs of ours out
                return method(self, *args, **kwargs)
            except AsdffsError as err:
                err.path = err.path or file.path
                raise

    return called


def _steadily(file: FileState, call: Callable[[], R]) -> R:
    """Return ``call()``, and repeat it if another program changed the file during a read.

    Raises ``StaleFileError`` if the file never stays the same during a call.
    """
    for _ in range(_TRIES):
        file.follow()
        try:
            found = call()
        except (AsdffsError, OSError, KeyError, ValueError):
            if not file.was_changed():
                raise
            continue
        if not file.was_changed():
            return found
    raise StaleFileError("another program changes it all the time; try again later", path=file.path)


class ForPrograms(FileState, abc.ABC):
    """An open file with a staged text: the value to which ``tree_text`` was set, until ``commit``.

    Only ``Document`` derives from this class.
    """

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

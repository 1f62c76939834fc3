"""Keeps uncommitted content beside the ASDF file when a mount or an edit ends, so that nothing is lost.

| name                               | content                                                                       |
|------------------------------------|-------------------------------------------------------------------------------|
| ``NAME.rejected-N.yaml``           | a draft that is not in the file                                               |
| ``NAME.leftover/``                 | scratch, except for temporary files of editors                                |
| ``NAME.unsaved-N.block-NNNN.bin``  | a block that was written and could not be committed                           |
| ``NAME.conflict-N.yaml``           | a draft that conflicts with a change by another program                       |
| ``NAME.conflict-N.block-NNNN.bin`` | a block with such a conflict                                                  |
| ``NAME.conflict-N.STEM.asdf``      | a file of an exploded form that did not enter the file                        |

Existing files are never overwritten.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

from asdffs.document.document import Document
from asdffs.document.saves.history import DRAFT
from asdffs.errors import AsdffsError, Remedy, reason_of
from asdffs.scheduling import CHUNK
from asdffs.storage.backend import WriteBackend
from asdffs.storage.file_backend import FileBackend, FileFolder
from asdffs.storage.permissions import make_directory, protect

_Made = TypeVar("_Made")
#: The longest name, in bytes, that gets a suffix without being cut; names have at most 255.
_LONGEST_STEM = 220
_CUT_STEM = 200
#: Names of blocks that stay in the spool, because they could not be kept beside the file.
_STAYED = re.compile(r"(unsaved|conflict)-(\d{4,})\.block")
#: Names of files that editors and tools leave behind, and that users do not need.
_DISPOSABLE = re.compile(r"\..*|4913|.*~|#.*#", re.DOTALL)


class Left(NamedTuple):
    """Scratch at a relative path: a file with its bytes in ``source``, a link to ``target``, else a directory."""

    path: str
    source: str = ""
    target: str = ""


def keep_beside(
    document: Document,
    drafts: Callable[[], Sequence[str]],
    scratch: Callable[[], Sequence[Left]],
    files: Callable[[], Sequence[tuple[str, str]]],
    spool: str,
) -> bool:
    """At the end of a mount, keep everything that is not in the file, and report it.  Return whether all was kept.

    ``drafts()`` returns the paths of drafts that were not committed or refused yet.  ``scratch()`` returns that
    of users.  ``files()`` returns those of files of views, which are kept whatever their names are.  All
    paths are in ``spool``.
    """
    report = document.report
    keeper = Keeper(document, spool, report.tell)
    for number in report.unkept if document.mode.conflict else document.contents.compressed.dirty:
        keeper.keep_block(number, document)
    try:
        # after a failure, the shown text is in the file only after a recovery, so a draft equal to it is kept, too
        committed = b"" if document.mode.failure else document.tree.text()
        for draft in distinct([*report.rejected, *drafts()], committed, already=report.conflict):
            keeper.keep_draft(draft, superseded=draft in report.corrected)
        for left in scratch():
            keeper.keep_left(left)
        for name, source in files():
            keeper.keep_scratch(name, source, missed=True)
    except OSError as err:
        keeper.failures.append(f"drafts and files could not be kept and stay in {spool} ({err.strerror})")
    report.note_kept(keeper.kept, keeper.failures, keeper.superseded)
    return not keeper.failures


class Keeper:
    """Keeps drafts, blocks and scratch beside ``file``.  If this fails for one, it stays where it is.

    Who may change the directory may be another user.  So all is created through its descriptor, which a document has.

    ``spool``: the directory for blocks that cannot be kept beside the file.  ``tell(error)`` returns the text of an
    error as users read it.  ``kept``: the new paths; ``superseded``: those of drafts that a later save corrected;
    ``failures``: a sentence for each failure.
    """

    def __init__(self, file: Document, spool: str = "", tell: Callable[[Exception], str] = str) -> None:
        self._tell = tell
        self._spool = spool
        directory, self._file = os.path.split(file.path)
        self._folder = file.folder if isinstance(file.folder, FileFolder) else FileFolder(directory)
        self._name = _shortened(self._file)
        self.kept: list[str] = []
        self.superseded: list[str] = []
        self.failures: list[str] = []

    def keep_draft(self, source: str, *, superseded: bool = False) -> None:
        """Copy a draft to ``NAME.rejected-N.yaml``.  ``superseded``: a later save corrected it."""
        kept = self.superseded if superseded else self.kept
        self._keep(source, lambda n: f"{self._name}.rejected-{n}.yaml", kept)

    def keep_conflict(self, source: str) -> None:
        """Copy a draft to ``NAME.conflict-N.yaml``, because another program changed the file meanwhile."""
        self._keep(source, lambda n: f"{self._name}.conflict-{n}.yaml")

    def keep_conflict_file(self, source: str) -> None:
        """Copy a file of an exploded form to ``NAME.conflict-N.STEM.asdf``, because it did not enter the file."""
        other = os.path.basename(source)
        self._keep(source, lambda n: f"{self._name}.conflict-{n}.{_shortened(other)}")

    def keep_conflict_content(self, name: str, fill: Callable[[WriteBackend], None]) -> None:
        """Write what ``fill`` writes to ``NAME.conflict-N.STEM.asdf``; ``name``: the last part of it."""

        def name_of(n: int) -> str:
            return f"{self._name}.conflict-{n}.{_shortened(name)}"

        try:
            self.kept.append(self._write_new(self._folder, name_of, lambda new: _fill(new, fill)))
        except (OSError, AsdffsError) as err:
            self.failures.append(f"{name}, as it is in the file, could not be kept beside it ({reason_of(err)})")

    def keep_block(self, number: int, document: Document, kind: str = "unsaved") -> bool:
        """Write the content of a block to ``NAME.KIND-N.block-NNNN.bin``, and return whether that worked.

        ``kind``: ``unsaved`` for a block that could not be committed, ``conflict`` after another program's change.
        """

        def name_of(n: int) -> str:
            return f"{self._name}.{kind}-{n}.block-{number:04d}.bin"

        try:
            self.kept.append(self._write_new(self._folder, name_of, lambda new: _copy_block(document, number, new)))
        except (OSError, AsdffsError) as err:
            sentence = f"block {number}, as it was written here, could not be kept beside the file ({reason_of(err)})"
            self.failures.append(sentence + self._stay(kind, number, document))
            return False
        return True

    def _stay(self, kind: str, number: int, document: Document) -> str:
        """Keep a block in the spool for the next mount, and return the rest of the sentence about it."""
        if not self._spool:
            return ""
        name, spool = f"{kind}-{number:04d}.block", FileFolder(self._spool)
        path = spool.path(name)
        try:
            with contextlib.suppress(FileNotFoundError):
                spool.remove(name)
            given = False
            with contextlib.suppress(OSError):  # without a copy, for which there may be no room
                given = document.contents.give_name(number, path)
            if not given:
                self._write_new(spool, lambda n: name, lambda new: _copy_block(document, number, new))
            spool.sync()
        except (OSError, AsdffsError) as err:
            return f", nor in {self._spool} ({reason_of(err)}): it is lost"
        stays = AsdffsError(f"it stays in {path}, and the next mount brings it back", remedy=Remedy.RECOVER)
        return f"; {self._tell(stays)}"

    def keep_stayed_block(self, source: str) -> bool:
        """Copy a block that stayed in the spool to a place beside the file.

        Return False if the name of ``source`` is not that of such a block.
        """
        match = _STAYED.fullmatch(os.path.basename(source))
        if match is None:
            return False
        kind, number = match.groups()
        self._keep(source, lambda n: f"{self._name}.{kind}-{n}.block-{number}.bin")
        return True

    def keep_left(self, left: Left) -> None:
        """Keep a file, a symbolic link or an empty directory in ``NAME.leftover/``."""
        if left.source:
            self.keep_scratch(left.path, left.source)
            return
        try:
            folder, name = self._leftover_place(left.path)
            if left.target:
                made, _ = _first_free(
                    _numbered(name), lambda new: os.symlink(left.target, new, dir_fd=folder.fileno())
                )
            else:
                made, _ = _first_free(_numbered(name), lambda new: os.mkdir(new, dir_fd=folder.fileno()))
            folder.sync()
            self.kept.append(folder.path(made))
        except OSError as err:
            self.failures.append(f"{left.path} in the mount could not be kept beside the file ({err.strerror})")

    def keep_scratch(self, path: str, source: str, *, missed: bool = False) -> None:
        """Copy the file ``source``, scratch at the relative ``path``, into ``NAME.leftover/``.

        Scratch with a disposable name is dropped.  ``missed``: copy it in any case.
        """
        if not missed and any(map(is_disposable, path.split("/"))):
            return
        try:
            folder, name = self._leftover_place(path)
        except OSError as err:
            self._failed(source, err)
            return
        self._keep(source, _numbered(name), folder=folder)

    def _leftover_place(self, path: str) -> tuple[FileFolder, str]:
        """Return the directory in ``NAME.leftover/`` for scratch at ``path``, and its name there."""
        above, name = os.path.split(path)
        top = self._leftover_folder()
        try:
            return top.below(above, create=True), name
        except NotADirectoryError:  # a file of the other directory has that name
            return top, path.replace("/", "-")

    def _leftover_folder(self) -> FileFolder:
        number = 1
        while True:
            name = f"{self._name}.leftover" + (f"-{number}" if number > 1 else "")
            if (folder := make_directory(self._folder, name, self._file)) is not None:
                return folder
            number += 1

    def _keep(
        self,
        source: str,
        name_of: Callable[[int], str],
        kept: list[str] | None = None,
        folder: FileFolder | None = None,
    ) -> None:
        try:
            with open(source, "rb") as old:
                new = self._write_new(folder or self._folder, name_of, lambda new: shutil.copyfileobj(old, new))
            (self.kept if kept is None else kept).append(new)
        except OSError as err:
            self._failed(source, err)

    def _write_new(self, folder: FileFolder, name_of: Callable[[int], str], fill: Callable[[BinaryIO], None]) -> str:
        """Create the first free of ``name_of(1)``, ``name_of(2)`` ..., let ``fill`` write it, and return its path.

        The file is durable; after an error it is removed.  Only users who may read the ASDF file may read it.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        name, fd = _first_free(name_of, lambda name: os.open(name, flags, 0o600, dir_fd=folder.fileno()))
        try:
            with open(fd, "wb") as new:
                protect(fd, self._folder, self._file)
                fill(new)
                new.flush()
                os.fsync(new.fileno())
            folder.sync()
        except (OSError, AsdffsError):
            folder.remove(name)
            raise
        return folder.path(name)

    def _failed(self, source: str, err: OSError) -> None:
        self.failures.append(f"{source} could not be kept beside the file ({err.strerror}) and stays there")


def keep_abandoned(file: Document, spool: str, rejected: str, committed: bytes, editing: str = "") -> Keeper:
    """Keep the content of the spool of a killed daemon, and the texts that were being edited.

    ``spool``, ``rejected``, ``editing``: see ``Places``; they may be missing.  A draft that equals the
    ``committed`` text or an earlier draft is not kept.
    """
    keeper = Keeper(file)
    drafts = [os.path.join(rejected, name) for name in _names(rejected)]
    for name in _names(spool):
        from urllib.parse import unquote_to_bytes  # few daemons are killed

        plain = os.fsdecode(unquote_to_bytes(name.partition("-")[2]))
        source = os.path.join(spool, name)
        if plain == "tree.yaml":
            drafts.append(source)
        elif not keeper.keep_stayed_block(source):
            keeper.keep_scratch(plain, source)
    typed = (os.path.join(editing, name, DRAFT) for name in _names(editing))
    drafts += [path for path in typed if os.path.isfile(path)]
    for draft in distinct(drafts, committed):
        keeper.keep_draft(draft)
    return keeper


def _names(directory: str) -> list[str]:
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def is_disposable(name: str) -> bool:
    """Return whether scratch with that name is dropped at the end instead of being kept as a leftover."""
    return _DISPOSABLE.fullmatch(name) is not None


def distinct(drafts: list[str], committed: bytes, *, already: Sequence[str] = ()) -> list[str]:
    """Return the paths of ``drafts`` that are not empty, not ``committed``, and not equal to an earlier draft.

    ``already``: paths of copies that were kept before; texts equal to one of these are left out as well.
    """
    seen = {b"", committed}
    for path in already:
        if path.endswith(".yaml"):
            with open(path, "rb") as file:
                seen.add(file.read())
    chosen = []
    for path in drafts:
        with open(path, "rb") as file:
            text = file.read()
        if text not in seen:
            seen.add(text)
            chosen.append(path)
    return chosen


def _shortened(name: str) -> str:
    """Return ``name``, cut and with a hash if it would be too long with a suffix."""
    raw = os.fsencode(name)
    if len(raw) <= _LONGEST_STEM:
        return name
    import hashlib

    return os.fsdecode(raw[:_CUT_STEM]) + "-" + hashlib.sha256(raw).hexdigest()[:12]


def _fill(new: BinaryIO, fill: Callable[[WriteBackend], None]) -> None:
    """Let ``fill`` write the open file ``new``."""
    backend = FileBackend(os.dup(new.fileno()), "")
    try:
        fill(backend)
    finally:
        backend.close()


def _first_free(name_of: Callable[[int], str], make: Callable[[str], _Made]) -> tuple[str, _Made]:
    """Call ``make`` with ``name_of(1)``, ``name_of(2)`` ... until one is free; return the name and the result."""
    number = 1
    while True:
        try:
            return name_of(number), make(name_of(number))
        except FileExistsError:
            number += 1


def _numbered(name: str) -> Callable[[int], str]:
    """Return the names to try for a leftover: ``name`` itself, then with a number."""
    return lambda number: name if number == 1 else f"{_shortened(name)}.{number}"


def _copy_block(document: Document, number: int, new: BinaryIO) -> None:
    for place in range(0, document.blocks[number].size, CHUNK):
        piece = document.blocks[number].read_at(place, CHUNK)
        with document.scheduler.waiting():
            new.write(piece)
    with document.scheduler.waiting():
        new.flush()
        os.fsync(new.fileno())

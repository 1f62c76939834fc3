"""Every error that asdffs raises on purpose.

Purpose: one hierarchy whose members carry facts (file, offset, block, line) as attributes and whose text is one
sentence: what was wrong, and where.  No state.
"""

from __future__ import annotations

import enum

from asdffs.printable import printable


class Remedy(enum.Enum):
    """What a user can do about an error by a command or an option; ``cli/remedies`` has the words."""

    CLOSE_GAP = enum.auto()
    COMPARE_TEXT = enum.auto()
    DROP_BYTES = enum.auto()
    DROP_INDEX = enum.auto()
    DROP_TAIL = enum.auto()
    FORCE_DROP = enum.auto()
    FORCE_DROP_BLOCKS = enum.auto()
    FORCE_LOSS = enum.auto()
    FORCE_REMOVE = enum.auto()
    FORCE_REPLACE = enum.auto()
    FORCE_WITHOUT = enum.auto()
    IMPLODE = enum.auto()
    INIT_STORE = enum.auto()
    LOOK = enum.auto()
    MORE_SPOOL = enum.auto()
    MOUNT_READ_ONLY = enum.auto()
    RECOMPRESS = enum.auto()
    RECOVER = enum.auto()
    STORED_BYTES = enum.auto()
    UPGRADE = enum.auto()


class AsdffsError(Exception):
    """Base of all errors of asdffs.

    ``sentence`` says what was wrong, and what to do where no command is needed for that.  The facts are optional:
    ``path`` (the file), ``offset`` (bytes from the start of the file),
    ``block`` (block number from 0), ``line`` and ``column`` (of the tree, from 1); ``remedy``: a command that helps.
    """

    def __init__(
        self,
        sentence: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        block: int | None = None,
        line: int | None = None,
        column: int | None = None,
        remedy: Remedy | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.path = path
        self.offset = offset
        self.block = block
        self.line = line
        self.column = column
        self.remedy = remedy

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.path, self._place(), self.sentence) if part))

    def _place(self) -> str:
        places = []
        if self.line is not None:
            places.append(f"line {self.line}" + (f", column {self.column}" if self.column is not None else ""))
        if self.block is not None:
            places.append(f"block {self.block}")
        if self.offset is not None:
            places.append(f"offset {self.offset}")
        return ", ".join(places)


def reason_of(error: BaseException) -> str:
    """An error as a part of a sentence: of one of the system its words and the file, not its number."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return printable(f"{where}{error.strerror}")
    return str(error) or type(error).__name__


class NotAsdfError(AsdffsError):
    """The file does not begin with an ASDF header that any dialect knows."""


class DamagedFileError(AsdffsError):
    """The header is there, but the text part of the file cannot be delimited."""


class DamagedBlockError(AsdffsError):
    """One block is unreadable; the tree and the other blocks are not concerned.

    ``end``: where it seems to end all the same, in bytes from the start of the file; None where nothing says.
    """

    end: int | None = None

    def ending(self, end: int) -> DamagedBlockError:
        """This error, of a block that seems to end at ``end``."""
        self.end = end
        return self


class InvalidTreeError(AsdffsError):
    """A draft of the tree cannot be committed; ``line`` and ``column`` say where."""


class InvalidArrayError(AsdffsError):
    """An array as the tree states it cannot be shown; ``line`` says where."""


class InvalidStoreError(AsdffsError):
    """A FilesDaf store, or a file of it, is not as its specification says.

    ``packed``: it is only that its bytes are packed, which asdffs keeps and does not read.
    """

    def __init__(
        self, sentence: str, *, path: str | None = None, packed: bool = False, remedy: Remedy | None = None
    ) -> None:
        super().__init__(sentence, path=path, remedy=remedy)
        self.packed = packed


class TreeChangedError(AsdffsError):
    """The tree was changed since that was read which a new one was made of."""


class AbandonedError(AsdffsError):
    """Slow work was given up because nobody waits for it any more."""


class StorageError(AsdffsError):
    """Base of what can go wrong between the document and the disk."""


class LockedError(StorageError):
    """Another asdffs holds the file."""


class StaleFileError(StorageError):
    """Another program changed or replaced the file since it was read."""


class FailedFileError(StorageError):
    """A write or sync failed such that the file must not be written any more."""


class UntrustedFileError(StorageError):
    """A file beside the data was written by somebody who may not change the data."""


class RecoveryError(StorageError):
    """A journal is there that cannot be brought together with the file; nothing was changed."""


class NoRoomError(StorageError):
    """The change needs space inside the file that cannot be made there."""


class SpoolFullError(StorageError):
    """What must be kept decoded does not fit into the room for it."""


class ReadOnlyError(AsdffsError):
    """The mount, the file or this block cannot be written, and the sentence says why."""


class NoSuchNameError(AsdffsError):
    """No node of that name in the mount."""


class NameExistsError(AsdffsError):
    """A node of that name is there already."""


class NameRefusedError(AsdffsError):
    """The name or the argument is one that the mount does not accept."""


class NameTooLongError(NameRefusedError):
    """A name has at most 255 bytes."""


class NotPermittedError(AsdffsError):
    """The operation is not one that this node allows."""


class CrossViewError(AsdffsError):
    """A file cannot be renamed or linked from one view to another, or out of it."""


class InUseError(AsdffsError):
    """The node cannot be removed or replaced as long as something refers to it."""


class NotSupportedError(AsdffsError):
    """The operation, or this compression, is not supported at all."""


class ForeignAttributeError(NotSupportedError):
    """An extended attribute that is not ours to keep; editors try and go on without."""


class FileExpectedError(AsdffsError):
    """A file was needed and this is a directory."""


class NotDirectoryError(AsdffsError):
    """A directory was needed and this is a file."""


class NotEmptyError(AsdffsError):
    """A directory must be empty for this."""


class NoAttributeError(AsdffsError):
    """The node has no extended attribute of that name."""


class UsageError(AsdffsError):
    """The command line is not one that asdffs understands."""


class MissingFileError(AsdffsError):
    """The file cannot be found, or is not one that can be opened."""


class MountError(AsdffsError):
    """FUSE, the mount point or the rights do not allow the mount."""


class KeptEditsError(AsdffsError):
    """The mount has ended, and some of what was typed or copied in was kept beside the file."""


class UnfinishedError(AsdffsError):
    """The mount has ended, and the file could not be finished."""

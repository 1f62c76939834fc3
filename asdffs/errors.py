"""All errors that asdffs raises on purpose, as one hierarchy.

An error has its facts (file, offset, block, line) as attributes.  Its text is one sentence: what is wrong, and where.
This module has no state.
"""

from __future__ import annotations

import enum

from asdffs.printable import printable


class Remedy(enum.Enum):
    """Commands and options that help with an error.  ``cli/results`` has their texts."""

    CLOSE_GAP = enum.auto()
    CHANGE_SHARED = enum.auto()
    COMPARE_TEXT = enum.auto()
    CREATE_PARENTS = enum.auto()
    DROP_BYTES = enum.auto()
    DROP_INDEX = enum.auto()
    DROP_TAIL = enum.auto()
    EXPORT = enum.auto()
    FOLLOW = enum.auto()
    FORCE_DROP = enum.auto()
    FORCE_DROP_BLOCKS = enum.auto()
    FORCE_LOSS = enum.auto()
    FORCE_REMOVE = enum.auto()
    FORCE_REPLACE = enum.auto()
    FORCE_WITHOUT = enum.auto()
    IMPLODE = enum.auto()
    INDEX = enum.auto()
    INDEX_ANEW = enum.auto()
    INIT_STORE = enum.auto()
    INSTALL_FITS = enum.auto()
    INSTALL_SHOW = enum.auto()
    INSTALL_VIEW = enum.auto()
    LOOK = enum.auto()
    MAKE_LOCAL = enum.auto()
    MORE_MEMORY = enum.auto()
    KEEP_OLD_BYTES = enum.auto()
    MORE_SPOOL = enum.auto()
    OTHER_CATALOG = enum.auto()
    RECOMPRESS = enum.auto()
    RECOVER = enum.auto()
    REPORT = enum.auto()
    SERVER = enum.auto()
    STORED_BYTES = enum.auto()
    UMOUNT = enum.auto()
    UPGRADE = enum.auto()
    WHOLE_MAX = enum.auto()


class AsdffsError(Exception):
    """Base class of all errors of asdffs.

    ``sentence`` tells what is wrong, and what to do if that needs no command.  The other attributes are None if they
    are unknown or do not apply:

    * ``path``: the file
    * ``offset``: in bytes from the start of the file
    * ``block``: the number of the block, from 0
    * ``line``, ``column``: the place in the text of the tree, from 1
    * ``remedy``: a command or an option that helps

    ``str(error)`` is one line with the path, the place and the sentence, and is safe to print.
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
    """Return the text of an error for use inside a sentence.

    For an ``OSError`` this is its file and its message without the errno.
    """
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return printable(f"{where}{error.strerror}")
    return str(error) or type(error).__name__


class NotAsdfError(AsdffsError):
    """The file does not begin with an ASDF header of a known dialect."""


class DamagedFileError(AsdffsError):
    """The file has a header, but the end of its text part cannot be found."""


class DamagedBlockError(AsdffsError):
    """One block cannot be read.  The tree and the other blocks are not affected.

    ``end``: the offset at which the block seems to end nevertheless, in bytes from the start of the file; None if it
    is unknown.
    """

    end: int | None = None

    def ending(self, end: int) -> DamagedBlockError:
        """Set ``end``, in bytes from the start of the file, and return this error."""
        self.end = end
        return self


class InvalidTreeError(AsdffsError):
    """A text is not valid as the tree, so it cannot be committed; ``line`` and ``column`` are the place."""


class ValueRefusedError(InvalidTreeError):
    """An edit of a value is refused.  The tree is valid and stays as it is; ``line`` is the place in it."""


class SharedValueError(ValueRefusedError):
    """A value cannot be changed alone, because an alias or a merge key uses it in other places of the tree too."""


class MissingValueError(AsdffsError):
    """A path leads to nothing in the tree; ``line`` is where the part of the path that exists ends."""


class InvalidArrayError(AsdffsError):
    """An array cannot be shown as the tree describes it; ``line`` is its place in the tree."""


class NotFollowedError(InvalidArrayError):
    """A source or a reference leads to a place to which asdffs does not go."""


class InvalidStoreError(AsdffsError):
    """A FilesDaf store, or a file in it, violates the FilesDaf specification.

    ``packed``: the only problem is that its bytes are packed; asdffs keeps such bytes but does not read them.
    """

    def __init__(
        self, sentence: str, *, path: str | None = None, packed: bool = False, remedy: Remedy | None = None
    ) -> None:
        super().__init__(sentence, path=path, remedy=remedy)
        self.packed = packed


class TreeChangedError(AsdffsError):
    """The tree has changed since the version on which the new tree is based."""


class AbandonedError(AsdffsError):
    """Slow work was abandoned because the program, the mount or the command that needed it ended."""


class StorageError(AsdffsError):
    """Base class of errors between the document and the disk."""


class NotCatalogError(StorageError):
    """The file is no catalogue of many files, or a damaged one."""


class RemoteError(StorageError):
    """A remote file cannot be read: the server refuses, does not answer, or cannot be reached."""


class LockedError(StorageError):
    """The file is locked by another mount, command or document of asdffs."""


class StaleFileError(StorageError):
    """Another program changed or replaced the file since it was read."""


class WorkerKilledError(StorageError):
    """A worker process was killed while it worked for this process."""


class FailedFileError(StorageError):
    """A write or sync failed, so the file must not be written any more; the journal stays for recovery."""


class UntrustedFileError(StorageError):
    """A file beside the ASDF file was written by a user who may not change the ASDF file."""


class RecoveryError(StorageError):
    """The journal cannot be applied to the file; nothing was changed."""


class NoRoomError(StorageError):
    """The change needs space inside the file, and the space cannot be made."""


class DiskFullError(NoRoomError):
    """The change needs more disk space than is free."""


class SpoolFullError(StorageError):
    """Decoded content that must be kept does not fit into the spool."""


class ReadOnlyError(AsdffsError):
    """The mount, the file or this block cannot be written; the sentence tells why."""


class NoSuchNameError(AsdffsError):
    """Nothing has that name: no node of the mount, or no block of the file."""


class GoneError(AsdffsError):
    """A node of a mount lost its name, or another node has the name now.

    Programs do not see this error: the kernel looks the name up again.
    """


class NameExistsError(AsdffsError):
    """A node or a file with that name already exists."""


class NameRefusedError(AsdffsError):
    """The name or the argument is not valid here."""


class NameTooLongError(NameRefusedError):
    """The name is longer than 255 bytes."""


class NotPermittedError(AsdffsError):
    """This node, block or array does not allow the operation."""


class CrossViewError(AsdffsError):
    """A file cannot be renamed or linked from one view to another, or out of its view."""


class InUseError(AsdffsError):
    """The node or block cannot be changed, removed or replaced as long as something refers to it."""


class NotSupportedError(AsdffsError):
    """asdffs does not support the operation or the compression."""


class ForeignAttributeError(NotSupportedError):
    """asdffs does not keep this extended attribute; editors try to set it, and go on without it."""


class FileExpectedError(AsdffsError):
    """A file was needed, but this is a directory."""


class NotDirectoryError(AsdffsError):
    """A directory was needed, but this is a file."""


class NotEmptyError(AsdffsError):
    """The directory must be empty for this operation."""


class NoAttributeError(AsdffsError):
    """The node has no extended attribute with that name."""


class UsageError(AsdffsError):
    """The command line or an option is not valid."""


class MissingFileError(AsdffsError):
    """The file does not exist or cannot be opened."""


class MountError(AsdffsError):
    """FUSE, the mount point or missing permissions prevent the mount."""


class KeptEditsError(AsdffsError):
    """The mount has ended, and some edits or files were kept beside the ASDF file instead of being committed."""


class CutBlockError(AsdffsError):
    """The mount has ended, and a block that was made smaller there no longer has all bytes of its arrays."""


class UnfinishedError(AsdffsError):
    """The mount has ended, and the file could not be finished."""

"""The exit codes of all commands.  README and docs/semantics.md promise them.

A test fails when a class of ``asdffs.errors`` is missing here.
"""

from __future__ import annotations

import enum
from typing import Final

from asdffs import errors


class ExitCode(enum.IntEnum):
    """What a status means."""

    OK = 0
    INTERNAL = 1
    NOT_FOUND = 1  # as grep(1); an internal error says so
    USAGE = 2
    NO_FILE = 3
    NOT_ASDF = 4
    IN_USE = 5
    NO_MOUNT = 6
    EDITS_KEPT = 7
    UNFINISHED = 8
    FINDINGS = 9


#: Error class -> exit code.  The nearest class in the hierarchy counts.
EXIT_CODES: Final[dict[type[errors.AsdffsError], ExitCode]] = {
    errors.AsdffsError: ExitCode.INTERNAL,
    errors.UsageError: ExitCode.USAGE,
    errors.MissingFileError: ExitCode.NO_FILE,
    errors.NotAsdfError: ExitCode.NOT_ASDF,
    errors.DamagedFileError: ExitCode.NOT_ASDF,
    errors.DamagedBlockError: ExitCode.NOT_ASDF,
    errors.InvalidTreeError: ExitCode.NOT_ASDF,
    errors.MissingValueError: ExitCode.NOT_FOUND,
    errors.ValueRefusedError: ExitCode.USAGE,
    errors.SharedValueError: ExitCode.USAGE,
    errors.InvalidArrayError: ExitCode.NOT_ASDF,
    errors.InvalidStoreError: ExitCode.NOT_ASDF,
    errors.TreeChangedError: ExitCode.IN_USE,
    errors.AbandonedError: ExitCode.UNFINISHED,
    errors.StorageError: ExitCode.UNFINISHED,
    errors.WorkerKilledError: ExitCode.UNFINISHED,
    errors.NotCatalogError: ExitCode.NOT_ASDF,
    errors.RemoteError: ExitCode.UNFINISHED,
    errors.LockedError: ExitCode.IN_USE,
    errors.StaleFileError: ExitCode.UNFINISHED,
    errors.FailedFileError: ExitCode.UNFINISHED,
    errors.RecoveryError: ExitCode.UNFINISHED,
    errors.UntrustedFileError: ExitCode.UNFINISHED,
    errors.NoRoomError: ExitCode.UNFINISHED,
    errors.DiskFullError: ExitCode.UNFINISHED,
    errors.SpoolFullError: ExitCode.UNFINISHED,
    errors.ReadOnlyError: ExitCode.UNFINISHED,
    errors.NoSuchNameError: ExitCode.NO_FILE,
    errors.GoneError: ExitCode.NO_FILE,
    errors.NameExistsError: ExitCode.USAGE,
    errors.NameRefusedError: ExitCode.USAGE,
    errors.NameTooLongError: ExitCode.USAGE,
    errors.NotPermittedError: ExitCode.USAGE,
    errors.CrossViewError: ExitCode.USAGE,
    errors.InUseError: ExitCode.IN_USE,
    errors.NotSupportedError: ExitCode.USAGE,
    errors.ForeignAttributeError: ExitCode.USAGE,
    errors.FileExpectedError: ExitCode.NO_FILE,
    errors.NotDirectoryError: ExitCode.NO_FILE,
    errors.NotEmptyError: ExitCode.USAGE,
    errors.NoAttributeError: ExitCode.USAGE,
    errors.MountError: ExitCode.NO_MOUNT,
    errors.KeptEditsError: ExitCode.EDITS_KEPT,
    errors.CutBlockError: ExitCode.FINDINGS,
    errors.UnfinishedError: ExitCode.UNFINISHED,
}


def worse(one: int, other: int) -> int:
    """Return the larger of two exit codes.  ``FINDINGS``, for warnings alone, is less than that of any failure."""
    return max(one, other, key=lambda code: (code not in (ExitCode.OK, ExitCode.FINDINGS), code))


def exit_code_of(error: errors.AsdffsError) -> ExitCode:
    """The exit code of the nearest class of ``error`` in the table."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)

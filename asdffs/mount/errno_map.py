"""The table that maps errors to errno (docs/semantics.md, Errors).

A test fails if a class of ``asdffs.errors`` is missing here.
"""

from __future__ import annotations

import errno
from typing import Final

from asdffs import errors

#: Errno of each error class.  For a subclass that is not listed, the nearest base class counts.
ERRNO: Final[dict[type[errors.AsdffsError], int]] = {
    errors.AsdffsError: errno.EIO,
    errors.NotAsdfError: errno.EIO,
    errors.DamagedFileError: errno.EIO,
    errors.DamagedBlockError: errno.EIO,
    errors.MissingValueError: errno.ENOENT,
    errors.ValueRefusedError: errno.EBADMSG,
    errors.SharedValueError: errno.EBADMSG,
    errors.InvalidTreeError: errno.EBADMSG,  # EINVAL misleads emacs and mv
    errors.InvalidArrayError: errno.EIO,
    errors.InvalidStoreError: errno.EIO,
    errors.TreeChangedError: errno.EBUSY,
    errors.AbandonedError: errno.EINTR,
    errors.StorageError: errno.EIO,
    errors.WorkerKilledError: errno.EIO,
    errors.NotCatalogError: errno.EIO,
    errors.RemoteError: errno.EIO,
    errors.LockedError: errno.EBUSY,
    errors.StaleFileError: errno.ESTALE,
    errors.FailedFileError: errno.EIO,
    errors.RecoveryError: errno.EIO,
    errors.UntrustedFileError: errno.EIO,
    errors.NoRoomError: errno.EFBIG,
    errors.DiskFullError: errno.ENOSPC,
    errors.SpoolFullError: errno.ENOSPC,
    errors.ReadOnlyError: errno.EROFS,
    errors.NoSuchNameError: errno.ENOENT,
    errors.GoneError: errno.ESTALE,
    errors.NameExistsError: errno.EEXIST,
    errors.NameRefusedError: errno.EINVAL,
    errors.NameTooLongError: errno.ENAMETOOLONG,
    errors.NotPermittedError: errno.EPERM,
    errors.CrossViewError: errno.EXDEV,
    errors.InUseError: errno.EBUSY,
    errors.NotSupportedError: errno.ENOTSUP,
    errors.ForeignAttributeError: errno.ENOTSUP,
    errors.FileExpectedError: errno.EISDIR,
    errors.NotDirectoryError: errno.ENOTDIR,
    errors.NotEmptyError: errno.ENOTEMPTY,
    errors.NoAttributeError: errno.ENODATA,
    errors.UsageError: errno.EINVAL,
    errors.MissingFileError: errno.ENOENT,
    errors.MountError: errno.EIO,
    errors.KeptEditsError: errno.EIO,
    errors.CutBlockError: errno.EIO,
    errors.UnfinishedError: errno.EIO,
}

#: Everyday results such as ENOENT.  They are not refusals, so they are neither logged nor shown.
SILENT: Final = (
    errors.NoSuchNameError,
    errors.GoneError,
    errors.NameTooLongError,
    errors.NoAttributeError,
    errors.NameExistsError,
    errors.ForeignAttributeError,
    errors.CrossViewError,
    errors.AbandonedError,
)


def errno_of(error: errors.AsdffsError) -> int:
    """Return the errno of ``error``, by its nearest class in the table."""
    return next(ERRNO[kind] for kind in type(error).__mro__ if kind in ERRNO)

"""Checks whether the files of an image are as they were, and mounts it by mount(2).

The kernel checks nothing: if an ASDF file was changed, the image shows wrong bytes.  So a changed file is refused
before the mount; whoever changes one later, has to unmount the image first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from typing import Any, Final

from asdffs.errors import MountError, NotAsdfError, Remedy, StaleFileError, UntrustedFileError, UsageError
from asdffs.features.erofs import is_image
from asdffs.features.erofs.contents import digest_of, versions_in
from asdffs.features.erofs.image import read_attributes
from asdffs.printable import as_words

_FLAGS: Final = 1 | 2 | 4 | 8  # MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC: an image has data only
#: The most bytes of a head that are compared.
_LARGEST_HEAD: Final = 1 << 30


def files_of(image: str) -> list[dict[str, Any]]:
    """Return the files of an image: ``path``, where it is now, and ``size``, ``mtime_ns``, ``head`` and ``md5``.

    A file that is not where it was is looked for beside the image.  Raises ``NotAsdfError``, ``OSError``.
    """
    if not is_image(image):
        os.stat(image)
        raise NotAsdfError("is no image that asdffs made", path=image)
    with open(image, "rb") as file:
        attributes = read_attributes(lambda offset, length: os.pread(file.fileno(), length, offset))
    try:
        found = versions_in(attributes or {})
        if not found:
            raise ValueError("no file")
    except (ValueError, KeyError, TypeError) as err:
        raise NotAsdfError("is no image that asdffs made", path=image) from err
    for one in found:
        beside = os.path.join(os.path.dirname(os.path.abspath(image)), os.path.basename(one["path"]))
        if not os.path.exists(one["path"]) and os.path.exists(beside):
            one["path"] = beside
    return found


def changes(image: str) -> Iterator[tuple[str, str]]:
    """Yield each file of an image, and how it was changed; empty if it was not.  Raises as ``files_of``."""
    for one in files_of(image):
        yield one["path"], _change(one)


def _change(stated: dict[str, Any]) -> str:
    try:
        if not stat.S_ISREG(os.stat(stated["path"]).st_mode):  # a pipe would wait for a writer
            return "is no file any more"
        with open(stated["path"], "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size != stated["size"]:
                return f"has {status.st_size} bytes, and had {stated['size']}"
            if status.st_mtime_ns != stated["mtime_ns"]:
                return "was changed at another time"
            head = file.read(min(_LARGEST_HEAD, stated["head"]))
    except OSError as err:
        return f"cannot be opened: {err.strerror}"
    return "" if digest_of(head) == stated["md5"] else "has another tree"


def mount_image(image: str, mountpoint: str) -> str:
    """Mount ``image`` on the directory ``mountpoint``, and return what to tell the user.

    Raises ``StaleFileError`` if a file was changed, ``UntrustedFileError`` for another user's image, ``UsageError``,
    ``MountError``, or as ``files_of``.
    """
    owner = os.stat(image)
    if owner.st_uid not in (0, os.geteuid()) or owner.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        sentence = "others may have written it, and it names the files that are shown; make an image of your own"
        raise UntrustedFileError(sentence, path=image)
    files = files_of(image)
    for path, change in changes(image):
        if change:
            raise StaleFileError(f"{change}, so {image} would show wrong bytes", path=path, remedy=Remedy.EXPORT)
    if odd := next((one["path"] for one in files if "," in one["path"]), ""):
        raise UsageError("a name with a comma cannot be a mount option; rename it", path=odd)
    if not os.path.isdir(mountpoint):
        raise MountError("is no directory", path=mountpoint)
    devices = [one["path"] for one in files]
    try:
        mount_at(image, mountpoint, devices)
    except OSError as err:
        raise MountError(_reason(err.errno or 0, image, mountpoint, devices), path=image) from err
    return f"{image} is mounted; 'umount {as_words(mountpoint)}' ends it"


def mount_at(image: str, mountpoint: str, devices: list[str]) -> None:
    """Mount ``image`` with its devices, which are not checked, by mount(2).  Raises ``OSError``."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = ",".join(f"device={device}" for device in devices)
    source, target = os.fsencode(os.path.abspath(image)), os.fsencode(mountpoint)
    if libc.mount(source, target, b"erofs", _FLAGS, os.fsencode(options)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _reason(number: int, image: str, mountpoint: str, devices: list[str]) -> str:
    stated = [f"--device={device}" for device in devices]
    instead = f"with erofsfuse, this does: {as_words('erofsfuse', *stated, image, mountpoint)}"
    if number == errno.EPERM:
        return f"only root may mount an image; {instead}"
    if number in (errno.ENODEV, errno.ENOTBLK):
        return f"this kernel cannot mount it from a file, which Linux can from 6.12 on; {instead}"
    return f"cannot be mounted: {os.strerror(number)}"

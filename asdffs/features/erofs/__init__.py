"""Images of EROFS that show arrays of ASDF files at the speed of the disk, without a daemon: ``asdffs export``.

``image`` is the format, ``contents`` chooses what is in an image, ``mounting`` checks and mounts one.  The command
``mount`` of the core asks ``is_image``.
"""

from __future__ import annotations

import os
from typing import Final

from asdffs.errors import UsageError

#: Options that change nothing: those of fstab, and what mount.fuse adds.
_TAKEN: Final = (
    "ro",
    "noauto",
    "user",
    "nofail",
    "defaults",
    "_netdev",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "exec",
    "noexec",
)


def is_image(path: str) -> bool:
    """Return whether the local file ``path`` is an image of EROFS."""
    try:
        if not os.path.isfile(path):  # a pipe would wait for a writer
            return False
        with open(path, "rb") as file:
            file.seek(1024)
            return file.read(4) == b"\xe2\xe1\xf5\xe0"
    except OSError:
        return False


def mount(image: str, mountpoint: str, options: list[str]) -> str:
    """Mount an image, and return what to tell the user.  ``options``: as for ``asdffs mount -o``.

    Raises ``UsageError``, ``StaleFileError`` if a file of the image was changed, ``MountError``, ``OSError``.
    """
    from asdffs.features.erofs.mounting import mount_image

    words = [word for option in options for word in option.split(",")]
    if other := [word for word in words if word not in _TAKEN]:
        raise UsageError(f"an image is only read, and mounted without the option {other[0]}", path=image)
    return mount_image(image, mountpoint)

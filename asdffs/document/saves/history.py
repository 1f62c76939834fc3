"""The last trees that saves replaced, for what no check can see: a save that was valid and still wrong.

``.asdffs/history/N.yaml``, the oldest first; they stay in the state directory when the mount ends.  A tree is there
whole or not at all, the one that a save replaces before that save begins.  Not synced: the file itself is, and a ring
that cannot be written never refuses a save.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from typing import Final

logger = logging.getLogger(__name__)

#: Trees that are kept.
LENGTH: Final = 8
_TEMPORARY: Final = "new"
_NAME = re.compile(r"(\d+)\.yaml")


class History:
    """The ring in ``directory``, an absolute path; '' for none.  ``paths``: of its trees, the oldest first."""

    def __init__(self, directory: str, paths: list[str]) -> None:
        self._directory = directory
        self.paths = paths
        if directory:
            with contextlib.suppress(FileNotFoundError):
                numbers = sorted(int(m[1]) for name in os.listdir(directory) if (m := _NAME.fullmatch(name)))
                paths.extend(self._path(number) for number in numbers)

    def note(self, text: bytes) -> None:
        """``text`` is the committed tree, about to be replaced."""
        if not self._directory or (self.paths and _read(self.paths[-1]) == text):
            return
        try:
            self._add(text)
            while len(self.paths) > LENGTH:
                os.unlink(self.paths.pop(0))
        except OSError as err:
            logger.warning("the committed tree could not be kept in %s: %s", self._directory, err.strerror)

    def _add(self, text: bytes) -> None:
        number = int(os.path.basename(self.paths[-1]).partition(".")[0]) + 1 if self.paths else 1
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        path, temporary = self._path(number), os.path.join(self._directory, _TEMPORARY)
        try:
            with open(temporary, "wb") as file:
                file.write(text)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self.paths.append(path)

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, f"{number}.yaml")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""

"""Where the files of a mount are, and the history: the last trees that were replaced.

A save may be valid but still wrong.  So the replaced trees are ``.asdffs/history/N.yaml``, the oldest first, and stay
in the state directory when the mount ends.  A tree enters the history atomically, before the save that replaces it
begins.  The files are not synced, because the ASDF file itself is.  If the history cannot be written, the save goes
on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from typing import Final, NamedTuple

#: The name of the text that ``edit`` passes to the editor.
DRAFT: Final = "tree.yaml"


class Places(NamedTuple):
    """The places of a mount's files besides the ASDF file, as absolute paths; '' for a place that is not used.

    Directories: ``spool``; ``rejected``, for refused drafts; ``history``, for replaced trees; ``editing``, in which
    each ``edit`` makes a directory for its ``DRAFT``; ``mirrors``, for the state of exploded forms.  Files: ``log``
    and ``report``.
    """

    spool: str
    rejected: str
    history: str = ""
    log: str = ""
    report: str = ""
    editing: str = ""
    mirrors: str = ""


logger = logging.getLogger(__name__)


#: The number of trees that are kept.
LENGTH: Final = 8
_TEMPORARY: Final = "new"
_NAME = re.compile(r"(\d+)\.yaml")


class History:
    """The history in ``directory``, an absolute path; '' for no history.

    ``paths``: the list to which the paths of its trees are added, the oldest first.
    """

    def __init__(self, directory: str, paths: list[str]) -> None:
        self._directory = directory
        self.paths = paths
        if directory:
            with contextlib.suppress(FileNotFoundError):
                numbers = sorted(int(m[1]) for name in os.listdir(directory) if (m := _NAME.fullmatch(name)))
                paths.extend(self._path(number) for number in numbers)

    def note(self, text: bytes) -> None:
        """Add ``text``, the committed tree that is about to be replaced.  Errors are only logged."""
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

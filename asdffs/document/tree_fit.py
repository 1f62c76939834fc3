"""Whether a tree fits the blocks of its file: what is refused, and what is told.

Users: ``document``.  The holder of the turn; others are served while the arrays are looked at.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from asdffs.document.arrays import Ndarray
from asdffs.document.validation import find_warnings
from asdffs.errors import DamagedBlockError, InUseError, InvalidTreeError

if TYPE_CHECKING:
    from asdffs.document.document import Document

logger = logging.getLogger(__name__)


class TreeFit:
    """Of ``document``."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def check_unreferenced(self, *numbers: int) -> None:
        """Raise ``InUseError`` when the tree refers to one of these, or may: sources may count from the end."""
        document = self._document
        try:
            with document.relief.waiting():
                arrays = document.tree.read_arrays()
        except InvalidTreeError as err:
            raise InUseError("the tree cannot be read, so it may refer to it", block=numbers[0]) from err
        for array in arrays:
            if isinstance(array.source, int) and (array.source < 0 or array.source in numbers):
                block = numbers[0] if array.source < 0 else array.source
                raise InUseError(f"{array.name} (line {array.line}) has source {array.source}", block=block)

    def refuse(self, arrays: tuple[Ndarray, ...]) -> None:
        """Raise ``InvalidTreeError`` for what would be a warning."""
        warnings = self._find_warnings(arrays)
        if warnings:
            raise InvalidTreeError("; ".join(warnings))

    def warn(self, arrays: tuple[Ndarray, ...]) -> None:
        """Have the warnings in the report, and in the log."""
        document = self._document
        document.report.warnings = self._find_warnings(arrays)
        for warning in document.report.warnings:
            logger.warning("%s: %s", document.path, warning)

    def _find_warnings(self, arrays: tuple[Ndarray, ...]) -> tuple[str, ...]:
        with self._document.relief.waiting():
            return find_warnings(arrays, len(self._document.blocks), self._size_or_none)

    def _size_or_none(self, number: int) -> int | None:
        with self._document.relief.resumed():
            try:
                return self._document.blocks[number].size
            except (DamagedBlockError, OSError):
                return None

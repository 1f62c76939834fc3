"""Whether a tree fits the blocks of its file: what is refused, and what is told.

Users: ``document``.  The holder of the turn; others are served while the arrays are looked at.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from asdffs.document.extensions import find_hidden
from asdffs.errors import DamagedBlockError, InUseError, InvalidTreeError
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.validation import find_warnings

if TYPE_CHECKING:
    from asdffs.document.document import Document

logger = logging.getLogger(__name__)


class TreeFit:
    """Of ``document``."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._counting: tuple[int, Ndarray | None] | None = None

    def check_count_free(self) -> None:
        """Raise ``InUseError`` when a source counts from the end: with one more block it would mean another one."""
        document = self._document
        version = document.tree.version
        if self._counting is None or self._counting[0] != version:
            with document.relief.waiting():
                arrays = document.tree.arrays()
            found = next((array for array in arrays if isinstance(array.source, int) and array.source < 0), None)
            self._counting = version, found
        array = self._counting[1]
        if array is not None and isinstance(array.source, int):
            number = len(document.blocks) + array.source
            raise InUseError(
                f"line {array.line}: {array.name} has source {array.source}, which counts from the end, so with one "
                f"more block it would mean another one; write 'source: {max(0, number)}' there first"
            )

    def check_unreferenced(self, *numbers: int, force: bool = False) -> None:
        """Raise ``InUseError`` when the tree refers to one of these, or may: sources may count from the end.

        ``force``: what only an object of an unknown tag may refer to is not refused.
        """
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
        hidden = find_hidden(document)
        for number in numbers:
            why = "" if force else hidden.may_refer(number)
            if why:
                raise InUseError(
                    f"{why}; to remove it all the same, see 'asdffs block --help', --force", block=number
                )

    def check_unnumbered(self) -> None:
        """Raise ``InUseError`` when an object of an extension is known to refer to blocks by their numbers."""
        if find_hidden(self._document).blocks:
            sentence = "a zarr array refers to blocks by their numbers, which would be lost; --force insists"
            raise InUseError(sentence, path=self._document.path)

    def check_droppable(self) -> None:
        """Raise ``InUseError`` when objects of extensions may refer to blocks that no array refers to."""
        self.check_unnumbered()
        document = self._document
        hidden = find_hidden(document)
        unseen = hidden.unseen(document.tree.read_arrays(), len(document.blocks)) if hidden.tags else []
        if unseen:
            raise InUseError(
                f"objects of {hidden.tags[0]}, which asdffs does not know, may refer to blocks that no array refers "
                f"to ({', '.join(map(str, unseen[:5]))}); --force drops them all the same",
                path=document.path,
            )

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
        """The decoded size of a block, also of one that nobody here can decode; None where it is not known."""
        with self._document.relief.resumed():
            block = self._document.blocks[number]
            try:
                return block.header.data_size if block.obstacle else block.size
            except (DamagedBlockError, OSError):
                return None

"""The parts of one open file as they are now, and whether they are current.

``FileState`` is the lower half of ``Document``: blocks, arrays and checks are given one and ask it for its parts at
each use, because they are replaced when the file is read again.  Nothing here edits the file.  The caller has the
turn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from asdffs.codecs.base import Codec
from asdffs.dialects.base import Dialect
from asdffs.document.blocks.contents import ChecksumPolicy, Contents
from asdffs.document.blocks.foreign import Foreign
from asdffs.document.blocks.pins import Pins
from asdffs.document.blocks.spool_room import SpoolRoom
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import Changes
from asdffs.document.linked_files import LinkedFiles
from asdffs.document.outlines import Outlines
from asdffs.document.report import Report
from asdffs.document.tree_editor import TreeEditor
from asdffs.document.tree_fit import TreeFit
from asdffs.errors import StaleFileError
from asdffs.format.layout import Layout
from asdffs.format.padding import Padding
from asdffs.scheduling import Rank, RankedLock, Scheduler
from asdffs.storage.backend import Extent, Signature
from asdffs.storage.file_mode import FileMode

logger = logging.getLogger(__name__)

_MEANWHILE: Final = "another program changed it while blocks were being written; open it again"


@dataclass(slots=True)
class Parts:
    """What ``opening`` puts together for a file, and again after a foreign change."""

    transaction: Transaction
    layout: Layout
    dialect: Dialect


@dataclass(slots=True)
class Setup:
    """How the parts of a file are made, each time that it is read.

    ``codecs``: by the ids in block headers; ``room``: for decoded blocks; ``policy``: of padding; ``tell``: puts an
    error in the words that users read.
    """

    codecs: Mapping[bytes, Codec]
    scheduler: Scheduler
    policy: Padding
    room: SpoolRoom
    checksums: ChecksumPolicy
    tell: Callable[[Exception], str] = str


class FileState:
    """One open file.  ``path`` is absolute, without symbolic links.

    ``table``, ``contents``, ``tree``, ``fit``: its parts, others after ``read_again``; ``outlines``: of its tree;
    ``linked_files``: other files that its tree leads to; ``change``: held by whoever changes the file.
    ``open_other``: opens a neighbour; ``linked_files`` as an argument: those of the file that led to this one.
    """

    def __init__(
        self,
        path: str,
        parts: Parts,
        setup: Setup,
        *,
        reopen: Callable[[Transaction], Parts],
        open_other: Callable[[str, LinkedFiles[FileState]], FileState],
        linked_files: LinkedFiles[FileState] | None = None,
        report: Report | None = None,
    ) -> None:
        self.path = path
        self.report = report or Report()
        self.scheduler = setup.scheduler
        self.changes = Changes()
        self.change = RankedLock(setup.scheduler, Rank.FILE)
        self._setup = setup
        self._reopen = reopen
        self._generation = 0
        self._closed = False
        self._opener = os.getpid()
        self._adopt(parts)
        self.count_at_open = len(self.table)
        self.outlines = Outlines(
            path, lambda: self.tree, scheduler=self.scheduler, change=self.change, changes=self.changes
        )
        self.linked_files = linked_files or LinkedFiles[FileState](self, open_other, self.scheduler)

    # -- what is there ----------------------------------------------------

    @property
    def layout(self) -> Layout:
        """What lies where now."""
        return self.table.layout

    @property
    def dialect(self) -> Dialect:
        """The generation of the format."""
        return self._dialect

    @property
    def writable(self) -> bool:
        """Whether the file may be changed."""
        return self._transaction.mode.writable

    @property
    def pins(self) -> Pins:
        """What programs have mapped."""
        return self._transaction.pins

    def read_text(self, offset: int, length: int) -> bytes | Extent:
        """Bytes of the committed text, fewer at its end; not while it is being changed.  Raises ``OSError``."""
        with self.change.entered(patiently=True):
            return self.tree.read(offset, length)

    def read_raw(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end.  Raises ``OSError``."""
        return self._transaction.backend.read_at(offset, max(0, min(length, self.layout.size - offset)))

    def descriptor(self) -> int:
        """The open file's descriptor; another one after a growth by a new file."""
        found = self._transaction.backend.extent(0, 0)
        return found.fd if isinstance(found, Extent) else -1

    @property
    def growth(self) -> str:
        """By which strategy of ``storage/gap`` blocks were moved last; empty when they were not."""
        return self._transaction.grown_by

    # -- whether all of it is in the file ---------------------------------

    @property
    def mode(self) -> FileMode:
        """Whether the file may be read and written."""
        return self._transaction.mode

    @property
    def failed(self) -> bool:
        """Whether nothing is written any more, and the journal stays for whoever opens the file next."""
        return bool(self._transaction.mode.failure)

    @property
    def busy(self) -> bool:
        """Whether something is under way that a change of the file must wait for."""
        return self.change.taken or self.contents.busy

    @property
    def pending(self) -> bool:
        """Whether blocks were written since the file was last finished, or cannot be any more."""
        return self.contents.pending or bool(self._transaction.mode.failure)

    @property
    def written_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks that were written since the file was last finished."""
        return self.contents.written

    @property
    def uncommitted_blocks(self) -> tuple[int, ...]:
        """Numbers of the blocks of which the file has not what was written."""
        return self.contents.uncommitted

    # -- other programs ---------------------------------------------------

    @property
    def signature(self) -> Signature:
        """Of the file as it is now."""
        return self._transaction.backend.signature()

    @property
    def known_signature(self) -> Signature:
        """Of the file as it was read, or left by a change of ours."""
        return self._transaction.known

    def foreign(self) -> Foreign:
        """Whether another program changed the file, as far as its signature tells.  Raises ``OSError``."""
        return self._transaction.foreign()

    def was_changed(self) -> bool:
        """Whether another program changed or replaced the file since it was read."""
        return self.foreign() in (Foreign.CHANGED, Foreign.REPLACED)

    def follow(self) -> None:
        """Read the file again if another program changed it.  Raises ``StaleFileError`` when changes are pending."""
        if not self.was_changed():
            return
        if self.pending:
            self.note_conflict(_MEANWHILE)
            raise StaleFileError(_MEANWHILE, path=self.path)
        self.read_again()

    @property
    def conflict(self) -> str:
        """Why nothing is written any more: another program changed the file meanwhile; empty unless so."""
        return self._transaction.mode.conflict

    def note_conflict(self, sentence: str) -> None:
        """Another program changed the file while something was pending: nothing is written any more."""
        self._transaction.mode.note_conflict(sentence)

    @property
    def generation(self) -> int:
        """Another number when the file was read again, as another program left it."""
        return self._generation

    def read_again(self) -> None:
        """Read the file as another program left it.  Raises ``OSError`` and as ``open_document``."""
        parts = self._reopen(self._transaction)
        self.contents.close()
        self._adopt(parts)
        self.changes.note_all()
        logger.info("%s was changed by another program; read again", self.path)

    def note_owner(self, note: dict[str, Any]) -> None:
        """Tell others, through the journal's note, who holds the file.  Raises ``OSError``."""
        self._transaction.note_owner(note)

    # -- the end ----------------------------------------------------------

    def check_open(self) -> None:
        """Raise ``ValueError`` when a program closed it, or is not the one that opened it, but was forked from it."""
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        if not self.is_opener:
            raise ValueError(f"{self.path} was opened by another process; a fork must open it itself")

    @property
    def is_opener(self) -> bool:
        """Whether this process opened it, and is not a fork."""
        return self._opener == os.getpid()

    def close(self) -> None:
        """Close the file as it is; ``finish`` comes before.  Harmless a second time, and in a fork of the process."""
        with self.scheduler.entered():
            if self._closed:
                return
            self._closed = True
            self.linked_files.close(self)
            self.contents.close()
            if self.is_opener:
                self._transaction.close()
            else:
                self._transaction.leave()

    # -- how --------------------------------------------------------------

    def _adopt(self, parts: Parts) -> None:
        setup = self._setup
        self._transaction, self._dialect = parts.transaction, parts.dialect
        self.table = BlockTable(lambda: parts.transaction.backend, parts.layout, self.changes)
        self.contents = Contents(
            parts.transaction,
            self.table,
            setup.codecs,
            setup.room,
            policy=setup.policy,
            change=self.change,
            scheduler=self.scheduler,
            progress=self.report.progress,
            checksums=setup.checksums,
            changes=self.changes,
            order=lambda number: self.outlines.byteorder_of(number, len(self.table)),
        )
        self._generation += 1 << 32
        self.tree = TreeEditor(
            self._transaction,
            self.table,
            self._dialect,
            setup.policy,
            scheduler=self.scheduler,
            version=self._generation,
            changes=self.changes,
        )
        self.fit = TreeFit(self.path, self.tree, self.contents, report=self.report, scheduler=self.scheduler)

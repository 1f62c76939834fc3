"""The current parts of one open file, and whether they are up to date.

``FileState`` is the base class of ``Document``.  Blocks, arrays and checks refer to it, and ask it for its parts at
each use, because the parts are replaced when the file is read again.  This module does not edit the file.

The caller holds the main lock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from asdffs.arrays.branch import Branch
from asdffs.arrays.units import unit_of
from asdffs.dialects.base import Dialect
from asdffs.document.blocks.codecs import KnownCodecs
from asdffs.document.blocks.locks import await_free
from asdffs.document.blocks.reading import ChecksumPolicy
from asdffs.document.blocks.spool import SpoolRoom
from asdffs.document.blocks.store import BlockStore
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Foreign, Transaction
from asdffs.document.changes import Changes
from asdffs.document.linked_files import LinkedFiles, Opener
from asdffs.document.outlines import ElementCache, Outlines
from asdffs.document.report import Report
from asdffs.document.tree_editor import TreeEditor
from asdffs.errors import StaleFileError
from asdffs.format.layout import Layout, Padding
from asdffs.limits import Budget
from asdffs.scheduling import Rank, RankedLock, Scheduler, SingleThread
from asdffs.storage.backend import Extent, ReadFolder, RemoteFile, Signature
from asdffs.storage.file_backend import FileFolder
from asdffs.storage.open_file import AUTO
from asdffs.storage.urls import is_remote

if TYPE_CHECKING:  # who only reads refuses no tree
    from asdffs.document.blocks.keeping import Keeper
    from asdffs.document.tree_fit import TreeFit
    from asdffs.format.container import Embedded, Region
    from asdffs.storage.urls import RemoteOptions

logger = logging.getLogger(__name__)

_MEANWHILE: Final = "another program changed it while blocks were being written; open it again"


class Parts(NamedTuple):
    """The parts that ``opening`` makes when the file is opened, and again after another program changed it."""

    transaction: Transaction
    layout: Layout
    dialect: Dialect


class Settings(NamedTuple):
    """Settings of an open document.

    ``spool``: directory for decoded blocks; None: the system's temporary directory.
    ``spool_max``: most bytes that decoded blocks may take there; None: half of the free space.
    ``checksums``: whether they are verified and updated.  ``scheduler``: runs other work while the document waits.
    ``strict``: refuse a tree that has warnings.  ``schema``: refuse a tree that violates the schemas of its tags.
    ``growth``: the strategy that moves blocks, or ``auto``.  ``remote``: settings for remote files; None: defaults.
    ``journal``: False writes without a crash journal, so a crash in the middle of a change may damage the file.
    ``replacing(path)``: called before the new file at ``path`` replaces this one, or when another program's has.
    ``noting(note)``: notes who has the file open; ``holder(path)``: returns the note of another process that has.
    ``tell(error)``: returns the text of an error as users read it.
    ``others``: see ``LinkedFiles``; None if no other users see what the document has.
    ``budget``: the most that a request may take, whatever the file says.  ``undo``: the most bytes of old content of
    blocks that are kept beside the file, so that changes can be taken back; 0 keeps none.
    """

    spool: str | None = None
    scheduler: Scheduler = SingleThread()
    padding: Padding = Padding()
    spool_max: int | None = None
    checksums: ChecksumPolicy = ChecksumPolicy()
    strict: bool = False
    schema: bool = False
    growth: str = AUTO
    journal: bool = True
    replacing: Callable[[str], None] = lambda path: None
    noting: Callable[[dict[str, Any]], None] = lambda note: None
    holder: Callable[[str], dict[str, Any]] = lambda path: {}
    tell: Callable[[Exception], str] = str
    remote: RemoteOptions | None = None
    others: int | None = None
    budget: Budget = Budget()
    undo: int = 0


class FileState:
    """One open file.  ``path`` is absolute, without symbolic links.

    ``table``, ``contents`` and ``tree`` are its parts, and ``fit`` compares them; ``read_again`` replaces them.
    ``dialect``: its generation of the format.
    ``outlines``: the outlines of its tree; ``linked_files``: the other files to which its tree refers; ``change``:
    the lock for changes of the file; ``count_at_open``: the number of blocks when it was opened; ``made``: computed
    elements of its arrays.

    Arguments: ``reopen(transaction)`` reads the file again after another program changed it.  ``open_again(path)``
    opens a file for reading, also in another process, which finds this function by its name.  ``opener`` opens
    linked files; ``linked_files`` are those of the file that refers to this one, if there is one.  ``recovery`` is a
    sentence about what recovery did.
    """

    def __init__(
        self,
        path: str,
        parts: Parts,
        settings: Settings,
        *,
        reopen: Callable[[Transaction], Parts],
        open_again: Callable[[str], Any],
        opener: Opener[FileState],
        linked_files: LinkedFiles[FileState] | None = None,
        recovery: str = "",
    ) -> None:
        self.path = path
        self.report = Report(path, settings.tell, recovery=recovery, strict=settings.strict)
        self.scheduler = settings.scheduler
        self.changes = Changes()
        self.change = RankedLock(settings.scheduler, Rank.FILE)
        self.made = ElementCache()
        self.budget = settings.budget
        self.open_again = open_again
        self._settings = settings
        self._codecs = KnownCodecs()
        self._room = SpoolRoom(settings.spool, settings.spool_max)
        self._looking = RankedLock(settings.scheduler, Rank.LOOK)
        self._reopen = reopen
        self._generation = 0
        self._closed = False
        self._opener = os.getpid()
        self._fit: TreeFit | None = None
        self._adopt(parts)
        self.count_at_open = len(self.table)
        self.outlines = Outlines(
            path, lambda: self.tree, scheduler=self.scheduler, change=self.change, changes=self.changes
        )
        self.linked_files = linked_files or LinkedFiles[FileState](
            self, opener, self.scheduler, settings.others, settings.remote.follow if settings.remote else ()
        )

    # -- parts and bytes --------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The current layout of the file."""
        return self.table.layout

    @property
    def writable(self) -> bool:
        """Whether the file was opened for writing (mode ``r+``)."""
        return self.mode.writable

    @property
    def fit(self) -> TreeFit:
        """What compares the tree with the blocks."""
        if self._fit is None:
            from asdffs.document.tree_fit import TreeFit

            self._fit = TreeFit(self.path, self.tree, self.contents, self.report)
        return self._fit

    def read_text(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the committed text, or their place; fewer at its end.

        ``offset`` and ``length`` are in bytes.  Waits while the file is being changed.  Raises ``OSError``.
        """
        with self.change.entered(patiently=True):
            return self.tree.read(offset, length)

    def read_raw(self, offset: int, length: int) -> bytes:
        """Return bytes of the file from ``offset``, fewer at its end.  Raises ``OSError``."""
        return self._transaction.backend.read_at(offset, max(0, min(length, self.layout.size - offset)))

    def region(self, source: int | str | None) -> Region | None:
        """Return the data outside of the ASDF file, but in the same file, to which ``source`` of an array refers.

        None if it does not refer to such data.  Raises ``InvalidArrayError`` if there are none there.
        """
        embedded = self._transaction.embedded
        return embedded.region(source) if embedded is not None and isinstance(source, str) else None

    def units(self, branch: Branch) -> dict[str, str]:
        """Return the units of an array: those of the tree, else of the file around it (``Embedded.units``).

        That of all elements is at the empty text; those of fields are at their names.
        """
        embedded, source = self._transaction.embedded, None if branch.array is None else branch.array.source
        found = {**embedded.units(source)} if embedded is not None and isinstance(source, str) else {}
        return found | ({"": unit} if (unit := unit_of(branch)) else {})

    def steady_region(self, source: int | str | None) -> Region | None:
        """Return the data as ``region``, but wait while bytes move within the file.

        They stay there as long as the caller holds the main lock.
        """
        await_free(self._transaction.moving)
        return self.region(source)

    def read_whole(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the whole file around the ASDF file, or their place.  Raises ``OSError``."""
        return self._transaction.whole.extent(offset, length)

    @property
    def whole_size(self) -> int:
        """The size of the whole file around the ASDF file, in bytes."""
        return self._transaction.whole.size()

    @property
    def spooled(self) -> int:
        """Bytes of decoded blocks that are kept on the disk now."""
        return self._room.kept

    def requests(self) -> dict[str, Any] | None:
        """Return what the requests of a remote file were so far, as JSON has it; None for a local file."""
        return whole.requests() if isinstance(whole := self._transaction.whole, RemoteFile) else None

    def fetch_ahead(self, number: int, parts: Sequence[tuple[int, int]]) -> None:
        """Ask the server of a remote file for ``parts`` of a block at the same time, because reads of them follow.

        A part is an offset and a length, in decoded bytes.  Does nothing for local files and compressed blocks.
        """
        if not self.table.header(number).compressed:
            self.contents.fetch_ahead(number, parts)

    def contradictions(self) -> list[str]:
        """Return the contradictions between the tree and the file around the ASDF file.  Raises ``OSError``."""
        embedded, read = self._transaction.embedded, self._transaction.whole.read_at
        return [] if embedded is None else list(embedded.contradictions(self.tree.text(), read))

    @property
    def blocks_writable(self) -> bool:
        """Whether blocks can be changed: not inside a file of another format, whose sums would have to follow."""
        return self.writable and self.embedded is None

    @property
    def embedded(self) -> Embedded | None:
        """Where the ASDF file is, if it is inside a file of another format, such as FITS."""
        return self._transaction.embedded

    def descriptor(self) -> int:
        """Return the file descriptor of the open file; -1 if it is in memory.

        It is another one after a growth by a new file.
        """
        found = self._transaction.backend.extent(0, 0)
        return found.fd if isinstance(found, Extent) else -1

    @property
    def growth(self) -> str:
        """The strategy of ``storage/gap`` that moved blocks last; empty if none were moved."""
        return self._transaction.grown_by

    @property
    def busy(self) -> bool:
        """Whether an operation is running, so that a change of the file must wait."""
        return self.change.taken or self.contents.busy

    @property
    def pending(self) -> bool:
        """Whether blocks were written since the file was last finished, or the mode is FAILED."""
        return self.contents.pending or bool(self.mode.failure)

    # -- other programs ---------------------------------------------------

    @property
    def folder(self) -> ReadFolder:
        """The directory of the file."""
        return self._transaction.folder

    @property
    def signature(self) -> Signature:
        """The signature of the open file as it is now."""
        return self._transaction.backend.signature()

    def validators(self) -> dict[str, int | str]:
        """Return what tells this version of the file from another: its size, and its time or its ETag.

        Keys: ``size`` in bytes; ``mtime_ns`` of a local file, and of a remote one without ``etag``.
        """
        now, whole = self.signature, self._transaction.whole
        tag = whole.validator.tag if isinstance(whole, RemoteFile) else None
        return {"size": now.size, **({"mtime_ns": now.mtime_ns} if tag is None else {"etag": tag})}

    @property
    def location(self) -> str:
        """The path, or the whole URL, by which another process can open the file.  A URL may have secrets."""
        whole = self._transaction.whole
        return whole.location if isinstance(whole, RemoteFile) else self.path

    def foreign(self) -> Foreign:
        """Return the change that another program made to the file, by its signature.  Raises ``OSError``."""
        return self._transaction.foreign()

    def was_changed(self) -> bool:
        """Return whether another program changed or replaced the file since it was read."""
        return self._transaction.foreign() in (Foreign.CHANGED, Foreign.REPLACED)

    def follow(self) -> None:
        """Read the file again if another program changed it.

        Raises ``StaleFileError``, and notes a conflict, if changes are pending.  Otherwise raises as ``read_again``.
        """
        if not self.was_changed():
            return
        if self.pending:
            self.mode.note_conflict(_MEANWHILE)
            raise StaleFileError(_MEANWHILE, path=self.path)
        self.read_again()

    @property
    def is_remote(self) -> bool:
        """Whether the file is on a server, so that each read may need a request."""
        return is_remote(self.path)

    @property
    def generation(self) -> int:
        """A number that changes each time the file is read again after a change by another program."""
        return self._generation

    def read_again(self) -> None:
        """Read the file again as another program left it.  Raises ``OSError``, or as ``open_document``."""
        if self.contents.keeper is not None:
            self.contents.keeper.interrupt()
        parts = self._reopen(self._transaction)
        self.contents.compressed.close()
        self._adopt(parts)
        self.changes.note_all()
        logger.info("%s was changed by another program; read again", self.path)

    def note_owner(self, note: dict[str, Any]) -> None:
        """Write the owner of the lock into the journal, for messages of other processes.  Raises ``OSError``."""
        self._transaction.note_owner(note)

    # -- the end ----------------------------------------------------------

    def check_open(self) -> None:
        """Raise ``ValueError`` if the document is closed, or if this process is a fork of the one that opened it."""
        if self._closed:
            raise ValueError(f"{self.path} is closed")
        if self._opener != os.getpid():
            raise ValueError(f"{self.path} was opened by another process; a fork must open it itself")

    def close(self) -> None:
        """Close the file, and release its lock.

        This does not commit: call ``commit`` (or ``finish``) first, or use the document in a ``with`` statement.
        Closing twice does no harm.  In a fork of the process, only the fork's copy is closed.
        """
        with self.scheduler.entered():
            if self._closed:
                return
            self._closed = True
            forked = self._opener != os.getpid()
            if not forked:
                self.contents.end_session(lambda: bool(self.mode.conflict) or self.was_changed())
            self.linked_files.close(self)
            self.contents.compressed.close()
            self._transaction.close(forked=forked)
            if isinstance(self.folder, FileFolder):  # a closed document lives until its references are collected
                self.folder.release()

    # -- internals --------------------------------------------------------

    def _keeper(self) -> Keeper:
        from asdffs.document.blocks.keeping import Keeper  # few mounts keep old bytes

        folder, name, settings = cast(FileFolder, self.folder), os.path.basename(self.path), self._settings
        return Keeper(folder, name, len(self.table), settings.undo, settings.scheduler)

    def _adopt(self, parts: Parts) -> None:
        settings = self._settings
        self._transaction, self.dialect = parts.transaction, parts.dialect
        self.mode = parts.transaction.mode
        self.table = BlockTable(parts.transaction, parts.layout, self.changes)
        self.contents = BlockStore(
            parts.transaction,
            self.table,
            self._codecs,
            self._room,
            policy=settings.padding,
            change=self.change,
            scheduler=self.scheduler,
            progress=self.report.progress,
            checksums=settings.checksums,
            changes=self.changes,
            order=lambda number: self.outlines.byteorder_of(number, len(self.table)),
            sums_content=lambda: self.tree.sums_content(),
            keeper=self._keeper() if settings.undo and self.mode.writable else None,
        )
        self._generation += 1 << 32
        self.tree = TreeEditor(self.contents, self.dialect, settings.padding, version=self._generation)
        self._fit = None

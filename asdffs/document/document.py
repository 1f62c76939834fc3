"""Document: one open ASDF file, and the only way the floors above, and programs, touch it.

``state`` has its parts, and ``for_programs`` the calls that programs make (docs/python.md).  Here are the changes of
the file as a whole.  The caller holds the main lock (``asdffs.scheduling``); calls of a program's threads
take turns.  Changes are exclusive: one that waits for the disk lets others read, and a second change, or a reader of
the text, queues.  Several documents may be open in one process; they share nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from asdffs.document.arrays.index import ArrayIndex
from asdffs.document.block import Blocks
from asdffs.document.blocks.foreign import Foreign
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.for_programs import ForPrograms
from asdffs.document.linked_files import LinkedFiles
from asdffs.document.report import Report
from asdffs.document.schema import check_schemas
from asdffs.document.state import FileState, Parts, Setup
from asdffs.errors import AsdffsError, DamagedBlockError, NoRoomError, TreeChangedError
from asdffs.format.constants import INDEX_TOKEN
from asdffs.format.layout import Layout
from asdffs.format.plan import Plan, plan_cut_tail, plan_index
from asdffs.format.scanner import drive, scan_layout
from asdffs.storage.backend import Backend, Folder
from asdffs.tree.events import StoppedError
from asdffs.tree.ndarrays import Ndarray

logger = logging.getLogger(__name__)

__all__ = ["Document", "Foreign", "Parts"]


class Document(ForPrograms):
    """One open file.  ``blocks``, ``arrays``: what is in it.

    ``strict``: warnings about a tree refuse it; ``schema``: a tree must fit the schemas of its tags; ``recovery``:
    what a recovery has done, a sentence.
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
        strict: bool = False,
        schema: bool = False,
        recovery: str = "",
    ) -> None:
        super().__init__(
            path,
            parts,
            setup,
            reopen=reopen,
            open_other=open_other,
            linked_files=linked_files,
            report=Report(tell=setup.tell, recovery=recovery),
        )
        self._strict = strict
        self._schema = schema
        self.blocks = Blocks(self)
        self.arrays = ArrayIndex(self)

    def verify_index(self) -> None:
        """Find out now whether the index lies: numbers of blocks stay what they are from here on."""
        self.table.verify_index()

    def count_blocks(self, *, force: bool = False) -> int:
        """Number of blocks of a file that is to be written anew.  Raises as ``BlockTable.check_whole``."""
        try:
            self.table.check_whole(force=force)
        except (DamagedBlockError, NoRoomError) as err:
            err.path = err.path or self.path
            raise
        return len(self.blocks)

    def commit_tree(self, draft: bytes, *, over: int | None = None) -> None:
        """Make ``draft`` the tree, durably.  Raises ``InvalidTreeError`` or as ``Transaction``.

        ``over``: the version of the text that it was made of; raises ``TreeChangedError`` when there is another.
        """
        with self.change.entered():
            if over is not None and over != self.tree.version:
                raise TreeChangedError("the tree was changed meanwhile", path=self.path)
            self.contents.flush_appended()
            arrays = self.tree.commit(draft, lambda arrays: self._refuse(draft, arrays))
            self.fit.warn(arrays)
        self.contents.reorder()

    def _refuse(self, draft: bytes, arrays: tuple[Ndarray, ...]) -> None:
        """Raise ``InvalidTreeError`` for what the user wants refused."""
        if self._strict:
            self.fit.refuse(arrays)
        if self._schema:
            with self.scheduler.waiting():
                check_schemas(draft, self.dialect, len(self.blocks))

    def rewrite(self, fill: Callable[[Folder, Backend], None]) -> None:
        """Replace the file by the one that ``fill(folder, store)`` writes into an empty store.

        Nothing may be pending.  Whole or not at all, and durably; mode, owner and attributes stay.  Raises as
        ``Transaction.rewrite``.
        """
        with self.change.entered():
            self._transaction.rewrite(fill, self._adopt_rewritten)

    def _adopt_rewritten(self) -> None:
        """Also in the state FAILED: what is read from now on is the new file."""
        backend = self._transaction.backend
        layout = drive(scan_layout(backend.size(), lambda header: self._dialect.rules), backend.read_at)
        self.contents.close()
        self._adopt(Parts(self._transaction, layout, self._dialect))
        self.changes.note_all()

    # -- ending -----------------------------------------------------------

    def finish(self) -> None:
        """Make the file complete: sizes, checksums, index, all durable.  Nothing is written if nothing changed.

        A checksum is given up when somebody waits to change the file; the next finish computes it.
        Raises as ``Transaction``, ``OSError``.
        """
        failure: AsdffsError | OSError | None = None
        try:
            self.contents.commit_all()
        except (AsdffsError, OSError) as err:  # the rest is finished all the same
            failure = err
        with self.change.entered():
            self._finish()
        if failure is not None:
            raise failure

    def _finish(self) -> None:
        self._transaction.mode.check_healthy()
        self._transaction.mode.check_conflict()
        if not self._transaction.changed and not self.contents.pending:
            return
        self._transaction.check_unchanged()
        self.contents.finish()
        if (self.table.moved or self._index_is_wrong()) and self.layout.index is None and self.may_have_index:
            self._write_index()
        self.table.moved = False

    def check_tree(self) -> None:
        """Look for sources and shapes that do not fit the blocks; into ``report.warnings``.

        Others are served meanwhile; when one of them changes the tree, the change has it looked at.
        """
        tree, version = self.tree, self.tree.version
        text = tree.text()
        with self.report.progress.over("looking at the tree", len(text)), self.scheduler.waiting():
            try:
                warnings = self.fit.look_at(
                    text, lambda: self.tree.version == version and not self.scheduler.stopping
                )
            except StoppedError:
                return
        if self.tree.version == version:
            self.fit.note(warnings)

    def repair_index(self) -> bool:
        """Write the block index where it is missing or wrong; whether it was.  Raises as ``Transaction``."""
        with self.change.entered():
            self.table.verify_index()
            if self.layout.index is not None or not self.may_have_index:
                return False
            self.table.check_all()
            self._write_index()
            return True

    @property
    def may_have_index(self) -> bool:
        """Section Block index: not without blocks, with a streamed one, behind something foreign, or in a draft."""
        layout = self.layout
        if not layout.offsets or not layout.removable or layout.truncated or not self._dialect.indexed:
            return False
        try:
            return not self.table.header(len(self.blocks) - 1).streamed
        except DamagedBlockError:  # nobody knows what it was
            return False

    def _index_is_wrong(self) -> bool:
        """Whether something that is no valid index, but was to be one, follows the last block."""
        tail = self.read_raw(min(self.layout.blocks_end, self.layout.size), len(INDEX_TOKEN))
        return self.layout.index is None and tail == INDEX_TOKEN

    def _write_index(self) -> None:
        cut = plan_cut_tail(self.layout)
        self._commit(cut, self.layout.without_tail(cut.new_size))
        plan = plan_index(self.layout)
        self._commit(plan, self.layout.with_index(plan.new_size - plan.old_size))

    def _commit(self, plan: Plan, layout: Layout) -> None:
        self._transaction.commit(plan, lambda: self.table.update(layout))

"""``Document``: one open ASDF file, and the only interface to it for the layers above and for programs.

``state`` has its parts, and ``for_programs`` the calls that programs make (docs/python.md).  This module has the
changes of the file as a whole.

The caller holds the main lock (``asdffs.scheduling``); the calls of a program's threads run one at a time.  Only one
change runs at a time.  While it waits for the disk, others may read, but a second change, or a reader of the text,
waits for it.  Several documents may be open in one process; they share nothing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from asdffs.arrays.ndarrays import Ndarray
from asdffs.document.arrays.index import ArrayIndex
from asdffs.document.block import Blocks
from asdffs.document.blocks.transaction import Foreign
from asdffs.document.for_programs import ForPrograms
from asdffs.document.state import Parts
from asdffs.errors import AsdffsError, DamagedBlockError, InvalidTreeError, NoRoomError, TreeChangedError
from asdffs.format.block_scan import drive
from asdffs.format.constants import INDEX_TOKEN
from asdffs.format.layout import Layout
from asdffs.format.scanner import scan_layout
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.tree.tape import StoppedError, Tape

if TYPE_CHECKING:
    from asdffs.document.values import TreeMapping
    from asdffs.format.plan import Plan

logger = logging.getLogger(__name__)

__all__ = ["Document", "Foreign", "Parts"]


class Document(ForPrograms):
    """One open ASDF file, as ``asdffs.open`` returns it.

    Use it in a ``with`` statement, which commits and closes it.  ``tree_text`` is its text, ``blocks`` are its blocks
    (a sequence of ``Block``), and ``arrays`` are its arrays (a mapping from paths to ``Array``).  ``values`` is its
    tree (a ``TreeMapping``), which ``edit`` lets change.  ``path`` is its absolute path, without symbolic links.

    Threads of a program may share a document: their calls run one at a time.  Each call first reads the file again
    if another program changed it; if changes of this document are pending, it raises ``StaleFileError`` instead.
    Each call raises ``ValueError`` if the document is closed, or was opened by another process.
    """

    @functools.cached_property
    def blocks(self) -> Blocks:
        """The blocks of the file: a sequence."""
        return Blocks(self)

    @functools.cached_property
    def arrays(self) -> ArrayIndex:
        """The arrays of the tree: a mapping from paths."""
        return ArrayIndex(self)

    @functools.cached_property
    def values(self) -> TreeMapping:
        """The values of the tree, as nested mappings and sequences."""
        from asdffs.document.values import Source, TreeMapping  # late: programs that need no values start faster

        return TreeMapping(Source(self, self.arrays), ())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the main image, and the tree.  Raises nothing about the file."""
        from asdffs import registry
        from asdffs.document.arrays.html import preview, text
        from asdffs.document.values import document_html
        from asdffs.tree.lookups import Values

        try:
            root = Values(self.tree_text.encode("utf-8", "surrogateescape")).root()
            browser = None if self.is_remote else registry.feature("browser")
            main = None if browser is None else browser.main_array_of(self)
            return document_html(self.path, root, "" if main is None else preview(main, lambda: main.mask))
        except (AsdffsError, OSError, ValueError) as err:
            return f"<div>{text(str(err))}</div>"

    def __repr__(self) -> str:
        """Name the file without reading it."""
        return f"<asdffs.Document {self.path!r}, {'r+' if self.writable else 'r'}>"

    def count_blocks(self, *, force: bool = False) -> int:
        """Return the number of blocks, after a check that the file can be written anew without loss.

        ``force``: as for ``BlockTable.check_whole``.  Raises as that, with the path of the file.
        """
        try:
            self.table.check_whole(force=force)
        except (DamagedBlockError, NoRoomError) as err:
            err.path = err.path or self.path
            raise
        return len(self.blocks)

    def commit_tree(self, draft: bytes, *, over: int | None = None, last: bool = False) -> None:
        """Make ``draft`` the text of the file, atomically and durably.

        ``over``: the version (``TreeEditor.version``) of the text on which the draft is based, if that matters.
        ``last``: the file is closed next.
        Raises ``TreeChangedError`` if the text has another version now, ``InvalidTreeError``, or as
        ``Transaction.commit``.
        """
        with self._looking, self.change:
            if over is not None and over != self.tree.version:
                raise TreeChangedError("the tree was changed meanwhile", path=self.path)
            self.contents.editor.flush_appended()
            arrays = self.tree.commit(draft, lambda arrays: self._refuse(draft, arrays), last=last)
            self.fit.warn(arrays)
        self.contents.reorder()

    def note_tape(self, tape: Tape) -> None:
        """Note what the next commit need not read again, if that is much.  ``tape``: that of the committed tree."""
        from asdffs.arrays.validation import useful_entries

        try:
            self.tree.note_entries(useful_entries(tape, self.dialect))
        except InvalidTreeError:
            return  # the commit reads the whole text, and says what is wrong

    def _refuse(self, draft: bytes, arrays: tuple[Ndarray, ...]) -> None:
        """Raise ``InvalidTreeError`` if the options ``strict`` or ``schema`` refuse the draft."""
        if self._settings.strict:
            self.fit.refuse(arrays)
        if self._settings.schema:
            with self.scheduler.waiting():
                from asdffs.document.schema import check_schemas

                check_schemas(draft, self.dialect, len(self.blocks))

    def rewrite(self, fill: Callable[[Folder, WriteBackend], None]) -> None:
        """Replace the file by a new one that ``fill(folder, backend)`` writes into an empty backend.

        The caller makes sure that no changes are pending.  The replacement is atomic and durable; mode, owner and
        attributes of the file stay.  Raises as ``Transaction.rewrite``.
        """
        with self.change:
            self._transaction.rewrite(fill, self._adopt_rewritten)

    def _adopt_rewritten(self) -> None:
        """Use the new file for all reads from now on, also in the mode FAILED."""
        backend = self._transaction.backend
        layout = drive(scan_layout(backend.size(), lambda header: self.dialect.rules), backend.read_at)
        self.contents.compressed.close()
        self._adopt(Parts(self._transaction, layout, self.dialect))
        self.changes.note_all()

    # -- ending -----------------------------------------------------------

    def finish(self) -> None:
        """Complete the file durably: dirty blocks, sizes, checksums, block index.

        If nothing changed, nothing is written.  The computation of a checksum is abandoned if another thread waits
        to change the file; the next finish computes it.  Raises as ``Transaction.commit``, or ``OSError``.
        """
        failure: AsdffsError | OSError | None = None
        try:
            self.contents.committer.commit_all()
        except (AsdffsError, OSError) as err:  # finish the rest nevertheless, then raise
            failure = err
        with self.change:
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
        if self.embedded is None and self._needs_index():
            self._write_index()
        self.table.moved = False
        self._transaction.changed = False

    def _needs_index(self) -> bool:
        """Return whether an index must be written; inside another file the tree and the index change together."""
        return (self.table.moved or self._index_is_wrong()) and self.layout.index is None and self.may_have_index

    def check_tree(self, version: int | None = None) -> None:
        """Check whether sources and shapes fit the blocks, and put warnings into ``report.warnings``.

        ``version``: do so only if the tree still has this version; who changed it has checked it.

        Other requests are served meanwhile, but a save waits until this check has ended.  The save then needs to read
        only what it changes, and the tree is in memory for one reading at a time.  This check stops if the tree is
        changed in another way.
        """
        with self._looking:
            if version is None or version == self.tree.version:
                self._look_at_tree()

    def _look_at_tree(self) -> None:
        tree, version = self.tree, self.tree.version
        with self.report.progress.over("looking at the tree", tree.size):
            try:
                warnings, entries = self.fit.look_at(
                    lambda: self.tree.version == version and not self.scheduler.stopping
                )
            except StoppedError:
                return
        if self.tree.version == version:
            self.fit.note(warnings)
            self.tree.note_entries(entries)

    def check_shrunk(self) -> None:
        """Check the tree again if blocks were made smaller since the last check, and note arrays that do not fit.

        The change itself is done, so a tree that cannot be read is only logged.
        """
        if self.fit.shrunk_anew():
            before = {*self.report.warnings}
            try:
                self.check_tree()
            except OSError as err:
                logger.warning("%s: the tree could not be checked: %s", self.path, err.strerror)
            self.report.note_cut(before)

    def repair_index(self) -> bool:
        """Write the block index if it is missing or wrong, and return whether it was.

        Raises as ``BlockTable.check_all`` or ``Transaction.commit``.
        """
        with self.change:
            self.table.verify_index()
            if self.layout.index is not None or not self.may_have_index:
                return False
            self.table.check_all()
            self._write_index()
            return True

    @property
    def may_have_index(self) -> bool:
        """Whether the file may have a block index (section Block index).

        It may not without blocks, with a streamed block, with foreign bytes behind the blocks, if the file is
        truncated, or in a dialect without an index.
        """
        layout = self.layout
        if not layout.offsets or not layout.removable or layout.truncated or not self.dialect.indexed:
            return False
        try:
            return not self.table.header(len(self.blocks) - 1).streamed
        except DamagedBlockError:  # unknown, so it may be streamed
            return False

    def _index_is_wrong(self) -> bool:
        """Return whether an invalid block index follows the last block."""
        tail = self.read_raw(min(self.layout.blocks_end, self.layout.size), len(INDEX_TOKEN))
        return self.layout.index is None and tail == INDEX_TOKEN

    def _write_index(self) -> None:
        from asdffs.format.plan import plan_cut_tail, plan_index

        cut = plan_cut_tail(self.layout)
        self._commit(cut, self.layout.without_tail(cut.new_size))
        plan = plan_index(self.layout)
        self._commit(plan, self.layout.with_index(plan.new_size - plan.old_size))

    def _commit(self, plan: Plan, layout: Layout) -> None:
        self._transaction.commit(plan, lambda: self.table.update(layout))

"""Reads and replaces the text of the file: header, comments and tree.

The text is the file's own bytes; a commit writes from the first to the last byte that differs.  One thread.
"""

from __future__ import annotations

from collections.abc import Callable

from asdffs.dialects.base import Dialect
from asdffs.document.blocks.table import BlockTable
from asdffs.document.blocks.transaction import Transaction
from asdffs.document.changes import TREE, Changes
from asdffs.errors import InvalidTreeError
from asdffs.format.padding import Padding
from asdffs.format.plan import plan_text
from asdffs.format.tree_extent import complete_last_line
from asdffs.scheduling import Scheduler
from asdffs.storage.backend import Extent
from asdffs.tree.arrays import find_arrays
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.validation import check_text

_PADDING_SAMPLE = 4096


class TreeEditor:
    """The committed text of one file.  ``version``: another number for another text."""

    def __init__(
        self,
        transaction: Transaction,
        table: BlockTable,
        dialect: Dialect,
        policy: Padding,
        *,
        scheduler: Scheduler,
        version: int,
        changes: Changes,
    ) -> None:
        self.version = version
        self._changes = changes
        self._scheduler = scheduler
        self._transaction = transaction
        self._table = table
        self._dialect = dialect
        self._policy = policy

    @property
    def dialect(self) -> Dialect:
        """The generation of the format."""
        return self._dialect

    @property
    def size(self) -> int:
        """Size of the text in bytes."""
        return self._table.layout.text_end

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Where ``length`` bytes of the text from ``offset`` are."""
        return self._transaction.backend.extent(offset, max(0, min(length, self.size - offset)))

    def text(self) -> bytes:
        """The whole text.  Raises ``OSError``."""
        return self._transaction.backend.read_at(0, self.size)

    def arrays(self) -> tuple[Ndarray, ...]:
        """The ndarrays of the committed tree; none when the tree on disk is not valid YAML."""
        try:
            return self.read_arrays()
        except InvalidTreeError:
            return ()

    def read_arrays(self) -> tuple[Ndarray, ...]:
        """The ndarrays of the committed tree.  Raises ``InvalidTreeError`` when it is not valid YAML."""
        return find_arrays(self.text(), self._dialect)

    def commit(self, draft: bytes, check: Callable[[tuple[Ndarray, ...]], None]) -> tuple[Ndarray, ...]:
        """Make ``draft`` the text of the file, durably; the arrays of the new tree.

        ``check`` may refuse the arrays.  Raises ``InvalidTreeError`` when it must not become the tree, else as
        ``Transaction.commit``; the file is as it was after any of these.
        """
        table = self._table
        new = complete_last_line(draft)
        head = self._transaction.backend.read_at(0, table.layout.text_start)
        with self._scheduler.waiting():
            header, text_start, arrays = check_text(new, self._dialect, had_tree=table.layout.has_tree, before=head)
        check(arrays)
        self._transaction.mode.check_healthy()
        self._transaction.check_unchanged()
        old = self.text()
        if old == new:
            return arrays
        if len(new) > table.layout.padding.stop:
            table.check_all()
        layout = table.layout
        padding = self.padding_byte()
        with self._scheduler.waiting():  # to compare large texts takes a while
            plan = plan_text(layout, old, padding, new, self._policy)
        size = len(new)
        del old, new, draft  # of many megabytes: the plan has its own

        def adopt() -> None:
            self.version += 1
            self._changes.note(TREE)
            shift = plan.move.shift if plan.move else 0
            moved = layout.with_text(header, text_start, size, shift, plan.new_size)
            table.update(moved if plan.move is None else moved.without_tail(plan.new_size))

        self._transaction.commit(plan, adopt)
        return arrays

    def padding_byte(self) -> bytes:
        """NUL where the padding is all NUL, as the asdf library writes it; else space, as the standard advises."""
        padding = self._table.layout.padding
        sample = self._transaction.backend.read_at(padding.start, min(len(padding), _PADDING_SAMPLE))
        return b"\0" if sample and not sample.strip(b"\0") else b" "

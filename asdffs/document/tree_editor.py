"""Reads and replaces the text of the file: header, comments and tree.

The text has the bytes of the file.  A commit writes only from the first to the last byte that differs.  The caller
holds the main lock.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from asdffs.allocator import give_back
from asdffs.arrays.ndarrays import Ndarray, find_arrays
from asdffs.dialects.base import Dialect
from asdffs.document.blocks.store import BlockStore
from asdffs.document.changes import TREE
from asdffs.errors import InvalidTreeError, NoRoomError
from asdffs.format.layout import Layout, Padding
from asdffs.format.text import complete_last_line
from asdffs.scheduling import Rank, RankedLock
from asdffs.storage.backend import Extent
from asdffs.tree.tape import Tape

if TYPE_CHECKING:
    from asdffs.arrays.rechecking import Entries
    from asdffs.arrays.validation import CheckedText
    from asdffs.format.plan import Plan

_PADDING_SAMPLE = 4096
#: Blocks of an ASDF file inside another file that are written again when the tree grows, in bytes.
_MOST_BLOCKS = 64 << 20


class TreeEditor:
    """The editor of the committed text of one file.  ``version``: a number that changes with each new text."""

    def __init__(self, blocks: BlockStore, dialect: Dialect, policy: Padding, *, version: int) -> None:
        """``blocks``: those behind the text.  ``policy``: the padding between them."""
        self.version = version
        self._changes = blocks.changes
        self._scheduler = blocks.scheduler
        self._transaction = blocks.transaction
        self._table = blocks.table
        self._dialect = dialect
        self._policy = policy
        self._entries: Entries | None = None
        self._parsing = RankedLock(blocks.scheduler, Rank.TAPE)
        self._tape: weakref.ref[Tape] | None = None
        self._taped = -1
        self._summed: tuple[int, bool] | None = None

    @property
    def dialect(self) -> Dialect:
        """The dialect of the file: a generation of the format."""
        return self._dialect

    @property
    def size(self) -> int:
        """Size of the text in bytes."""
        return self._table.layout.text_end

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return ``length`` bytes of the text from ``offset``, or their place; fewer at its end."""
        return self._transaction.backend.extent(offset, max(0, min(length, self.size - offset)))

    def text(self) -> bytes:
        """Return the whole text.  Raises ``OSError``."""
        return self._transaction.backend.read_at(0, self.size)

    def tape(self, text: str, version: int, go_on: Callable[[], bool] = lambda: True) -> Tape:
        """Return the tape of ``text``, which was the whole text at ``version``.

        Whoever asks while another has the tape of that version gets the same one, because a large tree makes a large
        tape.  Other requests are served while the text is parsed.  Raises as ``Tape``.
        """
        with self._parsing.entered(patiently=True):
            kept = self._tape() if self._tape is not None and self._taped == version else None
            if kept is None:
                with self._scheduler.waiting():
                    kept = Tape(text, go_on)
                self._tape, self._taped = weakref.ref(kept), version
            return kept

    def sums_content(self) -> bool:
        """Return whether the MD5 of a compressed block is that of its content in this file.  Raises ``OSError``."""
        from asdffs.document.writers import sums_content  # only who writes compressed blocks asks

        version = self.version  # another one may be committed while the text is parsed
        if self._summed is None or self._summed[0] != version:
            text = self.text()
            with self._scheduler.waiting():
                found = sums_content(text)
            self._summed = version, found
            return found
        return self._summed[1]

    def arrays(self) -> tuple[Ndarray, ...]:
        """Return the ndarrays of the committed tree; none if it is not valid YAML."""
        try:
            return self.read_arrays()
        except InvalidTreeError:
            return ()

    def read_arrays(self) -> tuple[Ndarray, ...]:
        """Return the ndarrays of the committed tree.  Raises ``InvalidTreeError`` if it is not valid YAML."""
        return find_arrays(self.text(), self._dialect)

    def note_entries(self, entries: Entries | None) -> None:
        """Keep the entries of the committed tree: the next commit then reads only those that it changes.

        ``entries``: those that a reading of the whole text with ``unique`` has returned; None if there are none.
        """
        self._entries = entries

    def commit(
        self, draft: bytes, check: Callable[[tuple[Ndarray, ...]], None], *, last: bool = False
    ) -> tuple[Ndarray, ...]:
        """Make ``draft`` the text of the file, atomically and durably, and return the arrays of the new tree.

        ``last``: as of ``check_text``.
        ``check(arrays)`` may raise to refuse the draft.  Raises ``InvalidTreeError`` if the draft is not a valid
        text, or as ``check``, ``BlockTable.check_all`` or ``Transaction.commit``.  Then the file is unchanged.
        """
        table = self._table
        new = complete_last_line(draft)
        checked = self._checked(new, last=last)
        check(checked.arrays)
        self._transaction.mode.check_healthy()
        self._transaction.check_unchanged()
        backend, before = self._transaction.backend, self.size
        with self._scheduler.waiting():  # reading and comparing large texts takes a while
            old = backend.read_at(0, before)
            same = old == new
        if same:
            return checked.arrays
        self._entries = None  # they take memory, and what follows needs much
        if len(new) > table.layout.padding.stop:
            table.check_all()
        layout = table.layout
        padding = self.padding_byte()
        with self._scheduler.waiting():
            plan, after = self._plan(layout, old, padding, new)
        size = len(new)
        del old, new, draft  # they may have many megabytes, and the plan has its own copy

        def adopt() -> None:
            self.version += 1
            self._entries = checked.entries
            self._changes.note(TREE)
            shift = plan.move.shift if plan.move else 0
            moved = after.with_text(checked.header, checked.start, size, shift, plan.new_size)
            table.update(moved if plan.move is None else moved.without_tail(plan.new_size))

        self._transaction.commit(plan, adopt)
        return checked.arrays

    def _checked(self, new: bytes, *, last: bool) -> CheckedText:
        """Check ``new``, which is to be the text.  If the entries are known, only what changed is read.

        Raises ``InvalidTreeError``, ``OSError``.
        """
        from asdffs.arrays.rechecking import CheckedBefore  # who only reads checks no draft
        from asdffs.arrays.validation import check_text

        layout = self._table.layout
        head = self._transaction.backend.read_at(0, layout.text_start)
        known = CheckedBefore(self._text_again, self._entries) if self._entries is not None else None
        again, had_tree = self._text_again, layout.has_tree
        with self._scheduler.waiting():
            try:
                return check_text(
                    new,
                    self._dialect,
                    had_tree=had_tree,
                    before=head,
                    checked=known,
                    whole_before=again,
                    last=last,
                )
            finally:
                give_back()  # what follows needs much memory, too

    def _text_again(self) -> bytes:
        """Return the whole text, for a thread that does not hold the main lock."""
        with self._scheduler.resumed():
            return self.text()

    def _plan(self, layout: Layout, old: bytes, padding: bytes, new: bytes) -> tuple[Plan, Layout]:
        """Return the plan for a new text, and the layout whose blocks are where they will be before ``plan.move``.

        Raises ``InUseError`` if a block that must move is mapped, ``NoRoomError``, ``OSError``.
        """
        from asdffs.format.plan import plan_sized_text, plan_text

        embedded, backend = self._transaction.embedded, self._transaction.backend
        if embedded is None:
            return plan_text(layout, old, padding, new, self._policy), layout
        first = layout.padding.stop
        if layout.blocks_end - first > _MOST_BLOCKS and len(new) > first:
            raise NoRoomError(f"the blocks behind the tree have more than {_MOST_BLOCKS >> 20} MiB, and do not move")
        unit = self._transaction.whole.unit()
        plan, after = plan_sized_text(
            layout,
            old,
            padding,
            new,
            blocks=lambda: backend.read_at(first, layout.blocks_end - first),
            size_for=lambda least: embedded.size_for(least, unit),
        )
        if after.offsets != layout.offsets:
            self._transaction.pins.check_all()
        return plan, after

    def padding_byte(self) -> bytes:
        """Return NUL if the padding is all NUL, as asdf writes it; otherwise space, as the standard advises."""
        padding = self._table.layout.padding
        sample = self._transaction.backend.read_at(padding.start, min(len(padding), _PADDING_SAMPLE))
        return b"\0" if sample and not sample.strip(b"\0") else b" "

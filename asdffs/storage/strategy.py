"""What the strategies of ``gap`` have in common."""

from __future__ import annotations

from asdffs.format.plan import Plan
from asdffs.storage.journal import Journal
from asdffs.storage.open_file import OpenFile


class Unsuitable(Exception):  # noqa: N818 - no error: the next strategy is tried
    """This strategy cannot do it here, and nothing was done."""


def checked_journal(file: OpenFile) -> Journal:
    """The journal of ``file``.  Raises ``Unsuitable`` without one."""
    if file.journal is None:
        raise Unsuitable("there is no journal")
    return file.journal


def checked_shift(plan: Plan, unit: int) -> int:
    """By how many bytes ``plan`` moves the blocks back, a multiple of ``unit``.  Raises ``Unsuitable``."""
    length = plan.checked_move.shift
    if length <= 0:
        raise Unsuitable("the blocks come forward")
    if length % unit:
        raise Unsuitable(f"the blocks move by {length} bytes, no multiple of {unit}")
    return length

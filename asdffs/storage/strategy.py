"""The names of the strategies of ``gap``, and checks that they share.  Light, because options have the names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asdffs.format.plan import Plan
    from asdffs.storage.journal import Journal
    from asdffs.storage.open_file import OpenFile

#: In the order in which they are tried.
STRATEGIES: Final = ("clone", "insert", "copy")
#: Those that make a new file.
REPLACING: Final = ("clone", "copy")
#: Value of ``growth`` that lets ``gap`` choose.
AUTO: Final = "auto"


class Unsuitable(Exception):  # noqa: N818 - no error: the next strategy is tried
    """This strategy does not work for this file; it changed nothing."""


def checked_journal(file: OpenFile) -> Journal:
    """Return the journal of ``file``.  Raises ``Unsuitable`` without one."""
    if file.journal is None:
        raise Unsuitable("there is no journal")
    return file.journal


def checked_shift(plan: Plan, unit: int) -> int:
    """Return how many bytes ``plan`` moves the blocks toward the end, a multiple of ``unit``.

    Raises ``Unsuitable``.
    """
    length = plan.checked_move.shift
    if length <= 0:
        raise Unsuitable("the blocks move toward the start of the file")
    if length % unit:
        raise Unsuitable(f"the blocks move by {length} bytes, which is not a multiple of {unit}")
    return length

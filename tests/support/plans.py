"""Plans applied to byte strings: the naive meaning of a plan."""

from __future__ import annotations

from asdffs.format.block_header import RULES_1, BlockRules
from asdffs.format.block_scan import drive
from asdffs.format.layout import Layout
from asdffs.format.plan import Plan
from asdffs.format.scanner import scan_layout
from asdffs.format.text import Header
from asdffs.registry import each


def scan(whole: bytes) -> Layout:
    """The layout of a byte string, of any dialect."""
    return drive(scan_layout(len(whole), rules_of), lambda offset, length: whole[offset : offset + length])


def rules_of(header: Header) -> BlockRules:
    """How the blocks of a file with that header line are written."""
    return next((dialect.rules for dialect in each("dialects") if dialect.claims(header)), RULES_1)


def applied(whole: bytes, plan: Plan) -> bytes:
    """The file that ``plan`` makes of ``whole``."""
    assert plan.old_size == len(whole)
    if plan.move:
        source, target, length = plan.move.source, plan.move.target, plan.move.length
        new = bytearray(whole[: min(source, target)].ljust(plan.new_size, b"\0"))
        new[target : target + length] = whole[source : source + length]
    else:
        new = bytearray(whole.ljust(plan.new_size, b"\0"))
    for write in plan.writes:
        new[write.offset : write.offset + len(write.payload)] = write.payload
    return bytes(new[: plan.new_size])


def shift_of(plan: Plan) -> int:
    """By how many bytes the blocks move."""
    return plan.move.target - plan.move.source if plan.move else 0

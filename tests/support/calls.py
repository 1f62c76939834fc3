"""Counts calls of Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def calls(work: Callable[[], object]) -> list[str]:
    """The functions of Python that ``work`` calls, itself not among them, nor the checks that only tests make."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.append(f"{frame.f_code.co_filename.rpartition('asdffs/')[2]}:{frame.f_code.co_qualname}")

    gc.disable()  # what is called back at a collection is not part of the work
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return [name for name in found[1:] if not name.endswith("._check_rank")]

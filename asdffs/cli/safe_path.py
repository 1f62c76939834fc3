"""Keeps child processes from importing modules of the working directory, which may hold a stranger's files.

``python -c`` and ``python -m`` look there first, and so does each process that ``multiprocessing`` starts.
"""

from __future__ import annotations

import os
from typing import Final

#: The variable that Python reads, and the value by which ours is known.
_NAME: Final = "PYTHONSAFEPATH"
_OURS: Final = "asdffs"


def protect_children() -> None:
    """Have all Python processes that this one starts leave the working directory out of ``sys.path``."""
    os.environ.setdefault(_NAME, _OURS)


def environment_for_programs() -> dict[str, str]:
    """Return the environment for a program of the user, such as an editor: as it was when the command began."""
    return {name: value for name, value in os.environ.items() if (name, value) != (_NAME, _OURS)}

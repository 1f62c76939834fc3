"""What a request may take, as the user states it in the environment."""

from __future__ import annotations

import os

from asdffs.errors import UsageError
from asdffs.format.layout import parse_size
from asdffs.limits import MEMORY, Budget


def stated_budget() -> Budget:
    """Return the budget that ``ASDFFS_MEMORY`` states.  Raises ``UsageError``."""
    stated = os.environ.get("ASDFFS_MEMORY", str(MEMORY))
    memory = parse_size(stated)
    if memory is None:
        raise UsageError(f"ASDFFS_MEMORY={stated}: give bytes such as 4G")
    return Budget(memory)

"""Lets a mount wait for the kernel's pages as long as that takes.

What a view shows "at once" then does not depend on how busy the machine is: a page that is old is the fault of the
mount, and not of a wait that was over too early.  For tests in which no two programs wait for each other.
"""

from __future__ import annotations

from pathlib import Path

from support.mounts import LIMIT

#: The interpreter imports it before the command.
_MODULE = f"""
from asdffs.mount import invalidate
from asdffs.vfs import shared_pages
invalidate._MMAP_PATIENCE = invalidate._LONGEST = shared_pages._DROP_PATIENCE = {LIMIT}
"""


def patience(folder: Path) -> Path:
    """Write the module into ``folder``; return what to put on PYTHONPATH, for ``mounted(packages=...)``."""
    package = folder / "patience"
    package.mkdir()
    (package / "sitecustomize.py").write_text(_MODULE)
    return package

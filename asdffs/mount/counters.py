"""Counts what a mount does, for ``status.json``, ``asdffs ls --json`` and whoever monitors it.

Requests and bytes are counted while they are answered, under the main lock.  Reads that the kernel answers itself,
from its cache or with ``-o passthrough``, are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from asdffs.errors import AsdffsError, InvalidTreeError
from asdffs.mount.protocol import Opcode

if TYPE_CHECKING:
    from asdffs.document.document import Document
    from asdffs.mount.loop import Loop

_OPCODES: Final = 1 + max(Opcode)


class Counters:
    """Counts of what one mount did since its start.

    ``requests``: how many there were of each opcode.  ``read``, ``written``: bytes.  ``errors``: answers that refused
    something, without everyday ones such as "no such file".  ``refusals``: those of them that refused a save.
    """

    def __init__(self) -> None:
        self.requests = [0] * _OPCODES
        self.read = 0
        self.written = 0
        self.errors = 0
        self.refusals = 0

    def note_refused(self, error: AsdffsError | OSError) -> None:
        """Count an answer that refused something."""
        self.errors += 1
        self.refusals += isinstance(error, InvalidTreeError)

    def facts(self, loop: Loop, documents: Iterable[Document], open_files: int) -> dict[str, Any]:
        """Return all counters as JSON has them.  The caller holds the main lock.

        ``documents``: those that are open.  docs/operating.md says what the keys mean.
        """
        opened = list(documents)
        return {
            "requests": {one.name: self.requests[one] for one in Opcode if self.requests[one]},
            "read": self.read,
            "written": self.written,
            "errors": self.errors,
            "refusals": self.refusals,
            "open_documents": len(opened),
            "open_files": open_files,
            "spool": sum(one.spooled for one in opened),
            "cache": sum((one.requests() or {}).get("cached", 0) for one in opened),
            "oldest_request": round(loop.oldest, 3),
        }

"""The page in Jupyter: jupyter-server-proxy starts ``asdffs view .`` when somebody opens it, and passes requests on.

The entry point ``asdffs`` in the group ``jupyter_serverproxy_servers`` leads here.  The page is at ``asdffs/`` below
Jupyter's own URL, behind its login; ``asdffs/?file=PATH`` shows a file of the directory in which Jupyter runs.
"""

from __future__ import annotations

import sys
from typing import Any


def server() -> dict[str, Any]:
    """Return how jupyter-server-proxy starts the page: at a Unix socket, which no other user reaches."""
    return {
        "command": [sys.executable, "-m", "asdffs", "view", "--socket", "{unix_socket}", "."],
        "unix_socket": True,
        "timeout": 120,
        "launcher_entry": {"title": "ASDF files"},
    }

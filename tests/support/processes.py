"""Processes that are not our children."""

from __future__ import annotations

import os
import select

from support.mounts import LIMIT


def wait_for(pid: int) -> None:
    """Until that process is gone."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(LIMIT * 1000)
    os.close(process)

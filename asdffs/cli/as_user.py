"""Lets root work on the mount of another user, with that user's rights and no others."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from typing import Final

from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.live import LiveMount, asked
from asdffs.cli.saying import say
from asdffs.printable import as_word
from asdffs.storage.mount_table import Mount
from asdffs.workers import lifeline

#: How long a look at the pipe takes, in milliseconds.
_PATIENCE_MS: Final = 1000
#: Seconds in which root sees no progress of another user's mount before it leaves it to itself.
_STILL = 15.0


def as_user(found: Mount, work: Callable[[], int]) -> int:
    """Run ``work`` with only the rights of the user who made the mount ``found``; return its value.

    The work runs in a process of its own, which ends with this one, even where the mount never answers.
    """
    user, group = found.owner or 0, found.group or 0
    reader, writer = os.pipe()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        os.close(read_end)
        return _wait_for(child, reader, found)
    code = 1
    try:
        os.close(write_end)
        lifeline.end_with(read_end)
        for standard in (1, 2):  # who reads what this command prints does not wait for this process
            os.dup2(writer, standard)
        os.close(writer)
        _become(user, group)
        code = work()
    except OSError as err:
        say(f"asdffs: the rights of user {user} cannot be taken: {err.strerror}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _wait_for(child: int, said: int, found: Mount) -> int:
    """Print what ``child`` writes into the pipe ``said``; its exit code, unless the mount stops to get on."""
    since, before = time.monotonic(), None
    with open(said, "rb", buffering=0) as lines:
        poll = select.poll()
        poll.register(lines, select.POLLIN)
        while True:
            if poll.poll(_PATIENCE_MS):
                piece = lines.read(1 << 16)
                if not piece:
                    break
                sys.stderr.buffer.write(piece)
                sys.stderr.flush()
                continue
            (one,) = asked([LiveMount(found)])
            now = one.status.get("progress")
            since, before = (time.monotonic() if now and now != before else since), now
            if time.monotonic() - since > _STILL:
                sentence = f"{found.point}: has not got on for {_STILL:.0f} s, and is left to itself"
                say(f"asdffs: {sentence}; 'umount -l {as_word(found.point)}' takes it away", file=sys.stderr)
                return int(ExitCode.UNFINISHED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(user: int, group: int) -> None:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
    for name in ("HOME", "XDG_STATE_HOME"):  # of root
        os.environ.pop(name, None)

"""Finds the current mounts, reads the state of each, and lets root work on the mount of another user.

Any user may make a mount that calls itself asdffs and never answers, or answers nonsense.  So a process of its own
reads each mount, and is left behind when it takes too long.  (A thread would keep this process from ending.)  The
answer is hostile input: its size is bounded, and it is checked before use.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from asdffs.cli.printing import say
from asdffs.cli.results import ExitCode
from asdffs.printable import as_word
from asdffs.storage.mount_table import Mount, mounts
from asdffs.workers import lifeline

#: How long an answer may take, in seconds; its size in bytes.
_PATIENCE: Final = 2.0
LONGEST: Final = 1 << 20
#: Seconds after which a process that was left behind ends, because it keeps its mount namespace from ending.
_LEFT: Final = 5
#: Descriptors above the last one that was opened here: those that were inherited.
_MORE: Final = 256
_FOREIGN: Final = "not a mount of asdffs, though it says so"
_STATES: Final = {errno.ENOTCONN: "dead", errno.EACCES: "not allowed to look", errno.EPERM: "not allowed to look"}
#: proc(5), pid_max; what a count of bytes may be.
_LARGEST_PID: Final = 1 << 22
_LARGEST: Final = 1 << 63
_MOST_COUNTERS: Final = 100


@dataclass(slots=True)
class LiveMount:
    """A mount.  ``state``: ``serving``, or why nothing is known; ``status``: its status.json."""

    mount: Mount
    state: str = "not answering"
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The ASDF file; as mount(8) shows it if the mount cannot be asked."""
        return str(self.status.get("file", self.mount.source))

    def take(self, answer: bytes) -> None:
        """Take the answer that ``_ask`` wrote."""
        code, _, text = answer.partition(b" ")
        if code != b"0":
            number = int(code) if code.isdigit() else errno.EIO
            self.state = _STATES.get(number, os.strerror(number))
            return
        try:
            status = json.loads(text)
        except (ValueError, RecursionError):
            status = None
        self.state = "serving" if is_status(status) else _FOREIGN
        self.status = status if self.state == "serving" else {}


def _ask(mount: Mount, out: int) -> None:
    """Write an errno, a space and what ``status.json`` of ``mount`` says."""
    try:
        with open(os.path.join(mount.point, ".asdffs", "status.json"), "rb") as file:
            answer = b"0 " + file.read(LONGEST)
    except OSError as err:
        answer = b"%d " % (err.errno or errno.EIO)
    with open(out, "wb") as pipe:
        pipe.write(answer)


def _let_go(kept: int) -> None:
    """Close all file descriptors but ``kept``: a reader of our output would wait for their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, max(kept, null) + _MORE)


def is_status(status: Any) -> bool:
    """Return whether ``status`` is what a mount of asdffs says."""
    if not isinstance(status, dict) or not all(_is_text(status.get(key)) for key in ("file", "report", "log")):
        return False
    pid, progress = status.get("pid"), status.get("progress")
    optional = (status.get("error") or "", status.get("libfuse") or "")
    return (
        _is_count(pid, _LARGEST_PID)
        and isinstance(progress, list)
        and all(map(_is_operation, progress))
        and _are_counters(status.get("counters", {}))
        and all(map(_is_text, optional))
    )


def _is_operation(one: Any) -> bool:
    """Return whether ``one`` is an operation as ``Progress`` tells it."""
    if not isinstance(one, dict) or not _is_text(one.get("operation")):
        return False
    return all(_is_count(one.get(key), _LARGEST) for key in ("done", "total")) and (
        one.get("block") is None or _is_count(one["block"], _LARGEST)
    )


def _are_counters(value: Any) -> bool:
    """Return whether ``value`` is what ``mount/counters`` tells: numbers by name, ``requests`` by operation."""
    if not isinstance(value, dict):
        return False
    requests = value.get("requests", {})
    numbers = [*value.items(), *requests.items()] if isinstance(requests, dict) else [("", None)]
    return len(numbers) <= _MOST_COUNTERS and all(
        _is_text(name) and isinstance(one, (int, float)) and 0 <= one < _LARGEST
        for name, one in numbers
        if one is not requests
    )


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most


def _is_text(value: Any) -> bool:
    """Return whether ``text`` may be a path: no NUL, and other bytes than UTF-8 only as surrogates."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def live_mounts() -> list[LiveMount]:
    """Return all mounts, each asked, in the order in which they were mounted."""
    return ask_mounts([LiveMount(mount) for mount in _asdffs_mounts()])


def ask_mounts(found: list[LiveMount]) -> list[LiveMount]:
    """Ask these mounts, all within the time that one may take, and return them.  There must be no other threads."""
    pipes = {_start(one.mount): one for one in found}
    answers: dict[int, bytes] = dict.fromkeys(pipes, b"")
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    end = time.monotonic() + _PATIENCE
    while answers and (rest := end - time.monotonic()) > 0:
        for pipe, _ in poll.poll(rest * 1000):
            piece = os.read(pipe, LONGEST)
            answers[pipe] += piece
            if not piece:
                pipes[pipe].take(answers.pop(pipe))
                poll.unregister(pipe)
    for pipe in pipes:
        os.close(pipe)
    return found


def _start(mount: Mount) -> int:
    """Have a process of its own ask ``mount``, nobody's child; return where to read the answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if not os.fork():  # init's from now on, whenever it ends
                signal.alarm(_LEFT)  # its default action ends the process
                _let_go(writer)
                _ask(mount, writer)
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    return reader


def _asdffs_mounts() -> Iterator[Mount]:
    """Return the mounts of asdffs.  What is mounted over cannot be seen, and is not listed."""
    top = {mount.point: mount for mount in mounts()}
    return (mount for mount in top.values() if mount.kind == "fuse.asdffs")


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
    """Print what ``child`` writes into the pipe ``said``; return its exit code, unless the mount does not get on."""
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
            (one,) = ask_mounts([LiveMount(found)])
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

"""Starts commands of asdffs as a user's shell does, without paying for the start of Python each time.

A helper process imports what the commands import and then forks for each of them: the command has its own process,
environment, directory and streams, and a mount its own daemon.  What differs from ``python -m asdffs`` is only that
the modules are there already; tests about the start itself, and all with a PYTHONPATH of their own, do not use it.
One per run of the tests and per libfuse.  Users: ``mounts``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from typing import Any

_WORD = 1 << 20  # bytes that no request exceeds
_OWN = ("ASDFFS_LIBFUSE", "PYTHONPATH")  # what the helper has from its start: another value needs another one
#: Modules whose libraries few commands import, or no command, so that they may not be installed.
_HEAVY = (
    *("asdffs.__main__", "asdffs.features.asdf_library", "asdffs.features.browser", "asdffs.features.datasets"),
    *("asdffs.features.catalog.scanning", "asdffs.features.filesystem"),
)
_helpers: dict[tuple[str | None, ...], socket.socket] = {}


def started(
    words: Sequence[str], environment: dict[str, str], cwd: str | None, limit: float
) -> subprocess.CompletedProcess[str]:
    """Run ``asdffs WORDS``, without input; its output and exit code.  Raises ``subprocess.TimeoutExpired``."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull) as none:
        ours, theirs = socket.socketpair()
        request = {"words": list(words), "environment": environment, "cwd": cwd or os.getcwd(), "umask": _umask()}
        handed = array.array("i", [theirs.fileno(), none.fileno(), out.fileno(), err.fileno()])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, handed)]
        _helper(environment).sendmsg([json.dumps(request).encode()], rights)
        theirs.close()
        with ours:
            code = _outcome(ours, words, limit)
        return subprocess.CompletedProcess(["asdffs", *words], code, _text(out), _text(err))


def _outcome(ours: socket.socket, words: Sequence[str], limit: float) -> int:
    ours.settimeout(limit)
    with ours.makefile("r") as lines:
        pid = int(lines.readline())
        try:
            return int(lines.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), limit) from None


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode()


def _helper(environment: dict[str, str]) -> socket.socket:
    key = tuple(environment.get(name) for name in _OWN)
    if key not in _helpers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, __file__, str(theirs.fileno())]
            process = subprocess.Popen(words, env=environment, pass_fds=[theirs.fileno()], cwd="/")
        _helpers[key] = ours
        atexit.register(_end, ours, process)
    return _helpers[key]


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait()


def _serve(asked: socket.socket) -> None:
    """In the helper: fork for each request, until the tests are over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the commands: they tell their codes themselves
    while True:
        message, ancillary, _, _ = asked.recvmsg(_WORD, socket.CMSG_LEN(64))
        if not message:
            return
        descriptors = array.array("i")
        for _, _, payload in ancillary:
            descriptors.frombytes(payload)
        if os.fork() == 0:
            asked.close()
            _become(json.loads(message), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _become(request: dict[str, Any], answer: int, *standard: int) -> None:
    """Run the command in this process; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.write(answer, b"%d\n" % os.getpid())
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.umask(request["umask"])
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["cwd"])
        sys.argv[1:] = request["words"]
        code = _run()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os.write(answer, b"%d\n" % code)
        os._exit(code)


def _run() -> int:
    """As the interpreter ends a program."""
    from asdffs.cli.main import main

    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _prepare() -> None:
    """Import what commands import when they are run; nothing here may start a thread."""
    import importlib
    import pkgutil

    import asdffs
    from asdffs.cli.arguments import command_names, make_parsers
    from asdffs.errors import AsdffsError
    from asdffs.mount.libfuse import load_libfuse
    from asdffs.registry import KINDS, each

    make_parsers(command_names(), None)
    for module in pkgutil.walk_packages(asdffs.__path__, "asdffs."):
        if not module.name.startswith(_HEAVY):
            importlib.import_module(module.name)
    for name in ("yaml", "watchdog.observers", "difflib", "json", "shutil", "tempfile", "urllib.parse"):
        importlib.import_module(name)
    for kind in KINDS:
        list(each(kind))
    with contextlib.suppress(AsdffsError):  # the command that is run says it
        load_libfuse(os.environ.get("ASDFFS_LIBFUSE") or "auto")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _prepare()
    _serve(socket.socket(fileno=int(sys.argv[1])))

"""Real mounts for tests: ``python -m asdffs`` as a user runs it, cleaned up whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.processes import LIMIT, wait_for
from support.starter import started

_ROOT = Path(__file__).parents[2]
#: The command as a user starts it, in a process that starts Python.
ASDFFS = (sys.executable, "-m", "asdffs")
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@functools.cache
def cannot_mount() -> str:
    """Return why nothing can be mounted here, or nothing.  Asks the kernel, so that a fault of ours is no reason."""
    if os.geteuid() != 0:
        helpers = shutil.which("fusermount3") or shutil.which("fusermount")
        return "" if helpers and os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse or no fusermount3"
    library = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        return "no /dev/fuse"
    with tempfile.TemporaryDirectory() as folder:
        point, data = folder.encode(), b"fd=%d,rootmode=40000,user_id=0,group_id=0" % device
        failed = library.mount(b"probe", point, b"fuse", 0, data)
        library.umount2(point, 2)  # MNT_DETACH
        os.close(device)
    return "no right to mount" if failed else ""


@dataclass
class Mounted:
    """One mount point, its file, and the environment that all commands of a test share.

    ``said``: what the command printed when it mounted.  ``umount``: the command that unmounted, at the end.
    """

    file: Path
    point: Path
    environment: dict[str, str]
    pid: int = 0
    said: str = ""
    umount: subprocess.CompletedProcess[str] | None = None

    @property
    def tree(self) -> Path:
        return self.point / "tree.yaml"

    def block(self, number: int) -> Path:
        return self.point / "blocks" / f"{number:04d}.bin"

    @property
    def error(self) -> str:
        return (self.point / ".asdffs" / "error").read_text()

    @property
    def status(self) -> dict[str, object]:
        return json.loads((self.point / ".asdffs" / "status.json").read_text())

    def edit(self, old: bytes = b"value: 1\n", new: bytes = b"value: 2\n") -> None:
        """Save the tree with ``new`` instead of ``old``."""
        text = self.tree.read_bytes()
        assert old in text
        self.tree.write_bytes(text.replace(old, new))

    def kill(self) -> None:
        """Kill the daemon, and take its mount away."""
        assert self.pid > 0, "0 would be all processes of the test"
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        wait_for(self.pid)
        lazily_unmount(self.point)


def asdffs(*arguments: object, environment: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command of asdffs."""
    if set(options) <= {"cwd"} and environment.get("PYTHONPATH") == str(_ROOT):
        cwd = options.get("cwd")
        return started([str(argument) for argument in arguments], environment, cwd and str(cwd), LIMIT)
    return run(*ASDFFS, *arguments, env=environment, **options)


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run any program, as ``subprocess.run``: what it prints is text."""
    given = {"capture_output": True, "text": True, "timeout": LIMIT, "check": False, **options}
    return subprocess.run(list(map(str, command)), **given)


def set_attribute(file: Path, name: str, value: object) -> subprocess.CompletedProcess[str]:
    """Set an extended attribute, as setfattr(1) does, which not every machine has."""
    code = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())"
    return run(sys.executable, "-S", "-c", code, file, name, value)


def environment_in(folder: Path) -> dict[str, str]:
    """The environment of a test: state and editors' files in its own folder."""
    cache = folder.parent / f".cache-{folder.name}"  # not in it: many tests look at what is beside a file
    own = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(cache), "HOME": str(folder)}
    return {**os.environ, **own, "PYTHONPATH": str(_ROOT)}


@contextlib.contextmanager
def mounted(
    file: Path,
    *options: object,
    at: Path | None = None,
    code: int | None = 0,
    environment: dict[str, str] | None = None,
    packages: Path | None = None,
) -> Iterator[Mounted]:
    """Mount ``file`` beside itself, or ``at``; unmount, and check the exit code of umount (None: any).

    ``packages``: a directory for PYTHONPATH.
    """
    point = at or file.parent / f"mnt-{file.name}"
    point.mkdir(exist_ok=True)
    mount = Mounted(file, point, environment or environment_in(file.parent))
    if packages is not None:
        mount.environment["PYTHONPATH"] += f":{packages}"
    done = asdffs("mount", file, point, *options, environment=mount.environment)
    assert done.returncode == 0, done.stderr
    mount.said = done.stderr
    try:
        with contextlib.suppress(OSError):  # an archive has no status of its own, and not everybody may look
            mount.pid = int(mount.status["pid"])
        yield mount
    except BaseException:
        lazily_unmount(point)
        raise
    mount.umount = asdffs("umount", point, environment=mount.environment)
    if os.path.ismount(point):
        lazily_unmount(point)
    ended = mount.umount.returncode
    assert code is None or ended == code, (ended, mount.umount.stderr, logged(mount.environment))


@contextlib.contextmanager
def foreground(
    file: Path, *options: object, at: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Mount ``file`` in the foreground at ``mnt`` beside it, or ``at``; yield the process when it is mounted.

    Its next lines are on ``stderr``.  At the end it must have ended, or is killed.
    """
    point = at or file.parent / "mnt"
    point.mkdir(exist_ok=True)
    command = [*ASDFFS, "mount", "-f", *options, file, point]
    where = environment or environment_in(file.parent)
    with subprocess.Popen(list(map(str, command)), env=where, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline() == f"mounted {file} at {point}\n"
            yield process
        except BaseException:
            process.kill()
            lazily_unmount(point)
            raise


@contextlib.contextmanager
def as_user(user: int = NOBODY) -> Iterator[None]:
    """Be another user inside the block, or root again inside such a block."""
    before, groups = os.geteuid(), os.getgroups()
    os.seteuid(0)
    os.setgroups([] if user else groups)
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before)
        os.setgroups(groups)
        os.seteuid(before)


def shim(folder: Path, name: str = "asdffs", line: str = f'exec {sys.executable} -m asdffs "$@"') -> Path:
    """Write a script into ``folder``, the command ``asdffs`` as an installer would; return ``folder``, for PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / name).chmod(0o755)
    return folder


def logged(environment: dict[str, str]) -> str:
    """What the daemons of a test logged: why one of them did not come to its end."""
    return "".join(log.read_text() for log in sorted(Path(environment["XDG_STATE_HOME"]).rglob("log*")))


def lazily_unmount(point: Path) -> None:
    """Take away the mount of a daemon that was killed."""
    run("umount", "-l", point)

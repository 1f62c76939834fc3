"""Real mounts for tests: ``python -m asdffs`` as a user runs it, cleaned up whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.starter import started

_ROOT = Path(__file__).parents[2]
LIMIT = 120  # seconds that no command of a test takes; a hang fails the test


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
    """One mount point, its file, and the environment that all commands of a test share."""

    file: Path
    point: Path
    environment: dict[str, str]
    pid: int = 0
    umount: subprocess.CompletedProcess[str] | None = field(default=None)

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


def asdffs(*arguments: object, environment: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command of asdffs."""
    if set(options) <= {"cwd"} and environment.get("PYTHONPATH") == str(_ROOT):
        cwd = options.get("cwd")
        return started([str(argument) for argument in arguments], environment, cwd and str(cwd), LIMIT)
    return subprocess.run(
        [sys.executable, "-m", "asdffs", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        **options,
    )


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run any program."""
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=LIMIT, check=False, **options
    )


def set_attribute(file: Path, name: str, value: object) -> subprocess.CompletedProcess[str]:
    """Set an extended attribute, as setfattr(1) does, which not every machine has."""
    code = "import os, sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())"
    return run(sys.executable, "-S", "-c", code, file, name, value)


def environment_in(folder: Path) -> dict[str, str]:
    """The environment of a test: state and editors' files in its own folder."""
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "PYTHONPATH": str(_ROOT)}


@contextlib.contextmanager
def mounted(file: Path, *options: object, code: int | None = 0, packages: Path | None = None) -> Iterator[Mounted]:
    """Mount ``file`` beside itself, unmount at the end, and check the exit code of umount (None: any).

    ``packages``: a directory for PYTHONPATH.
    """
    point = file.parent / f"mnt-{file.name}"
    point.mkdir(exist_ok=True)
    mount = Mounted(file, point, environment_in(file.parent))
    if packages is not None:
        mount.environment["PYTHONPATH"] += f":{packages}"
    done = asdffs("mount", file, point, *options, environment=mount.environment)
    assert done.returncode == 0, done.stderr
    try:
        mount.pid = int(mount.status["pid"])
        yield mount
    except BaseException:
        run("umount", "-l", point)
        raise
    mount.umount = asdffs("umount", point, environment=mount.environment)
    if os.path.ismount(point):
        run("umount", "-l", point)
    ended = mount.umount.returncode
    assert code is None or ended == code, (ended, mount.umount.stderr, logged(mount.environment))


def logged(environment: dict[str, str]) -> str:
    """What the daemons of a test logged: why one of them did not come to its end."""
    return "".join(log.read_text() for log in sorted(Path(environment["XDG_STATE_HOME"]).rglob("log*")))


def lazily_unmount(point: Path) -> None:
    """Take away the mount of a daemon that was killed."""
    run("umount", "-l", point)

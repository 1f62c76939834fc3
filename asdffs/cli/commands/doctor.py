"""``asdffs doctor``: checks FUSE, libraries and rights, and prints the command for each missing part."""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Final

from asdffs import __version__, registry
from asdffs.cli.arguments import add_json
from asdffs.cli.printing import print_json, say
from asdffs.cli.process import wanted_libfuse
from asdffs.cli.results import ExitCode
from asdffs.cli.state_files import state_home
from asdffs.codecs.base import id_of
from asdffs.document.blocks.codecs import KnownCodecs
from asdffs.errors import MountError
from asdffs.mount.libfuse import load_libfuse
from asdffs.printable import as_word

SUMMARY: Final = "check your setup and suggest fixes"
_FUSE_CONF: Final = "/etc/fuse.conf"
_HELPERS: Final = ("fusermount3", "fusermount")
_MOUNT_HELPERS: Final = ("mount.fuse3", "mount.fuse")
#: Where mount(8) and systemd look for commands.
_ROOT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WATCHES: Final = "/proc/sys/fs/inotify/max_user_instances"
#: Fewer than this, and a few editors and file managers use them up.
_FEW_WATCHES: Final = 16
#: Seconds within which a small file is mounted anywhere.
_PATIENCE: Final = 60
#: What is mounted to be sure.
_SMALL: Final = (
    b"#ASDF 1.0.0\n#ASDF_STANDARD 1.6.0\n%YAML 1.1\n%TAG ! tag:stsci.edu:asdf/\n--- !core/asdf-1.1.0\n{}\n...\n"
)

#: What each extra is for, and what is imported for it.
_EXTRAS: Final = {
    "lz4": ("blocks in lz4 and lz4f", "lz4"),
    "zstd": ("blocks in zstd", "zstandard"),
    "isal": ("blocks in zlib, twice as fast", "isal"),
    "blosc": ("blocks in blsc", "blosc"),
    "blosc2": ("blocks in bls2 and bsc2", "blosc2"),
    "fits": ("arrays as .fits files", "astropy"),
    "wcs": ("sky coordinates in .fits files", "gwcs"),
    "remote": ("files at s3://, gs://, az://", "obstore"),
    "zarr": ("filtered chunks of asdf-zarr", "numcodecs"),
    "schema": ("-o schema, check --schema", "asdf"),
}


class Verdict(enum.StrEnum):
    """The state of one part of the setup."""

    OK = "ok"
    MISSING = "missing"  # something cannot be done; mounting can
    PROBLEM = "problem"  # mounting does not work


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of ``subject``, as a sentence.  ``advice``: what to do, or empty."""

    level: Verdict
    subject: str
    sentence: str
    advice: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs doctor             run it as the user who will mount

Mounts a small file to be sure.  Exit code 0: mounting works; 6: it does not.
"""
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look at everything; return 0 when mounting works."""
    found = [one for look in _LOOKS for one in look()]
    works = all(one.level is not Verdict.PROBLEM for one in found)
    if arguments.json:
        print_json({"ok": works, "found": [asdict(one) for one in found]})
    else:
        for one in found:
            advice = f"  ->  {one.advice}" if one.advice else ""
            say(f"{one.level:<8} {one.subject}: {one.sentence}{advice}")
    return ExitCode.OK if works else ExitCode.NO_MOUNT


def _versions() -> Iterator[Diagnosis]:
    yield Diagnosis(
        Verdict.OK, "asdffs", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"
    )


def _fuse() -> Iterator[Diagnosis]:
    device = "/dev/fuse"
    if not os.path.exists(device):
        advice = "run 'modprobe fuse'; a container needs '--device /dev/fuse'"
        yield Diagnosis(Verdict.PROBLEM, device, "does not exist", advice)
    elif not os.access(device, os.R_OK | os.W_OK):
        yield Diagnosis(Verdict.PROBLEM, device, "may not be opened by this user", "sudo chmod 666 /dev/fuse")
    else:
        yield Diagnosis(Verdict.OK, device, "can be opened")


def _rights() -> Iterator[Diagnosis]:
    if os.geteuid() == 0:
        yield Diagnosis(Verdict.OK, "user", "root, who needs no helper to mount")
        return
    helper = next((path for name in _HELPERS if (path := shutil.which(name))), None)
    if helper is None:
        yield Diagnosis(
            Verdict.PROBLEM, "fusermount3", "is missing; only root mounts without it", "sudo apt install fuse3"
        )
    elif not os.stat(helper).st_mode & stat.S_ISUID:
        yield Diagnosis(Verdict.MISSING, helper, "has not the rights to mount for a user", f"sudo chmod u+s {helper}")
    else:
        yield Diagnosis(Verdict.OK, helper, "mounts for this user")
    allowed = _has_line(_FUSE_CONF, "user_allow_other")
    advice = f"echo user_allow_other | sudo tee -a {_FUSE_CONF}"
    yield _one("-o allow_other", "for mounts that other users see", good=allowed, advice=advice)


def _has_line(path: str, line: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return any(text.strip() == line for text in file)
    except OSError:
        return False


def _libfuse() -> Iterator[Diagnosis]:
    advice = {
        "3": "sudo apt install fuse3",
        "2": "sudo apt install libfuse2 (only needed where there is no libfuse 3)",
    }
    found = [_one_libfuse(version, command) for version, command in advice.items()]
    if all(one.level is not Verdict.OK for one in found):
        yield Diagnosis(Verdict.PROBLEM, "libfuse", "there is none", advice["3"])
    yield from found


def _one_libfuse(version: str, advice: str) -> Diagnosis:
    try:
        return Diagnosis(Verdict.OK, f"libfuse {version}", load_libfuse(version).version)
    except MountError:
        return Diagnosis(Verdict.MISSING, f"libfuse {version}", "cannot be loaded", advice)


def _mounting() -> Iterator[Diagnosis]:
    try:
        load_libfuse(wanted_libfuse())
    except MountError:
        return  # told already
    with tempfile.TemporaryDirectory(prefix="asdffs-doctor-") as folder:
        trouble = _try_mount(folder)
    if trouble:
        yield Diagnosis(Verdict.PROBLEM, "mounting", f"a small file could not be mounted: {trouble}")
    else:
        yield Diagnosis(Verdict.OK, "mounting", "a small file was mounted, read and unmounted")


def _try_mount(folder: str) -> str:
    """Mount a small file; return why that does not work, or an empty text."""
    file, point = os.path.join(folder, "small.asdf"), os.path.join(folder, "mnt")
    os.mkdir(point)
    with open(file, "wb") as new:
        new.write(_SMALL)
    trouble = _tried("mount", "-q", file, point, "-o", f"ro,spool={folder}")
    if trouble:
        return trouble
    try:
        with open(os.path.join(point, "tree.yaml"), "rb") as tree:
            same = tree.read() == _SMALL
    except OSError as err:
        return f"it could not be read: {err.strerror}"
    finally:
        trouble = _tried("umount", point)
    return trouble or ("" if same else "it was not what it is")


def _tried(*arguments: str) -> str:
    command = [sys.executable, "-m", "asdffs", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    return "" if done.returncode == 0 else " / ".join(done.stderr.strip().splitlines()) or f"exit {done.returncode}"


def _extras() -> Iterator[Diagnosis]:
    for extra, (purpose, module) in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        yield _one(extra, f"for {purpose}", good=there, advice=f"{_pip()} install 'asdffs[{extra}]'")


def _pip() -> str:
    """Return the pip command of the environment of asdffs, also if that environment is not active."""
    own = os.path.join(sys.prefix, "bin", "pip")
    return as_word(own) if sys.prefix != sys.base_prefix and os.path.exists(own) else "pip"


def _plugins() -> Iterator[Diagnosis]:
    """Load each plug-in of another package."""
    for kind in registry.KINDS:
        for point in metadata.entry_points(group=f"asdffs.{kind}"):
            package = point.dist.name if point.dist is not None else point.module
            if package != "asdffs":
                advice = f"repair or update {package}, or {_pip()} uninstall {package}"
                trouble = _plugin_trouble(kind, point.name)
                sentence = f"does not work: {trouble}" if trouble else f"of the package {package}"
                yield _one(f"{kind}: {point.name}", sentence, good=not trouble, advice=advice)


def _plugin_trouble(kind: registry.Kind, name: str) -> str:
    with contextlib.suppress(OSError):  # what passes is no trouble of the plug-in
        if kind == "codecs":
            KnownCodecs().get(id_of(name))
        else:
            registry.find(kind, name)
    return registry.trouble(kind, name)


def _system() -> Iterator[Diagnosis]:
    home = state_home()
    advice = "it is for temporary files, and may be emptied; set XDG_STATE_HOME to a directory that stays"
    yield _one("state directory", home, good=not home.startswith(tempfile.gettempdir()), advice=advice)
    count = _count(_WATCHES)
    sentence = f"{count} instances for each user; it tells of changes by other programs"
    advice = "sudo sysctl fs.inotify.max_user_instances=128"
    yield _one("inotify", sentence, good=count >= _FEW_WATCHES, advice=advice)
    yield _mount_command()


def _mount_command() -> Diagnosis:
    """Check what ``mount -t fuse.asdffs`` and fstab need: a helper, and asdffs where root's shell finds it."""
    subject, purpose = "mount -t fuse.asdffs", "for /etc/fstab and mount(8)"
    helper = next((path for name in _MOUNT_HELPERS if (path := shutil.which(name, path=_ROOT_PATH))), None)
    if helper is None:
        return _one(subject, f"mount.fuse3 is missing; {purpose}", good=False, advice="sudo apt install fuse3")
    command = shutil.which("asdffs", path=_ROOT_PATH)
    if command is None:
        advice = f'sudo ln -s "{_own_command()}" /usr/local/bin/asdffs'
        return _one(subject, f"root does not find the command asdffs; {purpose}", good=False, advice=advice)
    return _one(subject, f"{helper} starts {command}; {purpose}", good=True, advice="")


def _own_command() -> str:
    """Return the path of the command asdffs of this installation."""
    beside = os.path.join(os.path.dirname(sys.executable), "asdffs")
    return beside if os.access(beside, os.X_OK) else shutil.which("asdffs") or "asdffs"


def _one(subject: str, sentence: str, *, good: bool, advice: str) -> Diagnosis:
    return Diagnosis(Verdict.OK, subject, sentence) if good else Diagnosis(Verdict.MISSING, subject, sentence, advice)


def _count(path: str) -> int:
    """Return the number in a file of /proc; 0 where it has none."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


_LOOKS: Final = (_versions, _fuse, _rights, _libfuse, _mounting, _extras, _plugins, _system)

"""``asdffs export --erofs IMAGE FILE...``: makes an image that Linux mounts without asdffs, or checks one."""

from __future__ import annotations

import argparse
import functools
import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final

from asdffs.cli.outputs import write_out
from asdffs.cli.printing import say
from asdffs.cli.results import ExitCode, for_each
from asdffs.document.opening import open_document
from asdffs.errors import UsageError
from asdffs.features.erofs import is_image
from asdffs.features.erofs.contents import ATTRIBUTE, Exported, exported
from asdffs.features.erofs.image import Directory, write_image
from asdffs.features.erofs.mounting import changes
from asdffs.storage.backend import Folder, WriteBackend

SUMMARY: Final = "make an image that Linux mounts at the speed of the disk (erofs)"
#: Each file is a device of the mount, and has an attribute of the root.
_MOST: Final = 256
logger = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs export --erofs night.erofs night.asdf    a small file beside the large one
  asdffs mount night.erofs /mnt/night             as root, on Linux 6.12 or newer; no daemon
  asdffs export --check night.erofs               is night.asdf as it was?

The image shows tree.yaml, each array that is not compressed as .npy, and blocks whose data are aligned ('asdffs
repack --align 4096').  What is left out is told.  Elements are read from FILE itself, so FILE must not change while
the image is mounted.  Of several files, each has a directory.  docs/erofs.md tells more.
"""
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file; with --check an image")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--erofs", metavar="IMAGE", help="the image to write")
    chosen.add_argument("--check", action="store_true", help="tell which files changed; exit code 1 if any did")
    parser.add_argument("--force", action="store_true", help="replace IMAGE")


def run(arguments: argparse.Namespace) -> int:
    """Write or check images; return 1 if a file of an image changed.  Raises ``AsdffsError``, ``OSError``."""
    return _check(arguments.files) if arguments.check else _export(arguments)


def _check(images: list[str]) -> int:
    code = ExitCode.OK
    for image in images:
        found = [(path, change) for path, change in changes(image) if change]
        code = ExitCode.NOT_FOUND if found else code
        say(*(f"{image}: {path} {change}" for path, change in found))
        if not found:
            say(f"{image}: all files are as they were")
    return code


def _export(arguments: argparse.Namespace) -> int:
    if len(arguments.files) > _MOST:
        raise UsageError(f"an image has at most {_MOST} files; make several")
    with ExitStack() as stack:
        found: dict[str, Exported] = {}

        def read(file: str) -> tuple[str, Exported]:
            document = open_document(file, writable=False)
            stack.callback(document.close)
            return f"{os.path.basename(document.path)}.d", exported(document, len(found))

        def take(file: str, one: tuple[str, Exported]) -> int:
            if one[0] in found:
                raise UsageError("two files have this name, which is that of a directory of the image", path=file)
            found[one[0]] = one[1]
            return ExitCode.OK

        code = for_each(((file, functools.partial(read, file)) for file in arguments.files), take)
        if not found:
            return code
        size = _write(arguments, found)
    for name, one in found.items():
        _tell_left_out(name.removesuffix(".d"), one.left_out)
    left = sum(len(one.left_out) for one in found.values())
    say(f"{arguments.erofs}: {size} bytes" + (f"; {left} left out" if left else ""))
    return code


def _tell_left_out(file: str, left_out: Mapping[str, str]) -> None:
    for path, reason in left_out.items():
        logger.warning("%s: %s is left out: %s", file, path, reason)
    if any("no multiple of" in reason for reason in left_out.values()):
        logger.warning("'asdffs repack --align 4096 %s' aligns blocks", file)


def _write(arguments: argparse.Namespace, found: dict[str, Exported]) -> int:
    several = {name: one.files for name, one in found.items()}
    root: Directory = next(iter(several.values())) if len(several) == 1 else dict(several)
    attributes = {f"{ATTRIBUTE}{number}": one.attribute for number, one in enumerate(found.values())}
    sizes = list[int]()
    devices = [one.device for one in found.values()]
    if os.path.isfile(arguments.erofs) and os.path.getsize(arguments.erofs) and not is_image(arguments.erofs):
        raise UsageError("is no image, and is not replaced by one; give another name", path=arguments.erofs)

    def fill(_: Folder, backend: WriteBackend) -> None:
        sizes.append(write_image(root, devices, attributes, backend.write_at))

    paths = [one.path for one in found.values()]
    out = argparse.Namespace(out=arguments.erofs, file=paths[0], force=arguments.force, sync=False)
    write_out(out, fill, paths)
    return sizes[-1]

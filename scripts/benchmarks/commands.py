"""Compares the commands that need no mount with cp and asdftool.

The file has 1 GiB in four blocks.  Each command runs after a sync, and writes to a new name.  Commands that do not
sync are compared with ``cp``, others with ``cp + sync``.  As root, the same is measured again on a file system that
can share bytes (XFS in an image).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.figures import Figures, Target
from benchmarks.place import ASDFFS, BIN, Place, run, timed

BLOCKS = 4
ASDFTOOL = (BIN / "asdftool",)
EDITOR = "sed -i s/^value:.*/value:\\ {}/"
#: Rows of commands that only copy.
COPIES = ("explode", "implode", "repack")
HERE, SHARED = "{} of 1 GiB, s", "{} of 1 GiB on XFS, s"
#: The start of a command in seconds (section ``start``), with room; a copy has none.
START = 0.1
TARGETS = (
    *(Target(HERE.format(name), "cp", most=1.05, plus=START, of=("asdffs",)) for name in COPIES),
    *(Target(HERE.format(name), "cp + sync", most=1.05, plus=START, of=("asdffs --sync",)) for name in COPIES[:2]),
    *(Target(SHARED.format(name), "cp", most=0.3, plus=START / 2, of=("asdffs",)) for name in COPIES),
)


class Files:
    """The files on one file system.  The directory ``work`` is emptied before each command."""

    def __init__(self, folder: Path, size: int) -> None:
        import asdf
        import numpy as np

        self.folder, self.work = folder, folder / "work"
        rng = np.random.default_rng(1)
        noise = rng.integers(0, 64, (BLOCKS, size // BLOCKS), "u1")
        tree = {"value": 1, "text": "x" * 200, **{f"a{n}": noise[n] for n in range(BLOCKS)}}
        asdf.AsdfFile(tree).write_to(folder / "data.asdf", pad_blocks=True)
        shutil.copy(folder / "data.asdf", folder / "other.asdf")
        self.run(*ASDFFS, "explode", folder / "data.asdf", folder / "parts")

    def run(self, *command: object, editor: str = "true") -> None:
        environment = {**os.environ, "EDITOR": editor, "VISUAL": ""}
        subprocess.run(list(map(str, command)), check=True, env=environment, stdout=subprocess.DEVNULL)

    def copies(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """Yield each copy of the file: the name of the command, the program, and the function to time.

        ``cp`` runs right before the command that it is compared with: the disk's speed changes within minutes.
        """
        data, parts, work = self.folder / "data.asdf", self.folder / "parts/data.asdf", self.work
        out = work / "out.asdf"
        copy: tuple[object, ...] = ("cp", "--reflink=never", data, out)
        words = {"explode": (data, work), "implode": (parts, out), "repack": (data, out)}
        for name in COPIES:
            yield name, "cp", lambda: self.run(*copy)
            yield name, "asdffs", lambda name=name: self.run(*ASDFFS, name, *words[name])
        for name in COPIES[:2]:
            yield name, "cp + sync", lambda: (self.run(*copy), self.run("sync", out))[0]
            yield name, "asdffs --sync", lambda name=name: self.run(*ASDFFS, name, "--sync", *words[name])

    def others(self, number: int) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """Yield the commands that asdftool has, too, as ``copies`` does; ``number``: that of the round."""
        data, other, out = self.folder / "data.asdf", self.folder / "other.asdf", self.work / "out.asdf"
        yield "explode", "asdftool", lambda: self.run(*ASDFTOOL, "explode", "-o", self.work / "x.asdf", data)
        yield (
            "implode",
            "asdftool",
            lambda: self.run(*ASDFTOOL, "implode", "-o", out, self.folder / "parts/data.asdf"),
        )
        for codec in ("zstd", "zlib"):
            words = ("repack", "--compression", codec, data, out)
            yield f"repack to {codec}", "asdffs", lambda words=words: self.run(*ASDFFS, *words)
        for who, command, shift in (("asdffs", ASDFFS, 0), ("asdftool", ASDFTOOL, 11)):
            editor = EDITOR.format(number % 10 + shift)
            yield "edit", who, lambda command=command, editor=editor: self.run(*command, "edit", other, editor=editor)
            yield "info", who, lambda command=command: self.run(*command, "info", data)
            yield "diff", who, lambda command=command: self.run(*command, "diff", data, data)

    def seconds(self, work: Callable[[], None]) -> float:
        """Return the time of ``work``, which begins with an empty directory ``work`` and clean pages."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        os.sync()
        return timed(work)


def measure(place: Place, figures: Figures) -> None:
    (place.folder / "here").mkdir()
    with ExitStack() as stack:
        files = Files(place.folder / "here", place.size(1024))
        point = stack.enter_context(_sharing(place.folder, place.size(1024)))
        shared = Files(point, place.size(1024)) if point is not None else None
        for number in range(place.rounds):
            for name, who, work in [*files.copies(), *files.others(number)]:
                figures.add(HERE.format(name), who, files.seconds(work))
            for name, who, work in shared.copies() if shared is not None else ():
                figures.add(SHARED.format(name), who, shared.seconds(work))


@contextmanager
def _sharing(folder: Path, size: int) -> Iterator[Path | None]:
    """Mount an XFS file system from an image in ``folder`` inside the block.  Without root, the value is None."""
    if os.geteuid() or not shutil.which("mkfs.xfs"):
        yield None
        return
    image, point = folder / "image", folder / "xfs"
    point.mkdir()
    with open(image, "wb") as file:
        file.truncate(6 * size + (512 << 20))
    run("mkfs.xfs", "-q", image)
    run("mount", "-o", "loop", image, point)
    try:
        yield point
    finally:
        run("umount", point)

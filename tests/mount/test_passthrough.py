"""Which number a file has that the kernel reads itself; an ioctl(2) that is refused is one of no device."""

from __future__ import annotations

import os
from pathlib import Path

from asdffs.mount.session import Passthrough


def test_the_first_open_decides_for_all_that_overlap(tmp_path: Path) -> None:
    device = os.open(tmp_path, os.O_RDONLY)
    given: list[int] = []

    class Kernel(Passthrough):
        def _give(self, file: int) -> int:
            given.append(file)
            return len(given) - 1

    kernel = Kernel(lambda: device)
    assert [kernel.opened(7, 3), kernel.opened(7, 4), kernel.opened(8, 5)] == [0, 0, 1]
    kernel.closed(7)
    assert kernel.opened(7, 6) == 0, "it is open without a number"
    kernel.closed(7)
    kernel.closed(7)
    assert kernel.opened(7, 9) == 2
    assert given == [3, 5, 9]
    for inode in (7, 8):
        kernel.closed(inode)
    os.close(device)


def test_a_refusal_is_told(tmp_path: Path) -> None:
    device = os.open(tmp_path, os.O_RDONLY)
    kernel = Passthrough(lambda: device)
    assert kernel.opened(7, device) == 0
    assert kernel.facts == {"passthrough": "off: Inappropriate ioctl for device"}
    kernel.closed(7)
    os.close(device)

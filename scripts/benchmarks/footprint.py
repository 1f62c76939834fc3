"""Measures the memory of the daemon: idle, and while 10 GiB of a block are read and written."""

from __future__ import annotations

from benchmarks.figures import Figures, Target
from benchmarks.made import make_file
from benchmarks.peers import mounted
from benchmarks.place import Place, memory, read_all, write_all

IDLE, MORE = "RSS idle, MiB", "RSS over idle, 10 GiB read and written, MiB"
TARGETS = (Target(IDLE, "", most=0, plus=60), Target(MORE, "", most=0, plus=64))


def measure(place: Place, figures: Figures) -> None:
    size = place.size(10 * 1024)
    for library in place.libraries:
        file = make_file(place.folder / "large.asdf", 1, size)
        with mounted(file, place.folder / "mnt", library) as pid:
            idle = memory(pid, "VmRSS")
            block = place.folder / "mnt/blocks/0000.bin"
            read_all(block)
            write_all(block, size)
            figures.add(IDLE, library, idle)
            figures.add(MORE, library, memory(pid, "VmHWM") - idle)
        file.unlink()

"""Writes the picture of a terminal in the README.  Run it with ``scripts/record``.

The commands run on a real mount, and the picture shows their real output.  ``--text`` prints the text instead.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text
from support.pages import NewFile, Runner, Step

OUT = Path(__file__).parents[1] / "docs" / "recording.svg"
WIDTH = 96
MAKE = """\
import asdf, numpy as np
meta = {"telescope": "ROMAN", "observer": "Ada", "exposure": {"time": 107.5}}
data = np.arange(1 << 20, dtype=">f4").reshape(1024, 1024)
asdf.AsdfFile({"roman": {"meta": meta, "data": data, "dq": np.zeros((1024, 1024), "u4")}}).write_to("night.asdf")
"""
COMMANDS = [
    "asdffs info night.asdf | tail -3",
    "asdffs mount night.asdf mnt && ls mnt mnt/arrays/roman",
    "sed -i 's/observer: Ada/observer: Grace  # see the log book/' mnt/tree.yaml",
    "python -c \"import numpy; print(numpy.load('mnt/arrays/roman/data.npy', mmap_mode='r')[0, :4])\"",
    "printf '\\102\\050\\000\\000' | dd of=mnt/blocks/0000.bin conv=notrunc status=none   # 42.0",
    "python -c \"from astropy.io import fits; print(fits.getdata('mnt/arrays/roman/data.fits')[0, :4])\"",
    "sed -i 's/107.5/[107.5/' mnt/tree.yaml; cat mnt/.asdffs/error",
    "asdffs umount mnt",
    "grep -a observer: night.asdf && asdffs check night.asdf",
]


def shown() -> Text:
    """Run the commands, and return the text of the terminal."""
    text = Text()
    with tempfile.TemporaryDirectory() as directory:
        runner = Runner(Path(directory))
        try:
            runner.write(NewFile("make.py", MAKE))
            runner.print(Step("python make.py && mkdir mnt", "", 0, 0))
            for command in COMMANDS:
                text.append("$ ", "bold green").append(f"{command}\n", "bold")
                text.append(_steady(runner.print(Step(command, "", 0, 0))))
        finally:
            runner.end()
    return text


def _steady(printed: str) -> str:
    """Return ``printed`` with the random part of sed's temporary name replaced by XXXXXX."""
    start, found, rest = printed.partition("mnt/sed")
    return f"{start}{found}XXXXXX{rest[6:]}" if found else printed


def main() -> None:
    text = shown()
    if "--text" in sys.argv:
        print(text.plain, end="")
        return
    console = Console(record=True, width=WIDTH, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    console.print(text, end="")
    OUT.write_text(console.export_svg(title="asdffs"))


main()

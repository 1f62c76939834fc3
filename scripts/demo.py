"""The demo.  Run it with ``scripts/demo``, which first installs what it needs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import asdf
import numpy as np

SIZE = 2048  # pixels a side; the file becomes about 64 MiB
BOLD, DIM, GREEN, PLAIN = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 4
COMMENT = b"\n# reduced on a Tuesday; please keep this comment"
NAME = "r0101_wfi01_cal.asdf"
ENTRY = "mask: !core\\/ndarray-1.1.0 {source: 5, datatype: uint32, byteorder: little, shape: [2048, 2048]}"
Arrays = dict[str, np.ndarray]
Act = Callable[[Path, Arrays], None]


def say(text: str) -> None:
    print(f"{BOLD}{text}{PLAIN}", flush=True)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


def shell(command: str, folder: Path, *, status: int = 0) -> None:
    """Print a command, run it and print its output.  End the demo if its exit status is not ``status``."""
    print(f"{GREEN}${PLAIN} {command}", flush=True)
    done = run(command, folder)
    shown = (done.stdout + done.stderr).replace(f"{folder}/", "").rstrip()
    if shown:
        print("\n".join(f"  {DIM}{line}{PLAIN}" for line in shown.splitlines()), flush=True)
    if done.returncode != status:
        sys.exit(f"the command ended with status {done.returncode} instead of {status}")


def write_file(path: Path) -> Arrays:
    """Write a file like a Roman level 2 product, and return its arrays.

    The arrays: science data, errors, data quality, variances and wavelengths.
    """
    rng = np.random.default_rng(2022)
    arrays = {
        "data": rng.normal(1.0, 0.1, (SIZE, SIZE)).astype(">f4"),
        "err": rng.normal(0.1, 0.01, (SIZE, SIZE)).astype(">f4"),
        "dq": rng.integers(0, 5, (SIZE, SIZE)).astype("<u4"),
        "var_poisson": rng.normal(0.01, 0.001, (SIZE, SIZE)).astype("<f4"),
        "wavelength": np.linspace(0.6, 5.3, SIZE),
    }
    meta = {
        "telescope": "ROMAN",
        "instrument": {"name": "WFI", "detector": "WFI01", "optical_element": "F158"},
        "exposure": {"exposure_time": 1288.4, "nints": 1, "ngroups": 6},
        "target": {"proposer_name": "M-92", "ra": 259.28, "dec": 43.136},
    }
    asdf.AsdfFile({"meta": meta, **arrays}).write_to(path, pad_blocks=True)
    with open(path, "r+b") as file:  # add a comment, as a person might; the padding has room
        head = file.read(8192)
        tree = head[: head.index(b"\n...\n") + 5].replace(b"\nmeta:", COMMENT + b"\nmeta:", 1)
        file.seek(0)
        file.write(tree)
    return arrays


def changed_bytes(one: Path, two: Path) -> int:
    a, b = np.memmap(one, mode="r"), np.memmap(two, mode="r")
    return int(np.count_nonzero(a != b)) if a.size == b.size else -1


def fuse_is_missing(folder: Path) -> str:
    """Return why no file can be mounted here, and what to do; empty if ``asdffs doctor`` finds nothing."""
    found = json.loads(run("asdffs doctor --json", folder).stdout)["found"]
    problems = [one for one in found if one["level"] == "problem"]
    return "; ".join(f"{one['subject']} {one['sentence']} (to add it: {one['advice']})" for one in problems[:1])


def show_the_mount(folder: Path, arrays: Arrays) -> None:
    """The first screen: mount, edit, result."""
    say("The file is a directory: an editable tree, raw blocks, arrays as .npy and .fits")
    shell("ls -C -w 70 x x/blocks x/arrays", folder)
    say("Change a value with sed, a pixel with dd; copy a block out with cp")
    shell("sed -i 's/exposure_time: 1288.4/exposure_time: 1290.0/' x/tree.yaml", folder)
    shell("printf '\\x3f\\x80\\x00\\x00' | dd of=x/blocks/0000.bin bs=1 seek=4000 conv=notrunc status=none", folder)
    shell("cp x/blocks/0002.bin dq.bin", folder)
    shell("asdffs umount x      # writes checksums and the block index", folder)
    say("What the asdf library sees afterwards")
    file = folder / NAME
    with asdf.open(file, validate_checksums=True, lazy_load=False) as found:
        arrays["data"].ravel()[1000] = 1.0
        assert found["meta"]["exposure"]["exposure_time"] == 1290.0
        for name, array in arrays.items():
            assert np.array_equal(found[name][:], array), name
        assert np.array_equal(np.fromfile(folder / "dq.bin", "<u4"), arrays["dq"].ravel())
        time, pixel = found["meta"]["exposure"]["exposure_time"], found["data"][0, 1000]
        print(f"  exposure_time = {time}; data[0, 1000] = {pixel}")
    assert COMMENT in file.read_bytes()
    count = changed_bytes(folder / "before.asdf", file)
    assert 0 < count < 64
    print(f"  {len(arrays)} arrays are as they should be, their checksums are valid, and the comment was kept")
    print(
        f"  {BOLD}{count} of {file.stat().st_size:,} bytes changed{PLAIN}: the pixel, the MD5 of its block, the value"
    )


def show_a_mistake(folder: Path, arrays: Arrays) -> None:
    say("\nAn edit that breaks the tree is rejected, and changes nothing")
    shell(f"asdffs mount {NAME} x", folder)
    shell("sed -i 's/name: WFI/name: [WFI/' x/tree.yaml", folder, status=4)
    shell("cat x/.asdffs/error", folder)
    shell("asdffs umount x      # the text is kept; exit status 7", folder, status=7)
    shell(f"asdffs info {NAME}", folder)


def show_blocks(folder: Path, arrays: Arrays) -> None:
    """Compress a block, append another one, and refer to it in the tree."""
    say("\nCompress a block, append another, and refer to it")
    shell(f"asdffs mount {NAME} x", folder)
    compress = "import os; os.setxattr('x/blocks/0002.bin', 'user.asdf.compression', b'zlib')"
    shell(f'python -c "{compress}"', folder)
    shell(f"cmp dq.bin x/blocks/0002.bin && asdffs info {NAME} | grep zlib", folder)
    shell("cp dq.bin x/blocks/0005.bin", folder)
    shell(f"sed -i 's/^\\.\\.\\.$/{ENTRY}\\n.../' x/tree.yaml && tail -n 2 x/tree.yaml", folder)
    shell(f"asdffs umount x && asdffs check --deep {NAME}", folder)
    with asdf.open(folder / NAME, validate_checksums=True, lazy_load=False) as found:
        for name in ("dq", "mask"):
            assert np.array_equal(found[name][:], arrays["dq"]), name
            print(f"  {name:<12} equal, checksum valid")


def show_views(folder: Path, arrays: Arrays) -> None:
    """Show the views of the same bytes for numpy, FITS tools and the asdf library."""
    say("\nEach array is also a .npy and a .fits file, and x/exploded/ is the exploded form: no copies on disk")
    shell(f"asdffs mount {NAME} x && ls -l x/arrays | head -n 5; ls x/exploded", folder)
    shell("python -c \"import numpy as np; print(np.load('x/arrays/data.npy', mmap_mode='r').mean())\"", folder)
    shell("fitsheader x/arrays/data.fits | grep -E 'NAXIS|instrument'", folder)
    edit = "a = np.load('x/arrays/err.npy', mmap_mode='r+'); a[0, 0] = 42; a.flush()"
    shell(f'python -c "import numpy as np; {edit}" && od -An -tx1 -N4 x/blocks/0001.bin', folder)
    with asdf.open(folder / f"x/exploded/{NAME}") as exploded:
        assert exploded["err"][0, 0] == 42
        assert np.array_equal(exploded["wavelength"][:], arrays["wavelength"])
        print(f"  asdf.open of x/exploded/{NAME}: err[0, 0] is 42 there as well")
    shell(f"asdffs umount x && asdffs check {NAME}", folder)
    shell(f"asdffs mount {NAME} x && asdffs ls | grep -o '{NAME}.*' && asdffs umount x", folder)


def show_values(folder: Path, arrays: Arrays) -> None:
    say("\nWithout a mount: values by their path, pictures")
    shell(f"asdffs get meta.instrument.detector {NAME}", folder)
    shell(f"asdffs set meta.exposure.exposure_time=1291.5 {NAME}", folder)
    shell(f"asdffs show --size 60 {NAME} wavelength", folder)


def show_commands(folder: Path, arrays: Arrays) -> None:
    say("\nWithout a mount: explode, watch, implode, repack, diff")
    shell(f"asdffs info --map {NAME}", folder)
    shell(f"asdffs explode {NAME} parts && ls -sh parts", folder)
    shell(f"sed -i s/1291.5/1292.0/ parts/{NAME} && asdffs watch --once parts {NAME}", folder)
    shell(f"asdffs implode parts/{NAME} whole.asdf && asdffs diff {NAME} whole.asdf", folder)
    shell(
        "asdffs repack --compression zlib whole.asdf small.asdf && asdffs diff --values whole.asdf small.asdf", folder
    )
    with asdf.open(folder / "small.asdf", validate_checksums=True, lazy_load=False) as found:
        assert found["meta"]["exposure"]["exposure_time"] == 1292.0
        assert np.array_equal(found["dq"][:], arrays["dq"])
        print("  the asdf library: exposure_time is 1292.0, dq is equal")


def show_python(folder: Path, arrays: Arrays) -> None:
    say("\nThe same from Python: asdffs.open")
    lines = [
        "import asdffs",
        "with asdffs.open('small.asdf', 'r+') as document:",
        "    document.arrays['data'][0, :4] = [1, 2, 3, 4]",
        "    document.tree_text = document.tree_text.replace('1292.0', '1293.5')",
        "    print(document.arrays['data'], document.blocks[0].compression)",
    ]
    (folder / "edit.py").write_text("\n".join(lines) + "\n")
    shell("cat edit.py && python edit.py && asdffs check --deep small.asdf", folder)
    with asdf.open(folder / "small.asdf", validate_checksums=True, lazy_load=False) as found:
        assert found["meta"]["exposure"]["exposure_time"] == 1293.5
        assert found["data"][0, :4].tolist() == [1, 2, 3, 4]
        print("  the asdf library: exposure_time is 1293.5, the four pixels are 1, 2, 3, 4")


MOUNTED: list[Act] = [show_a_mistake, show_blocks, show_views]
UNMOUNTED: list[Act] = [show_values, show_commands, show_python]


def acts(folder: Path, *, every: bool) -> list[Act]:
    """Mount the file; return what to show.  Ends the demo if the mount failed although FUSE works."""
    command = f"asdffs mount {NAME} x"
    done = run(command, folder)
    if done.returncode == 0:
        print(
            f"{GREEN}${PLAIN} ls -sh {NAME} && {command}\n  {DIM}{run(f'ls -sh {NAME}', folder).stdout}{PLAIN}",
            end="",
        )
        return [show_the_mount, *((*MOUNTED, *UNMOUNTED) if every else ())]
    missing = fuse_is_missing(folder)
    if not missing:
        sys.exit(f"$ {command}\n{done.stderr}the mount failed, and 'asdffs doctor' does not say why")
    say(f"Nothing can be mounted here: {missing}.  The rest works without it.")
    return UNMOUNTED


def main() -> None:
    every = "--all" in sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="asdffs-demo-"))
    mount = folder / "x"
    try:
        arrays = write_file(folder / NAME)
        mount.mkdir()
        shutil.copy(folder / NAME, folder / "before.asdf")
        shown = acts(folder, every=every)
        for act in shown:
            act(folder, arrays)
        more = "More acts: ./scripts/demo --all.  " if shown == [show_the_mount] else ""
        print(f"{more}What to do with your files: docs/tutorial.md")
    finally:
        if os.path.ismount(mount):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

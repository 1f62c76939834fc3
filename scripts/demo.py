"""The demo.  Run it with ``scripts/demo``, which first installs what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import asdf
import numpy as np

SIZE = 2048  # pixels a side; the file becomes about 64 MiB
BOLD, DIM, GREEN, PLAIN = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 4


COMMENT = b"\n# reduced on a Tuesday; please keep this comment"


def say(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


def shell(command: str, folder: Path, *, status: int = 0) -> None:
    """Print a command, run it and print its output.  End the demo if its exit status is not ``status``."""
    print(f"{GREEN}${PLAIN} {command}", flush=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XDG_STATE_HOME": str(folder / "state")}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        check=False,
    )
    shown = (done.stdout + done.stderr).rstrip()
    if shown:
        print("\n".join(f"  {DIM}{line}{PLAIN}" for line in shown.splitlines()), flush=True)
    if done.returncode != status:
        sys.exit(f"the command ended with status {done.returncode} instead of {status}")


def write_file(path: Path) -> dict[str, np.ndarray]:
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


ENTRY = "mask: !core\\/ndarray-1.1.0 {source: 5, datatype: uint32, byteorder: little, shape: [2048, 2048]}"


def show_blocks(folder: Path, file: Path, arrays: dict[str, np.ndarray]) -> None:
    """Compress a block, append another one, and refer to it in the tree."""
    say("7. Compress a block, append another, and refer to it")
    shell(f"asdffs mount {file.name} x", folder)
    shell("setfattr -n user.asdf.compression -v zlib x/blocks/0002.bin", folder)
    shell("getfattr -d x/blocks/0002.bin | grep -E 'compression|_size'", folder)
    shell("cmp dq.bin x/blocks/0002.bin && cp dq.bin x/blocks/0005.bin", folder)
    shell(f"sed -i 's/^\\.\\.\\.$/{ENTRY}\\n.../' x/tree.yaml && tail -n 2 x/tree.yaml", folder)
    shell(f"asdffs umount x && asdffs check --deep {file.name}", folder)
    with asdf.open(file, validate_checksums=True, lazy_load=False) as found:
        for name in ("dq", "mask"):
            assert np.array_equal(found[name][:], arrays["dq"]), name
            print(f"  {name:<12} equal, checksum valid")


def show_views(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    """Show the views of the same bytes for numpy, FITS tools and the asdf library."""
    say("8. Each array is also a .npy and a .fits file, and x/exploded/ is the exploded form: no copies on disk")
    shell("asdffs mount r0101_wfi01_cal.asdf x && ls -l x/arrays | head -n 5; ls x/exploded", folder)
    shell("python -c \"import numpy as np; print(np.load('x/arrays/data.npy', mmap_mode='r').mean())\"", folder)
    shell("fitsheader x/arrays/data.fits | grep -E 'NAXIS|instrument'", folder)
    edit = "a = np.load('x/arrays/err.npy', mmap_mode='r+'); a[0, 0] = 42; a.flush()"
    shell(f'python -c "import numpy as np; {edit}" && od -An -tx1 -N4 x/blocks/0001.bin', folder)
    with asdf.open(folder / "x/exploded/r0101_wfi01_cal.asdf") as exploded:
        assert exploded["err"][0, 0] == 42
        assert np.array_equal(exploded["wavelength"][:], arrays["wavelength"])
        print("  asdf.open of x/exploded/r0101_wfi01_cal.asdf: err[0, 0] is 42 there as well")
    shell("asdffs umount x && asdffs check r0101_wfi01_cal.asdf", folder)


def show_commands(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    say("9. Without a mount: edit, explode, watch, implode, repack, diff")
    shell("asdffs info --map r0101_wfi01_cal.asdf", folder)
    shell('EDITOR="sed -i s/1290.0/1291.5/" asdffs edit r0101_wfi01_cal.asdf', folder)
    shell("asdffs explode r0101_wfi01_cal.asdf parts && ls -sh parts", folder)
    shell(
        "sed -i s/1291.5/1292.0/ parts/r0101_wfi01_cal.asdf && asdffs watch --once parts r0101_wfi01_cal.asdf",
        folder,
    )
    shell(
        "asdffs implode parts/r0101_wfi01_cal.asdf whole.asdf && asdffs diff r0101_wfi01_cal.asdf whole.asdf",
        folder,
    )
    shell(
        "asdffs repack --compression zlib whole.asdf small.asdf && asdffs diff --values whole.asdf small.asdf", folder
    )
    with asdf.open(folder / "small.asdf", validate_checksums=True, lazy_load=False) as found:
        assert found["meta"]["exposure"]["exposure_time"] == 1292.0
        assert np.array_equal(found["dq"][:], arrays["dq"])
        print("  the asdf library: exposure_time is 1292.0, dq is equal")


def show_python(folder: Path) -> None:
    say("10. The same from Python: asdffs.open; and the list of mounts")
    lines = [
        "import asdffs",
        "with asdffs.open('small.asdf', 'r+') as document:",
        "    document.arrays['data'][0, :4] = [1, 2, 3, 4]",
        "    document.tree_text = document.tree_text.replace('1292.0', '1293.5')",
        "    print(document.arrays['data'], document.blocks[0].compression)",
    ]
    (folder / "edit.py").write_text("\n".join(lines) + "\n")
    shell("cat edit.py && python edit.py && asdffs check --deep small.asdf", folder)
    shell("asdffs mount small.asdf x && asdffs ls | grep -o 'small.asdf.*' && asdffs umount x", folder)
    with asdf.open(folder / "small.asdf", validate_checksums=True, lazy_load=False) as found:
        assert found["meta"]["exposure"]["exposure_time"] == 1293.5
        assert found["data"][0, :4].tolist() == [1, 2, 3, 4]
        print("  the asdf library: exposure_time is 1293.5, the four pixels are 1, 2, 3, 4")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="asdffs-demo-"))
    mount = folder / "x"
    try:
        say("1. A realistic file: a tree with comments, five arrays")
        file = folder / "r0101_wfi01_cal.asdf"
        arrays = write_file(file)
        mount.mkdir()
        shell(f"ls -sh {file.name} && asdffs info {file.name}", folder)
        shutil.copy(file, folder / "before.asdf")

        say("2. Mount it: the file is a directory")
        shell(f"asdffs mount {file.name} x && ls -l x x/blocks", folder)

        say("3. Change a value with sed, overwrite a part of a block with dd, copy a block out with cp")
        shell("sed -i 's/exposure_time: 1288.4/exposure_time: 1290.0/' x/tree.yaml", folder)
        shell(
            "printf '\\x3f\\x80\\x00\\x00' | dd of=x/blocks/0000.bin bs=1 seek=4000 conv=notrunc status=none", folder
        )
        shell("cp x/blocks/0002.bin dq.bin && ls -l dq.bin", folder)

        say("4. An edit that breaks the tree is rejected, and changes nothing")
        shell("sed -i 's/name: WFI/name: [WFI/' x/tree.yaml", folder, status=4)
        shell("cat x/.asdffs/error", folder)

        say("5. Unmount: this writes checksums, and saves the rejected edit beside the file (exit status 7)")
        shell("asdffs umount x", folder, status=7)

        say("6. What the asdf library sees")
        with asdf.open(file, validate_checksums=True, lazy_load=False) as found:
            arrays["data"].ravel()[1000] = 1.0
            print(f"  exposure_time = {found['meta']['exposure']['exposure_time']}")
            for name, array in arrays.items():
                assert np.array_equal(found[name][:], array), name
                print(f"  {name:<12} equal, checksum valid")
            assert found["meta"]["exposure"]["exposure_time"] == 1290.0
            assert np.array_equal(np.fromfile(folder / "dq.bin", "<u4"), arrays["dq"].ravel())
        assert COMMENT in file.read_bytes()
        count = changed_bytes(folder / "before.asdf", file)
        assert 0 < count < 64
        print("  the comment was kept")
        print(f"  {BOLD}{count} of {file.stat().st_size:,} bytes changed{PLAIN} (4 of the block, its MD5, the value)")
        show_blocks(folder, file, arrays)
        show_views(folder, arrays)
        show_commands(folder, arrays)
        show_python(folder)
    finally:
        if os.path.ismount(mount):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""Nothing is imported from the working directory: a stranger's archive may have a file ``pickle.py``."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mounts import environment_in, lazily_unmount
from support.samples import odd_file

#: What the standard library has, and what asdffs needs besides.
MODULES = sorted({*sys.stdlib_module_names, "asdffs", "yaml", "numpy", "lz4", "asdf", "astropy"})
PLANTED = "import os\nopen({log!r}, 'a').write(f'{{__name__}} in {{open(\"/proc/self/cmdline\").read()!r}}\\n')\n"
COMMANDS = [
    "get value 00.asdf 01.asdf",
    "info 00.asdf",
    "show 00.asdf data",
    "check --deep 00.asdf",
    "tree 00.asdf",
    "diff 00.asdf 01.asdf",
    "index --jobs 2 --catalog {out}/a.db .",
    "find --fresh --catalog {out}/b.db value==1 .",
    "set --jobs 2 value=2 00.asdf 01.asdf",
    "set --where value==1 --catalog {out}/c.db value=3 .",
    "edit 00.asdf",
    "explode 00.asdf {out}/exploded",
    "implode {out}/exploded/00.asdf {out}/new.asdf",
    "repack 00.asdf {out}/repacked.asdf",
    "watch --once {out}/watched 00.asdf",
    "ls",
]
MOUNT = pytest.param("doctor", marks=pytest.mark.mount)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive in which each module is planted; so many files that worker processes read them."""
    folder = tmp_path_factory.mktemp("stranger")
    for number in range(55):
        (folder / f"{number:02d}.asdf").write_bytes(odd_file())
    for module in MODULES:
        (folder / f"{module}.py").write_text(PLANTED.format(log=str(folder / "imported")))
    return folder


@pytest.fixture
def archive(files: Path) -> Iterator[Path]:
    yield files
    (files / "imported").unlink(missing_ok=True)


def run(archive: Path, out: Path, program: list[str], words: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**environment_in(out), "EDITOR": "true"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    environment.pop("VISUAL", None)
    environment.pop("PYTHONSAFEPATH", None)
    return subprocess.run([*program, *words], cwd=archive, env=environment, capture_output=True, text=True)


def script(folder: Path) -> list[str]:
    """The command asdffs, as an installer writes it."""
    path = folder / "asdffs"
    path.write_text(
        'import sys\nfrom asdffs.__main__ import main\nif __name__ == "__main__":\n    sys.exit(main())\n'
    )
    return [sys.executable, str(path)]


def imported(archive: Path) -> str:
    log = archive / "imported"
    return log.read_text() if log.exists() else ""


@pytest.mark.parametrize("command", [*COMMANDS, MOUNT])
def test_regression_no_command_imports_from_the_working_directory(
    archive: Path, tmp_path: Path, command: str
) -> None:
    if "implode" in command:
        run(archive, tmp_path, script(tmp_path), ["explode", "00.asdf", f"{tmp_path}/exploded"])
    done = run(archive, tmp_path, script(tmp_path), command.format(out=tmp_path).split())
    assert imported(archive) == "", (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert command == "doctor" or done.returncode in (0, 1), done.stderr


def test_regression_nor_does_python_m_but_for_what_python_itself_needs(archive: Path, tmp_path: Path) -> None:
    before = subprocess.run(
        [sys.executable, "-P", "-c", "import runpy, __future__, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
    ).stdout.split()
    kept = tmp_path / "kept"
    kept.mkdir()
    for module in {"asdffs", *before}:
        if (archive / f"{module}.py").exists():
            shutil.move(archive / f"{module}.py", kept)
    try:
        for words in (["info", "00.asdf"], ["index", "--jobs", "2", "--catalog", f"{tmp_path}/a.db", "."]):
            done = run(archive, tmp_path, [sys.executable, "-m", "asdffs"], words)
            assert (done.returncode, imported(archive)) == (0, ""), done.stderr
    finally:
        for path in kept.iterdir():
            shutil.move(path, archive)


@pytest.mark.mount
def test_a_mount_and_its_helpers_import_nothing_from_there(archive: Path, tmp_path: Path) -> None:
    point = tmp_path / "mnt"
    point.mkdir()
    done = run(archive, tmp_path, script(tmp_path), ["mount", "02.asdf", str(point)])
    assert done.returncode == 0, done.stderr
    try:
        block = os.open(point / "blocks/0000.bin", os.O_RDONLY)
        with mmap.mmap(block, 0, prot=mmap.PROT_READ) as shown:
            assert shown[0] in range(256)
            text = (point / "tree.yaml").read_text()
            (point / "tree.yaml").write_text(text.replace("value: 1", "value: 7"))
            with open(point / "arrays/data.npy", "r+b") as array:  # a helper drops the page of the other view
                array.seek(-1, os.SEEK_END)
                array.write(b"\1")
        os.close(block)
    finally:
        done = run(archive, tmp_path, script(tmp_path), ["umount", str(point)])
        if os.path.ismount(point):
            lazily_unmount(point)
    assert (done.returncode, imported(archive)) == (0, ""), done.stderr


def test_an_editor_has_the_environment_of_the_user(archive: Path, tmp_path: Path) -> None:
    environment = {**environment_in(tmp_path), "EDITOR": f"sh -c 'env > {tmp_path}/editor'"}
    environment.pop("VISUAL", None)
    environment.pop("PYTHONSAFEPATH", None)
    subprocess.run([*script(tmp_path), "edit", "03.asdf"], cwd=archive, env=environment, capture_output=True)
    assert "EDITOR=" in (text := (tmp_path / "editor").read_text())
    assert "PYTHONSAFEPATH" not in text

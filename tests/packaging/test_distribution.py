"""The sdist and the wheel: complete, the same from each other, and run from where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from support.mounts import run

from asdffs import __version__
from asdffs.cli.completions import completions
from asdffs.cli.manual import pages

ROOT = Path(__file__).parents[2]
UNIT = "systemd/user/asdffs@.service"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheels from the source and from the sdist, without what builds left."""
    folder = tmp_path_factory.mktemp("built")
    keep = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=keep)
    code = f"import setuptools.build_meta as b; print(b.build_sdist({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder / "source", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (sdist,) = folder.glob("*.tar.gz")
    for name, source in (("tree", folder / "source"), ("sdist", sdist)):
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
        done = run(*command, "-w", folder / name, source)
        assert done.returncode == 0, done.stderr
    return folder


def names_in(built: Path, kind: str) -> set[str]:
    (wheel,) = (built / kind).glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_is_complete(built: Path) -> None:
    names = names_in(built, "tree")
    shared = {name.partition("/share/")[2] for name in names if ".data/data/share/" in name}
    assert shared == {f"man/man1/{name}" for name in pages()} | set(completions()) | {UNIT}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "asdffs").rglob("*.py")}
    assert names >= modules | {"asdffs/py.typed"}
    assert not any(name.startswith(("tests", "docs", "scripts", "setup")) for name in names)


def test_the_sdist_makes_the_same_wheel_and_has_all_that_a_distributor_needs(built: Path) -> None:
    assert names_in(built, "sdist") == names_in(built, "tree")
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "docs/tutorial.md", "docs/schemas/info.json", "scripts/test"}
    assert names >= wanted | {"tests/packaging/test_distribution.py", "packaging/asdffs@.service"}
    assert not any("__pycache__" in name or name.startswith(".venv") for name in names)


def test_it_runs_where_it_is_installed(built: Path, tmp_path: Path) -> None:
    """Far from the source, with the libraries of this environment."""
    (wheel,) = (built / "sdist").glob("*.whl")
    before = run(sys.executable, "-m", "pip", "show", "-q", "asdffs", cwd=tmp_path).returncode
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--ignore-installed"]
    done = run(*command, "--prefix", tmp_path / "in", wheel)  # what is installed here stays
    assert done.returncode == 0, done.stderr
    assert run(sys.executable, "-m", "pip", "show", "-q", "asdffs", cwd=tmp_path).returncode == before
    (packages,) = (tmp_path / "in/lib").glob("python*/site-packages")
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = run(tmp_path / "in/bin/asdffs", "--version", env=environment, cwd=tmp_path)
    assert done.stdout.startswith(f"asdffs {__version__} ("), done.stderr
    done = run(sys.executable, "-c", "import asdffs; print(asdffs.__file__)", env=environment, cwd=tmp_path)
    assert done.stdout == f"{packages}/asdffs/__init__.py\n"
    assert (tmp_path / "in/share/man/man1/asdffs-mount.1").is_file()
    assert (tmp_path / "in/share" / UNIT).read_text() == (ROOT / "packaging/asdffs@.service").read_text()

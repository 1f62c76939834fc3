"""Each feature is one directory: without it, everything else works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.mounts import environment_in, mounted
from support.mounts import run as started
from support.samples import write_sample

ROOT = Path(__file__).parents[2]
FEATURES = sorted(path.parent.name for path in (ROOT / "asdffs/features").glob("*/__init__.py"))

#: Imports every module, but those whose libraries are not installed.
IMPORTS = """
import importlib, pathlib, sys
for path in sorted(pathlib.Path("asdffs").rglob("*.py")):
    if path.stem == "__main__":
        continue
    try:
        importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    except ModuleNotFoundError as err:
        if err.name.startswith("asdffs"):
            raise
"""


def without(folder: Path, *features: str) -> Path:
    """Make a copy of the package that lacks some features; return the directory to import it from."""
    names = [*(f"features/{name}" for name in features)]
    shutil.copytree(ROOT / "asdffs", folder / "asdffs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in names:
        shutil.rmtree(folder / "asdffs" / name)
    return folder


def run(site: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return started(sys.executable, *words, cwd=site, env={**os.environ, "PYTHONPATH": str(site)}, timeout=None)


@pytest.mark.sampled(3)
@pytest.mark.mount
@pytest.mark.parametrize("feature", FEATURES)
def test_everything_else_works_without_it(tmp_path: Path, feature: str) -> None:
    site, file = without(tmp_path / "site", feature), tmp_path / "a.asdf"
    write_sample(file)
    done = run(site, "-c", IMPORTS)
    assert done.returncode == 0, done.stderr
    done = run(site, "-m", "asdffs", "--help")
    commands = {path.stem for path in (ROOT / "asdffs/features" / feature).glob("commands/[a-z]*.py")}
    listed = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("    ")}
    assert done.returncode == 0
    assert commands.isdisjoint(listed)
    assert listed >= {"mount", "get", "set", "check"}
    with mounted(file, environment={**environment_in(tmp_path), "PYTHONPATH": str(site)}) as mount:
        mount.edit(b"...\n", b"added: 1\n...\n")
        assert "blocks" in os.listdir(mount.point)
    done = run(site, "-m", "asdffs", "get", "added", file)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ("archive", ["mount", "asdffs", "m"]),
        ("catalog", ["set", "--where", "a == 1", "b=2", "."]),
        ("remote", ["info", "https://localhost:1/a.asdf"]),
    ],
)
def test_what_needs_it_says_so(tmp_path: Path, feature: str, words: list[str]) -> None:
    site = without(tmp_path / "site", feature)
    (site / "m").mkdir()
    done = run(site, "-m", "asdffs", *words)
    assert done.returncode == 2
    assert f"this needs asdffs/features/{feature}, which this installation does not have" in done.stderr


@pytest.mark.long
def test_the_core_alone_passes_its_fast_tests(tmp_path: Path) -> None:
    site = without(tmp_path / "site", *FEATURES)
    shutil.copytree(ROOT / "tests", site / "tests", ignore=shutil.ignore_patterns("__pycache__", "features"))
    for name in ("scripts", "docs"):
        shutil.copytree(ROOT / name, site / name)
    shutil.copy(ROOT / "pyproject.toml", site)
    floors = [f"tests/{name}" for name in ("format", "tree", "arrays", "storage", "document", "views", "vfs")]
    done = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long and not mount", *floors)
    assert done.returncode == 0, done.stdout[-5000:]

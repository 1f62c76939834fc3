"""The sdist and the wheel: complete, the same from each other, and run from where they are installed."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from support.mounts import run

from asdffs import __version__

pytest.importorskip("shtab")
pytest.importorskip("argparse_manpage")

from shell_files import completions, pages

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
UNIT = "systemd/user/asdffs@.service"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist, and the wheels from the source and from the sdist, without what builds left."""
    folder = tmp_path_factory.mktemp("built")
    keep = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=keep)
    code = f"import setuptools.build_meta as b; print(b.build_sdist({str(folder)!r}))"
    done = run(sys.executable, "-c", code, cwd=folder / "source")
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
    system = {f"systemd/system/{path.name}" for path in (ROOT / "packaging/system").iterdir()}
    assert shared == {f"man/man1/{name}" for name in pages()} | set(completions()) | {UNIT} | system
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "asdffs").rglob("*.py")}
    assert names >= modules | {"asdffs/py.typed"}
    page = ROOT / "asdffs/features/browser/static"
    assert {name for name in names if "/browser/" in name and not name.endswith(".py")} == {
        str(path.relative_to(ROOT)) for path in page.iterdir()
    }
    assert not any(name.startswith(("tests", "docs", "scripts", "setup")) for name in names)


def test_the_sdist_makes_the_same_wheel_and_has_all_that_a_distributor_needs(built: Path) -> None:
    assert names_in(built, "sdist") == names_in(built, "tree")
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "docs/tutorial.md", "docs/schemas/info.json", "scripts/test"}
    wanted |= {"CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "CITATION.cff"}
    wanted |= {"asdffs/features/browser/web/src/App.tsx", "asdffs/features/browser/web/package-lock.json"}
    assert names >= wanted | {"tests/packaging/test_distribution.py", "packaging/asdffs@.service"}
    assert not any("__pycache__" in name or name.startswith(".venv") for name in names)


def metadata_of(built: Path) -> Message:
    (wheel,) = (built / "tree").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_metadata_says_what_an_index_shows(built: Path) -> None:
    found = metadata_of(built)
    assert found["Version"] == __version__
    assert found["License-Expression"] == "BSD-3-Clause"
    assert found["Author"] == "The asdffs developers"
    assert {line.split(",")[0] for line in found.get_all("Project-URL")} >= {"Homepage", "Documentation", "Issues"}
    required = [line for line in found.get_all("Requires-Dist") if "extra ==" not in line]
    assert not [line for line in required if "<" in line], "no cap keeps a new version away"
    assert {re.split(r"[^\w-]", line)[0] for line in required} >= {"PyYAML", "numpy", "lz4"}


def test_links_of_the_readme_lead_somewhere_on_an_index(built: Path) -> None:
    text = metadata_of(built).get_payload()
    targets = re.findall(r"\]\(([^)\s]+)\)", str(text))
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith("https://")] == []
    here = [target for target in targets if "/asdffs/asdffs/" in target]
    for target in here:
        path = re.sub(rf"https://[^/]+/asdffs/asdffs/(?:blob/)?v{re.escape(__version__)}/", "", target)
        assert (ROOT / path.partition("#")[0]).exists(), target


def test_the_checkers_of_an_index_find_nothing(built: Path) -> None:
    tools = Path(sys.executable).parent
    (wheel,) = (built / "tree").glob("*.whl")
    (sdist,) = built.glob("*.tar.gz")
    for command in ([tools / "twine", "check", "--strict", wheel, sdist], [tools / "check-wheel-contents", wheel]):
        done = run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_version_is_the_same_everywhere() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert releases((ROOT / "CHANGELOG.md").read_text())[:1] == [__version__]


def releases(log: str) -> list[str]:
    """Return the versions that have an entry in a change log, the newest first."""
    return re.findall(r"^## (\S+) \(", log.partition("<!-- towncrier: releases follow -->")[2], re.MULTILINE)


@pytest.mark.parametrize("fragments", [[], ["new.added.md"], ["a.changed.md", "b.fixed.md", "c.removed.md"]])
def test_fragments_become_the_first_entry_of_the_change_log(tmp_path: Path, fragments: list[str]) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md", "changes/README.md", "changes/template.md.jinja"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in fragments:
        (tmp_path / "changes" / name).write_text(f"Said {name}.\n")
    before = (tmp_path / "CHANGELOG.md").read_text()
    towncrier = Path(sys.executable).with_name("towncrier")
    done = run(towncrier, "build", "--yes", "--version", "99", "--date", "2099-01-01", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = (tmp_path / "CHANGELOG.md").read_text()
    assert releases(after) == ["99", *releases(before)]
    assert all(f"- Said {name}.\n" in after for name in fragments)
    assert after.endswith(before.partition("releases follow -->\n\n")[2]), "older entries stay as they are"


def test_the_oldest_versions_are_those_of_the_project() -> None:
    printed = run(sys.executable, ROOT / "scripts/oldest.py").stdout.split()
    text = (ROOT / "pyproject.toml").read_text()
    assert len(printed) > 15
    for line in printed:
        name, _, version = line.partition("==")
        assert re.search(rf'"{re.escape(f"{name}>={version}")}[";]', text), line


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

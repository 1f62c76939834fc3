"""The floors hold: ``lint-imports`` passes, and sees each contract broken that is broken on purpose."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from support.mounts import run

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")
DOWN = "Imports go down only; siblings do not see each other"
PURE = "format/, tree/, arrays/, dialects/ and pictures are pure: they open nothing and wait for nothing"
FEATURES = "Features do not see each other, but some see remote files"
ALONE = "tree/ edits YAML, and knows of asdffs only errors and limits"
CYCLES = "No module imports itself by way of others"

#: A line that is added to a module, and the contract that it breaks.
BREAKS = [
    ("document/document.py", "import asdffs.workflows.checking", DOWN),
    ("document/document.py", "import asdffs.vfs.vfs", DOWN),
    ("arrays/outline.py", "import asdffs.document.for_programs", DOWN),
    ("storage/backend.py", "import asdffs.codecs.base", DOWN),
    ("vfs/vfs.py", "import asdffs.features.daf.store", DOWN),
    ("errors.py", "import asdffs.scheduling", DOWN),
    ("new_floor.py", "", DOWN),
    ("format/layout.py", "import os", PURE),
    ("arrays/sources.py", "import subprocess", PURE),
    ("features/browser/pictures.py", "import os", PURE),
    ("dialects/base.py", "import io", PURE),
    ("tree/tape.py", "import asdffs.format.text", DOWN),
    ("tree/values.py", "import asdffs.registry", ALONE),
    ("document/for_programs.py", "import asdffs.document.document", CYCLES),
    ("features/daf/store.py", "import asdffs.features.fits.hdus", FEATURES),
    ("features/remote/cache.py", "import asdffs.features.catalog.sqlite", FEATURES),
    ("document/blocks/locks.py", "import asdffs.document.blocks.transaction", CYCLES),
    ("features/daf/loose.py", "if typing.TYPE_CHECKING:\n    import asdffs.features.daf.live", CYCLES),
]


def lint(folder: Path) -> dict[str, bool]:
    """Of each contract, by name, whether it is kept in ``folder/asdffs``."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "NO_COLOR": "1"}
    done = run(LINT, "--no-cache", "--config", folder / "pyproject.toml", cwd=folder, env=environment)
    shown = (re.sub(r" \(\d+ ignored imports\)$", "", line) for line in done.stdout.splitlines())
    lines = [line.rsplit(" ", 1) for line in shown if line.endswith((" KEPT", " BROKEN"))]
    assert lines, done.stdout + done.stderr
    found = {name: word == "KEPT" for name, word in lines}
    assert (done.returncode == 0) == all(found.values())
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("floors")
    shutil.copytree(ROOT / "asdffs", folder / "asdffs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_all_contracts_are_kept(copy: Path) -> None:
    assert lint(copy) == dict.fromkeys((DOWN, FEATURES, PURE, ALONE, CYCLES), True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("module", "line", "contract"), BREAKS, ids=lambda value: value.split(" ")[-1])
def test_a_broken_contract_is_seen(copy: Path, module: str, line: str, contract: str) -> None:
    path = copy / "asdffs" / module
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        assert not lint(copy)[contract]
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before)

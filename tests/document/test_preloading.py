"""What may be open for long has imported what changes need: asdffs may be upgraded or removed meanwhile."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.made import make_file
from support.mounts import LIMIT, environment_in

import asdffs as package

CHANGES = """
import sys
from asdffs.document import preloading
from asdffs.document.opening import open_document
from asdffs.errors import InvalidTreeError
with open_document(sys.argv[1], writable=True) as document:
    preloading.load()
    before = set(sys.modules)
    text = document.tree.text()
    document.commit_tree(text.replace(b"value:", b"long: " + b"x" * (1 << 20) + b"\\nvalue:"))
    document.commit_tree(text)
    try:
        document.commit_tree(text.replace(b"value:", b"value: 'no end"))
    except InvalidTreeError:
        print("refused")
    document.blocks[0].write_at(0, b"changed")
    document.blocks[0].truncate(1 << 20)
    document.blocks[1].truncate(1 << 16)
    document.blocks.add(b"new")
    document.finish()
    print(*sorted(set(sys.modules) - before))
"""


def test_changes_import_nothing(tmp_path: Path) -> None:
    file = make_file(tmp_path / "data.asdf", 2, 8, padding=4096)
    words = [sys.executable, "-c", CHANGES, file]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["refused", ""]


OPENED = """
import shutil, sys
import asdffs
with asdffs.open(sys.argv[1], "r+") as document:
    shutil.rmtree(sys.argv[2])
    document.tree_text = document.tree_text.replace("value: 1", "value: 2")
    document.commit()
    document.blocks[0].write_at(0, b"changed")
"""


def test_a_program_saves_although_asdffs_was_removed(tmp_path: Path) -> None:
    file, copy = make_file(tmp_path / "data.asdf", 2, 8, padding=4096), _copied(tmp_path)
    environment = {**environment_in(tmp_path), "PYTHONPATH": str(copy.parent)}
    subprocess.run([sys.executable, "-c", OPENED, file, copy], env=environment, cwd=copy.parent, check=True)
    assert b"value: 2" in file.read_bytes()
    assert b"changed" in file.read_bytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("typed", "code"), [("2", 0), ("[", 7)])
def test_what_was_typed_is_kept_although_asdffs_was_removed(tmp_path: Path, typed: str, code: int) -> None:
    """In the file, or beside it if it is refused.  ``watch`` and ``view`` open the file by the same function."""
    file, copy = make_file(tmp_path / "data.asdf", 2, 8, padding=4096), _copied(tmp_path)
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nrm -r '{copy}'\nexec sed -i 's/^value: 1/value: {typed}/' \"$1\"\n")
    editor.chmod(0o755)
    environment = {**environment_in(tmp_path), "PYTHONPATH": str(copy.parent), "EDITOR": str(editor), "VISUAL": ""}
    words = [sys.executable, "-m", "asdffs", "edit", file]
    done = subprocess.run(words, env=environment, cwd=copy.parent, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    kept = file if not code else file.with_name("data.asdf.rejected-1.yaml")
    assert f"value: {typed}".encode() in kept.read_bytes()


def _copied(folder: Path) -> Path:
    """Return a copy of the package that can be removed."""
    return Path(shutil.copytree(Path(package.__file__).parent, folder / "site/asdffs"))

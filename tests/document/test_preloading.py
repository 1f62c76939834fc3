"""A mount imports what changes need as soon as it is in use, so that no change has to import anything."""

import subprocess
import sys
from pathlib import Path

from benchmarks.made import make_file

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
    print(*sorted(name for name in set(sys.modules) - before if name.startswith("asdffs")))
"""


def test_changes_import_nothing(tmp_path: Path) -> None:
    file = make_file(tmp_path / "data.asdf", 2, 8, padding=4096)
    words = [sys.executable, "-c", CHANGES, file]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines() == ["refused", ""]

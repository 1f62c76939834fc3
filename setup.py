"""Adds man pages and completions, made from the parser, to what ``pyproject.toml`` says of the wheel."""

import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from asdffs.cli.completions import completions  # noqa: E402
from asdffs.cli.manual import pages  # noqa: E402


def shared_files() -> list[tuple[str, list[str]]]:
    """Write them below ``build``; the directory of each in the wheel, and its path here."""
    found = {f"man/man1/{name}": text for name, text in pages().items()} | completions()
    entries = []
    for place, text in found.items():
        path = HERE / "build" / "share" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        entries.append((str(Path("share", place).parent), [str(path.relative_to(HERE))]))
    return entries


setup(data_files=[*shared_files(), ("share/systemd/user", ["packaging/asdffs@.service"])])

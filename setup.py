"""Adds to the package what ``pyproject.toml`` cannot: man pages, completions, a README with absolute links."""

import re
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "scripts")]

from shell_files import completions, pages  # noqa: E402

from asdffs import __version__  # noqa: E402

#: Where a package index finds the pages and pictures that README links to.
PAGES = f"https://github.com/asdffs/asdffs/blob/v{__version__}/"
PICTURES = f"https://raw.githubusercontent.com/asdffs/asdffs/v{__version__}/"


def shared_files() -> list[tuple[str, list[str]]]:
    """Write man pages and completions below ``build``; return the directory in the wheel and the path of each."""
    found = {f"man/man1/{name}": text for name, text in pages().items()} | completions()
    entries = []
    for place, text in found.items():
        path = HERE / "build" / "share" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        entries.append((str(Path("share", place).parent), [str(path.relative_to(HERE))]))
    return entries


UNITS = [
    ("share/systemd/user", ["packaging/asdffs@.service"]),
    ("share/systemd/system", sorted(str(path.relative_to(HERE)) for path in (HERE / "packaging/system").iterdir())),
]


def readme() -> str:
    """Return README with absolute links: a package index shows it without the files beside it."""
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{PICTURES}", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{PAGES}", text)


setup(
    data_files=[*shared_files(), *UNITS],
    long_description=readme(),
    long_description_content_type="text/markdown",
)

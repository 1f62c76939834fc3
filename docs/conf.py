"""Sphinx settings of the documentation site; ``scripts/docs`` builds it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from asdffs import __version__

#: Where the files beside ``docs/`` are.
REPOSITORY = "https://github.com/asdffs/asdffs"

project = "asdffs"
author = "The asdffs developers"
copyright = author  # noqa: A001  # Sphinx's name
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
# The decisions are linked from their list, not from the side bar.
suppress_warnings = ["toc.not_included"]

# The pages are plain Markdown, so that a repository's web page shows them as well.
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

# Other projects' indexes are fetched only where there is a network: "scripts/docs --online", and on Read the Docs.
if os.environ.get("ASDFFS_DOCS_ONLINE") or os.environ.get("READTHEDOCS"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "asdf": ("https://asdf.readthedocs.io/en/stable", None),
    }

html_theme = "furo"
html_title = "asdffs"
html_theme_options = {
    "source_repository": REPOSITORY,
    "source_branch": "main",
    "source_directory": "docs/",
}
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"


def _link_outside(app: object, name: str, source: list[str]) -> None:
    """Make links to files beside ``docs/`` links to the repository: the site has only the pages of ``docs/``."""
    here = Path(__file__).parent

    def absolute(match: re.Match[str]) -> str:
        path, _, place = match[2].partition("#")
        target = (here / name).parent.joinpath(path).resolve()
        if target.is_relative_to(here) or not target.is_relative_to(here.parent):
            return match[0]
        return f"{match[1]}{REPOSITORY}/blob/main/{target.relative_to(here.parent)}{place and '#' + place})"

    source[0] = re.sub(r"(\[[^\]]*\]\()((?:\.\./)+[^)\s]*)\)", absolute, source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_outside)

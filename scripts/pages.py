"""Updates the outputs of the examples in documentation pages.  Run it with ``scripts/pages``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from support.pages import NewFile, Runner, Session, can_run, matches, parts

DOCS = Path(__file__).parents[1] / "docs"


def update(path: Path, folder: Path) -> None:
    """Run the examples of the page ``path`` in ``folder``, and write the outputs that differ into it.

    Outputs that still match stay as they are, with their wildcards.
    """
    text, new, done = path.read_text(), [], 0
    runner = Runner(folder)
    try:
        for part in parts(text):
            if isinstance(part, NewFile):
                runner.write(part)
            elif isinstance(part, Session):
                runner.ask(part)
            elif can_run(part):
                printed = runner.print(part)
                if not matches(part.output, printed):
                    print(f"{path.name}: $ {part.command}")
                    new += [text[done : part.start], printed]
                    done = part.stop
    finally:
        runner.end()
    path.write_text("".join([*new, text[done:]]))


for name in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as directory:
        update(DOCS / f"{name}.md", Path(directory))

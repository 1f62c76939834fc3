"""Mutants: mistakes that the short run must find, each put into a copy of the checkout.

``scripts/mutants`` runs this module.  A text that does not occur exactly once is an error: the table is too old.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
#: What ``scripts/test`` selects for the short run.
SHORT: Final = "not long and not strace"
_FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)


class Mutant(NamedTuple):
    """A mistake: ``old`` in ``file`` becomes ``new``.  ``tests``: the files of tests that find it."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def text(self, root: Path) -> str:
        """Return the file with the mistake.  Raises ``ValueError`` unless ``old`` occurs exactly once."""
        text = (root / self.file).read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.file} has the text of {self.name} {count} times; mend scripts/mutants.py")
        return text.replace(self.old, self.new)


MUTANTS: Final = (
    Mutant(
        "fits-exactly",
        "asdffs/format/plan.py",
        "    if len(new_text) == room or (len(new_text) < room",
        "    if len(new_text) == room - 1 or (len(new_text) < room",
        ("tests/format/test_plan.py",),
    ),
    Mutant(
        "fits-exactly-embedded",
        "asdffs/format/plan.py",
        "    if len(new_text) <= layout.first_block:",
        "    if len(new_text) < layout.first_block:",
        ("tests/format/test_plan.py",),
    ),
    Mutant(
        "finish-without-sync",
        "asdffs/document/blocks/editor.py",
        "        self._transaction.sync()\n        headers: dict",
        "        headers: dict",
        ("tests/document/blocks/test_transaction.py",),
    ),
    Mutant(
        "https-to-http",
        "asdffs/features/remote/web.py",
        ' or (before.scheme == "https" and after.scheme != "https")',
        "",
        ("tests/features/remote/test_refused_answers.py",),
    ),
    Mutant(
        "answer-at-another-offset",
        "asdffs/features/remote/web.py",
        "    if first != start or ",
        "    if ",
        ("tests/features/remote/test_answers.py",),
    ),
    Mutant(
        "torn-line-of-the-log",
        "asdffs/features/daf/loose.py",
        'file.read().split(b"\\n")[:-1]))',
        'filter(None, file.read().split(b"\\n"))))',
        ("tests/features/daf/test_live.py",),
    ),
    Mutant(
        "second-check-of-the-signature",
        "asdffs/storage/open_file.py",
        "                self.journal.write(record)\n            self.check_unchanged()\n",
        "                self.journal.write(record)\n",
        ("tests/document/blocks/test_transaction.py",),
    ),
    Mutant(
        "nesting",
        "asdffs/tree/tape.py",
        "if len(stack) > DEPTH:",
        "if len(stack) > DEPTH + 1:",
        ("tests/tree/test_syntax.py",),
    ),
    Mutant(
        "alias-on-the-line-of-its-anchor",
        "asdffs/tree/value_edits.py",
        "if row > found.row]",
        "if found.tape.line(row) > found.line]",
        ("tests/tree/test_value_edits.py",),
    ),
    Mutant(
        "journal-with-two-names",
        "asdffs/storage/sidecars.py",
        "    if sidecar.links != 1:\n",
        "    if sidecar.links < 1:\n",
        ("tests/storage/test_trust.py",),
    ),
    Mutant(
        "post-without-origin",
        "asdffs/features/browser/guard.py",
        'not in ("GET", "HEAD") and origin is None',
        'not in ("GET", "HEAD", "POST") and origin is None',
        ("tests/features/browser/test_guard.py",),
    ),
)


def main(names: list[str]) -> int:
    """Print of each mutant whether a test found it; return 1 if none did for one of them.

    Raises ``ValueError`` for an unknown name or an old table, ``RuntimeError`` for tests that do not run.
    """
    if unknown := set(names) - {one.name for one in MUTANTS}:
        raise ValueError(f"no mutant has the name {sorted(unknown)[0]}; see the table in scripts/mutants.py")
    chosen = [one for one in MUTANTS if not names or one.name in names]
    texts = {one: one.text(ROOT) for one in chosen}
    if found := _failure(None, "", sorted({test for one in chosen for test in one.tests})):
        raise RuntimeError(f"{found} fails without a mutant; mend it first")
    survived = 0
    for one, text in texts.items():
        found = _failure(one.file, text, list(one.tests))
        print(f"killed {one.name} by {found}" if found else f"SURVIVED {one.name}", flush=True)
        survived += not found
    return int(survived > 0)


def _failure(file: str | None, text: str, tests: list[str]) -> str:
    """Return the first test that fails in a copy of the checkout whose ``file`` has ``text``; empty if all pass."""
    with tempfile.TemporaryDirectory(prefix="asdffs-mutant-") as place:
        copy = Path(place, "checkout")
        _copy(copy)
        if file is not None:
            (copy / file).write_text(text, encoding="utf-8")
        words = ["-q", "-x", "-m", SHORT, "-p", "no:cacheprovider", f"--basetemp={place}/tmp", *tests]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = _FAILED.search(done.stdout)
    if done.returncode not in (0, 1) or (failed is None) != (done.returncode == 0):
        raise RuntimeError(f"the tests did not run:\n{done.stdout}{done.stderr}")
    return failed[1] if failed is not None else ""


def _copy(target: Path) -> None:
    """Copy the tracked files of the checkout, as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ValueError, RuntimeError) as err:
        sys.exit(f"scripts/mutants: {err}")

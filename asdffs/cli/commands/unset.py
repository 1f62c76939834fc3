"""``asdffs unset PATH FILE...``: remove values from the tree."""

from __future__ import annotations

import argparse

from asdffs.cli.chosen_files import chosen_files
from asdffs.cli.value_files import change_files, wanted_by
from asdffs.tree.paths import parse_path
from asdffs.workflows.value_changes import Kind, Rules, ValueChange


def run(arguments: argparse.Namespace) -> int:
    """Remove the values from each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    changes = [ValueChange(Kind.UNSET, parse_path(path)) for path in (arguments.path, *arguments.paths)]
    rules = Rules(shared=arguments.shared, missing_ok=arguments.missing_ok)
    return change_files(arguments, chosen_files(arguments), wanted_by(arguments, changes, rules))

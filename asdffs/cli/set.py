"""``asdffs set PATH=VALUE FILE...``: set values of the tree."""

from __future__ import annotations

import argparse
import os

from asdffs.cli.chosen_files import chosen_files
from asdffs.cli.value_files import change_files, wanted_by
from asdffs.errors import UsageError
from asdffs.printable import as_word
from asdffs.storage.remote.urls import is_remote
from asdffs.tree.paths import split_assignment
from asdffs.tree.snippets import BLANKS, parse_value, text_value
from asdffs.workflows.value_changes import Kind, Rules, ValueChange


def run(arguments: argparse.Namespace) -> int:
    """Set the values in each file; return the exit code.  Raises ``AsdffsError``, ``OSError``."""
    for word in arguments.files:
        if "=" in word and not os.path.lexists(word) and not is_remote(word):
            raise UsageError(f"{word} is not a file; another value is set by -p {as_word(word)}")
    changes = [_change(word, string=arguments.string) for word in (arguments.change, *arguments.changes)]
    rules = Rules(create=arguments.create, shared=arguments.shared)
    return change_files(arguments, chosen_files(arguments), wanted_by(arguments, changes, rules))


def _change(word: str, *, string: bool) -> ValueChange:
    path, value = split_assignment(word)
    if not (string or value.strip(BLANKS)):
        raise UsageError(
            f"{word}: the value is empty; write null, or \"''\" for empty text; 'asdffs unset' removes it"
        )
    return ValueChange(Kind.SET, path, text_value(value) if string else parse_value(value))

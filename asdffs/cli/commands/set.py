"""``asdffs set PATH=VALUE FILE...``: set values of the tree."""

from __future__ import annotations

import argparse
import os

from asdffs.cli.chosen_files import chosen_files
from asdffs.cli.value_files import change_files, wanted_by
from asdffs.errors import UsageError
from asdffs.printable import as_word
from asdffs.storage.urls import is_remote
from asdffs.tree.paths import split_assignment
from asdffs.tree.snippets import BLANKS, parse_value, text_value
from asdffs.tree.typed_values import is_yaml, typed_value
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
    """Return the change that PATH=VALUE or PATH:=VALUE asks for.  Raises ``UsageError``."""
    path, value, yaml = split_assignment(word)
    if yaml and string:
        raise UsageError(f"{word}: --string takes VALUE as text, and ':=' as YAML; write one of the two")
    if yaml and not value.strip(BLANKS):
        raise UsageError(f"{word}: the value is empty; write null, or \"''\" for empty text")
    if yaml:
        return ValueChange(Kind.SET, path, parse_value(value))
    if is_yaml(value) and not string:
        other = as_word(f"{word[: -len(value) - 1]}:={value}")
        raise UsageError(f"{word}: a VALUE that begins with {value[0]} is YAML: write {other}, or --string for text")
    return ValueChange(Kind.SET, path, text_value(value) if string else typed_value(value))

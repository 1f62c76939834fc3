"""``asdffs grep PATTERN FILE...``: find keys and values of the tree."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from typing import Any

from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.file_errors import failed
from asdffs.cli.remote import remote_of
from asdffs.cli.saying import say
from asdffs.errors import AsdffsError, InvalidTreeError
from asdffs.tree.lookups import Values, for_json, short, walk
from asdffs.tree.paths import Path, format_path
from asdffs.tree.patterns import TOO_SLOW, Pattern
from asdffs.tree.values import ValueNode
from asdffs.workflows.ahead import texts


def run(arguments: argparse.Namespace) -> int:
    """Print the matches; return 0, 1 without any, or the code of a file that could not be read."""
    text = re.escape(arguments.pattern) if arguments.fixed_strings else arguments.pattern
    pattern = Pattern(text, re.IGNORECASE if arguments.ignore_case else 0)
    found: list[dict[str, Any]] = []
    code, count = 0, 0
    for file, read in texts(arguments.files, remote_of(arguments)):
        try:
            matches = list(_matches(read(), pattern))
        except (AsdffsError, OSError) as err:
            code = failed(file, err)
            continue
        count += len(matches)
        found += [{"file": file, "path": format_path(path), "value": for_json(node)} for path, node in matches]
        _print(arguments, file, matches)
    if arguments.json:
        print(json.dumps(found, indent=2))
    return code or (0 if count else int(ExitCode.NOT_FOUND))


def _matches(text: bytes, pattern: Pattern) -> Iterator[tuple[Path, ValueNode]]:
    """Yield each scalar that matches, and each value whose key does."""
    for path, node in walk(Values(text).root()):
        is_scalar = not isinstance(node.value, (dict, list))
        texts = [*(step for step in path[-1:] if isinstance(step, str)), *([node.text] if is_scalar else [])]
        found = [pattern.search(one) for one in texts]
        if None in found:
            raise InvalidTreeError(f"{format_path(path)}: {TOO_SLOW}")
        if True in found:
            yield path, node


def _print(arguments: argparse.Namespace, file: str, matches: list[tuple[Path, ValueNode]]) -> None:
    several = len(arguments.files) > 1
    if arguments.json:
        return
    if arguments.files_with_matches:
        say(*([file] if matches else []))
    elif arguments.count:
        say(f"{file}:{len(matches)}" if several else str(len(matches)))
    else:
        lead = f"{file}: " if several else ""
        say(*(f"{lead}{format_path(path)}: {short(node)}" for path, node in matches))

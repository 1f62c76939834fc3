"""``asdffs refs FILE... [-o OUT]``: describe the arrays of files as Zarr, or check such a description."""

from __future__ import annotations

import argparse
import json
import logging
import os
from contextlib import closing
from typing import Final

from asdffs.cli.bars import shown
from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.file_errors import name_file
from asdffs.cli.outputs import write_out
from asdffs.cli.reading import open_to_read
from asdffs.cli.remote import remote_of
from asdffs.cli.saying import say
from asdffs.document.opening import Settings, open_document
from asdffs.errors import AsdffsError, MissingFileError, UsageError
from asdffs.storage.remote.urls import shown_name
from asdffs.workflows.ahead import read_ahead
from asdffs.workflows.zarr_references.checking import changed_files
from asdffs.workflows.zarr_references.making import FileArrays, References, arrays_of, make_references
from asdffs.workflows.zarr_references.zarr_metadata import Zarr2, Zarr3, ZarrFormat

logger = logging.getLogger(__name__)

_FORMATS: Final[dict[int, type[ZarrFormat]]] = {2: Zarr2, 3: Zarr3}


def run(arguments: argparse.Namespace) -> int:
    """Write or check references; return 1 if there is no array, or if files changed.

    Raises ``AsdffsError``, ``OSError``.
    """
    if arguments.check:
        return _check(arguments)
    zarr = _FORMATS[arguments.zarr_format]()
    made = make_references(_arrays(arguments), zarr)
    for path, reason in made.left_out.items():
        logger.warning("%s is left out: %s", path, reason)
    text = json.dumps(made.refs)
    if arguments.output is None:
        print(text)
    else:
        _write(arguments, text)
        say(f"{arguments.output}: {_told(arguments, made)}")
    return int(ExitCode.OK if made.arrays else ExitCode.NOT_FOUND)


def _arrays(arguments: argparse.Namespace) -> list[FileArrays]:
    """Return the arrays of each file."""
    facts = {"operation": "reading", "block": None, "done": 0, "total": len(arguments.files), "unit": "files"}
    remote, found = remote_of(arguments), list[FileArrays]()

    def read(file: str) -> FileArrays:
        with closing(open_document(file, writable=False, settings=Settings(remote=remote))) as document:
            return arrays_of(document, arguments.group)

    with shown(lambda: [facts], "making references"):
        for file, arrays in read_ahead(arguments.files, read):
            try:
                found.append(arrays())
            except (AsdffsError, OSError) as err:
                name_file(err, file)
                raise
            facts["done"] = len(found)
    return found


def _write(arguments: argparse.Namespace, text: str) -> None:
    out = argparse.Namespace(out=arguments.output, file=arguments.files[0], force=arguments.force, sync=False)
    write_out(out, lambda folder, backend: backend.write_at(0, text.encode()), arguments.files)


def _told(arguments: argparse.Namespace, made: References) -> str:
    arrays, files = len(made.arrays), len(arguments.files)
    told = f"{arrays} {'array' if arrays == 1 else 'arrays'} of {files} {'file' if files == 1 else 'files'}"
    left = len(made.left_out)
    return f"{told}; {left} left out" if left else told


def _check(arguments: argparse.Namespace) -> int:
    """Tell which files are no longer those of the references."""
    if arguments.output is not None or arguments.group is not None or arguments.force:
        raise UsageError("--check takes files of references, and writes none")
    code = ExitCode.OK
    for name in arguments.files:
        if not os.path.exists(name):
            raise MissingFileError("there is no such file", path=name)
        with open(name, "rb") as file:
            text = file.read()
        try:
            found = list(changed_files(text, lambda path: open_to_read(path, arguments)))
        except AsdffsError as err:
            err.path = err.path or name
            raise
        for url, reason in found:
            if reason:
                code = ExitCode.NOT_FOUND
                say(f"{name}: {shown_name(url)}: {reason}")
        if not any(reason for _, reason in found):
            say(f"{name}: all files are as they were")
    return int(code)

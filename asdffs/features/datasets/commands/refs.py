"""``asdffs refs FILE... [-o OUT]``: describe the arrays of files as Zarr, or check such a description."""

from __future__ import annotations

import argparse
import json
import logging
from contextlib import closing
from functools import partial
from typing import Final

from asdffs.cli.arguments import add_remote
from asdffs.cli.outputs import write_out
from asdffs.cli.printing import say, shown
from asdffs.cli.reading import open_to_read, read_whole, remote_of
from asdffs.cli.results import ExitCode, for_each, worse
from asdffs.document.opening import Settings, open_document
from asdffs.errors import UsageError
from asdffs.features.datasets.references import FileArrays, References, arrays_of, changed_files, make_references
from asdffs.features.datasets.zarr_metadata import Zarr2, Zarr3, ZarrFormat
from asdffs.storage.urls import shown_name
from asdffs.workflows.ahead import read_ahead

SUMMARY: Final = "describe arrays as Zarr: where their bytes are (kerchunk)"
logger = logging.getLogger(__name__)

_FORMATS: Final[dict[int, type[ZarrFormat]]] = {2: Zarr2, 3: Zarr3}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs refs l2.asdf -o refs.json           then xarray, zarr and dask read the arrays without asdffs
  asdffs refs s3://bucket/2026/*.asdf -o refs.json    the arrays of the files, stacked along the axis 'file'
  asdffs refs --check refs.json              are the files as they were?

References say where the bytes of each array are, as kerchunk does it; no element is copied.  They have arrays
that lie together in the file, those of JWST's FITS files too, and compressed ones whose pieces are whole rows, as
'asdffs repack --profile cloud' makes them; what is left out is told.  They do not follow a file that changes: make
them again.  docs/xarray.md shows how to open them, docs/virtualizarr.md makes one store of many files.
"""
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --check a file of references")
    parser.add_argument("-o", "--output", metavar="OUT", help="write to OUT (default: standard output)")
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), default=2, help="version of Zarr (default: 2)")
    parser.add_argument("--group", metavar="PATH", help="only arrays below PATH, such as roman; / is the root")
    parser.add_argument("--check", action="store_true", help="tell which files changed; exit code 1 if any did")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write or check references; return 1 if there is no array, or if files changed.

    Raises ``AsdffsError``, ``OSError``.
    """
    if arguments.check:
        return _check(arguments)
    zarr = _FORMATS[arguments.zarr_format]()
    files, code = _arrays(arguments)
    if code and not files:
        return code
    made = make_references(files, zarr)
    for path, reason in made.left_out.items():
        logger.warning("%s is left out: %s", path, reason)
    text = json.dumps(made.refs)
    if arguments.output is None:
        print(text)
    else:
        _write(arguments, text)
        say(f"{arguments.output}: {_summary(arguments, made)}")
    return worse(code, ExitCode.OK if made.arrays else ExitCode.NOT_FOUND)


def _arrays(arguments: argparse.Namespace) -> tuple[list[FileArrays], int]:
    """Return the arrays of each file that can be read, and the exit code."""
    facts = {"operation": "reading", "block": None, "done": 0, "total": len(arguments.files), "unit": "files"}
    remote, found = remote_of(arguments), list[FileArrays]()

    def read(file: str) -> FileArrays:
        with closing(open_document(file, writable=False, settings=Settings(remote=remote))) as document:
            return arrays_of(document, arguments.group)

    def take(file: str, arrays: FileArrays) -> int:
        found.append(arrays)
        facts["done"] = len(found)
        return int(ExitCode.OK)

    with shown(lambda: [facts], "making references"):
        return found, for_each(read_ahead(arguments.files, read), take)


def _write(arguments: argparse.Namespace, text: str) -> None:
    out = argparse.Namespace(out=arguments.output, file=arguments.files[0], force=arguments.force, sync=False)
    write_out(out, lambda folder, backend: backend.write_at(0, text.encode()), arguments.files)


def _summary(arguments: argparse.Namespace, made: References) -> str:
    arrays, files = len(made.arrays), len(arguments.files)
    told = f"{arrays} {'array' if arrays == 1 else 'arrays'} of {files} {'file' if files == 1 else 'files'}"
    left = len(made.left_out)
    return f"{told}; {left} left out" if left else told


def _check(arguments: argparse.Namespace) -> int:
    """Tell which files are no longer those of the references."""
    if arguments.output is not None or arguments.group is not None or arguments.force:
        raise UsageError("--check takes files of references, and writes none")

    def look(name: str) -> list[tuple[str, str]]:
        return list(changed_files(read_whole(name), lambda path: open_to_read(path, arguments)))

    def take(name: str, found: list[tuple[str, str]]) -> int:
        changed = [f"{name}: {shown_name(url)}: {reason}" for url, reason in found if reason]
        say(*(changed or [f"{name}: all files are as they were"]))
        return int(ExitCode.NOT_FOUND if changed else ExitCode.OK)

    return for_each(((name, partial(look, name)) for name in arguments.files), take)

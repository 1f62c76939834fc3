"""``asdffs index DIR...``: bring a catalogue up to date."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from asdffs.cli.arguments import CATALOG, add_json, add_remote
from asdffs.cli.printing import counted, say_or_json
from asdffs.cli.reading import remote_of
from asdffs.cli.results import ExitCode
from asdffs.errors import AsdffsError, MissingFileError, NotPermittedError, UsageError
from asdffs.features.catalog.catalog import Catalog
from asdffs.features.catalog.indexing import WHOLE, Indexed, Part, Way, changed_since, update, writing
from asdffs.features.catalog.parquet import Choice, export, sink_at
from asdffs.features.catalog.store import catalog_of, open_catalog
from asdffs.features.catalog.walking import roots_of
from asdffs.printable import numbered
from asdffs.storage.urls import is_remote
from asdffs.tree.paths import parse_paths

SUMMARY: Final = "read the metadata of many files into a catalogue"
logger = logging.getLogger(__name__)

_MOST_JOBS: Final = 1024

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_NOTHING: Final = Indexed(0, 0, 0, 0, 0, 0)

#: A query for the files that could not be read, quoted for a shell.
BROKEN: Final = "\"SELECT path, error FROM file WHERE error != ''\""


_EPILOG: Final = """\
example:
  asdffs index /data/archive                      the first time it reads all files, then what changed
  asdffs index --catalog archive.db /data/2025 /data/2026
  find /data -name '*.asdf' -newer mark -print0 | asdffs index -0 --files-from -
  asdffs index --to parquet dataset               for DuckDB, polars, pandas, Spark; OUT may be s3://...
  asdffs index s3://bucket/2026 --dask tcp://head:8786
  asdffs index --part 3/8 --catalog part3.db /data     on the third of eight machines, and then
  asdffs index --merge --catalog archive.db part*.db

A directory is searched for *.asdf and *.fits, in any case of letters; names that begin with a dot are left out, and
what --exclude names.  A file or directory that only has another name is not read again.  Files that no longer exist
are removed from the catalogue.  Files stay if their directory cannot be read, or if nothing is left in DIR, as when a
disk is not mounted; then the exit code is 1.  After a kill, the next index continues.  A file that cannot be read is
listed with the reason; the others are indexed.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = _EPILOG
    parser.add_argument("places", metavar="DIR", nargs="*", default=[], help="directory, s3://BUCKET/PREFIX, or file")
    parser.add_argument("--files-from", metavar="FILE", help="read names of files, one a line, from FILE; - is stdin")
    parser.add_argument("-0", "--null", action="store_true", help="names in FILE end with a NUL, as of find -print0")
    parser.add_argument("--catalog", metavar="FILE", help=CATALOG)
    parser.add_argument(
        "--exclude",
        metavar="GLOB",
        action="append",
        help="leave out files and directories of this name, now and later; '' ends that",
    )
    parser.add_argument("--if-older", metavar="TIME", help="do nothing if DIR was indexed within TIME, such as 15m")
    parser.add_argument("--forget", action="store_true", help="remove all files of a DIR that is empty or gone now")
    parser.add_argument("--part", metavar="I/N", help="index only part I of N, as one of N machines")
    parser.add_argument("--merge", action="store_true", help="join the catalogues that are named instead of DIR")
    parser.add_argument("--to", nargs=2, metavar=("parquet", "OUT"), help="write the catalogue, or DIR, to OUT")
    parser.add_argument(
        "--columns", metavar="PATH,...", help="write only these values, and what is below them, to OUT"
    )
    parser.add_argument(
        "--without", metavar="PATH,...", help="do not write these values, or what is below them, to OUT"
    )
    parser.add_argument("--force", action="store_true", help="replace the dataset OUT")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--jobs", type=int, metavar="N", help="processes that read (default: one a processor)")
    how.add_argument("--dask", metavar="URL", help="read on the dask cluster of this scheduler (tcp://HOST:PORT)")
    add_json(parser)
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Index the files, and print how many there were.

    Returns 1 if some were not found and may still be there, 3 if a name leads to nothing and nothing was known of it.

    Raises ``AsdffsError``, ``OSError``.
    """
    path, part = catalog_of(arguments.catalog), _part_of(arguments.part)
    listed = _listed(arguments.files_from, null=arguments.null)
    places = [*arguments.places, *listed]
    if not places and not arguments.to:
        raise UsageError("give a directory, or --files-from")
    if arguments.exclude is not None and arguments.to:
        raise UsageError("--exclude is for files, and --without for values; run 'asdffs index --exclude' before")
    if (arguments.columns or arguments.without) and not arguments.to:
        raise UsageError("--columns and --without are for --to parquet")
    if arguments.merge:
        return _merge(arguments, path, places)
    roots = [*roots_of(arguments.places, gone=arguments.forget), *roots_of(listed, gone=True)]
    if arguments.exclude is not None:
        with open_catalog(path, writable=True) as catalog, writing(path):
            catalog.exclude([one for one in arguments.exclude if one])
    older = roots
    if arguments.if_older is not None and arguments.exclude is None:
        older = _older(path, roots, _seconds(arguments.if_older))
    if arguments.to:
        return _export(arguments, path, roots, older, part)
    if not older:
        say_or_json(arguments, {"catalog": path, **_NOTHING._asdict()}, f"{path}: is not older")
        return int(ExitCode.OK)
    roots = older
    with _way_of(arguments) as way:
        done = indexed(path, roots, way, part, forget=arguments.forget)
    say_or_json(arguments, {"catalog": path, **done._asdict()}, f"{path}: {_summary(done)}")
    if done.unread:
        logger.warning("%s: %s cannot be read: asdffs find --sql %s", path, numbered(done.unread, "file"), BROKEN)
    return _code_of(done)


def _older(path: str, roots: Sequence[bytes], age: float) -> list[bytes]:
    """Return those of ``roots`` that were last looked at more than ``age`` seconds ago, or never."""
    with open_catalog(path, writable=True) as catalog:
        return [root for root in roots if not 0 <= time.time() - catalog.last_look(root) <= age]


def _seconds(text: str) -> float:
    """Return the seconds that ``--if-older`` names.  Raises ``UsageError``."""
    found = re.fullmatch(r"(\d{1,9})([smhd]?)", text)
    if found is None:
        raise UsageError(f"--if-older {text}: give seconds, or 15m, 6h, 2d")
    return int(found[1]) * _UNITS[found[2]]


def _code_of(done: Indexed) -> int:
    return int(ExitCode.NO_FILE if done.absent else ExitCode.NOT_FOUND if done.kept else ExitCode.OK)


def _merge(arguments: argparse.Namespace, path: str, parts: Sequence[str]) -> int:
    """Join catalogues, and print how many files they had."""
    if arguments.part or arguments.files_from:
        raise UsageError("--merge takes the names of catalogues alone")
    with open_catalog(path, writable=True) as catalog, writing(path):
        merged = sum(catalog.merge(part) for part in parts)
        count, unread = catalog.counts()
    done = Indexed(found=count, read=merged, unread=unread, removed=0, kept=0, absent=0)
    say_or_json(arguments, {"catalog": path, **done._asdict()}, f"{path}: {numbered(count, 'file')}, {merged} merged")
    return int(ExitCode.OK)


def _export(
    arguments: argparse.Namespace, path: str, roots: Sequence[bytes], older: Sequence[bytes], part: Part
) -> int:
    """Write the files below ``roots``, or all of the catalogue, as Parquet, after an index of those in ``older``."""
    kind, target = arguments.to
    if kind != "parquet":
        raise UsageError(f"--to {kind} {target}: only parquet is known")
    chosen = (tuple(parse_paths(paths) if paths else ()) for paths in (arguments.columns, arguments.without))
    choice = Choice(*chosen)
    sink = sink_at(target, remote_of(arguments), force=arguments.force)
    code = int(ExitCode.OK)
    if older:
        with _way_of(arguments) as way:
            code = _code_of(indexed(path, older, way, part, forget=arguments.forget))
    with open_catalog(path, writable=False) as catalog, counted("writing", "writing Parquet") as note:
        count, values = export(catalog, roots, sink, note, choice)
    facts = {"catalog": path, "parquet": target, "written": count, "values": values}
    say_or_json(arguments, facts, f"{target}: {numbered(count, 'file')} of {path}")
    if values:
        logger.warning("%s: %d values are in the table 'values': there are more paths than columns", target, values)
    return code


def _part_of(text: str | None) -> Part:
    """Return the part that ``--part`` names.  Raises ``UsageError``."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text or "1/1")
    part = Part(*map(int, found.groups())) if found is not None else None
    if part is None or not 1 <= part.number <= part.total:
        raise UsageError(f"--part {text}: give I/N, such as 3/8")
    return part


def _way_of(arguments: argparse.Namespace) -> AbstractContextManager[Way]:
    """Return how files are read.  Raises ``UsageError``, and as ``cluster_way``."""
    jobs, way = arguments.jobs, way_here(arguments, arguments.jobs)
    if jobs is not None and not 1 <= jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: give a number from 1 to {_MOST_JOBS}")
    if arguments.dask:
        from asdffs.features.catalog.indexing import cluster_way

        return cluster_way(arguments.dask, way.remote)
    return nullcontext(way)


def way_here(arguments: argparse.Namespace, jobs: int | None = None) -> Way:
    """Return how ``jobs`` processes of this machine, or one a processor, read files."""
    remote = remote_of(arguments)._replace(cache=False)  # a file is read once
    return Way(jobs or len(os.sched_getaffinity(0)), remote)


def indexed(
    path: str, roots: Sequence[bytes], way: Way | None = None, part: Part = WHOLE, *, forget: bool = False
) -> Indexed:
    """Bring the catalogue at ``path`` up to date with ``roots``, with a bar on the terminal.

    ``way``: None: with all processors of this machine.  ``forget``, and what it raises: as of ``update``.
    """
    with open_catalog(path, writable=True) as catalog, counted("reading", "indexing") as note:
        done = update(catalog, roots, way or Way(len(os.sched_getaffinity(0))), note, part, forget=forget)
    if done.kept:
        logger.warning("%s: if what was not found is gone, run 'asdffs index --forget DIR'", path)
    return done


def bring_up(path: str, roots: Sequence[bytes], way: Way | None = None) -> None:
    """Read again what asdffs changed below ``roots`` (all without roots) since the last index.

    ``way``: None: with all processors of this machine, and a bar.  If that is not possible, it is told.  So it is of
    the catalogue of another user, who would get to read values of private files.  Raises ``MissingFileError`` for a
    root that is not there, and of which the catalogue knows nothing.
    """
    with open_catalog(path, writable=False) as catalog:
        for root in roots:
            if not is_remote(os.fsdecode(root)) and not os.path.exists(root) and not catalog.known(root):
                raise MissingFileError("there is no such file or directory", path=os.fsdecode(root))
        changed = changed_since(catalog, roots)
    if not changed:
        return
    try:
        if os.stat(path).st_uid != os.geteuid():
            raise NotPermittedError("it belongs to another user, and may get no values of your files")
        if way is None:
            indexed(path, changed)
        else:
            with open_catalog(path, writable=True) as opened:
                update(opened, changed, way, lambda done, total: None)
    except (AsdffsError, OSError) as err:
        files = numbered(len(changed), "file")
        logger.warning("%s: has old values of %s that asdffs changed, until the next index: %s", path, files, err)


def tell_unread(catalog: Catalog, roots: Sequence[bytes]) -> None:
    """Warn of files below ``roots`` that are left out because the index could not read them."""
    count = catalog.unread(roots)
    if count:
        told = f"{numbered(count, 'file')} cannot be read, and {'is' if count == 1 else 'are'}"
        logger.warning("%s left out; why: asdffs find --sql %s", told, BROKEN)


def _listed(name: str | None, *, null: bool) -> list[str]:
    """Return the names in the file that ``--files-from`` names.  NULs end them, or ends of lines if there are none.

    ``null``: NULs in any case.  Raises ``MissingFileError``, ``UsageError``, ``OSError``.
    """
    if name is None:
        if null:
            raise UsageError("-0 is for --files-from")
        return []
    if name == "-":
        content = sys.stdin.buffer.read()
    else:
        try:
            with open(name, "rb") as file:
                content = file.read()
        except FileNotFoundError as err:
            raise MissingFileError("there is no such file", path=name) from err
    separator = b"\0" if null or b"\0" in content else b"\n"
    return [os.fsdecode(line) for line in content.split(separator) if line]


def _summary(done: Indexed) -> str:
    parts = [numbered(done.found, "file"), f"{done.read} read"]
    parts += [f"{done.moved} moved"] if done.moved else []
    parts += [f"{done.removed} removed"] if done.removed else []
    parts += [f"{done.kept} kept"] if done.kept else []
    return ", ".join(parts)

"""The parsers of the commands for many files: ``index``, ``find`` and ``refs``."""

from __future__ import annotations

import argparse
from typing import Any

from asdffs.cli.arguments.base import add_command, add_json, add_remote

_CATALOG = "the catalogue (default: in $XDG_CACHE_HOME/asdffs)"


def add_index(commands: Any) -> argparse.ArgumentParser:
    """``asdffs index``."""
    epilog = """\
example:
  asdffs index /data/archive                      the first time it reads all files, then what changed
  asdffs index --catalog archive.db /data/2025 /data/2026
  find /data -name '*.asdf' -newer mark -print0 | asdffs index -0 --files-from -
  asdffs index --to parquet dataset               for DuckDB, polars, pandas, Spark; OUT may be s3://...
  asdffs index s3://bucket/2026 --dask tcp://head:8786
  asdffs index --part 3/8 --catalog part3.db /data     on the third of eight machines, and then
  asdffs index --merge --catalog archive.db part*.db

A directory is searched for *.asdf and *.fits.  Files that no longer exist are removed from the catalogue.  Files stay
if their directory cannot be read, or if nothing is left in DIR, as when a disk is not mounted; then the exit code
is 1.  After a kill, the next index continues.  A file that cannot be read is listed with the reason; the others are
indexed.
"""
    parser = add_command(commands, "index", "read the metadata of many files into a catalogue", epilog)
    parser.add_argument("places", metavar="DIR", nargs="*", help="directory, s3://BUCKET/PREFIX, or file")
    parser.add_argument("--files-from", metavar="FILE", help="read names of files, one a line, from FILE; - is stdin")
    parser.add_argument("-0", "--null", action="store_true", help="names in FILE end with a NUL, as of find -print0")
    parser.add_argument("--catalog", metavar="FILE", help=_CATALOG)
    parser.add_argument("--forget", action="store_true", help="remove all files of a DIR that is empty or gone now")
    parser.add_argument("--part", metavar="I/N", help="index only part I of N, as one of N machines")
    parser.add_argument("--merge", action="store_true", help="join the catalogues that are named instead of DIR")
    parser.add_argument("--to", nargs=2, metavar=("parquet", "OUT"), help="write the catalogue, or DIR, to OUT")
    parser.add_argument(
        "--columns", metavar="PATH,...", help="write only these values, and what is below them, to OUT"
    )
    parser.add_argument(
        "--exclude", metavar="PATH,...", help="do not write these values, or what is below them, to OUT"
    )
    parser.add_argument("--force", action="store_true", help="replace the dataset OUT")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--jobs", type=int, metavar="N", help="processes that read (default: one a processor)")
    how.add_argument("--dask", metavar="URL", help="read on the dask cluster of this scheduler (tcp://HOST:PORT)")
    add_json(parser)
    add_remote(parser)
    return parser


def add_find(commands: Any) -> argparse.ArgumentParser:
    """``asdffs find``."""
    epilog = """\
example:
  asdffs find 'roman.meta.exposure.type == "WFI_IMAGE" and roman.meta.exposure.exposure_time > 100'
  asdffs find -0 'meta.flag == "bad"' /data/2026 | xargs -0 ls -l
  asdffs find --columns meta.date,meta.target 'exists meta.target'
  asdffs find --sql 'SELECT datatype, count(*) FROM array GROUP BY datatype'

docs/conditions.md describes CONDITION.  asdffs index has put the values into the catalogue; a file is opened only for
what the catalogue does not have.  --fresh runs asdffs index on DIR first.  docs/catalog.md describes the tables for
--sql.
"""
    parser = add_command(commands, "find", "list files of a catalogue by a condition on their values", epilog)
    parser.add_argument("condition", metavar="CONDITION", help="what must hold; with --sql, a SELECT")
    parser.add_argument("places", metavar="DIR", nargs="*", help="only files below DIR (default: all)")
    parser.add_argument("--columns", metavar="PATH,...", help="print these values as well")
    parser.add_argument("-0", "--null", action="store_true", help="end each path with a NUL, for xargs -0")
    parser.add_argument("--csv", action="store_true", help="print a table as CSV")
    parser.add_argument("--fresh", action="store_true", help="index what changed below DIR first")
    parser.add_argument("--sql", action="store_true", help="CONDITION is a SELECT over the tables of the catalogue")
    parser.add_argument("--catalog", metavar="FILE", help=_CATALOG)
    add_json(parser, "one JSON array")
    add_remote(parser)
    return parser


def add_refs(commands: Any) -> argparse.ArgumentParser:
    """``asdffs refs``."""
    epilog = """\
example:
  asdffs refs l2.asdf -o refs.json           then xarray, zarr and dask read the arrays without asdffs
  asdffs refs s3://bucket/2026/*.asdf -o refs.json    the arrays of the files, stacked along the axis 'file'
  asdffs refs --check refs.json              are the files as they were?

References say where the bytes of each array are, as kerchunk does it; no element is copied.  They have arrays that
are not compressed and lie together in the file, those of JWST's FITS files too; what is left out is told.  They do
not follow a file that changes: make them again.  docs/xarray.md shows how to open them.
"""
    parser = add_command(commands, "refs", "describe arrays as Zarr: where their bytes are (kerchunk)", epilog)
    parser.add_argument("files", metavar="FILE", nargs="+", help="ASDF file, or with --check a file of references")
    parser.add_argument("-o", "--output", metavar="OUT", help="write to OUT (default: standard output)")
    parser.add_argument("--zarr-format", type=int, choices=(2, 3), default=2, help="version of Zarr (default: 2)")
    parser.add_argument("--group", metavar="PATH", help="only arrays below PATH, such as roman; / is the root")
    parser.add_argument("--check", action="store_true", help="tell which files changed; exit code 1 if any did")
    parser.add_argument("--force", action="store_true", help="replace OUT")
    add_remote(parser)
    return parser

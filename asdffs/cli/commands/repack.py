"""``asdffs repack FILE [OUT]``, or ``FILE... DIRECTORY``: write files anew."""

from __future__ import annotations

import argparse
import logging
import os
from contextlib import ExitStack, closing
from typing import Any, Final

from asdffs.cli.arguments import add_json, add_output, add_outputs, add_padding, add_remote
from asdffs.cli.outputs import (
    alignment_of,
    check_alone,
    check_whole,
    compression_notes,
    padding_of,
    piece_of,
    write_out,
)
from asdffs.cli.printing import say, shown
from asdffs.cli.reading import remote_of
from asdffs.cli.results import Answer, ExitCode, answer_each, with_outputs
from asdffs.cli.writing import opened_to_write
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.document.scanning import resolve
from asdffs.errors import UsageError
from asdffs.scheduling import WorkerThreads
from asdffs.storage.urls import is_remote
from asdffs.workflows.assembling import RoomPolicy
from asdffs.workflows.repacking import KEEP, ROOM, STRICT, Repacking, RepackOptions

SUMMARY: Final = "rewrite a file: compression, padding, alignment, index"
logger = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs repack data.asdf                                  drop slack, write an index
  asdffs repack --compression lz4 data.asdf small.asdf
  asdffs repack --compression lz4 night/*.asdf small/     into a directory
  asdffs repack --padding 64K --align 4096 data.asdf       room for the tree; blocks at page starts
  asdffs repack --drop-unreferenced data.asdf              print what is dropped, renumber the sources
  asdffs repack --profile cloud data.asdf cloud.asdf       for files that are read from S3 or https

Without OUT, FILE is replaced atomically.  The tree keeps its comments.  Streamed blocks, and blocks whose
compression is unknown, are copied as stored.  Objects of some extensions (asdf-zarr, unknown tags) may use
blocks in their own way; then --drop-unreferenced is refused, and --force insists.  --force also drops bytes that
belong to no block.

--profile cloud puts small blocks first, stores integers as lz4 in pieces of whole rows and floats plain, each at
the start of a page (docs/cloud.md).

--profile strict writes what every known reader takes (docs/conformance.md): no padding and no slack, blocks plain
or as zlib, and no checksums of compressed blocks, of which old readers expect others.
"""
    add_outputs(parser, "alone, FILE is replaced")
    parser.add_argument(
        "--compression", metavar="NAME", default="keep", help="compress all blocks like this (default: keep each)"
    )
    parser.add_argument(
        "--profile", choices=["cloud", "strict"], help="for reading over a network, or by readers that take little"
    )
    parser.add_argument("--piece-size", metavar="SIZE", help="content of a piece of lz4 (default: 4M; of cloud: 1M)")
    add_padding(parser)
    parser.add_argument("--align", metavar="SIZE", help="start the content of blocks at multiples of SIZE")
    parser.add_argument("--drop-unreferenced", action="store_true", help="drop blocks that no array uses")
    add_output(parser, "OUT if it exists; drop blocks that only unknown objects may use")
    add_json(parser, "one JSON object, of several files an array")
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the new files.  Raises ``AsdffsError``, ``OSError``."""
    return answer_each(arguments, with_outputs(arguments.files), _repack)


def _repack(arguments: argparse.Namespace) -> Answer:
    room = _room_of(arguments)
    check_whole(arguments.file)
    away = is_remote(arguments.file) and arguments.out is not None
    path = arguments.file if away else os.path.join(*resolve(arguments.file))
    in_place = arguments.out is None or os.path.realpath(arguments.out) == path
    workers = WorkerThreads()
    spool = os.path.dirname(path if in_place else os.path.realpath(arguments.out))
    options = RepackOptions(
        arguments.compression,
        room,
        drop=arguments.drop_unreferenced,
        directory=spool,
        force=arguments.force,
        profile=arguments.profile or "",
        piece=piece_of(arguments.piece_size),
    )
    settings = Settings(spool=spool, scheduler=workers, remote=remote_of(arguments))
    with ExitStack() as stack, workers.entered():
        if in_place:
            document, _ = stack.enter_context(opened_to_write(path, "repack", settings))
        else:
            document = stack.enter_context(closing(open_document(path, writable=False, settings=settings)))
        check_alone(document, "repack")
        before = document.layout.size
        repacking = Repacking(document, workers, options)
        with shown(document.report.progress.facts, f"repacking {arguments.file}"):
            _write(arguments, document, workers, repacking, in_place=in_place)
    target = arguments.file if in_place else arguments.out
    dropped = sorted(set(range(repacking.count)) - set(repacking.kept))
    facts = {"file": target, "size_before": before, "size": os.path.getsize(target), "dropped": dropped}
    notes = [*repacking.notes, *compression_notes(arguments.compression)]
    for note in notes:
        logger.warning("%s: %s", arguments.file, note)
    code = ExitCode.UNFINISHED if repacking.undecodable else ExitCode.OK
    return Answer({**facts, "notes": notes}, lambda: _show(facts), code)


def _room_of(arguments: argparse.Namespace) -> RoomPolicy:
    """Return padding and alignment of the new file.  Raises ``UsageError``."""
    if arguments.profile and arguments.compression != KEEP:
        raise UsageError("--profile decides the compressions; leave out --compression")
    if arguments.piece_size and not arguments.profile and arguments.compression == KEEP:
        raise UsageError("--piece-size takes effect only with --compression lz4 or --profile cloud")
    strict = arguments.profile == STRICT
    if strict and (arguments.padding is not None or arguments.align is not None):
        raise UsageError("--profile strict has no padding; leave out --padding and --align")
    room = RoomPolicy(padding_of("0" if strict else arguments.padding), alignment_of(arguments.align))
    if strict:
        return room
    return ROOM._replace(padding=room.padding) if arguments.profile and arguments.align is None else room


def _write(
    arguments: argparse.Namespace, document: Document, workers: WorkerThreads, repacking: Repacking, *, in_place: bool
) -> None:
    if in_place:
        document.rewrite(repacking.write)
        return
    with workers.waiting():
        write_out(arguments, repacking.write)


def _show(facts: dict[str, Any]) -> None:
    dropped = ", ".join(map(str, facts["dropped"]))
    say(
        f"{facts['file']}: {facts['size_before']} -> {facts['size']} bytes"
        + (f"; dropped blocks: {dropped}" if dropped else "")
    )

"""``asdffs daf pack|unpack|check|init``: FilesDaf stores as ASDF files.

Each action imports only what it needs, so that packing a store takes little longer than copying its files.
"""

from __future__ import annotations

import argparse
import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from asdffs.cli.arguments import add_command, add_json, add_output, add_padding
from asdffs.cli.printing import say_or_json, shown
from asdffs.cli.results import ExitCode
from asdffs.document.report import Progress
from asdffs.errors import UsageError

if TYPE_CHECKING:
    from asdffs.features.daf.files import Files
    from asdffs.features.daf.properties import Fault

SUMMARY: Final = "pack, unpack and check FilesDaf stores"

logger = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs daf pack cells.daf cells.asdf        make one file of the directory
  asdffs mount --layout daf cells.asdf m      show the directory, to read and write
  asdffs daf unpack cells.asdf copy.daf       write the directory again, byte for byte

A FilesDaf store holds annotated matrices as a directory of raw files.  docs/daf.md says more.
"""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for add in (_add_pack, _add_unpack, _add_check, _add_init):
        add(actions)


def _add_pack(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf pack cells.daf cells.asdf && asdffs daf check cells.asdf

Numbers become blocks, everything else goes into the tree; files that are not FilesDaf's are kept as files.  If a
property is incomplete, nothing is written (exit code 4) unless --keep is given.
"""
    parser = add_command(actions, "pack", "pack a store into one ASDF file", epilog)
    parser.add_argument("file", metavar="STORE", help="directory of the store")
    parser.add_argument("out", metavar="OUT", help="new file")
    parser.add_argument("--keep", action="store_true", help="keep the files of incomplete properties as they are")
    add_padding(parser)
    add_output(parser, "OUT if it exists")
    add_json(parser)


def _add_unpack(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf unpack cells.asdf cells.daf

STORE appears only when it is complete.
"""
    parser = add_command(actions, "unpack", "write the store of an ASDF file as a directory", epilog)
    parser.add_argument("file", metavar="FILE", help="ASDF file")
    parser.add_argument("out", metavar="STORE", help="new directory")
    parser.add_argument("--force", action="store_true", help="leave out values that cannot be files")
    parser.add_argument("--sync", action="store_true", help="fsync new files before returning")
    add_json(parser)


def _add_check(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf check cells.daf && asdffs daf check cells.asdf

Checks every file: versions, sizes, indices, duplicate entries.  Exit code 4 if anything is wrong.
"""
    parser = add_command(actions, "check", "validate a store, file by file", epilog)
    parser.add_argument("file", metavar="STORE|FILE", help="a directory, or an ASDF file with a store")
    add_json(parser)


def _add_init(actions: Any) -> None:
    epilog = """\
example:
  asdffs daf init new.asdf && asdffs mount --layout daf new.asdf m

If the file exists, an empty store is added to its tree.
"""
    parser = add_command(actions, "init", "create an empty store", epilog)
    parser.add_argument("file", metavar="OUT", help="ASDF file")
    parser.add_argument("--format", choices=("1.0", "1.1"), default="1.0", help="FilesDaf version (default: 1.0)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run one of them.  Raises ``AsdffsError``, ``OSError``."""
    actions = {"pack": _pack, "unpack": _unpack, "check": _check, "init": _init}
    return actions[arguments.action](arguments)


def _pack(arguments: argparse.Namespace) -> int:
    from asdffs.cli.outputs import padding_of, write_out
    from asdffs.features.daf.packing import pack

    padding = padding_of(arguments.padding)
    inside, out = os.path.realpath(arguments.file), os.path.realpath(arguments.out)
    if os.path.commonpath([inside, out]) == inside:
        raise UsageError("is inside of the store; give OUT another place", path=arguments.out)
    packing = pack(arguments.file)
    packing.check(keep=arguments.keep)
    for fault in packing.found.faults:
        logger.warning("%s: %s; kept as it is", packing.files.shown(fault.path), fault.sentence)
    progress = Progress()
    with shown(progress.facts, f"packing {arguments.file}"), progress.over("packing", packing.size) as step:
        path = write_out(arguments, lambda folder, store: packing.write(folder, store, padding, step), packing.paths)
    facts = {"file": path, "blocks": len(packing.blocks), "files": len(packing.files.contents)}
    say_or_json(arguments, facts, f"{arguments.out}: {facts['files']} files, {facts['blocks']} blocks")
    return ExitCode.OK


def _unpack(arguments: argparse.Namespace) -> int:
    from asdffs.cli.outputs import mode_like
    from asdffs.document.opening import open_document
    from asdffs.features.daf.packing import check_faultless, unpack
    from asdffs.features.daf.tree_files import read_store

    with closing(open_document(arguments.file, writable=False)) as document:
        store = read_store(document)
        if not arguments.force:
            check_faultless(store)
        for fault in store.faults:
            logger.warning("%s: %s: %s; left out", arguments.file, fault.path, fault.sentence)
        progress, total = document.report.progress, sum(content.size for content in store.files.contents.values())
        with shown(progress.facts, f"unpacking {arguments.file}"), progress.over("unpacking", total) as step:
            mode = mode_like(document.path, into=os.path.dirname(os.path.realpath(arguments.out)))
            unpack(document, store.files, arguments.out, step, mode=mode, durable=arguments.sync)
    facts = {"store": os.path.realpath(arguments.out), "files": len(store.files.contents)}
    say_or_json(arguments, facts, f"{arguments.out}: {facts['files']} files")
    return ExitCode.OK


def _check(arguments: argparse.Namespace) -> int:
    from asdffs.document.opening import open_document
    from asdffs.features.daf.files import read_directory
    from asdffs.features.daf.tree_files import read_store

    if os.path.isdir(arguments.file):
        return _judge(arguments, read_directory(arguments.file), [])
    with closing(open_document(arguments.file, writable=False)) as document:
        store = read_store(document)
        return _judge(arguments, store.files, store.faults)


def _judge(arguments: argparse.Namespace, files: Files, known: list[Fault]) -> int:
    from asdffs.features.daf.properties import check_store

    progress, total = Progress(), sum(content.size for content in files.contents.values())
    with shown(progress.facts, f"checking {arguments.file}"), progress.over("checking", total) as step:
        faults = [*known, *check_store(files, step)]
    ok = all(fault.kept for fault in faults)
    told = [f"{files.shown(one.path)}: {'note: ' if one.kept else ''}{one.sentence}" for one in faults]
    facts = {"store": arguments.file, "ok": ok, "faults": [_shown(fault) for fault in faults]}
    say_or_json(arguments, facts, *(told or [f"{arguments.file}: nothing wrong"]))
    return ExitCode.OK if ok else ExitCode.NOT_ASDF


def _shown(fault: Fault) -> dict[str, Any]:
    return fault._asdict() | {"path": fault.path.encode(errors="surrogateescape").decode(errors="backslashreplace")}


def _init(arguments: argparse.Namespace) -> int:
    from asdffs.cli.writing import opened_to_write
    from asdffs.features.daf.splicing import add_store, new_store
    from asdffs.storage.file_backend import FileFolder
    from asdffs.storage.new_file import mode_of_copy, write_new

    major, minor = map(int, arguments.format.split("."))
    path = os.path.realpath(arguments.file)
    if os.path.lexists(path):
        with opened_to_write(path, "daf init") as (document, _):
            add_store(document, (major, minor))
            document.finish()
    else:
        folder = FileFolder(os.path.dirname(path))
        mode = mode_of_copy((), folder.directory)
        write_new(folder, os.path.basename(path), new_store((major, minor)), durable=True, mode=mode)
    say_or_json(arguments, {"file": path}, f"{arguments.file}: an empty store")
    return ExitCode.OK

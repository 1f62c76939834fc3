"""``asdffs daf pack|unpack|check|init``: FilesDaf stores as ASDF files.

Each action imports only what it needs, so that packing a store takes little longer than copying its files.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from asdffs.cli.bars import shown
from asdffs.cli.exit_codes import ExitCode
from asdffs.cli.saying import say
from asdffs.document.progress import Progress
from asdffs.errors import UsageError

if TYPE_CHECKING:
    from asdffs.features.daf.files import Files
    from asdffs.features.daf.properties import Fault

logger = logging.getLogger(__name__)


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
    return _say(arguments, facts, f"{arguments.out}: {facts['files']} files, {facts['blocks']} blocks")


def _unpack(arguments: argparse.Namespace) -> int:
    from asdffs.cli.outputs import mode_like
    from asdffs.features.daf.tree_files import read_store
    from asdffs.features.daf.unpacking import check_faultless, unpack
    from asdffs.document.opening import open_document

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
    return _say(arguments, facts, f"{arguments.out}: {facts['files']} files")


def _check(arguments: argparse.Namespace) -> int:
    from asdffs.features.daf.files import read_directory
    from asdffs.features.daf.tree_files import read_store
    from asdffs.document.opening import open_document

    if os.path.isdir(arguments.file):
        return _judge(arguments, read_directory(arguments.file), [])
    with closing(open_document(arguments.file, writable=False)) as document:
        store = read_store(document)
        return _judge(arguments, store.files, store.faults)


def _judge(arguments: argparse.Namespace, files: Files, known: list[Fault]) -> int:
    from asdffs.features.daf.checking import check_store

    progress, total = Progress(), sum(content.size for content in files.contents.values())
    with shown(progress.facts, f"checking {arguments.file}"), progress.over("checking", total) as step:
        faults = [*known, *check_store(files, step)]
    ok = all(fault.kept for fault in faults)
    if arguments.json:
        facts = {"store": arguments.file, "ok": ok, "faults": [_shown(fault) for fault in faults]}
        print(json.dumps(facts, indent=2))
    else:
        for fault in faults:
            say(f"{files.shown(fault.path)}: {'note: ' if fault.kept else ''}{fault.sentence}")
        if not faults:
            say(f"{arguments.file}: nothing wrong")
    return ExitCode.OK if ok else ExitCode.NOT_ASDF


def _shown(fault: Fault) -> dict[str, Any]:
    return fault._asdict() | {"path": fault.path.encode(errors="surrogateescape").decode(errors="backslashreplace")}


def _init(arguments: argparse.Namespace) -> int:
    from asdffs.cli.writing import opened_to_write
    from asdffs.features.daf.initial import add_store, new_store
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
    return _say(arguments, {"file": path}, f"{arguments.file}: an empty store")


def _say(arguments: argparse.Namespace, facts: dict[str, Any], sentence: str) -> int:
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        say(sentence)
    return ExitCode.OK

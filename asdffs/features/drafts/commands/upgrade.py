"""``asdffs upgrade FILE OUT``, or ``FILE... DIRECTORY``: bring files of the drafts to ASDF 1.6.0."""

from __future__ import annotations

import argparse
import logging
import os
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import Any, Final

from asdffs.cli.arguments import add_json, add_output, add_outputs
from asdffs.cli.bars import shown
from asdffs.cli.outputs import check_alone, check_whole, padding_of, write_out
from asdffs.cli.saying import say
from asdffs.cli.several_files import Answer, answer_each, with_outputs
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import UsageError
from asdffs.features.drafts.upgrading import Upgrading
from asdffs.scheduling import WorkerThreads
from asdffs.workflows.assembling import RoomPolicy
from asdffs.workflows.text_difference import unified

SUMMARY: Final = "convert a file of the drafts (0.1.0) to ASDF 1.6.0"
logger = logging.getLogger(__name__)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs upgrade --check old.asdf          show the changes of tree and blocks
  asdffs upgrade old.asdf new.asdf
  asdffs upgrade archive/*.asdf new/

For files of the drafts of 2014 and 2015 ('#ASDF 0.1.0', '%ASDF 0.1.0'), which no other library opens.  The
tree keeps its comments.  References to other files are not changed: upgrade those files into the same
directory.  The history of the new tree records how blocks were encoded, and the time ($SOURCE_DATE_EPOCH if set).
"""
    add_outputs(parser, "with --check, only files")
    parser.add_argument("--check", action="store_true", help="only show the changes")
    parser.add_argument("--padding", metavar="SIZE", help="room after the tree: 64K, or 20%% of it (default: 10%%)")
    add_output(parser, "OUT if it exists")
    add_json(parser, "one JSON object, of several files an array")


def run(arguments: argparse.Namespace) -> int:
    """Write the new files, or say what would change.  Raises ``AsdffsError``, ``OSError``."""
    files = [(file, None) for file in arguments.files] if arguments.check else with_outputs(arguments.files)
    return answer_each(arguments, files, _upgrade)


def _upgrade(arguments: argparse.Namespace) -> Answer:
    room = RoomPolicy(padding_of(arguments.padding))
    if arguments.out is None and not arguments.check:
        raise UsageError("give OUT, the name of the new file, or --check")
    if arguments.out is not None and os.path.realpath(arguments.out) == os.path.realpath(arguments.file):
        raise UsageError("is the file itself, which stays as it is; give OUT another name", path=arguments.out)
    check_whole(arguments.file)
    workers = WorkerThreads()
    with ExitStack() as stack, workers.entered():  # it is closed when nobody holds the main lock
        document = stack.enter_context(closing(_opened(arguments, workers)))
        check_alone(document, "upgrade")
        upgrading = Upgrading(document, workers, room, _now())
        for note in upgrading.notes:
            logger.warning("%s: %s", arguments.file, note)
        if arguments.check:
            return _difference_of(arguments, document, upgrading)
        with shown(document.report.progress.facts, f"upgrading {arguments.file}"), workers.waiting():
            path = write_out(arguments, upgrading.write)
        facts = _facts(document, upgrading)
    sentence = f"{arguments.out}: ASDF 1.6.0, {upgrading.count} blocks, {os.path.getsize(path)} bytes"
    return Answer({"file": path, **facts}, lambda: say(sentence))


def _now() -> datetime:
    """The time that the history gets; ``$SOURCE_DATE_EPOCH`` where a file is to be the same each time it is made."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError) as err:
        raise UsageError(f"$SOURCE_DATE_EPOCH is {epoch!r}, and should be seconds since 1970") from err


def _opened(arguments: argparse.Namespace, workers: WorkerThreads) -> Document:
    spool = os.path.dirname(os.path.realpath(arguments.out)) if arguments.out is not None else None
    settings = Settings(spool=spool if spool and os.path.isdir(spool) else None, scheduler=workers)
    return open_document(arguments.file, writable=False, settings=settings)


def _facts(document: Document, upgrading: Upgrading) -> dict[str, Any]:
    blocks = [{"index": one.number, "was": one.was, "will_be": one.will_be} for one in upgrading.changes]
    return {"dialect": document.dialect.name, "blocks": blocks, "notes": upgrading.notes}


def _difference_of(arguments: argparse.Namespace, document: Document, upgrading: Upgrading) -> Answer:
    """The text that would change, as diff(1) writes it, and the blocks."""
    before, after = (
        text.decode("utf-8", "surrogateescape").split("\n") for text in (document.tree.text(), upgrading.text)
    )
    lines = list(unified(before, after, arguments.file, arguments.out or "OUT"))
    blocks = [f"block {change.number}: {change.was} -> {change.will_be}" for change in upgrading.changes]
    facts = {"file": document.path, **_facts(document, upgrading), "text": "".join(f"{line}\n" for line in lines)}
    return Answer(facts, lambda: say(*lines, *blocks))

"""``asdffs upgrade FILE OUT``, or ``FILE... DIRECTORY``: bring files of the drafts to ASDF 1.6.0.

Only the necessary parts of the text are edited (``upgraded_text``).  Chains of encodings are decoded, and compressed
again if they were compressed.  All other blocks are copied.  The new file gets checksums and a block index.  The old
file is only read.

A block with an unknown encoding keeps its stored bytes.  Its compression gets a name that no library knows, so that
no program takes the bytes for array elements.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from asdffs import __version__
from asdffs.cli.arguments import add_json, add_output, add_outputs, add_padding
from asdffs.cli.outputs import check_alone, check_whole, padding_of, write_out
from asdffs.cli.printing import say, shown
from asdffs.cli.results import Answer, answer_each, with_outputs
from asdffs.codecs.base import Codec
from asdffs.document.blocks.allocation import Encoded
from asdffs.document.blocks.codecs import digest_of, resuming
from asdffs.document.document import Document
from asdffs.document.opening import Settings, open_document
from asdffs.errors import NotSupportedError, UsageError
from asdffs.features.drafts import dialect_of_today
from asdffs.features.drafts.upgraded_text import HistoryEntries, upgraded_text
from asdffs.format.block_header import FORM_48, BlockHeader
from asdffs.format.constants import BLOCK_MAGIC, CHAIN, NO_CHECKSUM, STREAMED
from asdffs.scheduling import WorkerThreads
from asdffs.workflows.assembling import Part, RoomPolicy
from asdffs.workflows.comparing import unified
from asdffs.workflows.repacking import Repacking, RepackOptions

SUMMARY: Final = "convert a file of the drafts (0.1.0) to ASDF 1.6.0"
logger = logging.getLogger(__name__)
#: The compression in the new file for stored bytes with an unknown encoding.
UNKNOWN: Final = b"enc?"


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
    add_padding(parser)
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
    """Return the time for the history; ``$SOURCE_DATE_EPOCH`` where a file is to be the same each time it is made."""
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
    """Return the text that would change, as diff(1) writes it, and the blocks."""
    before, after = (
        text.decode("utf-8", "surrogateescape").split("\n") for text in (document.tree.text(), upgrading.text)
    )
    lines = list(unified(before, after, arguments.file, arguments.out or "OUT"))
    blocks = [f"block {change.number}: {change.was} -> {change.will_be}" for change in upgrading.changes]
    facts = {"file": document.path, **_facts(document, upgrading), "text": "".join(f"{line}\n" for line in lines)}
    return Answer(facts, lambda: say(*lines, *blocks))


@dataclass(frozen=True, slots=True)
class BlockUpgrade:
    """The change of block ``number``: its compression before (``was``) and after (``will_be``), as users call it."""

    number: int
    was: str
    will_be: str


class Upgrading(Repacking):
    """One upgrade of ``document``, at the time ``when``.  ``workers``: the scheduler of its threads.

    ``text``: the text of the new file; ``changes``: those of its blocks; ``notes``: sentences for the user.

    Raises ``NotSupportedError`` if there is nothing to upgrade, ``InvalidTreeError`` if the tree cannot be upgraded,
    ``DamagedBlockError``.
    """

    def __init__(self, document: Document, workers: WorkerThreads, room: RoomPolicy, when: datetime) -> None:
        if not document.dialect.upgradable:
            sentence = f"is already {document.dialect.name}; there is nothing to upgrade"
            raise NotSupportedError(sentence, path=document.path)
        super().__init__(document, workers, RepackOptions(room=room))
        self.changes = [self._change(number) for number in range(self.count)]
        stamp = when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        entries = HistoryEntries(self._records(), stamp, __version__)
        new = upgraded_text(self._text, document.dialect, dialect_of_today(), self.count, entries)
        self._text = new.text
        self.notes += [f"the tag {tag} has no counterpart and stays as it is" for tag in new.kept]
        self._note_others()

    @property
    def text(self) -> bytes:
        """Header, comments and tree of the new file."""
        return self._text

    def _records(self) -> list[str]:
        """Return the entries for the history of the new file."""
        document = self._document
        records = [f"Upgraded from {document.dialect.name} to ASDF 1.6.0"]
        for number in range(self.count):
            if document.blocks[number].header.compression == CHAIN or document.blocks[number].obstacle:
                records.append(f"Block {number} was encoded as {document.contents.codecs.description(number)}")
        return records

    def _change(self, number: int) -> BlockUpgrade:
        block = self._document.blocks[number]
        codec = self._codec_for(number)
        will_be = block.compression
        if self._is_to_encode(number):
            will_be = codec.id.decode("latin-1") if codec is not None else "none"
        if block.obstacle:
            will_be = UNKNOWN.decode()
            self.notes.append(f"block {number}: {block.obstacle}; they are kept, as the compression {will_be!r}")
        fault = block.find_checksum_fault()
        if fault:
            self.notes.append(f"block {number}: {fault}; the bytes and the checksum are kept")
        return BlockUpgrade(number, block.compression, will_be)

    def _note_others(self) -> None:
        """Add a note for each other file with arrays of the tree, because only this file is upgraded."""
        sources = {array.source for array in self._document.tree.arrays() if isinstance(array.source, str)}
        self.notes += [
            f"arrays lie in {source}; upgrade that file, too, beside the new file" for source in sorted(sources)
        ]

    # -- overrides of ``Repacking`` -----------------------------------------

    def _indexed(self) -> bool:
        return True

    def _codec_for(self, number: int) -> Codec | None:
        """Return the codec for a block: zlib or bzp2 if its old encodings end with one, else none."""
        document = self._document
        names = document.blocks[number].compression.split("+")
        if document.blocks[number].obstacle:
            return None
        return document.contents.codec(names[-1] if names[-1] in ("zlib", "bzp2") else "none", FORM_48)

    def _is_to_encode(self, number: int) -> bool:
        """Return whether the block has a chain of encodings that can be decoded; all others are copied."""
        block = self._document.blocks[number]
        return block.header.compression == CHAIN and not block.obstacle

    def _part(self, number: int) -> Part:
        part = super()._part(number)
        self._check_decodable(number)
        old, checksum = part.header, self._digest(number, part.header)
        if old.verifiable:  # keep a wrong checksum, too: it shows the damage
            checksum = old.checksum
        return Part(self._new_header(old, checksum, known=self._known(number)), part.stored)

    def _known(self, number: int) -> bool:
        with self._workers.resumed():
            return not self._document.blocks[number].obstacle

    def _check_decodable(self, number: int) -> None:
        """Raise ``DamagedBlockError`` for damaged compressed bytes, which the new file would have, too."""
        with self._workers.resumed():
            self._document.blocks[number].check_decodable()
            self._document.blocks[number].revert()

    def _encoded_part(self, number: int, encoded: Encoded) -> Part:
        part = super()._encoded_part(number, encoded)
        return part._replace(header=self._new_header(part.header, encoded.digest, known=True))

    def _new_header(self, old: BlockHeader, checksum: bytes, *, known: bool) -> BlockHeader:
        """Return the header in today's form; an unknown compression is named ``UNKNOWN``."""
        return old._replace(
            flags=old.flags & STREAMED,
            compression=old.compression if known else UNKNOWN,
            checksum=NO_CHECKSUM if old.streamed else checksum,
            extra=b"",
            form=FORM_48,
            magic=BLOCK_MAGIC,
        )

    def _digest(self, number: int, header: BlockHeader) -> bytes:
        """Return the MD5 of the stored bytes; for a streamed block, that of no bytes."""
        read = resuming(functools.partial(self._document.contents.read_stored, number), self._workers)
        size = 0 if header.streamed else header.used_size
        return digest_of(read, size, lambda: False, lambda done: None) or NO_CHECKSUM

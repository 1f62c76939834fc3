"""``asdffs block FILE N``: read, replace, append to, add, remove or recompress a block."""

from __future__ import annotations

import argparse
import contextlib
import errno
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, Final

from asdffs.cli.arguments import add_file, add_remote
from asdffs.cli.logs import silence
from asdffs.cli.outputs import compression_notes
from asdffs.cli.printing import say, shown
from asdffs.cli.reading import open_to_read
from asdffs.cli.writing import opened_to_write
from asdffs.codecs.base import Readable
from asdffs.document.block import Block
from asdffs.document.document import Document
from asdffs.errors import AsdffsError, MissingFileError, NoSuchNameError, NotSupportedError, UsageError
from asdffs.printable import as_words
from asdffs.scheduling import CHUNK

SUMMARY: Final = "read or change one block, without a mount"
logger = logging.getLogger(__name__)

_STDIN: Final = "-"
_LONGEST_NUMBER: Final = 18
#: File sizes have 63 bits.
_LARGEST: Final = (1 << 63) - 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs block data.asdf 0 > data.bin                      write the decoded content
  asdffs block data.asdf 0 --replace new.bin               replace it, atomically
  instrument | asdffs block data.asdf 1 --append -         '-' is the standard input
  asdffs block data.asdf new --replace more.bin            a new block; its number is printed
  asdffs block data.asdf 1 --compression lz4

The number after the last one also means a new block.  The tree is not changed.
"""
    add_file(parser)
    parser.add_argument("number", metavar="N", help="block number, from 0, or 'new'")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--replace", metavar="FROM", help="replace the content by the file FROM")
    what.add_argument("--append", metavar="FROM", help="append the file FROM")
    what.add_argument("--remove", action="store_true", help="remove the last block, if no array uses it")
    what.add_argument(
        "--range",
        metavar="START:END",
        help="print the bytes from START to END, exclusive; either may be left out",
    )
    what.add_argument("--stored", action="store_true", help="print the stored bytes without decoding them")
    parser.add_argument(
        "--compression",
        metavar="NAME",
        help="recompress: none, zlib, bzp2, lz4, or zstd, blsc, lz4f, which other readers may not know",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace or remove it even if arrays, or objects of unknown tags, need it",
    )
    add_remote(parser)


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked.  Raises ``AsdffsError``, ``OSError``."""
    changes = arguments.replace, arguments.append, arguments.remove, arguments.compression
    if not any(change is not None and change is not False for change in changes):
        return _print(arguments)
    if arguments.stored or arguments.range is not None:
        raise UsageError("--stored and --range print a block; leave them out to change one")
    silence("asdffs.document.tree_fit")
    with (
        _input(arguments.append if arguments.replace is None else arguments.replace) as source,
        opened_to_write(arguments.file, "block") as (document, _),
        shown(document.report.progress.facts, f"writing {arguments.file}"),
    ):
        try:
            _change(arguments, document, source)
        except BaseException:  # an interrupt as well: what there is is made complete, and it goes on
            with contextlib.suppress(AsdffsError, OSError):
                document.finish()
            raise
        document.finish()
        document.check_shrunk()
        say(*(f"asdffs: {document.path}: {note}" for note in document.report.outcome.notes), file=sys.stderr)
    return 0


def _number(text: str, document: Document, *, new: bool) -> int:
    """Return the number that the user gave; with ``new`` it may be one more than the last.  Raises ``UsageError``."""
    document.table.verify_index()
    count = len(document.blocks)
    if text == "new" and new:
        return count
    if not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER:
        raise UsageError(f"{text!r} is not a block number" + (", and not 'new'" if new else ""))
    number = int(text)
    if number >= count + new:
        last = f"the last is {count - 1}" if count else "it has none"
        raise NoSuchNameError(f"the file has no block {number}; {last}", path=document.path)
    return number


def _print(arguments: argparse.Namespace) -> int:
    if sys.stdout.isatty():
        words = as_words("asdffs", "block", arguments.file, arguments.number)
        raise UsageError(f"a terminal may obey the bytes of a block; write them to a file: {words} > OUT")
    with closing(open_to_read(arguments.file, arguments)) as document:
        number = _number(arguments.number, document, new=False)
        block = document.blocks[number]
        if block.obstacle and not arguments.stored:
            raise NotSupportedError(f"{block.obstacle}; --stored prints its stored bytes", block=number)
        read = block.read_stored if arguments.stored else block.read_at
        offset, stop = _span(arguments.range, block)
        out = sys.stdout.buffer
        with shown(document.report.progress.facts, f"reading {arguments.file}"):
            while piece := read(offset, min(CHUNK, stop - offset)):
                out.write(piece)
                offset += len(piece)
        out.flush()
    return 0


def _span(text: str | None, block: Block) -> tuple[int, int]:
    """Return the first byte to print, and the one behind the last.  Raises ``UsageError``."""
    if text is None:
        return 0, _LARGEST
    numbers = re.fullmatch(r"([0-9]{0,18}):([0-9]{0,18})", text)
    if numbers is None:
        raise UsageError(f"--range {text}: give START:END in bytes, such as 0:4096 or 1000:")
    start, stop = int(numbers[1] or 0), int(numbers[2] or _LARGEST)
    if start > min(stop, block.size):
        raise UsageError(f"--range {text}: START is behind the end; the block has {block.size} bytes")
    return start, stop


@contextlib.contextmanager
def _input(name: str | None) -> Iterator[BinaryIO | None]:
    """Open the new bytes of the block as a file with random access."""
    if name is None:
        yield None
        return
    with contextlib.ExitStack() as stack:
        file = sys.stdin.buffer if name == _STDIN else stack.enter_context(_opened(name))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or name == _STDIN:
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            file = copy
        yield file


def _opened(name: str) -> BinaryIO:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.close(fd)
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as err:
        raise MissingFileError(f"cannot be read: {err.strerror}", path=name or "''") from err
    return open(fd, "rb")


def _change(arguments: argparse.Namespace, document: Document, source: BinaryIO | None) -> None:
    number = _number(arguments.number, document, new=source is not None)
    if arguments.remove:
        document.blocks[number].remove(force=arguments.force)
        return
    if source is not None:
        _write(document, number, source, append=arguments.replace is None, force=arguments.force)
    if arguments.compression is not None:
        document.blocks[number].set_compression(arguments.compression)
        for note in compression_notes(arguments.compression):
            logger.warning("%s: %s", document.path, note)
    if arguments.number == "new":
        print(number)


def _write(document: Document, number: int, source: BinaryIO, *, append: bool, force: bool) -> None:
    size = source.seek(0, os.SEEK_END)

    def read(offset: int, length: int) -> bytes:
        return os.pread(source.fileno(), length, offset)

    content = Readable(size, read)
    if number == len(document.blocks):
        document.blocks.add(content)
    elif append:
        _append(document, document.blocks[number], content)
    else:
        if not (force or document.blocks[number].header.streamed):
            document.fit.check_cut(number, size)
        document.blocks[number].replace(content)


def _append(document: Document, block: Block, content: Readable) -> None:
    start = block.size
    try:
        with document.report.progress.over("writing", content.size, block.number) as step:
            for place in range(0, content.size, CHUNK):
                piece = content.read(place, CHUNK)
                block.write_at(start + place, piece)
                step(len(piece))
    except BaseException:  # an interrupt as well: all of it or nothing, and it goes on
        with contextlib.suppress(AsdffsError, OSError):
            block.truncate(start)
        raise
    block.flush(durable=True)

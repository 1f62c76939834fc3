"""Decodes pieces of a block for the memory of another process; runs as a program of its own, the pager.

Standard input has a line of JSON, and then the table of pieces: four integers for each (``codecs.seeking.Slot``, with
places in the file).  The pager writes one byte to standard output when it is ready, and ends when standard input is
closed.  It is two processes: the parent waits, and starts another child when the one that decodes is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import sys
from array import array
from bisect import bisect_right
from collections import OrderedDict
from typing import Any, Final

from asdffs import registry
from asdffs.codecs.base import Readable
from asdffs.codecs.seeking import Slot
from asdffs.features.paging.userfault import Userfault

#: Pieces that stay decoded: pages at the edge of a piece need its neighbour.
_KEPT: Final = 4
#: How many times a killed pager is replaced.
_MOST: Final = 20
_PAGE: Final = mmap.PAGESIZE
_FIELDS: Final = 4
_WORD: Final = 8


class Pager:
    """Fills the memory at ``address`` with the content of ``pieces``, which are in ``file``."""

    def __init__(self, fault: Userfault, address: int, file: StoredFile, pieces: list[Slot]) -> None:
        self._fault = fault
        self._address = address
        self._file = file
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        self._size = pieces[-1].stop
        self._decoded: OrderedDict[int, bytes] = OrderedDict()

    def serve(self, place: int) -> None:
        """Put the page at ``place`` of the content there, and all pages that are wholly in the same piece.

        A page that cannot be decoded is poisoned, and the reason is raised: ``ValueError``, ``OSError``.
        """
        piece = self._pieces[self._number(place)]
        end = -(-self._size // _PAGE) * _PAGE
        first = -(-piece.start // _PAGE) * _PAGE
        last = end if piece.stop == self._size else piece.stop // _PAGE * _PAGE
        if not first <= place < last:
            first, last = place, place + _PAGE
        try:
            content = self._content(first, min(last, self._size)).ljust(last - first, b"\0")
        except BaseException:  # whatever the codec raises: nobody may wait for this page for ever
            self._fault.poison(self._address + place, _PAGE)
            raise
        self._fault.copy(self._address + first, content)

    def give_up(self) -> None:
        """Poison all pages that are not there."""
        self._fault.poison(self._address, -(-self._size // _PAGE) * _PAGE)

    def _number(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _content(self, start: int, stop: int) -> bytes:
        found = list[bytes]()
        while start < stop:
            piece, content = self._piece(self._number(start))
            part = content[start - piece.start : stop - piece.start]
            found.append(part)
            start += len(part)
        return found[0] if len(found) == 1 else b"".join(found)

    def _piece(self, number: int) -> tuple[Slot, bytes]:
        piece = self._pieces[number]
        if number not in self._decoded:
            self._decoded[number] = self._file.decode(piece)
            if len(self._decoded) > _KEPT:
                self._decoded.popitem(last=False)
        return piece, self._decoded[number]


class StoredFile:
    """The file at ``path`` with the compressed pieces.

    ``version``: its size and ``mtime_ns`` when the places of the pieces were read.
    """

    def __init__(self, path: str, version: dict[str, Any], codec: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._version = version
        self._codec = registry.find("codecs", codec)

    def decode(self, piece: Slot) -> bytes:
        """Return the content of a piece.  Raises ``ValueError`` if it is damaged, or the file was changed."""
        stored = os.pread(self._fd, piece.length, piece.place)
        now = os.fstat(self._fd)
        if (now.st_size, now.st_mtime_ns) != (self._version["size"], self._version["mtime_ns"]):
            raise ValueError("another program changed the file")
        content = b"".join(self._codec.decode(Readable.of(stored), piece.stop - piece.start))
        if len(content) != piece.stop - piece.start:
            raise ValueError(f"a piece has {len(content)} bytes, and {piece.stop - piece.start} are needed")
        return content


def main() -> None:
    """Serve faults until standard input is closed; replace the process that does so when it is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # they are meant for the program of the user
        signal.signal(number, signal.SIG_IGN)
    job = json.loads(_line())
    table = array("q", _exactly(job["pieces"] * _FIELDS * _WORD))
    pieces = [Slot(*table[at : at + _FIELDS]) for at in range(0, len(table), _FIELDS)]
    file = StoredFile(job["file"], job["version"], job["codec"])
    pager = Pager(Userfault(job["fault"]), job["address"], file, pieces)
    os.write(1, b"\n")
    for _ in range(_MOST):
        child = os.fork()
        if not child:
            _serve(pager, job)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return
    pager.give_up()


def _serve(pager: Pager, job: dict[str, Any]) -> None:
    """Serve faults until standard input is closed, then end this process."""
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(job["fault"], select.POLLIN)
    fault, code = Userfault(job["fault"]), 1
    try:
        while True:
            ready = [fd for fd, _ in waiting.poll()]
            if 0 in ready:
                code = 0
                return
            for address in fault.read():
                _answer(pager, address - job["address"], job)
    except ProcessLookupError:  # the memory is gone
        code = 0
    finally:
        os._exit(code)


def _answer(pager: Pager, place: int, job: dict[str, Any]) -> None:
    try:
        pager.serve(place)
    except FileNotFoundError:  # the memory was given back meanwhile
        return
    except (ValueError, OSError, MemoryError) as err:
        if isinstance(err, ProcessLookupError):
            raise
        text = f"asdffs: {job['file']}: {err}; the program that touches the array there gets SIGBUS\n"
        os.write(job["errors"], text.encode("utf-8", "replace"))


def _line() -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        found += _exactly(1)
    return found


def _exactly(count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = os.read(0, count - len(found))
        if not piece:
            sys.exit(0)  # the program ended meanwhile
        found += piece
    return bytes(found)

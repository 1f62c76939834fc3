"""Writes a file anew, with other compressions, padding and alignment, without slack, and with an index.

The text stays as it is, with its comments.  Only if blocks without an array are dropped, the sources in the text get
new numbers.  Blocks that keep their compression are not read, but shared or copied by the kernel.  Several threads
encode the others at the same time.  The old file is unchanged until the new one is complete and durable.  The
scheduler of the threads is ``WorkerThreads``.

The profile ``cloud`` decides which blocks come first, and how each is stored.  A reader over a network pays for each
request and for each byte.  So what many programs need comes first, behind the tree: blocks of small arrays, such as a
WCS.  Integers, which compress well, are stored in pieces of whole rows, so a part of an image needs few of them.
Floats, which compress badly, are stored as they are, so any byte can be read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple

from asdffs import interrupts
from asdffs.arrays.datatypes import item_size
from asdffs.arrays.ndarrays import Ndarray, find_arrays
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import checked_sources
from asdffs.codecs.base import Codec, Divisible, name_of
from asdffs.document.blocks.allocation import Encoded
from asdffs.document.document import Document, Foreign
from asdffs.errors import AsdffsError, NotSupportedError, StaleFileError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_CHECKSUM
from asdffs.scheduling import WorkerThreads
from asdffs.storage.backend import Folder, WriteBackend
from asdffs.storage.copying import Stretch
from asdffs.storage.sidecars import create_unnamed
from asdffs.workflows.assembling import Assembly, Part, RoomPolicy
from asdffs.workflows.exploding import moved_source

#: Blocks with fewer bytes come first, and are not compressed: a request costs more than they do.
_SMALL: Final = 1 << 16
#: Bytes of a piece by default, and the most that a row may have to decide it.
PIECE: Final = 1 << 20
_LARGEST_ROW: Final = 1 << 26
#: A block that is not smaller than this when it is compressed is stored as it is.
_WORTH: Final = 0.9
_PAGE: Final = 4096
_INTEGERS: Final = frozenset({"bool8", *(f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64))})
_FLOATS: Final = frozenset({"float16", "float32", "float64", "complex64", "complex128"})

#: Contents begin at pages, so a program can map them; small ones begin anywhere.
ROOM: Final = RoomPolicy(align=_PAGE, least=_SMALL)


class Storing(NamedTuple):
    """How a block is stored.

    ``compression``: ``keep``, ``none`` or the name of a codec.  ``piece``: bytes of content in a piece; 0: as the
    codec does by default.  ``most``: the most bytes that it may take for one byte of content; if it takes more, it is
    not compressed.
    """

    compression: str
    piece: int = 0
    most: float = math.inf


def cloud_order(document: Document, count: int) -> list[int]:
    """Return the numbers of the first ``count`` blocks in a new order: small ones first, a streamed one last."""
    headers = [document.blocks[number].header for number in range(count)]
    return sorted(range(count), key=lambda n: (headers[n].streamed, headers[n].used_size >= _SMALL))


def cloud_storing(document: Document, text: bytes, count: int, piece: int) -> dict[int, Storing]:
    """Return how the first ``count`` blocks are stored; those that are not there stay as they are.

    ``text``: the tree, whose arrays decide.  ``piece``: about how many bytes a piece should have.
    """
    arrays: dict[int, list[Ndarray]] = {}
    for array in find_arrays(text, document.dialect):
        number = array.block_in(count)
        if number is not None:
            arrays.setdefault(number, []).append(array)
    found = {number: _storing(document, number, of, piece) for number, of in arrays.items()}
    return {number: storing for number, storing in found.items() if storing is not None}


def _storing(document: Document, number: int, arrays: Iterable[Ndarray], piece: int) -> Storing | None:
    size = document.contents.stated_size(number)
    kinds = {array.datatype if isinstance(array.datatype, str) else "" for array in arrays}
    if size is None:
        return None
    if kinds <= _INTEGERS and size >= _SMALL:
        return Storing("lz4", _piece_of_rows([_row(array, size) for array in arrays], piece), most=_WORTH)
    return Storing("none") if kinds <= _INTEGERS | _FLOATS else None


def _row(array: Ndarray, size: int) -> tuple[int, tuple[int, ...]]:
    """Return the bytes of a row, what lies behind each other along the last axis, and the lengths of the other axes.

    1 and nothing if that is not known.  An array of one axis has rows of one element.
    """
    shape = array.shape_in(size)
    if not shape or array.strides is not None or array.offset:
        return 1, ()
    outer, last = (shape[:-1], shape[-1]) if len(shape) > 1 else (shape, 1)
    return max(1, last * (item_size(array.datatype) or 1)), tuple(outer)


def _piece_of_rows(found: list[tuple[int, tuple[int, ...]]], piece: int) -> int:
    """Return the multiple of the longest row that is next to ``piece`` bytes from below, or one row.

    The pieces of a single array divide it evenly, if that takes half as much or twice as much.
    """
    row, outer = max((one for one in found if one[0] <= _LARGEST_ROW), default=(1, ()))
    rows = max(1, piece // row)
    return row * (_even_rows(outer, rows) if len(found) == 1 else rows)


def _even_rows(lengths: tuple[int, ...], wanted: int) -> int:
    """Return about ``wanted`` rows of an array with these lengths, such that no piece is longer or shorter.

    Then each piece is a chunk of Zarr (``asdffs refs``).  Only the last piece is shorter if no number fits.
    """
    together = 1
    for axis, length in reversed(list(enumerate(lengths))):
        if wanted < together * length:
            fitting = [n * together for n in _divisors(length) if wanted <= 2 * n * together <= 4 * wanted]
            best = max((n for n in fitting if n <= wanted), default=min(fitting, default=0))
            return best or (max(1, wanted // together) * together if axis == 0 else wanted)
        together *= length
    return max(1, together) if lengths else wanted


def _divisors(length: int) -> set[int]:
    low = [number for number in range(1, math.isqrt(length) + 1) if not length % number]
    return {*low, *(length // number for number in low)}


#: The value of ``compression`` that keeps the compression of each block.
KEEP = "keep"
#: The value of ``profile`` for files that are read over a network.
CLOUD = "cloud"
#: The value of ``profile`` for readers that take only what the standard and all writers have in common.
STRICT = "strict"
_OF_ALL: Final = ("none", "zlib")


class RepackOptions(NamedTuple):
    """The options of a repack.

    ``compression``: ``keep``, ``none`` or the name of a codec.  ``room``: the padding and the alignment.  ``drop``:
    leave out blocks that no array refers to.  ``directory``: the absolute path of the directory of the new file, or
    empty if it is that of the old file.  ``force``: leave out bytes that belong to no block, and blocks that objects
    of unknown tags may refer to.  ``profile``: ``cloud``, ``strict``, or empty; it decides the compressions, and
    ``cloud`` the order of the blocks, too.  ``piece``: bytes of content in a piece of a compressed block; 0: as the
    codec does by default.
    """

    compression: str = KEEP
    room: RoomPolicy = RoomPolicy()
    drop: bool = False
    directory: str = ""
    force: bool = False
    profile: str = ""
    piece: int = 0


class Repacking:
    """One rewrite of ``document``; its scheduler must be ``workers``.  The caller holds the main lock.

    ``count``: the number of blocks; ``kept``: the numbers of those that stay, in order.  ``notes``: sentences about
    options that could not be applied.  Raises ``InvalidTreeError`` if sources cannot be renumbered,
    ``DamagedBlockError``, and as ``BlockStore.codec``.
    """

    def __init__(self, document: Document, workers: WorkerThreads, options: RepackOptions) -> None:
        self._document = document
        self._workers = workers
        self._options = options
        if options.compression != KEEP:
            _divided(document.contents.codec(options.compression), options.piece)  # raises if there is no such codec
        self.notes: list[str] = []
        self.undecodable: list[int] = []
        self.count = document.count_blocks(force=options.force)
        self.kept = list(range(self.count))
        self._text = document.tree.text()
        self._storing = self._chosen_storing()
        if options.room.align and not document.layout.has_tree:
            self.notes.append("the first block is not aligned: without a tree, it must follow the header immediately")
        self._order_blocks()
        self._edit_sources()
        self._filler = document.tree.padding_byte()
        self._encoded = frozenset(number for number in self.kept if self._is_to_encode(number))

    def write(self, folder: Folder, backend: WriteBackend) -> None:
        """Write the new file into ``backend``, an empty file in ``folder``.  The caller does not hold the main lock.

        Raises ``DamagedBlockError``, ``NotSupportedError``, ``SpoolFullError``, ``OSError``.
        """
        with self._workers.resumed():
            total = sum(self._document.contents.stored_stretch(number).length for number in self.kept)
        room, progress = self._options.room, self._document.report.progress
        with progress.over("repacking", total) as step:
            new = Assembly(
                folder,
                backend,
                self._text,
                room=room,
                filler=self._filler,
                indexed=self._indexed(),
                step=step,
            )
            for part in self._parts():
                new.add(part)
            new.finish()
        with self._workers.resumed():
            if self._document.foreign() is not Foreign.NO:
                raise StaleFileError("changed while it was read; nothing was written", path=self._document.path)

    def _chosen_storing(self) -> dict[int, Storing]:
        """Return how each block is stored; those that are not there stay as they are."""
        options = self._options
        if options.profile == CLOUD:
            return cloud_storing(self._document, self._text, self.count, options.piece or PIECE)
        if options.profile == STRICT:
            blocks, zlib = self._document.blocks, Storing("zlib")
            compressed = [n for n in range(self.count) if name_of(blocks[n].header.compression) not in _OF_ALL]
            return dict.fromkeys(compressed, zlib)
        if options.compression == KEEP:
            return {}
        return dict.fromkeys(range(self.count), Storing(options.compression, options.piece))

    def _order_blocks(self) -> None:
        """Decide which blocks stay, and in which order."""
        document, options = self._document, self._options
        if options.profile == CLOUD:
            try:
                if not options.force:
                    document.fit.check_droppable()
                self.kept = cloud_order(document, self.count)
            except AsdffsError as err:
                self.notes.append(f"the blocks stay in their order: {err.sentence}")
        if options.drop:
            if not options.force:
                document.fit.check_droppable()
            arrays = find_arrays(self._text, document.dialect)
            used = {number for array in arrays if (number := array.block_in(self.count)) is not None}
            self.kept = [number for number in self.kept if number in used]

    def _edit_sources(self) -> None:
        """Renumber sources if blocks are dropped or moved, and rewrite relative URIs if the directory changes."""
        document, count, directory = self._document, self.count, self._options.directory
        renumbered = self.kept != list(range(count))
        if not renumbered and directory in ("", os.path.dirname(document.path)):
            return
        arrays = find_arrays(self._text, document.dialect)
        places = {number: place for place, number in enumerate(self.kept)}

        def new_source(array: Ndarray) -> str | None:
            number = array.block_in(count)
            if number is None or not isinstance(array.source, int):
                return moved_source(array.source, document.path, directory) if directory else None
            new = places[number] - (len(self.kept) if array.source < 0 else 0)
            return None if new == array.source else str(new)

        if any(new_source(array) is not None for array in arrays):
            outline = read_outline(self._text, document.dialect)
            self._text = checked_sources(outline, new_source, document.dialect)

    def _indexed(self) -> bool:
        """Return whether the new file may have a block index."""
        return self._document.dialect.indexed

    def _codec_for(self, number: int) -> Codec | None:
        """Return the codec of a block in the new file; None for no compression.  Raises as ``BlockStore.codec``."""
        wanted, form = self._storing[number], self._document.blocks[number].header.form
        return _divided(self._document.contents.codec(wanted.compression, form), wanted.piece)

    def _is_to_encode(self, number: int) -> bool:
        """Return whether the block must and can be encoded anew; if it cannot be, add a note.

        Raises ``DamagedBlockError``.
        """
        document = self._document
        header = document.blocks[number].header
        if number not in self._storing:
            return False
        why = document.blocks[number].obstacle
        try:
            if not why and document.contents.codecs.of(number) == self._codec_for(number):
                return False
        except NotSupportedError as err:  # its form of header cannot name this compression
            why = document.report.tell(AsdffsError(err.sentence, remedy=err.remedy))
        if why:
            self.undecodable.append(number)
        why = why or ("it is streamed" if header.streamed else "")
        if why:
            self.notes.append(f"block {number} stays as it is stored: {why}")
        return not why

    def _parts(self) -> Iterator[Part]:
        """Yield the blocks in order, and encode some of the next ones meanwhile."""
        workers = os.cpu_count() or 1
        waiting: dict[int, Future[Encoded]] = {}
        todo = iter([number for number in self.kept if number in self._encoded])
        with ThreadPoolExecutor(workers) as pool:

            def submit() -> None:
                number = next(todo, None)
                if number is not None:
                    with interrupts.cleaning():  # a signal in submit could leave a thread that nobody waits for
                        waiting[number] = pool.submit(self._encode, number)

            for _ in range(workers + 1):
                submit()
            try:
                for number in self.kept:
                    if number not in self._encoded:
                        yield self._part(number)
                        continue
                    encoded = waiting.pop(number).result()
                    submit()
                    yield self._encoded_part(number, encoded)
                    encoded.payload.discard()
            except BaseException:  # also an interrupt: abandon the other blocks, and raise again
                self._workers.stopping = True
                pool.shutdown(cancel_futures=True)
                raise

    def _part(self, number: int) -> Part:
        with self._workers.resumed():
            header, stored = self._document.blocks[number].header, self._document.contents.stored_stretch(number)
        return Part(self._of_profile(header), stored)

    def _of_profile(self, header: BlockHeader) -> BlockHeader:
        """Return the header without an MD5 of which readers disagree whether it is of the stored bytes."""
        return header.without_checksum() if self._options.profile == STRICT and header.compressed else header

    def _encoded_part(self, number: int, encoded: Encoded) -> Part:
        with self._workers.resumed():
            old = self._document.blocks[number].header
        checksum = encoded.digest if old.verifiable else NO_CHECKSUM
        header = old.with_used(encoded.payload.size)._replace(data_size=encoded.size)
        header = header._replace(compression=encoded.compression, checksum=checksum)
        return Part(self._of_profile(header), Stretch(encoded.payload.backend, 0, encoded.payload.size), encoded=True)

    def _encode(self, number: int) -> Encoded:
        """Encode a block.  Runs in a worker thread."""
        with self._workers.entered():
            encoded = self._encoded_with(number, self._codec_for(number))
            storing = self._storing.get(number)  # an upgrade decides by itself
            if storing is not None and encoded.payload.size > storing.most * encoded.size:
                encoded.payload.discard()
                encoded = self._encoded_with(number, None)
            self._document.blocks[number].revert()  # free the spool space of the decoded content
            return encoded

    def _encoded_with(self, number: int, codec: Codec | None) -> Encoded:
        payload = create_unnamed(self._document.contents.room.directory)
        try:
            return self._document.contents.committer.encoded(number, codec, payload)
        except BaseException:  # also an interrupt: free the payload in the spool, and raise again
            payload.discard()
            raise


def _divided(codec: Codec | None, piece: int) -> Codec | None:
    """Return ``codec`` with pieces of ``piece`` bytes, if that is not 0.

    Raises ``NotSupportedError`` if it has no pieces whose size can be chosen.
    """
    if not piece or codec is None:
        return codec
    if not isinstance(codec, Divisible):
        raise NotSupportedError(f"{name_of(codec.id)} has no pieces whose size can be chosen; lz4 has")
    return codec.in_pieces(piece)

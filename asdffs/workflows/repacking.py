"""Writes a file anew: other compressions, padding, alignment, without slack, with an index.

What the file says stays: comments and all of the text, unless blocks that no array refers to are dropped, which
renumbers the sources where they are written.  Blocks that keep their compression are not read, but shared or copied
by the kernel; others are encoded by several threads at once.  The old file is what it was until the new one is whole
and durable.  The threads take ``WorkerThreads``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from asdffs.codecs.base import Codec
from asdffs.document.blocks.encoding import Encoded
from asdffs.document.document import Document, Foreign
from asdffs.errors import AsdffsError, NotSupportedError, StaleFileError
from asdffs.format.constants import NO_CHECKSUM
from asdffs.scheduling import WorkerThreads
from asdffs.storage.backend import Backend, Folder
from asdffs.storage.sharing import Stretch, probe_name
from asdffs.tree.arrays import find_arrays
from asdffs.tree.ndarrays import Ndarray
from asdffs.tree.outline import read_outline
from asdffs.tree.sources import checked_sources
from asdffs.workflows.assembling import Assembly, Part, RoomPolicy
from asdffs.workflows.exploded_files import can_share
from asdffs.workflows.exploding import moved_source

#: What keeps the compression of each block.
KEEP = "keep"


@dataclass(frozen=True, slots=True)
class RepackOptions:
    """What the new file is to be like.  ``compression``: ``keep``, ``none`` or a codec's name.

    ``drop``: leave out blocks that no array refers to; ``directory``: where it is to be, absolute, or empty: there;
    ``force``: leave out bytes of no block, and blocks that objects of unknown tags may refer to.
    """

    compression: str = KEEP
    room: RoomPolicy = field(default_factory=RoomPolicy)
    drop: bool = False
    directory: str = ""
    force: bool = False


class Repacking:
    """Rewrites ``document``, whose scheduler is ``workers``.  The caller holds the main lock.

    ``kept``: numbers of the blocks that stay, in order, of ``count`` ones; ``notes``: sentences about what could not
    be as wished.
    Raises ``InvalidTreeError`` when sources cannot be renumbered, ``DamagedBlockError``, and as ``Contents.codec``.
    """

    def __init__(self, document: Document, workers: WorkerThreads, options: RepackOptions) -> None:
        self._document = document
        self._workers = workers
        self._options = options
        if options.compression != KEEP:
            document.contents.codec(options.compression)  # there is one
        self.notes: list[str] = []
        self.count = document.count_blocks(force=options.force)
        self.kept = list(range(self.count))
        self._text = document.tree.text()
        if options.room.align and not document.layout.has_tree:
            self.notes.append("the first block is where it must be: without a tree nothing may come before it")
        self._edit_sources()
        self._filler = document.tree.padding_byte()
        self._encoded = frozenset(number for number in self.kept if self._is_to_encode(number))

    def write(self, folder: Folder, backend: Backend) -> None:
        """Write the new file into the empty ``store`` of ``folder``; called without the main lock.

        Raises ``DamagedBlockError``, ``NotSupportedError``, ``SpoolFullError``, ``OSError``.
        """
        with self._workers.resumed():
            stretches = [self._document.contents.stored_stretch(n) for n in self.kept if n not in self._encoded]
            total = sum(self._document.contents.stored_stretch(number).length for number in self.kept)
        clones = can_share(folder, probe_name(backend.name), stretches)
        room, progress = self._options.room, self._document.report.progress
        with progress.over("repacking", total) as step:
            new = Assembly(
                folder,
                backend,
                self._text,
                room=room,
                filler=self._filler,
                clones=clones,
                indexed=self._indexed(),
                step=step,
            )
            for part in self._parts():
                new.add(part)
            new.finish()
        with self._workers.resumed():
            if self._document.foreign() is not Foreign.NO:
                raise StaleFileError("changed while it was read; nothing was written", path=self._document.path)

    def _edit_sources(self) -> None:
        """Numbers are others when blocks are dropped, relative URIs when the new file is elsewhere."""
        document, count, directory = self._document, self.count, self._options.directory
        if not self._options.drop and directory in ("", os.path.dirname(document.path)):
            return
        arrays = find_arrays(self._text, document.dialect)
        if self._options.drop and not self._options.force:
            document.fit.check_droppable()
        if self._options.drop:
            self.kept = sorted({number for array in arrays if (number := array.block_in(count)) is not None})
        places = {number: place for place, number in enumerate(self.kept)}

        def wanted(array: Ndarray) -> str | None:
            number = array.block_in(count)
            if number is None or not isinstance(array.source, int):
                return moved_source(array.source, document.path, directory) if directory else None
            new = places[number] - (len(self.kept) if array.source < 0 else 0)
            return None if new == array.source or not self._options.drop else str(new)

        if any(wanted(array) is not None for array in arrays):
            outline = read_outline(self._text, document.dialect)
            self._text = checked_sources(outline, wanted, document.dialect)

    def _indexed(self) -> bool:
        """Whether the new file may have a block index."""
        return self._document.dialect.indexed

    def _wanted(self, number: int) -> Codec | None:
        """The codec of a block in the new file, None where it is stored as it is.  Raises as ``Contents.codec``."""
        return self._document.contents.codec(self._options.compression, self._document.blocks[number].header.form)

    def _is_to_encode(self, number: int) -> bool:
        """Whether the block is to be stored otherwise, and can be.  Raises ``DamagedBlockError``."""
        document = self._document
        header = document.blocks[number].header
        if self._options.compression == KEEP:
            return False
        why = document.blocks[number].obstacle
        try:
            if not why and document.contents.codecs.of(number) == self._wanted(number):
                return False
        except NotSupportedError as err:  # the form of its header has no way to say so
            why = document.report.tell(AsdffsError(err.sentence, remedy=err.remedy))
        why = why or ("it is streamed" if header.streamed else "")
        if why:
            self.notes.append(f"block {number} stays as it is stored: {why}")
        return not why

    def _parts(self) -> Iterator[Part]:
        """The blocks in order; some are encoded ahead."""
        workers = os.cpu_count() or 1
        waiting: dict[int, Future[Encoded]] = {}
        todo = iter(sorted(self._encoded))
        with ThreadPoolExecutor(workers) as pool:

            def submit() -> None:
                number = next(todo, None)
                if number is not None:
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
            except BaseException:  # an interrupt as well: nobody waits for the others, and it goes on
                self._workers.stopping = True
                pool.shutdown(cancel_futures=True)
                raise

    def _part(self, number: int) -> Part:
        with self._workers.resumed():
            return Part(self._document.blocks[number].header, self._document.contents.stored_stretch(number))

    def _encoded_part(self, number: int, encoded: Encoded) -> Part:
        with self._workers.resumed():
            old = self._document.blocks[number].header
        checksum = encoded.digest if old.verifiable else NO_CHECKSUM
        header = old.with_used(encoded.payload.size)._replace(data_size=encoded.size)
        header = header._replace(compression=encoded.compression, checksum=checksum)
        return Part(header, Stretch(encoded.payload.backend, 0, encoded.payload.size))

    def _encode(self, number: int) -> Encoded:
        """In a thread of its own."""
        with self._workers.entered():
            payload = self._document.contents.create_payload()
            try:
                encoded = self._document.contents.encoded(number, self._wanted(number), payload)
                self._document.blocks[number].revert()  # what was decoded for it needs no room any more
            except BaseException:  # an interrupt as well: nothing of it stays in the spool, and it goes on
                payload.discard()
                raise
            return encoded

"""Makes one file from an exploded form: the files that ``STEM.asdf`` refers to become blocks (section Exploded form).

The order of the blocks: those in ``STEM.asdf`` itself, then ``STEM0000.asdf`` ... by their numbers, then other files
in the order of the tree.  Only the sources in the text are edited.  So a file that asdffs exploded gets back the same
text and the same stored bytes.  A URI stays if it is not a file on this machine.

A numbered file without a reference in the tree becomes a block, too, if it is a block file and nothing else.  Then
either no number before it is missing, or the tree refers to a later number.  For one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from asdffs.arrays.branch import Outline
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import read_outline
from asdffs.arrays.sources import Wanted, checked_sources, resolve
from asdffs.dialects.base import Dialect
from asdffs.document.blocks.codecs import digest_of
from asdffs.document.document import Document
from asdffs.document.opening import open_document
from asdffs.document.report import Progress
from asdffs.errors import DamagedBlockError, InvalidTreeError, NotPermittedError, Remedy, StaleFileError
from asdffs.format.block_header import BlockHeader
from asdffs.format.constants import NO_CHECKSUM, STREAMED
from asdffs.storage.backend import Folder, Signature, WriteBackend
from asdffs.storage.beneath import is_below
from asdffs.workflows.assembling import Assembly, Part, RoomPolicy
from asdffs.workflows.exploded_files import is_block_file, numbered


@dataclass(frozen=True, slots=True)
class Piece:
    """Block ``number`` of the file ``path``, with ``length`` stored bytes.

    ``signature``: that of the file when it was read.  ``edited``: the file was changed after it was exploded, so its
    checksum may be that of the old bytes.
    """

    path: str
    number: int
    signature: Signature
    header: BlockHeader
    length: int
    edited: bool = False


@dataclass(frozen=True, slots=True)
class ExplodedForm:
    """An exploded form, as it was read.

    ``path``: the file with the tree.  ``text``: header, comments and tree, with block numbers as sources.
    ``pieces``: the blocks in order.  ``remote``: the sources that stay because they are not files on this machine.
    """

    path: str
    text: bytes
    pieces: tuple[Piece, ...]
    remote: tuple[str, ...]
    dialect: Dialect

    def write(self, folder: Folder, backend: WriteBackend, room: RoomPolicy, progress: Progress) -> None:
        """Write the whole file into ``backend``, an empty file in ``folder``.

        Raises ``StaleFileError`` if a file has changed since it was read, ``OSError``.
        """
        total = sum(piece.length for piece in self.pieces)
        with progress.over("imploding", total) as step:
            new = Assembly(
                folder,
                backend,
                self.text,
                room=room,
                filler=b" ",
                indexed=self.dialect.indexed,
                step=step,
            )
            for number, piece in enumerate(self.pieces):
                with closing(open_document(piece.path, writable=False)) as document:
                    new.add(_part(piece, document, last=number + 1 == len(self.pieces)))
                    _check_same(piece, document)
            new.finish()


def read_exploded(
    path: str,
    was_edited: Callable[[str, Signature], bool] = lambda _path, _now: False,
    *,
    follow: bool = False,
) -> ExplodedForm:
    """Read the exploded form with the tree in the file at ``path``.

    ``was_edited(path, signature)`` returns whether a block file is known to have changed since it was exploded.
    ``follow``: take blocks of files outside the directory of that file, too; else raise ``NotPermittedError``.
    Raises ``MissingFileError``, ``NotAsdfError``, ``DamagedBlockError``, ``InvalidTreeError``, ``OSError``.
    """
    with closing(open_document(path, writable=False)) as main:
        outline = read_outline(main.tree.text(), main.dialect)
        own = [_piece(main, number) for number in range(main.count_blocks())]
        files = _files(main, outline)
        numbers = {file: len(own) + place for place, file in enumerate(files)}
        numbers |= {main.path: 0} if own else {}
        pieces = (*own, *(_first_piece(file, was_edited, None if follow else main) for file in files))
        _check_forms(pieces, main)
        text = checked_sources(outline, _numbering(main, numbers, len(pieces)), main.dialect)
        remote = tuple(str(array.source) for array in _external(outline) if _target(main, array) is None)
        return ExplodedForm(main.path, text, pieces, remote, main.dialect)


def _numbering(main: Document, numbers: dict[str, int], total: int) -> Wanted:
    """Return the function that gives the new source of an array, for one file with ``total`` blocks.

    ``numbers``: path of each file -> the number that its first block gets.
    """
    count = len(main.blocks)

    def new_source(array: Ndarray) -> str | None:
        if isinstance(array.source, int):
            number = array.block_in(count)
            if number is None and array.block_in(total) is not None:
                sentence = f"{array.name} has source {array.source}, and there is no such block in this file"
                raise InvalidTreeError(sentence, path=main.path, line=array.line)
            return str(number) if number is not None and array.source < 0 and total > count else None
        target = _target(main, array)
        if target is not None and target not in numbers:
            sentence = f"{array.name}: its source is this file, which has no block"
            raise InvalidTreeError(sentence, path=main.path, line=array.line)
        return None if target is None else str(numbers[target])

    return new_source


def _external(outline: Outline) -> Iterator[Ndarray]:
    return (
        branch.array for branch in outline.arrays if branch.array is not None and isinstance(branch.array.source, str)
    )


def _target(main: Document, array: Ndarray) -> str | None:
    """Return the path of the file that the source of an array leads to; None if it is not on this machine."""
    found = resolve(array.source, main.path) if isinstance(array.source, str) else None
    return None if found is None else os.path.realpath(found)


def _files(main: Document, outline: Outline) -> list[str]:
    """Return the paths of the files with the blocks, in order, without the main file."""
    external = {_target(main, array): array for array in _external(outline)}
    folder, name = os.path.split(main.path)
    places = {
        number: os.path.realpath(os.path.join(folder, other))
        for number, other in numbered(os.listdir(folder), os.path.splitext(name)[0]).items()
    }
    last = max((number for number, path in places.items() if path in external), default=-1)
    found = [
        path
        for place, (number, path) in enumerate(places.items())
        if path in external or ((number == place or number < last) and is_block_file(path))
    ]
    known = {*found, main.path, None}
    return [*found, *(path for path in external if path is not None and path not in known)]


def _first_piece(path: str, was_edited: Callable[[str, Signature], bool], main: Document | None) -> Piece:
    """Return the first block of the file at ``path``, which must be below the directory of ``main`` if there is one.

    The tree of ``main`` may be a stranger's, who would get bytes of the user's files.  Raises ``NotPermittedError``.
    """
    with closing(open_document(path, writable=False)) as document:
        if main is not None and not is_below(document.folder.whereabouts(), main.folder.whereabouts()):
            sentence = f"would take the bytes of {document.path}, which is outside its directory"
            raise NotPermittedError(sentence, path=main.path, remedy=Remedy.FOLLOW)
        if not len(document.blocks):
            raise DamagedBlockError("has no block, but an array of the tree has its bytes there", path=path)
        found = _piece(document, 0)
        return replace(found, edited=found.header.verifiable and was_edited(found.path, found.signature))


def _piece(document: Document, number: int) -> Piece:
    try:
        header, length = document.blocks[number].header, document.contents.stored_stretch(number).length
    except DamagedBlockError as err:
        err.path = err.path or document.path
        raise
    return Piece(document.path, number, document.signature, header, length)


def _check_forms(pieces: tuple[Piece, ...], main: Document) -> None:
    """Raise ``NotPermittedError`` for a block header that the dialect of the main file does not allow."""
    rules = main.dialect.rules
    for piece in pieces:
        if piece.header.form not in rules.forms or piece.header.magic not in rules.magics:
            sentence = f"its blocks are not in the format of {main.dialect.name}"
            raise NotPermittedError(sentence, path=piece.path, remedy=Remedy.UPGRADE)


def _check_same(piece: Piece, document: Document) -> None:
    """Raise ``StaleFileError`` if the file has changed since it was read."""
    if document.signature != piece.signature:
        raise StaleFileError("the file changed while it was read; nothing was written: try again", path=piece.path)


def _part(piece: Piece, document: Document, *, last: bool) -> Part:
    _check_same(piece, document)
    stretch = document.contents.stored_stretch(piece.number)
    header = piece.header
    if header.streamed and not last:  # section Block header: only the last block may be streamed
        plain = header.emptied()._replace(flags=header.flags & ~STREAMED, allocated_size=piece.length)
        header = plain.with_used(piece.length)
    elif piece.edited:
        header = header._replace(checksum=_digest(document, piece))
    return Part(header._replace(extra=b""), stretch)


def _digest(document: Document, piece: Piece) -> bytes:
    """Return the MD5 of the stored bytes of an edited block (section Block header)."""
    block, size = document.blocks[piece.number], piece.header.used_size
    return digest_of(block.read_stored, size, lambda: False, lambda _bytes: None) or NO_CHECKSUM

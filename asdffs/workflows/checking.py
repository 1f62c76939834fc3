"""Validates a file without changing it.

The checks: the layout has no gap and no overlap; the index has the offsets of the blocks; the tree is valid; its
arrays fit into their blocks; its references lead to something; the checksums are right.  A checksum is that of the
stored bytes (section Blocks), but in some files it is that of the decoded bytes.  For one thread.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from asdffs import registry
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.validation import check_text
from asdffs.document.arrays.faults import find_faults
from asdffs.document.document import Document
from asdffs.document.schema import check_schemas
from asdffs.document.tree_fit import find_hidden
from asdffs.errors import AsdffsError, DamagedBlockError, InvalidTreeError, Remedy, reason_of
from asdffs.format.block_header import BlockHeader
from asdffs.format.block_index import find_index_start, parse_block_index
from asdffs.format.constants import BLOCK_MAGIC, INDEX_TOKEN, NO_CHECKSUM_DIGITS
from asdffs.format.text import parse_header, standard_version
from asdffs.scheduling import CHUNK
from asdffs.tree.syntax import decoded
from asdffs.tree.tape import Tape
from asdffs.workflows.references import find_externals, find_unresolved

#: The most blocks, or tags, that a finding lists.
_NAMED: Final = 20
#: The first field of a block header as all writers make it: its size, 48.
_HEADER_SIZE: Final = b"\x00\x30"


class Level(enum.IntEnum):
    """The severity of a finding."""

    NOTE = 0  # legal, but worth knowing
    WARNING = 1  # readers can get everything, or nothing is lost yet
    ERROR = 2  # something cannot be read, or is wrong


class Finding(NamedTuple):
    """One result of a validation.

    ``sentence``: the text of the finding.  ``block``: the number of the block, or None; ``offset``: the place in the
    file in bytes, or None.  ``repairable``: ``asdffs check --repair`` repairs it without loss.  ``remedy``: another
    command or option that helps.
    """

    level: Level
    sentence: str
    block: int | None = None
    offset: int | None = None
    repairable: bool = False
    remedy: Remedy | None = None


def check_document(document: Document, *, deep: bool, schema: bool = False) -> Iterator[Finding]:
    """Yield all findings.  Raises ``OSError``.

    ``deep``: also decode compressed blocks; ``schema``: also check the tree with the schemas of its tags.
    """
    yield from _check_tree(document)
    if schema and document.layout.has_tree:
        yield from _check_schemas(document)
    sound = True
    for number in range(len(document.blocks)):
        found = list(_check_block(document, number, deep=deep))
        sound = sound and not found
        yield from found
    yield from _check_digits(document)
    yield from _check_tail(document, sound=sound)


def _check_digits(document: Document) -> Iterator[Finding]:
    """Report checksums of sixteen digits 0: the writer of DKIST's files means none by it."""
    count = 0
    for block in document.blocks:
        with contextlib.suppress(DamagedBlockError):
            count += block.header.checksum == NO_CHECKSUM_DIGITS
    if count:
        blocks = "a block has" if count == 1 else f"{count} blocks have"
        yield Finding(Level.NOTE, f"{blocks} sixteen digits '0' for a checksum, which is taken for none")


def _check_schemas(document: Document) -> Iterator[Finding]:
    try:
        unknown = check_schemas(document.tree.text(), document.dialect, len(document.blocks))
        if unknown:
            named = ", ".join(unknown[:_NAMED]) + (" ..." if len(unknown) > _NAMED else "")
            yield Finding(Level.NOTE, f"no schema is known for {len(unknown)} tags, which were not checked: {named}")
    except InvalidTreeError as err:
        yield Finding(Level.WARNING, str(err))


def _check_tree(document: Document) -> Iterator[Finding]:
    if not document.layout.has_tree:
        yield Finding(Level.NOTE, "the file has no tree")
        return
    version, tapes = document.tree.version, list[Tape]()  # all who read the tree get this tape, while it is here

    def read(text: bytes) -> Tape:
        tapes.append(document.tree.tape(decoded(text), version))
        return tapes[-1]

    try:
        text = document.tree.text()
        checked = check_text(
            text, document.dialect, had_tree=True, before=text, whole_before=lambda: text, read=read, last=True
        )
    except InvalidTreeError as err:
        yield Finding(Level.ERROR, f"the tree is not valid: {err}")
        return
    arrays = checked.arrays
    yield from _check_versions(document, text)
    if document.dialect.upgradable:
        contradictions = registry.needed_feature("drafts").contradictions(text, document.dialect)
        yield from (Finding(Level.WARNING, one) for one in contradictions)
    yield from (Finding(Level.ERROR, f"line {one.line}: {one.sentence}") for one in checked.oddities)
    faults = list(find_faults(document))
    yield from (Finding(Level.ERROR, str(fault)) for fault in faults)
    yield from (Finding(Level.WARNING, one) for one in document.contradictions())
    for array in arrays:
        sentence = _beyond_schema(array)
        if sentence and array not in [fault.array for fault in faults]:
            yield Finding(Level.WARNING, f"line {array.line}: {array.name}: {sentence}")
    for external in find_externals(document, arrays):
        level = Level.ERROR if external.followed else Level.NOTE
        if external.trouble:
            place = f"line {external.array.line}: {external.array.name} ({external.source})"
            yield Finding(level, f"{place}: {external.trouble}")
    yield from _check_files(document)
    yield from _check_extensions(document, arrays)
    for reference in find_unresolved(document):
        level = Level.ERROR if reference.followed else Level.NOTE
        yield Finding(level, f"line {reference.line}: $ref {reference.reference}: {reference.trouble}")


def _check_files(document: Document) -> Iterator[Finding]:
    """Report FITS files with elements that are not beside the file; of a remote file nothing is known of them."""
    for branch in document.outlines.outline().arrays:
        if branch.array is None or not branch.array.in_files or document.is_remote:
            continue
        from asdffs.document.arrays.stacked import StackedElements  # few trees have such arrays

        place, missing = f"line {branch.line}: {branch.array.name}", list[str]()
        for name, fault in StackedElements(document, branch.array).faults():
            if fault:
                yield Finding(Level.ERROR, f"{place}: {fault}")
            else:
                missing.append(name)
        if missing:
            names = ", ".join(missing[:_NAMED]) + (" ..." if len(missing) > _NAMED else "")
            sentence = f"{len(missing)} of its files are not there, so their elements are missing: {names}"
            yield Finding(Level.NOTE, f"{place}: {sentence}")


def _beyond_schema(array: Ndarray) -> str:
    """Return what the schema core/ndarray does not allow in an array that asdffs shows; empty if nothing."""
    if array.strides is not None and 0 in array.strides:
        return "its schema allows no strides of 0"
    if array.source is not None and array.inline:
        return "its schema allows a source or data, not both; its data is shown"
    if array.source is not None and array.byteorder not in ("big", "little"):
        return "its schema demands a byteorder, big or little; the asdf library finds no array without it"
    return ""


def _check_versions(document: Document, text: bytes) -> Iterator[Finding]:
    """Check that programs know the versions that the header line and a comment name (sections Header, Comments)."""
    header, dialect = parse_header(text), document.dialect
    version, standard = ".".join(map(str, header.version)), standard_version(text[: document.layout.text_start])
    refused = "which no program knows: the asdf library refuses the file"
    if dialect.accepts_text(header) is not None:
        yield Finding(Level.ERROR, f"line 1: the header line names version {version} of the file format, {refused}")
    if standard is not None and dialect.standards and standard not in dialect.standards:
        yield Finding(Level.ERROR, f"'#ASDF_STANDARD {standard}' names a version {refused}")


def _check_extensions(document: Document, arrays: Sequence[Ndarray]) -> Iterator[Finding]:
    """Report blocks without an array in a file whose other objects may use them."""
    hidden = find_hidden(document.tree, document.contents, document.scheduler)
    count = len(document.blocks)
    yield from (Finding(Level.ERROR, trouble) for trouble in hidden.troubles)
    unseen = hidden.unseen(arrays, count)
    if hidden.tags and unseen:
        numbers = ", ".join(map(str, unseen[:_NAMED])) + (" ..." if len(unseen) > _NAMED else "")
        sentence = f"no array refers to these blocks: {numbers}; objects of {hidden.tags[0]} may"
        yield Finding(Level.NOTE, sentence)


def _check_block(document: Document, number: int, *, deep: bool) -> Iterator[Finding]:
    offset = document.blocks[number].offset
    try:
        header = document.blocks[number].header
    except DamagedBlockError as err:
        yield Finding(Level.ERROR, err.sentence, number, offset, remedy=err.remedy)
        return
    if number == document.table.cut_block:
        yield Finding(Level.ERROR, f"the file ends at {document.layout.size}, inside this block", number, offset)
        return
    yield from _check_place(document, number, header)
    yield from _check_content(document, number, header, deep=deep)


def _check_place(document: Document, number: int, header: BlockHeader) -> Iterator[Finding]:
    """Check that the next block follows immediately (section Blocks)."""
    if header.streamed and number + 1 < len(document.blocks):
        yield Finding(Level.ERROR, "a streamed block is not the last one", number, document.blocks[number].offset)
    elif not header.streamed and number + 1 < len(document.blocks):
        end = header.end(document.blocks[number].offset)
        unused = document.blocks[number + 1].offset - end
        if unused:
            sentence = f"{unused} bytes between this block and the next belong to neither"
            yield Finding(Level.WARNING, sentence, number, end, remedy=Remedy.CLOSE_GAP)


def _check_content(document: Document, number: int, header: BlockHeader, *, deep: bool) -> Iterator[Finding]:
    offset = document.blocks[number].offset
    obstacle = document.blocks[number].obstacle
    if obstacle:
        yield Finding(Level.WARNING if deep else Level.NOTE, obstacle, number, offset)
    try:
        fault = document.blocks[number].find_checksum_fault()
        if not fault and deep:
            with document.report.progress.over("decoding", header.data_size, number) as step:
                document.blocks[number].check_decodable(step)
    except (AsdffsError, OSError) as err:
        reason, remedy = (err.sentence, err.remedy) if isinstance(err, AsdffsError) else (reason_of(err), None)
        yield Finding(Level.ERROR, f"it cannot be decoded: {reason}", number, offset, remedy=remedy)
        return
    if fault:
        yield Finding(Level.ERROR, fault, number, offset)


def _check_padding(document: Document) -> Iterator[Finding]:
    """Check that a file without blocks has no index (section Block index), and that the padding hides no block."""
    padding = document.layout.padding
    content = document.read_raw(padding.start, min(len(padding), CHUNK)).lstrip(b" \0\t\r\n")
    if content.startswith(INDEX_TOKEN) and document.layout.first_block is None:
        yield Finding(Level.WARNING, "there is a block index, but no block", offset=padding.start)
    elif content[len(BLOCK_MAGIC) :].startswith(_HEADER_SIZE):
        sentence = "the padding between the tree and the first block looks like a block with a damaged magic"
        yield Finding(Level.WARNING, sentence, offset=padding.start)


def _check_stream(document: Document) -> Iterator[Finding]:
    """Report sizes in the header of a streamed block, and an index at its end (section Block index).

    A streamed block reaches to the end of the file, so such an index is part of its data.
    """
    number = len(document.blocks) - 1
    try:
        header = document.blocks[number].header if number >= 0 else None
    except DamagedBlockError:
        return
    if header is None or not header.streamed:
        return
    if header.compressed:
        sentence = "it is streamed and compressed, so nobody can tell where its compressed bytes end"
        yield Finding(Level.WARNING, sentence, number, document.blocks[number].offset)
    if header.allocated_size or header.used_size or header.data_size:
        sentence = "it is streamed, but its header has sizes, which are ignored; the flag may be damaged"
        yield Finding(Level.NOTE, sentence, number, document.blocks[number].offset)
    start = max(document.blocks[number].offset, document.layout.size - CHUNK)
    tail = document.read_raw(start, CHUNK).rstrip(b"\0")
    place = find_index_start(tail)
    if place is not None and parse_block_index(tail[place:]) is not None:
        sentence = "it ends with a block index, which readers take for data: a streamed block has no end"
        yield Finding(Level.WARNING, sentence, number, start + place)


def _check_tail(document: Document, *, sound: bool) -> Iterator[Finding]:
    """Check the bytes behind the last block: the index (section Block index), NULs, or none."""
    layout = document.layout
    yield from _check_padding(document)
    yield from _check_stream(document)
    if layout.index is not None or layout.first_block is None:
        return
    start = min(layout.blocks_end, layout.size) if len(document.blocks) else layout.first_block
    tail = document.read_raw(start, 1 << 12)
    if tail.startswith(layout.rules.magics):
        sentence = (
            "a block begins here that cannot be used: its header is damaged,"
            " or the allocated_size of the block before it is wrong"
        )
        yield Finding(Level.ERROR, sentence, len(document.blocks), start)
    elif tail.lstrip(b" ").startswith(INDEX_TOKEN):
        if layout.removable:
            repairable = sound and document.may_have_index
            yield Finding(Level.WARNING, "the block index is wrong", offset=start, repairable=repairable)
        else:
            sentence = "the block index is wrong, and other bytes follow it"
            yield Finding(Level.WARNING, sentence, offset=start, remedy=Remedy.DROP_INDEX)
    elif not layout.removable:
        amount = layout.size - start
        sentence = f"{amount} bytes behind the last block are neither a block nor an index"
        yield Finding(Level.WARNING, sentence, offset=start, remedy=Remedy.DROP_BYTES)
    elif document.may_have_index:
        yield Finding(Level.NOTE, "there is no block index; opening takes longer", offset=start, repairable=sound)

"""``NAME.npy``: an array as numpy's file, a header and then the elements.

Implements numpy's format (numpy.lib.format) 1.0, or 2.0 and 3.0 where the header needs it: magic, length and a
Python literal, 64-byte aligned.  The header of an array whose first length is ``*`` has room for more digits, so
that its elements stay where they are while the stream grows.  A contiguous array is a window on its block, and
what is written into it lands there; the header never changes by a write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from asdffs.arrays.branch import Branch
from asdffs.arrays.placement import array_errors
from asdffs.document.arrays.elements import BlockElements, Elements
from asdffs.document.arrays.masks import Mask
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, NotPermittedError, ReadOnlyError, StaleFileError
from asdffs.storage.backend import Extent, read_bytes
from asdffs.views.base import PREFIX
from asdffs.views.formats.base import ArrayFile

ENDING: Final = ".npy"
_MAGIC: Final = b"\x93NUMPY"
_ALIGNMENT: Final = 64
#: Digits of the largest length.
_DIGITS: Final = 20
_IN_PLACE: Final = (
    "the array keeps its size, which is in tree.yaml, so programs such as numpy.save cannot replace this file; "
    "write in place instead: numpy.load(FILE, mmap_mode='r+')[...] = values"
)


def header_of(elements: Elements, *, growing: bool = False) -> bytes:
    """Return the header for ``elements``; ``growing``: with room for more digits in the first length."""
    facts = f"{{'descr': {elements.descr!r}, 'fortran_order': {elements.fortran!r}, 'shape': {elements.shape!r}, }}"
    room = _DIGITS - len(str(elements.shape[0])) if growing else 0
    try:
        version, text = 1, facts.encode("latin-1")
    except UnicodeEncodeError:
        version, text = 3, facts.encode("utf-8", "surrogateescape")
    width = 2 if version == 1 and len(text) + room + _ALIGNMENT < 1 << 16 else 4
    version = max(version, 1 if width == 2 else 2)
    fixed = len(_MAGIC) + 2 + width
    length = -(-(fixed + len(text) + room + 1) // _ALIGNMENT) * _ALIGNMENT - fixed
    return _MAGIC + bytes([version, 0]) + length.to_bytes(width, "little") + text.ljust(length - 1) + b"\n"


class NpyFile(ArrayFile):
    """The ``.npy`` file of an ndarray."""

    steady_window = True

    def __init__(self, document: FileState, find: Callable[[], Branch]) -> None:
        super().__init__(document, find)
        self._written: set[int] = set()  # blocks
        self._known: tuple[Elements, bytes] | None = None

    @property
    def writable(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether the array lies in a block in the order of the file, and blocks may be changed."""
        try:
            return self.elements().writable and self._document.blocks_writable
        except (AsdffsError, OSError):
            return False

    def elements(self) -> Elements:
        """Return the elements.  Raises ``AsdffsError`` with the line of the array, ``OSError``."""
        return self._parts()[0]

    def size(self) -> int:
        """Return the size of header and elements; 0 if the array cannot be shown."""
        try:
            elements, header = self._parts()
        except AsdffsError:
            return 0
        return len(header) + elements.size

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the header, and of the elements."""
        elements, header = self._parts()
        head = header[offset : offset + length]
        with array_errors(self.branch.line):
            rest = elements.read(max(0, offset - len(header)), length - len(head))
        return head + read_bytes(rest) if head else rest

    def open_for_reading(self) -> None:
        """Raise ``AsdffsError`` if the array cannot be shown."""
        self._parts()

    def open_for_writing(self) -> None:
        """Raise ``AsdffsError`` if the array is not a window on its block."""
        elements = self.elements()
        elsewhere = isinstance(elements, BlockElements) and elements.elsewhere
        if elsewhere or (self.external and not self._document.writable):
            raise ReadOnlyError("the array is in another file; mount that one to change it")
        if not isinstance(elements, BlockElements) or not elements.writable:
            raise NotPermittedError("the elements of this array have no single place; it is read-only")
        self._document.contents.check_writable(elements.placement.number)

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Write into the block.  Raises ``NotPermittedError`` if this would change the header."""
        _, header = self._parts()
        head = memoryview(payload)[: max(0, len(header) - offset)]
        if head != header[offset : offset + len(head)]:
            raise NotPermittedError("the header says what the tree says; edit the tree")
        self.write_mapped(offset, payload)

    def write_mapped(self, offset: int, payload: bytes | memoryview) -> None:
        """Write into the block.  A page of an mmap may have a header, maybe an old one, that no program stored."""
        elements, header = self._parts()
        if self._array.gone:
            raise StaleFileError("the tree has no such array any more; its block may be another's")
        body = memoryview(payload)[max(0, len(header) - offset) :]
        if body and isinstance(elements, BlockElements) and not elements.elsewhere:
            self._written.add(elements.placement.number)
        if body:
            elements.write(max(0, offset - len(header)), body)

    def window(self) -> tuple[int, int] | None:
        """Return the block, from behind the header on."""
        elements, header = self._parts()
        if not isinstance(elements, BlockElements) or not elements.writable:
            return None
        return elements.placement.number, elements.placement.offset - len(header)

    def head_size(self) -> int:
        """Return the size of the header."""
        return len(self._parts()[1])

    def truncate(self, size: int) -> None:
        """Raise ``NotPermittedError`` unless the file has this size already."""
        if size != self.size():
            raise NotPermittedError(_IN_PLACE)

    @property
    def commits_late(self) -> bool:  # type: ignore[override]  # a constant elsewhere
        """Whether blocks that were written through this file are compressed."""
        return any(self._document.table.header(number).compressed for number in self._written)

    def flush(self, *, durable: bool) -> None:
        """Bring writes to these blocks into the file; the tree may have given the array another block since."""
        for number in sorted(self._written):
            self._written.discard(number)  # first: what is written while this waits must be flushed again
            try:
                self._document.contents.committer.flush(number, durable=durable)
            except BaseException:  # it goes on
                self._written.add(number)
                raise

    def _parts(self) -> tuple[Elements, bytes]:
        """Return elements and header as they are now."""
        elements = self._array.elements()
        if self._known is None or self._known[0] is not elements:
            branch = self.branch
            with array_errors(branch.line):
                growing = branch.array is not None and branch.array.row is not None
                self._known = elements, header_of(elements, growing=growing)
        return self._known


class MaskFile(NpyFile):
    """The mask of an array that the tree states as a value: a bool for each element; ``find()`` returns the array."""

    kind = Mask

    def open_for_writing(self) -> None:
        """Raise ``NotPermittedError``: the mask is computed."""
        raise NotPermittedError("the mask follows from a value in the tree; edit the tree")

    def write(self, offset: int, payload: bytes | memoryview) -> None:
        """Raise ``NotPermittedError``."""
        self.open_for_writing()

    def truncate(self, size: int) -> None:
        """Raise ``NotPermittedError``."""
        self.open_for_writing()

    def attributes(self) -> Mapping[str, bytes]:
        """Return source and datatype of the mask."""
        return {PREFIX + "source": b"inline", PREFIX + "datatype": b"bool8"}


class Npy:
    """The format ``npy``: it shows every array, and its mask."""

    ending = ENDING
    file = NpyFile
    mask = MaskFile

    def missing(self) -> str:
        """Return nothing: no library is needed."""
        return ""

    def takes(self, branch: Branch) -> bool:
        """Return whether there is an array."""
        return branch.array is not None


PLUGIN = Npy()

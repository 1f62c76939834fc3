"""``Array``: one array of the tree, which programs use like an array of h5py or zarr.

``document.arrays["roman/data"]`` keeps no elements.  Each access reads the tree and the block as they are at that
moment, and only the selected elements.  An assignment goes into the block at once, as a write to the ``.npy`` file of
the array in a mount does.  Implements the schema core/ndarray.  Threads: as for ``Document``.  Imports numpy late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from asdffs.arrays.branch import Branch
from asdffs.arrays.chunked import Chunked
from asdffs.arrays.placement import array_errors, block_of
from asdffs.document.arrays.chunks import GatheredElements
from asdffs.document.arrays.elements import BlockElements, Elements, Strided, requested_parts
from asdffs.document.arrays.finding import Location, elements_of, location_of, source_file
from asdffs.document.arrays.mapping import mapped, paged
from asdffs.document.arrays.reference import ArrayReference, Version
from asdffs.document.arrays.selection import Selection, is_packed, packed_runs, select, select_gathered
from asdffs.document.block import Block
from asdffs.document.changes import content
from asdffs.document.for_programs import serialized
from asdffs.document.state import FileState
from asdffs.errors import InvalidArrayError, NotPermittedError
from asdffs.storage.urls import is_remote

if TYPE_CHECKING:
    import numpy as np


_GONE: Final = "the tree has no such array any more"
_NO_PLACE: Final = "the elements of this array have no single place; write its block or edit the tree"


class Array:
    """An array of the tree: ``document.arrays["roman/data"]``.

    The object keeps no elements.  Each use reads the tree and the file as they are at that moment, and only the
    selected elements.  ``numpy.asarray(array)`` reads all of it.

    Everything raises ``InvalidArrayError``, with the line of the array, if the tree no longer has the array or
    describes it wrongly; ``DamagedBlockError`` if its block cannot be read; ``OSError``; and ``ValueError`` if the
    document is closed.

    For this package: ``find()`` returns the branch of the array.  It is called at each use, because a commit may
    change the branch.  It raises ``KeyError`` if the tree has no such array any more.  ``gone``: whether this was so
    at the last use.  ``name``: the path of the array in ``arrays`` of its file.  ``mask()`` returns its mask.
    """

    def __init__(
        self,
        file: FileState,
        find: Callable[[], Branch],
        name: str = "",
        mask: Callable[[], Array | None] = lambda: None,
    ) -> None:
        self._file = file
        self._name = name
        self._mask = mask
        self._find = find
        self._last: Branch | None = None
        self._known: tuple[Any, Elements] | None = None
        self.gone = False

    # -- for programs -----------------------------------------------------

    def __repr__(self) -> str:
        try:
            return f"<array {self.shape} {self.dtype} of {self._file.path}>"
        except InvalidArrayError as err:
            return f"<array of {self._file.path}: {err}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: facts, and a small picture.  Raises nothing about the file."""
        from asdffs.document.arrays.html import array_html

        return array_html(self, self._name, lambda: self.mask, near=not self._file.is_remote)

    @property
    @serialized
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes, in elements.  In a streamed block, the first axis has its current length."""
        return self._current().shape

    @property
    @serialized
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the stored elements, with their byte order."""
        import numpy as np

        return np.dtype(self._current().descr)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    @serialized
    def units(self) -> Mapping[str, str]:
        """The units that the file states: at ``""`` that of all elements, at its name that of a field of records."""
        return self._file.units(self.branch)

    @property
    @serialized
    def mask(self) -> Array | None:
        """Its mask, an array of bools that are true where elements are missing; None if it has no mask."""
        return self._mask()

    @property
    @serialized
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of the chunks in which the file has the array, or of its first tile; None if it is in one piece."""
        elements = self._current()
        return elements.chunk if isinstance(elements, GatheredElements) else None

    #: Whether its elements are a mask that the tree states as a value.
    states_value = False

    @property
    @serialized
    def writable(self) -> bool:
        """Whether elements can be assigned: they are contiguous in a block, and the file is open for writing."""
        return self._file.writable and self._current().writable

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    @serialized
    def __getitem__(self, index: Any) -> Any:
        """Return a copy of the selected elements: an array or a scalar, as for an ndarray.

        ``index`` is any index of an ndarray.  Integers, slices, ``...`` and None read only their elements, if these
        are contiguous in a block of this file or of another one.  Other selections are gathered from ``mapped()``.
        Raises ``IndexError``, or the errors of the class.
        """
        elements = self._current()
        if isinstance(elements, BlockElements) and elements.placement.item:
            region = select(_whole(elements), index)
            if region is not None:
                needed = math.prod(region.shape) * elements.placement.item
                self._file.budget.check(needed, "its elements", elements.held)
                return self._read(elements, region, index)
        if isinstance(elements, GatheredElements):
            return select_gathered(self, elements.at, index)
        return _copied(self.mapped()[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write ``value``, broadcast to the selection as by numpy, to the selected elements in the block.

        ``index`` has integers, slices, ``...`` and None.  ``value`` is converted to ``dtype``.  The elements of an
        uncompressed block are in the file at once, and durable after ``Document.commit``, which also encodes a
        compressed block.

        Raises ``NotPermittedError`` if the elements have no single place in a block: they are inline, strided or in
        another file.  Raises ``IndexError`` for other indices, ``ValueError`` if ``value`` does not fit, or as
        ``Block.write_at``.
        """
        import numpy as np

        # before the main lock is taken: other threads may compute the value from elements of this file
        wanted = np.asarray(value, self.dtype)
        self._assign(index, wanted if wanted.flags.writeable else wanted.copy())  # an mmap may change below

    @serialized
    def _assign(self, index: Any, value: np.ndarray[Any, Any]) -> None:
        elements = self._current()
        if not isinstance(elements, BlockElements) or not elements.writable:
            raise NotPermittedError(_NO_PLACE)
        region = select(_whole(elements), index)
        if region is None:
            raise IndexError(
                "only integers, slices and ... can be assigned to; read the array, change it, assign [...]"
            )
        self._write(elements, region, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # noqa: FBT001
        """Return a copy of the whole array, converted to ``dtype`` if given, for ``numpy.asarray``.

        Raises ``ValueError`` if ``copy`` is False; use ``mapped`` then.
        """
        if copy is False:
            raise ValueError("elements are copied out of the file; Array.mapped() is a view of them")
        import numpy as np

        found = np.asarray(self[...])
        return found if dtype is None else found.astype(dtype, copy=False)

    @serialized
    def mapped(self, *, lazy: bool = False) -> np.ndarray[Any, Any]:
        """Return a read-only ndarray on the elements.

        For an uncompressed block it is an mmap of the file: nothing is copied, and later writes are visible.  For a
        compressed block it is an mmap of the decoded bytes, or a copy (``Block.buffer``); with ``lazy``, memory that
        is decoded piece by piece when it is touched (docs/lazy.md).  Elements in the tree or in another file are
        copied.  As long as anything refers to an mmap, changes of the document that would move blocks, or shrink this
        one, raise ``InUseError``.
        """
        elements = self._current()
        found = paged(self._file, self.branch) if lazy else None
        result: np.ndarray[Any, Any] = mapped(self._file, elements) if found is None else found
        return result

    @property
    @serialized
    def is_remote(self) -> bool:
        """True if its elements are on a server: it is in a remote file, or its source is one."""
        return is_remote((self._source_file() or self._file).location)

    def _source_file(self) -> FileState | None:
        """Return the other file in which the elements are; None if they are in this one."""
        source = self._current() and self.branch.array and self.branch.array.source
        outside = isinstance(source, str) and self._file.region(source) is None
        return self.file_of(str(source)) if outside else None

    # -- for other processes -----------------------------------------------

    @serialized
    def versions(self) -> tuple[Version, ...]:
        """Return the version of the file, and that of a second file if the elements are there."""
        other = self._source_file()
        files = [self._file, *([other] if other is not None else [])]
        return tuple(Version(now.inode, now.size, now.mtime_ns) for now in (file.signature for file in files))

    @serialized
    def stored(self, *, pieces: int = 0) -> Location:
        """Return where the elements are in the file, if they can be read there as they are.

        ``pieces``: also in which pieces of a compressed block, if it has so many or fewer.  Raises
        ``NotPermittedError`` with the reason if they cannot be read there.
        """
        self._current()  # raises if there is no such array any more
        return self._stored(pieces)

    def _stored(self, pieces: int = 0) -> Location:
        with array_errors(self.branch.line):
            return location_of(self._file, self.branch, pieces=pieces)

    @serialized
    def reference(self) -> ArrayReference:
        """Return the array as other processes can use it: by path, version of the file, and name.

        Raises ``NotPermittedError`` if the file is not one that can be opened by its path.
        """
        if self._file.open_again is None:
            raise NotPermittedError("this file cannot be opened again by its path")
        place = self._file.open_again, self._file.location, self._name
        return ArrayReference(*place, self.versions(), self.shape, self.dtype, self.chunks)

    def to_dask(self, chunks: Any = None) -> Any:
        """Return a lazy ``dask.array.Array``.

        A chunk is read when it is computed.  The process that computes it opens the file itself.  If the file has
        changed since then, computing raises ``StaleFileError``.

        ``chunks``: as for ``dask.array.from_array``.  None: whole rows of the first axis, about 128 MiB in each,
        because these lie together in the file; or as many of its own chunks.  Raises ``NotSupportedError`` without
        dask.
        """
        rows: Any = ("auto", *[-1] * (self.ndim - 1)) if self.ndim else ()
        return self.reference().to_dask(chunks or ("auto" if self.chunks else rows))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a reference, which reads the file where it is used."""
        return _same, (self.reference(),)

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return what makes two arrays the same for dask: file, version and name."""
        return self.reference().__dask_tokenize__()

    # -- for views --------------------------------------------------------

    @property
    def file(self) -> FileState:
        """The file in whose tree the array is: behind a ``$ref``, another one than that of the document."""
        return self._file

    @property
    def branch(self) -> Branch:
        """The branch of the array; the last known one if the tree has no such array any more, which sets ``gone``."""
        try:
            self._last, self.gone = self._find(), False
        except KeyError:
            if self._last is None:
                raise InvalidArrayError(_GONE) from None
            self.gone = True
        return self._last

    def elements(self) -> Elements:
        """Return the elements as they are now; the same object as long as nothing changed."""
        branch = self.branch
        with array_errors(branch.line):
            key = (branch, *self._changing(branch))
            if self._known is None or self._known[0] != key:
                self._known = key, self._make(branch)
            return self._known[1]

    def _current(self) -> Elements:
        """Return the elements for a program.  Raises ``InvalidArrayError`` if the tree has no such array any more."""
        elements = self.elements()
        if self.gone:
            raise InvalidArrayError(_GONE)
        return elements

    def _changing(self, branch: Branch) -> tuple[int, ...]:
        """Return the facts on which the elements depend, besides the branch."""
        if branch.inline is not None or branch.array is None:
            return ()
        pieces = branch.array.pieces
        if isinstance(pieces, Chunked):
            return len(self._file.table), self._file.changes.stamp(content(pieces.table))
        if pieces is not None:
            return ()  # its tiles are looked up at each read
        if self._file.region(branch.array.source) is not None:
            return (self._file.generation,)
        if isinstance(branch.array.source, str):
            other = self.file_of(branch.array.source)
            return other.generation, other.contents.size(0)
        number = block_of(len(self._file.table), branch.array)
        return number, self._file.contents.size(number)

    def file_of(self, source: str) -> FileState:
        """Return the file to which a source refers, as it is now.  Raises as ``source_file``."""
        return source_file(self._file, source)

    def _make(self, branch: Branch) -> Elements:
        return elements_of(self._file, branch)

    # -- internals --------------------------------------------------------

    def _read(self, elements: BlockElements, region: Selection, index: Any) -> Any:
        """Return a selection.  It is one read if the elements lie together, in any order of the axes."""
        import numpy as np

        region, axes = region.as_it_lies()
        block = Block(elements.file, elements.placement.number)
        if not is_packed(region.shape, region.strides, elements.placement.item):
            wanted = Strided(region.shape, region.strides, elements.placement.item, region.offset)
            packed = elements.file.table.header(block.number).compressed and 2 * wanted.extent[1] < block.size
            if not elements.file.is_remote and not packed:  # of a block that is decoded nearly whole, mmap is quicker
                return _copied(self.mapped()[index])
            parts = requested_parts(wanted)
            raw = b"".join(elements.parts(list(parts)))
            scattered = np.frombuffer(raw, np.dtype(elements.descr)).reshape(region.shape).copy()
            return scattered[()] if region.scalar else scattered.transpose(np.argsort(axes))
        found = np.empty(region.shape, np.dtype(elements.descr))
        if found.size and block.read_into(region.offset, found.reshape(-1).view(np.uint8).data) != found.nbytes:
            raise InvalidArrayError(f"block {block.number} ends before the selected elements")
        return found[()] if region.scalar else found.transpose(np.argsort(axes))

    def _write(self, elements: BlockElements, region: Selection, value: np.ndarray[Any, Any]) -> None:
        import numpy as np

        while value.ndim > len(region.shape) and value.shape[0] == 1:  # numpy drops leading axes of length 1, too
            value = value[0]
        wanted = np.broadcast_to(value, region.shape)
        region, axes = region.as_it_lies()
        wanted = wanted.transpose(axes)
        block, item = Block(self._file, elements.placement.number), elements.placement.item
        for offset, part in packed_runs(region, item):
            block.write_at(offset, wanted[part].tobytes())


def _same(reference: ArrayReference) -> ArrayReference:
    return reference


def _whole(elements: BlockElements) -> Selection:
    where = elements.placement
    return Selection(where.offset, where.shape, where.strides)


def _copied(found: Any) -> Any:
    import numpy as np

    return np.array(found) if isinstance(found, np.ndarray) else found

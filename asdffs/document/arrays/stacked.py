"""The elements of an array that are in FITS files beside the ASDF file, put together when they are read.

Each file has an image.  One that is stored as it is is read in place; a compressed one is decoded by astropy, only
the tiles that a selection needs.  A read of bytes decodes a whole image and keeps it (``document/outlines``), because
the next read probably wants its neighbours.

The elements of a file that does not exist are NaN, as for the Python tools of DKIST; those of integers are the least
number of their datatype (FITS: BLANK).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from collections.abc import Iterator
from typing import Any, Final

from asdffs import registry
from asdffs.arrays.datatypes import descr_of
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.stacked import Stacked
from asdffs.document.arrays.chunks import GatheredElements, Ranges
from asdffs.document.arrays.converting import converted
from asdffs.document.arrays.elements import Strided, import_numpy, requested_parts
from asdffs.document.data_files import DataFile, FoundFile, find_beside, folders_of, is_here, is_missing, place_beside
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.format.container import Region
from asdffs.storage.backend import read_bytes

#: A selection of more than one in this many elements of a compressed image decodes, and keeps, all of it.
_FEW: Final = 4
#: The most bytes to which a byte of a file decodes: those of deflate.
_MOST_PACKED: Final = 1032
#: Bytes by which a container knows its format.
_HEAD: Final = 80


class StackedElements(GatheredElements):
    """The elements of ``array``, whose ``pieces`` are ``Stacked``: they are in FITS files beside ``file``."""

    def __init__(self, file: FileState, array: Ndarray) -> None:
        assert isinstance(array.pieces, Stacked)
        stacked = array.pieces
        import_numpy(file.scheduler)
        import numpy as np

        self._file = file
        self._about = stacked
        self.dtype = np.dtype(descr_of(array.datatype, array.byteorder))
        self.descr = np.lib.format.dtype_to_descr(self.dtype)
        self.shape = stacked.shape
        self.size = self.size_of(self.shape)
        kept = [(axis, len(one)) for axis, one in enumerate(stacked.part) if isinstance(one, range)]
        self.chunk = tuple(1 if axis < len(stacked.counts) else length for axis, length in kept)
        self._folders = dict[str, int]()
        self._there: dict[str, FoundFile] | None = None
        self._changed = 0

    def held(self) -> int:
        """Return at most how many bytes the files decode to.

        Missing files count for nothing, and a file that is named twice counts once.  0 for a remote file: to ask a
        server for the sizes of thousands of files would take too long.
        """
        if not is_here(self._file.location):
            return 0
        image = math.prod(self._about.image) * int(self.dtype.itemsize)
        there = find_beside(self._about.files, self._file.location)
        return sum(min(image, one.size * _MOST_PACKED) for one in there.values())

    def changed(self) -> int:
        """Return when a program last added, removed or replaced one of the files, in ns; 0 for a remote file.

        The directories with the files tell whether that may be so.  What changed in place is not seen.
        """
        files, location = self._about.files, self._file.location
        if not is_here(location):
            return 0
        if not self._folders or any(_mtime_of(folder) != mtime for folder, mtime in self._folders.items()):
            before = self._there
            with self._file.scheduler.waiting():  # there may be thousands
                there = find_beside(files, location)
                self._folders = folders_of(files, location, there)
            self._there = there
            if before is None:
                self._changed = max((one.mtime_ns for one in there.values()), default=0)
            elif self._there != before:
                self._changed = max(self._changed + 1, time.time_ns())
        return self._changed

    def faults(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each file that cannot be read, and why; the reason is empty if the file does not exist.

        Only the headers of the files are read.
        """
        for name in sorted(set(self._about.files)):
            try:
                with self._opened(name) as data:
                    if data is None:
                        yield name, ""
                    else:
                        _Image(self._file, data, self._about, self.dtype)
            except AsdffsError as err:
                yield name, err.sentence

    def at(self, ranges: Ranges) -> Any:
        """See ``GatheredElements``."""
        return self._gathered(ranges, whole=False)

    def for_bytes(self, ranges: Ranges) -> Any:
        """See ``GatheredElements``."""
        return self._gathered(ranges, whole=True)

    def _gathered(self, ranges: Ranges, *, whole: bool) -> Any:
        """Return the elements at ``ranges``; ``whole``: decode whole images, and keep them."""
        import numpy as np

        about, shape = self._about, tuple(map(len, ranges))
        self._file.budget.check(math.prod(shape) * self.dtype.itemsize, "its elements", self.held)
        found = np.empty(shape, self.dtype)
        if not found.size:
            return found
        wanted = list(_in_files(about.part, ranges))
        before, inside = wanted[: len(about.counts)], wanted[len(about.counts) :]
        rows = found.reshape((*map(len, before), *map(len, inside)))
        for where in itertools.product(*(range(len(one)) for one in before)):
            number = 0
            for position, one, count in zip(where, before, about.counts, strict=True):
                number = number * count + one[position]
            rows[where] = self._image(about.files[number], tuple(inside), whole=whole)
        return found

    def _image(self, name: str, inside: Ranges, *, whole: bool) -> Any:
        """Return elements of the image in a file, or what stands for those of a missing file."""
        import numpy as np

        with self._opened(name) as data:
            if data is None:
                return np.nan if self.dtype.kind == "f" else np.iinfo(self.dtype).min
            return _Image(self._file, data, self._about, self.dtype).part(inside, whole=whole)

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[DataFile | None]:
        """Open one of the files; None if it is missing, which may be.

        Raises ``InvalidArrayError`` with the name if it, or what is done in the block, fails.
        """
        place = place_beside(name, self._file.location)
        with contextlib.ExitStack() as stack:
            try:
                try:
                    data = stack.enter_context(self._file.linked_files.data.opened(place))
                except (AsdffsError, OSError) as err:
                    if self._about.needed or not is_missing(err, place):
                        raise
                    data = None
                yield data
            except (AsdffsError, OSError) as err:
                why = err.sentence if isinstance(err, AsdffsError) else err.strerror or err
                remedy = getattr(err, "remedy", None)
                raise InvalidArrayError(f"{name[:60]!r} cannot be read: {why}", remedy=remedy) from err


def _mtime_of(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _in_files(part: tuple[range | int, ...], ranges: Ranges) -> Iterator[range]:
    """Yield the positions along each axis of the files and of their images, of which the array has ``part``."""
    rest = iter(ranges)
    for one in part:
        if isinstance(one, int):
            yield range(one, one + 1)
        else:
            wanted = next(rest)
            yield one[wanted.start : wanted.stop : wanted.step]


class _Image:
    """The image of ``about`` in the open file ``data``, whose elements are to have ``dtype``."""

    def __init__(self, file: FileState, data: DataFile, about: Stacked, dtype: Any) -> None:
        self._file = file
        self._data = data
        self._about = about
        self._dtype = dtype
        if about.target not in data.known:
            data.known[about.target] = self._found()
        self._region: Region = data.known[about.target]
        self._check()

    def _found(self) -> Region:
        """Return where the image is.  Raises ``InvalidArrayError``, ``DamagedFileError``."""
        size, head = self._data.backend.size(), self._data.backend.read_at(0, _HEAD)
        container: Any = next((one for one in registry.each("containers") if one.claims(head)), None)
        if not hasattr(container, "data"):  # those of other distributions need not have it
            raise InvalidArrayError("it is in no format that asdffs reads")
        found: Region = container.data(self._data.backend.read_at, size, str(self._about.target))
        return found

    def _check(self) -> None:
        """Raise ``InvalidArrayError`` if the image is not the one that the tree describes."""
        region = self._region
        if region.shape != self._about.image:
            shape, stated = list(region.shape), list(self._about.image)
            raise InvalidArrayError(f"its image has the shape {shape}, and the tree says {stated}")
        if (region.scale, region.zero) != (1, 0):
            raise InvalidArrayError("its image is scaled (BSCALE, BZERO), of which the tree says nothing")

    def part(self, inside: Ranges, *, whole: bool) -> Any:
        """Return the elements at ``inside``: positions along each axis, without a first one of length 1."""
        shape = tuple(map(len, inside))
        if len(inside) < len(self._about.image):
            inside = (range(1), *inside)
        found = self._decoded(inside, whole=whole) if self._region.scaled else self._stored(inside)
        return self._typed(found).reshape(shape)

    def _stored(self, inside: Ranges) -> Any:
        """Return elements that are stored as they are."""
        import numpy as np

        item, steps, offset = self._region.item, [], self._region.offset
        for axis, one in enumerate(inside):
            stride = item * math.prod(self._region.shape[axis + 1 :])
            offset += one.start * stride
            steps.append(one.step * stride)
        wanted = Strided(tuple(map(len, inside)), tuple(steps), item, offset)
        raw = b"".join(part.read(self._read) for part in requested_parts(wanted))
        return np.frombuffer(raw, descr_of(self._region.datatype, "big")).reshape(wanted.shape)

    def _decoded(self, inside: Ranges, *, whole: bool) -> Any:
        """Return elements of a compressed image."""
        slices = tuple(slice(one.start, one.stop, one.step) for one in inside)
        place = (self._data.folder.path(self._data.backend.name), self._data.signature[:5], self._about.target)
        kept = self._file.made.get(place)
        if kept is not None:
            return kept[slices]
        few = math.prod(map(len, inside)) * _FEW < math.prod(self._region.shape)
        if self._size(self._region.shape) > self._file.budget.memory or (few and not whole):
            self._check_budget(self._region.tile, "a compressed tile")
            return self._converted(slices)
        self._check_budget(self._region.shape, "an image")
        kept = self._converted(None)
        self._file.made.put(place, kept)
        return kept[slices]

    def _size(self, shape: tuple[int, ...]) -> int:
        return math.prod(shape) * self._region.item

    def _check_budget(self, shape: tuple[int, ...], what: str) -> None:
        """Raise ``InvalidArrayError`` if ``shape`` takes too much memory.  The library has a few copies of it."""
        self._file.budget.check(self._size(shape), what, self._data.backend.size)

    def _converted(self, part: tuple[slice, ...] | None) -> Any:
        with self._file.scheduler.waiting():
            return converted(self._region, self._read_between, self._data.backend.size(), part, stored=True)

    def _typed(self, found: Any) -> Any:
        """Return elements with the stated datatype.  Raises ``InvalidArrayError`` if that would change them."""
        import numpy as np

        exact = found.dtype.itemsize < 8 or found.dtype.kind == self._dtype.kind  # int64 has more digits than float64
        if not exact or not np.can_cast(found.dtype, self._dtype, "safe"):
            sentence = f"its image has elements of {found.dtype.name}, and the tree says {self._dtype.name}"
            raise InvalidArrayError(sentence)
        return found.astype(self._dtype, copy=False)

    def _read(self, offset: int, length: int) -> bytes:
        return read_bytes(self._data.backend.extent(offset, length))

    def _read_between(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, without the main lock before and after."""
        with self._file.scheduler.resumed():
            return self._read(offset, length)

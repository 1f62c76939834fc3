"""The elements of an array that are in FITS files beside the ASDF file, put together when they are read.

Each file has an image.  One that is stored as it is is read in place; a compressed one is decoded by astropy, only
the tiles that a selection needs.  A read of bytes decodes a whole image and keeps it (``document/outlines``), because
the next read probably wants its neighbours.

The elements of a file that does not exist are NaN, as for the Python tools of DKIST; those of integers are the least
number of their datatype (FITS: BLANK).
"""

from __future__ import annotations

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
from asdffs.document.data_files import DataFile, facts_of, is_missing, place_beside
from asdffs.document.outlines import ROOM
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.format.container import Region
from asdffs.storage.backend import read_bytes

#: A selection of more than this part of a compressed image decodes, and keeps, all of it.
_MOST_OF: Final = 4
#: Bytes by which a container knows its format.
_HEAD: Final = 80


class StackedElements(GatheredElements):
    """The elements of the array of ``file`` that ``array`` describes, whose ``pieces`` are ``Stacked``."""

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
        self.size = self.dtype.itemsize * math.prod(self.shape)
        kept = [(axis, len(one)) for axis, one in enumerate(stacked.part) if isinstance(one, range)]
        self.chunk = tuple(1 if axis < len(stacked.counts) else length for axis, length in kept)
        self._listed, self._changed = 0, 0
        self._facts: dict[str, tuple[int, int]] | None = None

    def held(self) -> int:
        """See ``Elements``.  Files that are missing have nothing, and one that is named twice counts once."""
        names = set(self._about.files)
        if not self._file.is_remote:
            names &= facts_of(names, self._file.location).keys()
        return len(names) * math.prod(self._about.image) * int(self.dtype.itemsize)

    def changed(self) -> int:
        """Return when a program last added, removed or replaced one of the files, in ns; 0 for a remote file.

        The directory of the ASDF file tells whether that may be so.  What changed in place is not seen.
        """
        if self._file.is_remote:
            return 0
        listed = os.stat(os.path.dirname(self._file.path)).st_mtime_ns
        if listed != self._listed:
            self._listed, before = listed, self._facts
            with self._file.scheduler.waiting():  # there may be thousands
                self._facts = facts_of(self._about.files, self._file.location)
            if before is None:
                self._changed = max((mtime for _, mtime in self._facts.values()), default=0)
            elif self._facts != before:
                self._changed = max(self._changed + 1, time.time_ns())
        return self._changed

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
        rows = found.reshape(*map(len, before), *map(len, inside))
        for where in itertools.product(*(range(len(one)) for one in before)):
            number = 0
            for position, one, count in zip(where, before, about.counts, strict=True):
                number = number * count + one[position]
            rows[where] = self._image(about.files[number], tuple(inside), whole=whole)
        return found

    def _image(self, name: str, inside: Ranges, *, whole: bool) -> Any:
        """Return elements of the image in a file, or what stands for those of a missing file."""
        import numpy as np

        place = place_beside(name, self._file.location)
        try:
            with self._file.linked_files.data.opened(place) as data:
                image = _Image(self._file, data, self._about, self.dtype)
                return image.part(inside, whole=whole)
        except (AsdffsError, OSError) as err:
            if is_missing(err, place):
                return np.nan if self.dtype.kind == "f" else np.iinfo(self.dtype).min
            why = err.sentence if isinstance(err, AsdffsError) else err.strerror
            raise InvalidArrayError(f"{name[:60]!r} cannot be read: {why}") from err


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
        size = math.prod(self._region.shape) * self._region.item
        place = (self._data.folder.path(self._data.backend.name), self._data.signature[:5], self._about.target)
        kept = self._file.made.get(place)
        if kept is not None:
            return kept[slices]
        few = math.prod(map(len, inside)) * _MOST_OF < math.prod(self._region.shape)
        if size > ROOM or (few and not whole):
            return self._converted(slices)
        kept = self._converted(None)
        self._file.made.put(place, kept)
        return kept[slices]

    def _converted(self, part: tuple[slice, ...] | None) -> Any:
        self._file.budget.check(
            math.prod(self._region.shape) * self._region.item, "an image", self._data.backend.size
        )
        with self._file.scheduler.waiting():
            return converted(self._region, self._read_between, self._data.backend.size(), part, stored=True)

    def _typed(self, found: Any) -> Any:
        """Return elements with the stated datatype.  Raises ``InvalidArrayError`` if that would change them."""
        import numpy as np

        if not np.can_cast(found.dtype, self._dtype, "safe"):
            sentence = f"its image has elements of {found.dtype.name}, and the tree says {self._dtype.name}"
            raise InvalidArrayError(sentence)
        return found.astype(self._dtype, copy=False)

    def _read(self, offset: int, length: int) -> bytes:
        return read_bytes(self._data.backend.extent(offset, length))

    def _read_between(self, offset: int, length: int) -> bytes:
        """Return bytes of the file, without the main lock before and after."""
        with self._file.scheduler.resumed():
            return self._read(offset, length)

"""The interface of a container: a file of another format that has an ASDF file inside.

Pure: a container reads through a function, and describes changes as plans, which ``storage`` carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:  # every command reads a file, and few make a plan
    from asdffs.format.plan import Plan

#: ``read(offset, length)`` returns bytes of the whole file, fewer at its end.
Read = Callable[[int, int], bytes]


class Region(NamedTuple):
    """``length`` bytes at ``offset`` of the whole file: data outside the ASDF file to which an array of it refers.

    ``item``: bytes of an element (a number, or a row of a table).  ``shape``: lengths of the axes as numpy has them.
    ``datatype``: the datatype of the stored numbers, which are big-endian; empty for rows of a table, and if the
    numbers are compressed.  ``scaled``: the stored numbers are not the values, so that a library must convert them.
    ``header``: the description of these bytes that the library of the container reads.  If the numbers are scaled,
    the values are ``stored * scale + zero``.  ``tile``: the shape of the largest compressed tile; empty without one.
    """

    offset: int
    length: int
    item: int
    shape: tuple[int, ...]
    datatype: str
    scaled: bool
    header: bytes
    scale: float = 1
    zero: float = 0
    tile: tuple[int, ...] = ()


class Embedded(Protocol):
    """An ASDF file inside another file: ``size`` bytes from ``start``.  Immutable.

    Plans for the ASDF file count offsets from its first byte.
    """

    @property
    def kind(self) -> str:
        """The name of the format of the whole file, for messages."""

    @property
    def start(self) -> int:
        """Where the ASDF file begins, in bytes."""

    @property
    def size(self) -> int:
        """The size of the ASDF file in bytes."""

    def size_for(self, least: int, unit: int) -> int:
        """Return the size that the ASDF file gets if it needs ``least`` bytes; it never gets smaller.

        ``unit``: the file system moves bytes without a copy by multiples of this, in bytes.
        """

    def enclose(self, plan: Plan, read: Read) -> tuple[Plan, Embedded]:
        """Return the plan for the whole file that carries out ``plan``, and what is embedded afterwards.

        Raises ``NoRoomError`` if the container has no way to do it, ``OSError``.
        """

    def contradictions(self, text: bytes, read: Read) -> Iterator[str]:
        """Yield a sentence for each contradiction between the container and this tree.  Raises ``OSError``."""

    def region(self, source: str) -> Region | None:
        """Return the data to which the ``source`` of an array refers; None if it is not about this container.

        Raises ``InvalidArrayError`` if there are no such data.
        """

    def check(self, source: str, read: Read) -> None:
        """Look at the data to which ``source`` refers before a library decodes them.

        Raises ``InvalidArrayError`` if they would take more memory than ``region`` says, ``OSError``.
        """

    def units(self, source: str) -> Mapping[str, str]:
        """Return the units that the container states for the data to which ``source`` refers.

        The unit of all elements is at the empty text; those of the columns of a table are at their names.
        """


class Container(Protocol):
    """A format whose files may have an ASDF file inside."""

    def claims(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head``, at most 80 bytes, has this format."""

    def find(self, read: Read, size: int) -> Embedded:
        """Return the ASDF file in a file of ``size`` bytes.

        Raises ``NotAsdfError`` if it has none, ``DamagedFileError`` if the file is cut off, ``OSError``.
        """

    def data(self, read: Read, size: int, target: str) -> Region:
        """Return the data that ``target`` names in a file of ``size`` bytes, which need not have an ASDF file inside.

        Raises ``InvalidArrayError`` if there are none, ``DamagedFileError``, ``OSError``.
        """

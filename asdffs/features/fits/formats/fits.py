"""``NAME.fits``: arrays, tables and stated FITS files for tools that read nothing else; read-only and live.

| in the tree                                  | the file                                                        |
|----------------------------------------------|-----------------------------------------------------------------|
| an array of numbers with at least one axis   | a primary image; its mask as an extension MASK, 1 where masked  |
| an array of records                          | an empty primary HDU and a binary table                         |
| ``core/table``, astropy's ``table``          | the same, a column each                                         |
| ``fits/fits``: a list of header/data units   | these units, with exactly the headers that are stated           |

Sizes follow from the tree alone, so that a listing computes no data: a header has room for every card that metadata
might need.  Needs the extra ``fits`` (astropy, for the cards).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

from asdffs.arrays.branch import Branch, branch_of_mask, home_of, is_fits, is_table
from asdffs.arrays.inline import read_values
from asdffs.arrays.ndarrays import Ndarray
from asdffs.arrays.outline import arrays_in
from asdffs.arrays.placement import array_errors
from asdffs.document.arrays.elements import Elements, import_numpy
from asdffs.document.arrays.finding import elements_of, subjects_of
from asdffs.document.arrays.masks import mask_of
from asdffs.document.arrays.tables import table_at
from asdffs.document.changes import TREE, Subject, content
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError, NotPermittedError
from asdffs.features.fits.binary_table import BinaryTable
from asdffs.features.fits.cards import BLOCK, blocks, format_header, is_counted, room_for, stated_header
from asdffs.features.fits.data import Card, Image, is_image
from asdffs.features.fits.metadata import metadata_of
from asdffs.features.fits.sky import ROOM, blocks_of, find_gwcs, gwcs_beside, sky_cards, wcs_of
from asdffs.storage.backend import Extent, read_bytes
from asdffs.views.formats.base import ArrayFile

_NUMBERS: Final = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|bool8")
_CONFORMS: Final[Card] = ("SIMPLE", True, "conforms to FITS standard")
_EMPTY: Final[list[Card]] = [("BITPIX", 8, ""), ("NAXIS", 0, "")]
_EXTENDS: Final[Card] = ("EXTEND", True, "")
_COUNTS: Final[list[Card]] = [("PCOUNT", 0, ""), ("GCOUNT", 1, "")]
_PRIMARY: Final = [_CONFORMS, *_EMPTY, _EXTENDS]


@dataclass(frozen=True)
class Unit:
    """A header/data unit.  Its header has ``cards``, and those ``offered`` that fit; if ``stated``, only ``cards``.

    ``late()``: returns more cards to offer, at most ``room``, and takes seconds.
    """

    cards: list[Card]
    data: Image | BinaryTable | None = None
    offered: list[Card] = field(default_factory=list)
    stated: bool = False
    late: Callable[[], list[Card]] = list
    room: int = 0

    @property
    def header_size(self) -> int:
        """Bytes of the header."""
        if self.stated and not is_counted(self.cards):
            return len(self.header)
        return blocks(room_for(self.cards) + room_for(self.offered) + self.room)

    @property
    def size(self) -> int:
        """Bytes of the unit."""
        data = self.data.size if self.data is not None else 0
        return self.header_size + -(-data // BLOCK) * BLOCK

    @functools.cached_property
    def header(self) -> bytes:
        """The header.  Takes a while: astropy is imported, and many cards are formatted."""
        if self.stated:
            return stated_header(self.cards)
        return format_header(self.cards, [*self.late(), *self.offered], self.header_size)

    def lacks_header(self, offset: int) -> bool:
        """Return whether a read at ``offset`` needs the header, which was not made yet.

        So does one of the rows of a table: with the header it is found what stands for masked elements.
        """
        needed = offset < self.header_size or isinstance(self.data, BinaryTable)
        return needed and "header" not in vars(self)

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of the unit, at least one and maybe fewer than asked for."""
        if offset < self.header_size:
            return self.header[offset : offset + length]
        offset -= self.header_size
        if self.data is not None and offset < self.data.size:
            return self.data.read(offset, length)
        return bytes(min(length, self.size - self.header_size - offset))


class FitsFile(ArrayFile):
    """One file; ``find()`` is the array, the table, or the list of units."""

    _known: tuple[Any, list[Unit]] | None = None

    def subjects(self) -> tuple[Subject, ...] | None:
        """Return the tree and every block in it; None if a part is another file's, which may change at any time."""
        external = self.external or any(self._is_external(branch) for branch in self._arrays())
        return None if external else self._own()

    def _arrays(self) -> Iterator[Branch]:
        """Yield the arrays of the file, and their masks."""
        for branch in arrays_in(self.branch):
            yield branch
            if (mask := branch_of_mask(branch)) is not None:
                yield mask

    def _own(self) -> tuple[Subject, ...]:
        found = {subject for branch in self._arrays() for subject in subjects_of(self._document, branch)}
        return (TREE, *sorted({*found, *self._sky()}))

    def _sky(self) -> set[Subject]:
        """Return the blocks with coefficients of the gwcs, whichever image it is about."""
        home = home_of(self.branch) if self.branch.array is not None else None
        wcs = None if home is None else gwcs_beside(home)
        return {content(number) for number in blocks_of(self._document, wcs)} if wcs is not None else set()

    def _others(self) -> list[FileState]:
        """Other files that some of its arrays are in."""
        return [found for branch in arrays_in(self.branch) if (found := self._other(branch)) is not None]

    def _masks(self) -> bool:
        """Return whether it is a table with masks, whose header depends on the elements."""
        arrays = () if self.branch.array is not None else arrays_in(self.branch)
        return any(one.masked or branch_of_mask(one) is not None for one in arrays)

    def version(self) -> int:
        """When the tree or a block changed: its header tells of more than the array."""
        others = [other.changes.stamp(content(0)) for other in self._others()]
        return max([self._document.changes.stamp(subject) for subject in self._own()] + others)

    def size(self) -> int:
        """Return the size of all units; 0 for what cannot be shown."""
        try:
            return sum(unit.size for unit in self._units())
        except AsdffsError:
            return 0

    def open_for_writing(self) -> None:
        """Refuse every write, and say what works instead.  Raises ``NotPermittedError``."""
        raise NotPermittedError(
            "a .fits file of a mount is read-only; write the data through the .npy file beside it, and header values "
            "in tree.yaml"
        )

    def open_for_reading(self) -> None:
        """Raise an error for what cannot be shown."""
        for unit in self._units():
            if unit.stated:  # a header may have what FITS cannot hold
                with array_errors(self.branch.line), self._document.scheduler.waiting():
                    unit.header  # noqa: B018  # it is made now, and kept

    def read(self, offset: int, length: int) -> bytes | Extent:
        """Return bytes of one unit after the other."""
        with array_errors(self.branch.line):
            return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes | Extent:
        pieces: list[bytes | Extent] = []
        for unit in self._units():
            if unit.lacks_header(offset):
                with self._document.scheduler.waiting():
                    unit.header  # noqa: B018  # it is made now, and kept
            while offset < unit.size and length > 0:
                piece = unit.read(offset, length)
                count = len(piece) if isinstance(piece, bytes) else piece.length
                if not count:
                    raise InvalidArrayError("its block ends before the array", line=self.branch.line)
                pieces.append(piece)
                offset, length = offset + count, length - count
            offset -= unit.size
            if offset < 0 or not length:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(map(read_bytes, pieces))

    def _units(self) -> list[Unit]:
        while (units := self._known_units()) is None:
            continue
        return units

    def _known_units(self) -> list[Unit] | None:
        """Return all units; None if the tree changed while they were made: they may lack what is beside them."""
        document, outline, branch = self._document, self._document.outlines.outline(), self.branch
        with array_errors(branch.line):
            sizes = [
                document.contents.size(subject.number) for subject in self._own() if _is_there(document, subject)
            ]
            others = [(other.generation, other.contents.size(0)) for other in self._others()]
            sky = sorted((subject, document.changes.stamp(subject)) for subject in self._sky())
            stamps = [document.changes.stamp(subject) for subject in self._own()] if self._masks() else []
            key = (branch, outline, len(document.table), sizes, others, sky, stamps)
            if self._known is None or self._known[0] != key:
                import_numpy(document.scheduler)
                made = list(_Units(document).of(branch))
                if document.outlines.outline() is not outline:
                    return None
                self._known = key, made
            return self._known[1]


class _Units:
    """Makes the units of a branch of ``document``."""

    def __init__(self, document: FileState) -> None:
        self._document = document

    def of(self, branch: Branch) -> Iterator[Unit]:
        """Return all units.  Raises ``AsdffsError``, ``OSError``."""
        if branch.array is None and is_fits(branch.tag):
            if branch.mapping:
                raise InvalidArrayError("it is a mapping, and not a list of header/data units")
            units = (branch.children[key] for key in sorted(branch.children, key=int))
            for number, unit in enumerate(units):
                yield self._stated(unit, first=number == 0)
        elif branch.array is None:
            yield Unit(_PRIMARY)
            yield self._table_unit(self._table(branch), metadata_of(branch))
        elif branch.array.has_records:
            yield Unit(_PRIMARY)
            yield self._table_unit(self._table(branch), metadata_of(home_of(branch)))
        else:
            yield from self._images(branch)

    def _images(self, branch: Branch) -> Iterator[Unit]:
        home, unit = home_of(branch), self._document.units(branch).get("")
        image = Image(self._elements(branch))
        cards = [_CONFORMS, *image.cards(), _EXTENDS, *image.scaling()]
        units: list[Card] = [("BUNIT", unit, "")] if unit else []
        late, room = self._sky(home, branch, image)
        yield Unit(cards, image, units + metadata_of(home, branch), late=late, room=room)
        mask = self._mask(branch)
        if mask is not None:
            yield Unit([("XTENSION", "IMAGE", ""), *mask.cards(), *_COUNTS, ("EXTNAME", "MASK", "")], mask)

    def _sky(self, home: Branch | None, branch: Branch, image: Image) -> tuple[Callable[[], list[Card]], int]:
        """Return a function that makes the cards of the coordinates of an image, and the most that there are.

        They are those of the gwcs; if it has none for FITS, those of the ``wcsinfo``.
        """
        stated, found = wcs_of(home, branch), find_gwcs(self._document, home, branch, image.shape)
        if found is None or len(image.shape) < 2:
            return lambda: stated, room_for(stated)
        computed = sky_cards(self._document, found, image.shape)

        def cards() -> list[Card]:
            made = computed()
            return made if any(keyword == "CTYPE1" for keyword, _, _ in made) else made + stated

        return cards, ROOM + room_for(stated)

    def _mask(self, branch: Branch) -> Image | None:
        elements = mask_of(self._document, branch, self._elements(branch))
        return Image(elements) if elements is not None and is_image(elements) else None

    def _table_unit(self, table: BinaryTable, offered: list[Card]) -> Unit:
        cards = [("XTENSION", "BINTABLE", ""), *table.cards(), *table.column_cards()]
        return Unit(cards, table, offered, late=table.late_cards, room=table.room)

    def _table(self, branch: Branch, *, masks: bool = True) -> BinaryTable:
        return BinaryTable(table_at(self._document, branch, masks=masks), self._document.scheduler)

    def _values(self, listed: Branch) -> Any:
        """Return the values of a list in the tree."""
        return read_values(self._document.outlines.outline(), listed.span, listed.line)

    def _elements(self, branch: Branch) -> Elements:
        """Return the elements, rows first."""
        return elements_of(self._document, branch, rows_first=True)

    # -- stated units ---------------------------------------------------------

    def _stated(self, unit: Branch, *, first: bool) -> Unit:
        """Return a unit with the header in the tree, after adding missing cards that FITS demands."""
        header = unit.children.get("header")
        cards = [_as_card(entry, unit.line) for entry in (self._values(header) if header is not None else ())]
        known = {card[0]: card[1] for card in cards}
        data = self._stated_data(unit, zero=bool(known.get("BZERO")))
        kind = "BINTABLE" if isinstance(data, BinaryTable) else "IMAGE"
        start: Card = ("SIMPLE", True, "") if first else ("XTENSION", kind, "")
        needed = [start, *(_EMPTY if data is None else data.cards())]
        if isinstance(data, BinaryTable):
            needed += data.column_cards()
        elif not first:
            needed += _COUNTS
        _check_stated(known, needed, unit.line)
        demanded = {card[0] for card in needed}
        lacks = not demanded <= known.keys()
        ordered = [*needed, *(card for card in cards if card[0] not in demanded)] if lacks else cards
        made = Unit(ordered, data, stated=True)
        if not is_counted(ordered):  # only astropy knows where it breaks a text
            with self._document.scheduler.waiting():
                made.header  # noqa: B018  # it is made now, and kept
        return made

    def _stated_data(self, unit: Branch, *, zero: bool) -> Image | BinaryTable | None:
        data = unit.children.get("data")
        if data is None:
            return None
        if data.array is None:
            return self._table(data, masks=False)  # the stated header says what is missing
        if data.array.has_records:
            return self._table(data)
        elements = self._elements(data)
        if not is_image(elements):
            raise InvalidArrayError("its data is no array that FITS knows", line=data.line)
        return Image(elements, unsigned=zero)


def _as_card(entry: Any, line: int) -> Card:
    """Return a card as it is stated: an empty list is a blank one, and a keyword alone has no value."""
    words: list[Any] = entry if isinstance(entry, list) and len(entry) <= 3 else [None]
    if words and not isinstance(words[0], str):
        sentence = f"a card of a header is a list of keyword, value and comment, not {str(entry)[:40]!r}"
        raise InvalidArrayError(sentence, line=line)
    whole: list[Any] = [*words, *["", None, ""][len(words) :]]
    return str(whole[0]), whole[1], str(whole[2] or "")


def _check_stated(known: dict[str, Any], needed: list[Card], line: int) -> None:
    for keyword, value, _ in needed:
        if keyword in known and known[keyword] != value and not _same_form(known[keyword], value):
            sentence = f"its header states {keyword} = {known[keyword]!r}, and its data has {value!r}"
            raise InvalidArrayError(sentence, line=line)


def _same_form(stated: Any, value: Any) -> bool:
    """``K`` is ``1K``."""
    return str(stated).strip() == str(value) or f"1{str(stated).strip()}" == str(value)


def _is_there(document: FileState, subject: Subject) -> bool:
    return subject.kind == "content" and 0 <= subject.number < len(document.table)


def _is_image(array: Ndarray) -> bool:
    axes = array.shape if array.row is None else (1, *array.row)
    return isinstance(array.datatype, str) and _NUMBERS.fullmatch(array.datatype) is not None and bool(axes)


class Fits:
    """See ``ArrayFormat``."""

    ending = ".fits"
    file = FitsFile
    mask = None

    def missing(self) -> str:
        """See the module."""
        return "" if find_spec("astropy") is not None else "pip install 'asdffs[fits]'"

    def takes(self, branch: Branch) -> bool:
        """Return whether FITS can show it, as far as the tree tells."""
        if not branch.holds:
            return False
        if branch.array is not None:
            return _is_image(branch.array) or branch.array.has_records
        return is_fits(branch.tag) or is_table(branch.tag)


PLUGIN = Fits()

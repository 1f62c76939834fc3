"""Formats the cards of FITS headers, as astropy writes them, in whole blocks.

Implements FITS 4.0, sections 4 (headers) and 4.3 (units).  Needs the extra ``fits``.
"""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Final

from asdffs.arrays.branch import Scalar
from asdffs.errors import InvalidArrayError
from asdffs.features.fits.data import Card
from asdffs.tree.resolving import plain_value

#: Bytes of a FITS block, and of a card.
BLOCK: Final = 2880
CARD: Final = 80
#: Characters of the text of a commentary card, and the keywords of these.
_TEXT: Final = 72
_COMMENTARY: Final = ("", "COMMENT", "HISTORY")
#: Characters of a text that one card holds, and of one that is continued.
_LONGEST: Final = 68
_CONTINUED: Final = 67
#: The most characters of a unit, which must fit a card with its comment.
_UNIT: Final = 45
#: A keyword that leaves a text its whole room.
_KEYWORD: Final = re.compile(r"[A-Z0-9_-]{1,8}")
_UNITS: Final = re.compile(r"BUNIT|TUNIT\d+")


def blocks(cards: int) -> int:
    """Return the bytes of the blocks that so many cards and END take."""
    return -(-(cards + 1) * CARD // BLOCK) * BLOCK


def room_for(cards: Iterable[Card]) -> int:
    """Return the most cards that ``cards`` take, with the continuations of long texts."""
    return sum(map(_room, cards))


def is_counted(cards: Iterable[Card]) -> bool:
    """Return whether ``room_for`` is exact: no text is continued, as one after a long keyword (HIERARCH) may be."""
    return all(card[0] in _COMMENTARY or (_KEYWORD.fullmatch(card[0]) and _room(card) == 1) for card in cards)


def _room(card: Card) -> int:
    keyword, value, comment = card
    if keyword in _COMMENTARY:
        return len(_lines(str(value or comment or "")))
    length = len(value) + value.count("'") if isinstance(value, str) else 0
    # astropy breaks lines between words, so two lines together have more than one has room for
    return 1 if length <= _LONGEST else 2 * -(-length // _CONTINUED) + 1


def format_header(cards: Iterable[Card], offered: Iterable[Card], size: int) -> bytes:
    """Return a header of ``size`` bytes: ``cards``, those of ``offered`` that fit, blank cards, and END.

    Raises ``InvalidArrayError`` if one of ``cards`` is not possible in FITS.
    """
    images = [_stated_image(_with_unit(card)) for card in cards]
    made = ((_image(_with_unit(card), strict=True), _room(card)) for card in offered)
    space = size - CARD - sum(map(len, images))  # END takes a card
    for image, room in made:
        if image and len(image) <= min(room * CARD, space):
            images.append(image)
            space -= len(image)
    return _header(images, size)


def _header(images: Iterable[str], size: int) -> bytes:
    return ("".join(images).ljust(size - BLOCK) + "END").ljust(size).encode("ascii")  # END is in the last block


def stated_header(cards: Sequence[Card]) -> bytes:
    """Return a header with exactly these cards, long texts continued."""
    images = [_stated_image(card) for card in cards]
    return _header(images, blocks(sum(map(len, images)) // CARD))


def _stated_image(card: Card) -> str:
    image = _image(card, strict=False)
    if image is None and isinstance(card[1], float):  # infinity, and what is no number
        image = _image((card[0], str(card[1]), card[2]), strict=False)
    if image is None:
        raise InvalidArrayError(f"FITS cannot hold {card[0]!r} = {str(card[1])[:60]!r}")
    return image


def _image(card: Card, *, strict: bool) -> str | None:
    """Return the card as astropy formats it; None for what it refuses, or with ``strict`` warns about."""
    from astropy.io import fits

    keyword, value, comment = card
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error" if strict else "ignore")
            if keyword in _COMMENTARY:  # these have a text, and nothing else
                return "".join(fits.Card(keyword, line).image for line in _lines(str(value or comment or "")))
            return str(fits.Card(keyword, value, comment or None).image)
    except (ValueError, fits.VerifyError, Warning):
        return None


def _with_unit(card: Card) -> Card:
    """Return a card with its unit as FITS writes it (FITS 4.0, section 4.3); other cards as they are.

    A unit that FITS does not have stays, and a comment says so; one that fits no card is left out.
    """
    keyword, text, _ = card
    if not _UNITS.fullmatch(keyword):
        return card
    found = _fits_unit(text)
    comment = "" if found is not None else "not a unit of FITS"
    shown = found or escaped(text)
    if len(shown) + shown.count("'") > _UNIT:
        return keyword, "", "its unit is too long for a card"
    return keyword, shown, comment


def _fits_unit(text: str) -> str | None:
    from astropy import units

    with contextlib.suppress(ValueError, TypeError):
        units.Unit(text, format="fits")
        return text
    with contextlib.suppress(ValueError, TypeError):
        return str(units.Unit(text).to_string("fits"))
    return None


def _lines(text: str) -> list[str]:
    """Return a text in pieces that fit a card."""
    return [text[start : start + _TEXT] for start in range(0, len(text), _TEXT)] or [""]


def value_of(scalar: Scalar) -> Any:
    """Return what a card can hold of a scalar of the tree: a text, a number, a bool; None otherwise."""
    if not scalar.plain:
        return scalar.text if scalar.text.isascii() and scalar.text.isprintable() else None
    value = plain_value(scalar.text)
    if isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return None if value is None or isinstance(value, float) else scalar.text  # dates and times


def escaped(text: str) -> str:
    """Return a text in characters of FITS; others are escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if " " <= one <= "~" else one.encode("unicode_escape").decode() for one in text)

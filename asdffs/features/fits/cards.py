"""Makes the cards of FITS headers from metadata and coordinates in a tree.  astropy formats them.

Scalars beside an array, and those of the nearest ``meta``, are shown where they fit a card of 80 characters: under
their own name where that can be a keyword, else as ``HIERARCH meta.instrument.name``.  A ``wcsinfo`` mapping with the
FITS keywords of a linear or a TAN projection becomes those keywords, when it is complete.  So does a ``meta`` that
has FITS keywords, as in the maps of sunpy: ``cunit1``, ``ctype1``, ``date-obs``.  A WCS is stated for the science
image, which is ``data`` beside the ``meta``, and for arrays of the same shape.  Implements FITS 4.0, sections 4
(headers) and 8 (WCS).  Needs the extra ``fits``.

Coordinates of a gwcs are computed by gwcs in a short-lived process (``sky_helper``), when the header is read for the
first time.  They are kept for the mount, by the text of the gwcs in the tree.  If there are none, a comment in the
header tells why.  Needs the extra ``wcs``.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import logging
import math
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from asdffs.arrays.branch import Branch, Scalar
from asdffs.document.arrays.finding import elements_of
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError, InvalidArrayError
from asdffs.features.fits import sky_helper
from asdffs.features.fits.data import Card
from asdffs.storage.backend import read_bytes
from asdffs.tree.lookups import Values
from asdffs.tree.paths import Path
from asdffs.tree.resolving import plain_value
from asdffs.workers.helpers import helper, text_of

logger = logging.getLogger(__name__)

#: Bytes of a FITS block, and of a card.
BLOCK: Final = 2880
_CARD: Final = 80
#: Characters of the text of a commentary card, and the keywords of these.
_TEXT: Final = 72
_COMMENTARY: Final = ("", "COMMENT", "HISTORY")
#: Cards of metadata: beyond this a header says nothing to anybody.
_MOST: Final = 2000
_META: Final = "meta"
#: Before names beside the array that cannot be keywords, or have a meaning: astropy reads HIERARCH NAXIS as NAXIS.
_BESIDE: Final = "tree"
#: The name of the science image beside its metadata.
_SCIENCE: Final = "data"
_KEYWORD: Final = re.compile(r"[A-Z][A-Z0-9_-]{0,7}")
#: Keywords about the file itself, which metadata must not change.
_STRUCTURE: Final = re.compile(
    r"SIMPLE|XTENSION|BITPIX|NAXIS\d*|EXTEND|PCOUNT|GCOUNT|GROUPS|B(SCALE|ZERO|UNIT|LANK)|END|COMMENT|HISTORY|CONTINUE"
    r"|T(FIELDS|HEAP)|T[A-Z]{4}\d+|EXT(NAME|VER|LEVEL)|CHECKSUM|DATASUM|Z[A-Z]+\d*|INHERIT"
)
#: Keywords of coordinates, which must come together.
_COORDINATES: Final = re.compile(
    r"WCS.*|C(TYPE|RVAL|RPIX|DELT|UNIT|ROTA|D|NAME)\d.*|P[CVS]\d.*|(LON|LAT)POLE.?|RADESYS.?|EQUINOX.?|MJDREF.*"
)
#: The most characters of a unit, which must fit a card with its comment.
_UNIT: Final = 45
_UNITS: Final = re.compile(r"BUNIT|TUNIT\d+")
_AXES: Final = re.compile(r"ctype(\d)")
_TAN: Final = re.compile(r"(RA--|DEC-|[GES]LON|[GES]LAT)-TAN")
_LINEAR: Final = re.compile(r"[A-Z]{0,8}")
#: Cards for which a header has room: four polynomials of degree 5, and the rest.
ROOM: Final = 120
_GWCS: Final = re.compile(r"(tag:stsci\.edu:gwcs/|asdf://[^/]*/(?:[^/]+/)*)wcs-[\d.]+")
_ALIAS: Final = re.compile(r"(?:^|[\s\[{,])\*([^\s\]},]+)")
_ANCHOR: Final = re.compile(r"(?:^|[\s\[{,])&([^\s\]},]+)")
#: Seconds that the process may take.
_PATIENCE: Final = 60.0
#: WCS that are kept.
_MOST_KEPT: Final = 64
_COMMENT: Final = 70
#: Larger arrays are not hashed, in bytes.
_LARGE: Final = 1 << 20

_known: Final[dict[tuple[str, tuple[int, ...]], list[Card]]] = {}


def blocks(cards: int) -> int:
    """Return the bytes of the blocks that so many cards and END take."""
    return -(-(cards + 1) * _CARD // BLOCK) * BLOCK


def format_header(cards: Iterable[Card], offered: Iterable[Card], size: int) -> bytes:
    """Return a header of ``size`` bytes: ``cards``, those of ``offered`` that fit, blank cards, and END.

    Raises ``InvalidArrayError`` if one of ``cards`` is not possible in FITS.
    """
    images = [_stated_image(_with_unit(card)) for card in cards]
    made = (_image(_with_unit(card), strict=True) for card in offered)
    return _header([*images, *(image for image in made if image is not None and len(image) == _CARD)], size)


def _header(images: Iterable[str], size: int) -> bytes:
    return ("".join(images).ljust(size - BLOCK) + "END").ljust(size).encode("ascii")  # END is in the last block


def stated_header(cards: Sequence[Card]) -> bytes:
    """Return a header with exactly these cards, long texts continued."""
    images = [_stated_image(card) for card in cards]
    return _header(images, blocks(sum(map(len, images)) // _CARD))


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
    shown = found or text.encode("ascii", "backslashreplace").decode()
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


def metadata_of(home: Branch | None, array: Branch | None = None) -> list[Card]:
    """Cards for the scalars beside an array, and in the nearest ``meta``.  ``array``: of an image, its branch."""
    if home is None:
        return []
    beside = list(_scalars(home, "")) if home.mapping else []
    meta = next((found for above in _upwards(home) if (found := above.children.get(_META)) is not None), None)
    below = _below(meta, array) if meta is not None and meta is not home and meta.array is None else ()
    taken: dict[str, Card] = {}
    for keyword, value in itertools.islice(itertools.chain(beside, below), _MOST):
        taken.setdefault(keyword.upper(), (keyword, value, ""))
    return list(taken.values())


def _below(meta: Branch, array: Branch | None) -> Iterator[tuple[str, Any]]:
    """Yield the scalars of ``meta`` with their names: keywords, if it has those of FITS."""
    if not any(_AXES.fullmatch(key.lower()) for key in meta.scalars):
        yield from _flat(meta, _META)
        return
    stated = array is not None and meta.above and is_science(array, meta.above[0], _axes_of(meta))
    for key, scalar in meta.scalars.items():
        name, value = key.upper(), _value(scalar)
        if value is None or not _KEYWORD.fullmatch(name) or _STRUCTURE.fullmatch(name):
            continue
        if stated or not _COORDINATES.fullmatch(name):
            yield name, value


def _axes_of(keywords: Branch) -> int:
    """Return the number of axes of the coordinates that a mapping states."""
    return max((int(match[1]) for key in keywords.scalars if (match := _AXES.fullmatch(key.lower()))), default=0)


def is_science(branch: Branch, owner: Branch, axes: int) -> bool:
    """Return whether coordinates of ``owner`` with so many ``axes`` are those of the image at ``branch``.

    The numbers of a gwcs, such as coefficients of a polynomial, are no image.
    """
    if any(_GWCS.fullmatch(above.tag) for above in _upwards(branch)):
        return False
    data, array = owner.children.get(_SCIENCE), branch.array
    if array is None or (data is not None and (data is branch or data in branch.above)):  # perhaps a quantity
        return True
    if data is not None and data.array is not None:
        return array.shape == data.array.shape
    return array.shape is None or len(array.shape) >= axes


def wcs_of(home: Branch | None, array: Branch) -> list[Card]:
    """Return the keywords of a ``wcsinfo`` beside the array, in ``meta``, or further up; none unless it is complete.

    None either if it is about another array (``is_science``).  ``array``: the branch of the image.
    """
    found, above = next(_beside(home, "wcsinfo"), (None, None))
    if found is None or above is None or not is_science(array, above, _axes_of(found)):
        return []
    return _projection({key.lower(): _value(scalar) for key, scalar in found.scalars.items()})


def _projection(facts: dict[str, Any]) -> list[Card]:
    axes = sorted(int(match[1]) for key in facts if (match := _AXES.fullmatch(key)))
    kinds = [str(facts[f"ctype{n}"]).strip().upper() for n in axes]
    tangential = [kind for kind in kinds if _TAN.fullmatch(kind)]
    if not axes or len(tangential) not in (0, 2):
        return []
    if not all(_TAN.fullmatch(kind) or _LINEAR.fullmatch(kind) for kind in kinds):
        return []
    needed = [f"{name}{n}" for name in ("crpix", "crval") for n in axes]
    scales = [f"cdelt{n}" for n in axes]
    matrix = [key for key in facts if re.fullmatch(r"(pc|cd)\d_\d", key)]
    rotated = any(key.startswith("cd") for key in matrix)
    if not all(_is_number(facts.get(key)) for key in (*needed, *(() if rotated else scales), *matrix)):
        return []
    more = [key for key in ("lonpole", "latpole", "equinox") if _is_number(facts.get(key))]
    texts = [f"cunit{n}" for n in axes if isinstance(facts.get(f"cunit{n}"), str)]
    texts += ["radesys"] if isinstance(facts.get("radesys"), str) else []
    keys = [*(f"ctype{n}" for n in axes), *needed, *([] if rotated else scales), *matrix, *more, *texts]
    return [("WCSAXES", len(axes), ""), *((key.upper(), facts[key], "") for key in keys)]


def _beside(home: Branch | None, key: str) -> Iterator[tuple[Branch, Branch]]:
    """Yield the value of ``key`` in each mapping from ``home`` upwards, and in its ``meta``; with the mapping."""
    for above in _upwards(home):
        for holder in (above, above.children.get(_META)):
            if holder is not None and (found := holder.children.get(key)) is not None:
                yield found, above


def _upwards(branch: Branch | None) -> Iterator[Branch]:
    while branch is not None:
        yield branch
        branch = branch.above[0] if branch.above else None


def _flat(branch: Branch, prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the scalars of a mapping and of those in it, each once, however many aliases lead to it."""
    rest, seen = [(branch, prefix)], {id(branch)}
    while rest:
        found, name = rest.pop(0)
        yield from _scalars(found, name)
        for key, child in found.children.items():
            if found.mapping and child.array is None and child.mapping and id(child) not in seen:
                seen.add(id(child))
                rest.append((child, f"{name}.{key}"))


def _scalars(branch: Branch, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, scalar in branch.scalars.items():
        value = _value(scalar)
        if value is None:
            continue
        name = key.upper()
        plain = not prefix and _KEYWORD.fullmatch(name)
        if plain and not _STRUCTURE.fullmatch(name) and not _COORDINATES.fullmatch(name):
            yield name, value
        elif key.isprintable() and key.strip():
            yield f"HIERARCH {prefix or _BESIDE}.{key}", value


def _value(scalar: Scalar) -> Any:
    """Return what a card can hold: a text, a number, a bool; None otherwise."""
    if not scalar.plain:
        return scalar.text if scalar.text.isascii() and scalar.text.isprintable() else None
    value = plain_value(scalar.text)
    if isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return None if value is None or isinstance(value, float) else scalar.text  # dates and times


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def find_gwcs(home: Branch | None) -> tuple[Branch, Branch] | None:
    """Return the nearest gwcs beside an array, in ``meta``, or further up, and the mapping that it belongs to."""
    return next((pair for pair in _beside(home, "wcs") if _GWCS.fullmatch(pair[0].tag)), None)


def sky_cards(document: FileState, wcs: Branch, shape: tuple[int, ...]) -> Callable[[], list[Card]]:
    """Return a function that returns the cards for an image of ``shape`` (rows, columns).

    It takes seconds, and runs while other requests are served.
    """
    path = wcs.path

    def compute() -> list[Card]:
        with document.scheduler.resumed():
            text, embedded = document.tree.text(), document.embedded
            numbers = list(_numbers(document, path))
            fd = document.descriptor()
            fd = os.dup(fd) if fd >= 0 else -1
        try:
            key = _digest(text, path, numbers), shape
            if key not in _known:
                start, size = (0, 0) if embedded is None else (embedded.start, embedded.size)
                while len(_known) >= _MOST_KEPT:
                    del _known[next(iter(_known))]
                _known[key] = _computed(fd, {"path": path, "start": start, "size": size, "shape": shape})
            return _known[key]
        finally:
            if fd >= 0:
                os.close(fd)

    return compute


def _numbers(document: FileState, path: Path) -> Iterator[bytes]:
    """Yield the elements of the arrays in the gwcs: coefficients of polynomials are often in blocks.

    A large array stands for itself by the signature of the file.
    """
    for branch in document.outlines.outline().arrays:
        if branch.path[: len(path)] != path:
            continue
        try:
            elements = elements_of(document, branch)
            yield read_bytes(elements.read(0, elements.size)) if elements.size <= _LARGE else _signed(document)
        except (AsdffsError, OSError):
            yield _signed(document)


def _signed(document: FileState) -> bytes:
    return repr((document.path, document.signature)).encode()


def _digest(text: bytes, path: Path, numbers: list[bytes]) -> str:
    """Return a hash of the text of the gwcs and of its numbers; of the whole tree if aliases lead out of it."""
    written = Values(text).written(path) or ""
    alone = written and not {*_ALIAS.findall(written)} - {*_ANCHOR.findall(written)}
    raw = written.encode("utf-8", "surrogateescape") if alone else text
    return hashlib.sha256(b"\0".join([raw, *numbers])).hexdigest()


def _computed(fd: int, job: dict[str, Any]) -> list[Card]:
    answer = _asked(fd, job) if fd >= 0 else {"reason": "they are not computed for a file on a server"}
    cards = answer.get("cards")
    if isinstance(cards, list):
        return [(str(keyword), value, str(comment)) for keyword, value, comment in cards][:ROOM]
    reason = f"no sky coordinates: {answer.get('reason', 'the answer of the process was not understood')}"
    _tell(reason)
    return [("COMMENT", reason[start : start + _COMMENT], "") for start in range(0, min(len(reason), 400), _COMMENT)]


@functools.cache
def _tell(reason: str) -> None:
    """Log a reason, once."""
    logger.warning("%s", reason)


def _asked(fd: int, job: dict[str, Any]) -> dict[str, Any]:
    """Run the helper on the file ``fd``, and return its answer."""
    words = json.dumps({"file": fd, **job})
    try:
        with helper(text_of(sky_helper), words, flags=["-P"], kept=[fd]) as process:
            answer = json.loads(process.communicate(timeout=_PATIENCE)[0])
    except subprocess.TimeoutExpired:
        return {"reason": f"gwcs took longer than {_PATIENCE:.0f} s"}
    except (OSError, ValueError) as err:
        return {"reason": f"gwcs could not be asked ({type(err).__name__})"}
    return answer if isinstance(answer, dict) else {}

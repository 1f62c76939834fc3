"""Makes the cards of the coordinates of an image, from a ``wcsinfo`` or a gwcs in the tree.

A ``wcsinfo`` mapping with the FITS keywords of a linear or a TAN projection becomes those keywords, when it is
complete.  The coordinates of a gwcs are computed by gwcs in a short-lived process (``sky_helper``), when the header
is read for the first time.  The process gets a small ASDF file: the tree, and the blocks that the gwcs uses.  They
are kept for the mount, by the text of the gwcs and by its blocks.  If there are none, a comment in the header tells
why.

| coordinates                          | are those of                                                               |
|--------------------------------------|----------------------------------------------------------------------------|
| of a ``wcsinfo``, or keywords        | the science image, ``data`` beside the ``meta``, and arrays of its shape   |
| of a gwcs                            | arrays beside it whose last axes have its ``pixel_shape``; without one,    |
|                                      | those of the science image                                                 |
| of either                            | no array inside the gwcs                                                   |

Implements FITS 4.0, section 8 (WCS).  Needs the extra ``wcs`` for a gwcs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.arrays.branch import Branch, upwards
from asdffs.arrays.inline import read_values
from asdffs.arrays.outline import arrays_in
from asdffs.document.arrays.finding import subjects_of
from asdffs.document.block import Block
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError
from asdffs.features.fits import sky_helper
from asdffs.features.fits.cards import room_for, value_of
from asdffs.features.fits.data import Card
from asdffs.format.block_header import build_block_header, new_header
from asdffs.storage.backend import read_bytes
from asdffs.tree.lookups import Values
from asdffs.tree.paths import Path
from asdffs.workers.helpers import helper, out_of_the_way, text_of

logger = logging.getLogger(__name__)

_META: Final = "meta"
#: The name of the science image beside its metadata.
_SCIENCE: Final = "data"
AXES: Final = re.compile(r"ctype(\d)")
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
#: Bytes of a block that are read at once.
_AT_ONCE: Final = 1 << 20

_known: Final[dict[tuple[str, tuple[int, ...]], list[Card]]] = {}


def axes_of(keywords: Branch) -> int:
    """Return the number of axes of the coordinates that a mapping states."""
    return max((int(match[1]) for key in keywords.scalars if (match := AXES.fullmatch(key.lower()))), default=0)


def is_science(branch: Branch, owner: Branch, axes: int) -> bool:
    """Return whether coordinates of ``owner`` with so many ``axes`` are those of the image at ``branch``."""
    if is_in_gwcs(branch):
        return False
    data, array = owner.children.get(_SCIENCE), branch.array
    if array is None or (data is not None and (data is branch or data in branch.above)):  # perhaps a quantity
        return True
    if data is not None and data.array is not None:
        return array.shape == data.array.shape
    return array.shape is None or len(array.shape) >= axes


def is_in_gwcs(branch: Branch) -> bool:
    """Return whether an array is one of the numbers of a gwcs, such as coefficients of a polynomial."""
    return any(_GWCS.fullmatch(above.tag) for above in upwards(branch))


def wcs_of(home: Branch | None, array: Branch) -> list[Card]:
    """Return the keywords of a ``wcsinfo`` beside the array, in ``meta``, or further up; none unless it is complete.

    None either if it is about another array (``is_science``).  ``array``: the branch of the image.
    """
    for above in upwards(home):
        for found in _beside(above, "wcsinfo"):
            if not is_science(array, above, axes_of(found)):
                return []
            return _projection({key.lower(): value_of(scalar) for key, scalar in found.scalars.items()})
    return []


def _projection(facts: dict[str, Any]) -> list[Card]:
    axes = sorted(int(match[1]) for key in facts if (match := AXES.fullmatch(key)))
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


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _beside(mapping: Branch, key: str) -> Iterator[Branch]:
    """Yield the values of ``key`` in a mapping, and in its ``meta``."""
    for holder in (mapping, mapping.children.get(_META)):
        if holder is not None and (found := holder.children.get(key)) is not None:
            yield found


def find_gwcs(document: FileState, home: Branch | None, array: Branch, shape: tuple[int, ...]) -> Branch | None:
    """Return the gwcs of an image of ``shape``, which is beside it or in the ``meta`` beside it; None without one.

    ``home``: the mapping that has the image, ``array`` its branch.
    """
    wcs = None if home is None else gwcs_beside(home)
    if wcs is None or home is None or is_in_gwcs(array):
        return None
    stated = wcs.children.get("pixel_shape")
    if stated is not None and not stated.mapping:
        lengths = tuple(read_values(document.outlines.outline(), stated.span, stated.line))[::-1]
        return wcs if lengths and shape[-len(lengths) :] == lengths else None
    data = home.children.get(_SCIENCE)
    whole = data.array.shape if data is not None and data.array is not None else None
    return wcs if whole is None or shape[-len(whole) :] == whole else None


def gwcs_beside(home: Branch) -> Branch | None:
    """Return the gwcs in a mapping or in its ``meta``; None without one."""
    return next((one for one in _beside(home, "wcs") if _GWCS.fullmatch(one.tag)), None)


def blocks_of(document: FileState, wcs: Branch) -> set[int]:
    """Return the numbers of the blocks with coefficients of a gwcs."""
    subjects = (subject for branch in arrays_in(wcs) for subject in subjects_of(document, branch))
    return {subject.number for subject in subjects if 0 <= subject.number < len(document.table)}


def sky_cards(document: FileState, wcs: Branch, shape: tuple[int, ...]) -> Callable[[], list[Card]]:
    """Return a function that returns the cards for an image of ``shape``, rows and columns last.

    It takes seconds, and runs while other requests are served.
    """
    path, numbers = wcs.path, blocks_of(document, wcs)

    def compute() -> list[Card]:
        with document.scheduler.resumed():
            text = document.tree.text()
            try:
                document.budget.check(sum(map(document.contents.size, numbers)), "the gwcs")
                contents = {number: _content(document, number) for number in sorted(numbers)}
            except AsdffsError as err:
                return _as_comments(f"the coefficients of the gwcs cannot be read: {err.sentence}")
            rest = [contents.get(number, b"") for number in range(len(document.table))]
            header = new_header(document.dialect.rules)
        key = _digest(text, path, contents.values()), shape
        found = _known.get(key)
        if found is None:
            headers = (header.with_used(len(raw))._replace(allocated_size=len(raw)) for raw in rest)
            blocks = (build_block_header(one) + raw for one, raw in zip(headers, rest, strict=True))
            answer = _asked(b"".join([text, *blocks]), {"path": path, "shape": shape})
            found = _cards_in(answer)
            while len(_known) >= _MOST_KEPT:
                _known.pop(next(iter(_known)), None)
            if "passing" not in answer:
                _known[key] = found
        return found

    return compute


def _content(document: FileState, number: int) -> bytes:
    """Return all bytes of a block.  Raises ``AsdffsError``."""
    block = Block(document, number)
    return b"".join(read_bytes(block.read_at(at, _AT_ONCE)) for at in range(0, block.size, _AT_ONCE))


def _digest(text: bytes, path: Path, contents: Any) -> str:
    """Return a hash of the text of the gwcs and of its blocks; of the whole tree if aliases lead out of it."""
    written = Values(text).written(path) or ""
    alone = written and not {*_ALIAS.findall(written)} - {*_ANCHOR.findall(written)}
    raw = written.encode("utf-8", "surrogateescape") if alone else text
    return hashlib.sha256(b"\0".join([raw, *contents])).hexdigest()


def _cards_in(answer: dict[str, Any]) -> list[Card]:
    """Return the cards of an answer; without any, a comment that tells why."""
    cards = answer.get("cards")
    if isinstance(cards, list):
        found = [(str(keyword), value, str(comment)) for keyword, value, comment in cards][:ROOM]
        return found if room_for(found) <= ROOM else _as_comments("its cards are too long")
    return _as_comments(str(answer.get("reason", "the answer of the process was not understood")))


def _as_comments(why: str) -> list[Card]:
    reason = f"no sky coordinates: {why}"
    _tell(reason)
    return [("COMMENT", reason[start : start + _COMMENT], "") for start in range(0, min(len(reason), 400), _COMMENT)]


@functools.cache
def _tell(reason: str) -> None:
    """Log a reason, once."""
    logger.warning("%s", reason)


def _asked(file: bytes, job: dict[str, Any]) -> dict[str, Any]:
    """Run the helper on an ASDF file, and return its answer; ``passing``: it may be another one next time."""
    try:
        fd = out_of_the_way(os.memfd_create("gwcs"))
        with open(fd, "wb") as memory:
            memory.write(file)
            memory.flush()
            words = json.dumps({"file": fd, **job})
            with helper(text_of(sky_helper), words, flags=["-P"], kept=[fd]) as process:
                answer = json.loads(process.communicate(timeout=_PATIENCE)[0])
    except subprocess.TimeoutExpired:
        return {"reason": f"gwcs took longer than {_PATIENCE:.0f} s", "passing": True}
    except (OSError, ValueError) as err:
        return {"reason": f"gwcs could not be asked ({type(err).__name__})", "passing": True}
    return answer if isinstance(answer, dict) else {}

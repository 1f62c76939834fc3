"""The sky coordinates of an image whose tree has a gwcs, as cards of a FITS WCS.

gwcs computes them in a short-lived process (``sky_helper``), when the header is read for the first time.  They are
kept for the mount, by the text of the gwcs in the tree.  If there are none, a comment in the header tells why.  Needs
the extra ``wcs``.
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

from asdffs.arrays.branch import Branch
from asdffs.document.arrays.finding import elements_of
from asdffs.document.state import FileState
from asdffs.errors import AsdffsError
from asdffs.features.fits.units import sky_helper
from asdffs.features.fits.units.data import Card
from asdffs.storage.backend import read_bytes
from asdffs.tree.lookups import Values
from asdffs.tree.paths import Path
from asdffs.workers.helpers import helper, text_of

logger = logging.getLogger(__name__)

#: Cards for which a header has room: four polynomials of degree 5, and the rest.
ROOM: Final = 120
_GWCS: Final = re.compile(r"(tag:stsci\.edu:gwcs/|asdf://[^/]*/(?:[^/]+/)*)wcs-[\d.]+")
_ALIAS: Final = re.compile(r"(?:^|[\s\[{,])\*([^\s\]},]+)")
_ANCHOR: Final = re.compile(r"(?:^|[\s\[{,])&([^\s\]},]+)")
_META: Final = "meta"
#: Seconds that the process may take.
_PATIENCE: Final = 60.0
#: WCS that are kept.
_MOST: Final = 64
_COMMENT: Final = 70
#: Larger arrays are not hashed, in bytes.
_LARGE: Final = 1 << 20

_known: Final[dict[tuple[str, tuple[int, ...]], list[Card]]] = {}


def find_gwcs(home: Branch | None) -> tuple[Branch, Branch] | None:
    """Return the nearest gwcs beside an array, in ``meta``, or further up, and the mapping that it belongs to."""
    above = home
    while above is not None:
        for holder in (above, above.children.get(_META)):
            found = holder.children.get("wcs") if holder is not None else None
            if found is not None and _GWCS.fullmatch(found.tag):
                return found, above
        above = above.above[0] if above.above else None
    return None


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
                while len(_known) >= _MOST:
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
    answer = _asked(fd, job) if fd >= 0 else {"reason": "the file is in memory"}
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

"""Pictures of arrays, on a terminal (``asdffs show``), in notebooks, and in a page (``asdffs view``).

``pictures`` turns numbers into grey levels and PNG, and opens nothing; ``looking`` reads what a picture needs;
``app`` answers the requests of the page, after ``guard`` and ``session`` let them pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asdffs.document.arrays.selection import Selectable

#: How numbers become grey levels (``pictures``), as the page lists them.
STRETCHES: Final = ("zscale", "linear", "asinh", "log")
#: The stretch of a picture if none is chosen.
USUAL_STRETCH: Final = STRETCHES[0]


def thumbnail_of(array: Selectable, mask: Selectable | None) -> str:
    """See ``thumbnail``."""
    from asdffs.features.browser.looking import thumbnail  # it needs numpy

    return thumbnail(array, mask)

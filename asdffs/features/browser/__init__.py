"""Pictures of arrays, on a terminal (``asdffs show``), in notebooks, and in a page (``asdffs view``).

``pictures`` turns numbers into grey levels and PNG, and opens nothing; ``looking`` reads what a picture needs;
``app`` answers the requests of the page, after ``guard`` and ``session`` let them pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from asdffs.document.arrays.selection import Selectable

#: How numbers become grey levels (``pictures``) in ``show``, notebooks and thumbnails.  The page draws by itself.
STRETCHES: Final = ("zscale", "linear", "asinh", "log")
#: The stretch of a picture if none is chosen.
USUAL_STRETCH: Final = STRETCHES[0]


def preview_of(array: Selectable, mask: Selectable | None) -> str:
    """See ``looking.preview``."""
    from asdffs.features.browser.looking import preview  # it needs numpy

    return preview(array, mask)


def main_array_of(document: Any) -> Any:
    """Return the array of a ``Document`` that is shown first; None without one, or if it is a table."""
    from asdffs.features.browser.first_sight import main_of

    main = main_of(document)
    return document.arrays[main["path"]] if main is not None and main["kind"] == "array" else None

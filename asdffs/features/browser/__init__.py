"""Pictures of arrays, on a terminal (``asdffs show``), in notebooks, and in a page (``asdffs view``).

``pictures`` turns numbers into grey levels and PNG, and opens nothing; ``looking`` reads what a picture needs;
``app`` answers the requests of the page, after ``guard`` and ``session`` let them pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asdffs.document.arrays.selection import Selectable


def thumbnail_of(array: Selectable) -> str:
    """See ``thumbnail``."""
    from asdffs.features.browser.looking import thumbnail  # it needs numpy

    return thumbnail(array)

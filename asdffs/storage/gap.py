"""Growth of a file: carry out a plan that moves the blocks ("open a gap").

The strategies are tried in this order until one suits the file and the file system:

| strategy | how                                              | needs                                  |
|----------|--------------------------------------------------|----------------------------------------|
| clone    | new file that shares the blocks, and a rename    | FICLONERANGE (XFS, btrfs), one name    |
| insert   | the file system opens the gap                    | INSERT_RANGE (ext4, XFS), the journal  |
| copy     | new file with copied blocks, and a rename        | room for a second copy, one name       |

``clone`` and ``insert`` need a gap of whole file-system blocks.  Each strategy is atomic: after a crash at any
moment the file is the old or the new one, either at once or after recovery (docs/design/journal.md).
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from asdffs.errors import DiskFullError, NoRoomError, Remedy
from asdffs.format.plan import Plan
from asdffs.storage.backend import Backend
from asdffs.storage.insert import insert
from asdffs.storage.open_file import OpenFile
from asdffs.storage.replace import clone, copy
from asdffs.storage.strategy import AUTO, STRATEGIES, Unsuitable

logger = logging.getLogger(__name__)

_OPENING: Final[dict[str, Callable[[OpenFile, Plan], Backend]]] = dict(
    zip(STRATEGIES, (clone, insert, copy), strict=True)
)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Opened(NamedTuple):
    """The result of ``open_gap``: the backend to use from now on, and the strategy that was used.

    The backend is another one if the file was replaced.
    """

    backend: Backend
    strategy: str


def open_gap(file: OpenFile, plan: Plan, growth: str = AUTO) -> Opened:
    """Carry out ``plan``; ``growth`` forces one strategy.

    When it returns, the file is the new one, even if ``file.mode`` allows no more writes.  Raises
    ``NoRoomError``, which says why no strategy works, ``DiskFullError``, ``StaleFileError``, ``LockedError``,
    ``FailedFileError`` or ``OSError``; the file is then the old one.
    """
    reasons: list[str] = []
    shortage: OSError | None = None
    for name in STRATEGIES if growth == AUTO else (growth,):
        try:
            backend = _OPENING[name](file, plan)
        except Unsuitable as err:
            reasons.append(f"{name}: {err}")
        except OSError as err:
            file.mode.check_healthy()
            if err.errno not in _FULL:
                raise
            shortage = err
            reasons.append(f"{name}: {err.strerror}")
        else:
            logger.info("%s: opened a gap by %s%s", file.path, name, "".join(f"; not by {why}" for why in reasons))
            return Opened(backend, name)
    sentence = f"the blocks cannot be moved to make room ({'; '.join(reasons)})"
    if shortage is not None:
        raise DiskFullError(f"{sentence}; free disk space, and try again", path=file.path) from shortage
    raise NoRoomError(f"{sentence}; a copy made by repack can grow", path=file.path, remedy=Remedy.MAKE_LOCAL)

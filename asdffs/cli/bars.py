"""Progress bars on the terminal, for work that takes longer than a second.

If the error output is no terminal, one line says what the command waits for.  ``rich`` is imported after the first
second.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from asdffs.cli.saying import say
from asdffs.printable import printable

#: How long nothing is shown, and how often is looked after that, in seconds.
_QUIET: Final = 1.0
_TICK: Final = 0.2

#: What is under way: the facts of ``document.progress.Progress``.
Facts = Callable[[], list[dict[str, Any]]]


@contextlib.contextmanager
def shown(facts: Facts, what: str) -> Iterator[None]:
    """Show a progress bar of the operations in ``facts()`` while the body runs; ``what`` names the work."""
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(facts, what, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(facts: Facts, what: str, over: threading.Event) -> None:
    if over.wait(_QUIET):
        return
    if not sys.stderr.isatty():
        say(f"asdffs: {what} {_first(facts())}".rstrip(), file=sys.stderr)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(escape(printable(what, terminal=True)), total=None)
        while not over.wait(_TICK):
            running = facts()[-1:]
            for one in running:
                bars.update(
                    task, description=escape(printable(title(one))), completed=one["done"], total=one["total"] or None
                )


def title(one: dict[str, Any]) -> str:
    """An operation as people read it."""
    return str(one["operation"]) if one["block"] is None else f"{one['operation']} of block {one['block']}"


def _first(running: list[dict[str, Any]]) -> str:
    one = running[0] if running else None
    if one is None:
        return ""
    name = f"{title(one)}, " if title(one) else ""
    return f"({name}{one['done']} of {one['total']} {one.get('unit', 'bytes')})"

"""``asdffs ls``: the files that are mounted now."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final

from asdffs import registry
from asdffs.cli.arguments import add_json
from asdffs.cli.mounts import LiveMount, live_mounts
from asdffs.cli.printing import print_json, say
from asdffs.printable import printable

SUMMARY: Final = "list mounted files"
_DEAD = "its daemon is gone; 'asdffs umount' unmounts it and recovers the file"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments and the examples."""
    parser.epilog = """\
example:
  asdffs ls | cut -f 2           the mount points
  asdffs ls --prometheus > /var/lib/node_exporter/asdffs.prom

In a pipe it prints one line for each: file, mount point, rw or ro, state, separated by tabs.
"""
    how = parser.add_mutually_exclusive_group()
    add_json(how, "a JSON array")
    how.add_argument("--prometheus", action="store_true", help="the counters of all mounts as Prometheus reads them")


def run(arguments: argparse.Namespace) -> int:
    """List the mounts.  Raises ``OSError``."""
    found = [_facts(one) for one in live_mounts()]
    if arguments.prometheus:
        print(registry.needed_feature("metrics").text_of(found), end="")
    elif arguments.json:
        print_json(found)
    elif sys.stdout.isatty() and found:
        from rich import print as show

        show(_table(found))
    else:
        for facts in found:
            say(f"{facts['file']}\t{facts['mountpoint']}\t{_mode(facts)}\t{facts['state']}")
    return 0


def _facts(one: LiveMount) -> dict[str, Any]:
    known = {key: one.status.get(key) for key in ("pid", "libfuse", "error", "warnings", "progress", "counters")}
    known |= {"remote": one.status["remote"]} if "remote" in one.status else {}
    return {
        "file": one.file,
        "mountpoint": one.mount.point,
        "writable": one.mount.writable,
        "owner": one.mount.owner,
        "state": _DEAD if one.state == "dead" else one.state,
        **known,
    }


def _mode(facts: dict[str, Any]) -> str:
    return "rw" if facts["writable"] else "ro"


def _table(found: list[dict[str, Any]]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("file", "mounted at", "", "state", "last refusal"):
        table.add_column(name, overflow="fold")
    for facts in found:
        cells = (facts["file"], facts["mountpoint"], _mode(facts), facts["state"], facts["error"] or "")
        table.add_row(*(Text(printable(cell, terminal=True)) for cell in cells))
    return table

"""Draws the throughput of mounts relative to bindfs, and the bytes of a mount and an edit as files grow."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "docs/performance.svg"
RATES = (
    "read cold, MiB/s",
    "read again, MiB/s",
    "write in place, MiB/s",
    "random 4 KiB cold, /s",
    "ls -l of 10,000, /s",
)
PEERS = ("bindfs", "ratarmount", "mfusepy", "fusepy")
FILES = ("1 MB", "1 GB", "100 GB", "1,000 blocks", "100,000 blocks")


def medians(section: dict[str, Any]) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, list[float]]] = section["rows"]
    return {row: {peer: statistics.median(values) for peer, values in peers.items()} for row, peers in rows.items()}


def draw_rates(axes: Any, found: dict[str, dict[str, float]]) -> None:
    """Draw the rates of the peers as bars, relative to bindfs."""
    width = 0.8 / len(PEERS)
    for place, peer in enumerate(PEERS):
        heights = [found[row].get(peer, 0.0) / found[row]["bindfs"] for row in RATES]
        axes.bar([x + place * width for x in range(len(RATES))], heights, width, label=peer)
    labels = [row.rsplit(",", 1)[0].replace(" ", "\n", 1) for row in RATES]
    axes.set_xticks([x + 0.3 for x in range(len(RATES))], labels, fontsize=7)
    axes.set_ylabel("times bindfs")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.axhline(1, color="grey", linewidth=0.5)
    axes.legend(fontsize=7)


def draw_costs(axes: Any, found: dict[str, dict[str, float]]) -> None:
    """Draw the KiB read by a mount and written by an edit against the size of the file."""
    for label, row in (("mount: KiB read", "mounted {}: KiB read"), ("edit: KiB written", "edit in {}: KiB written")):
        axes.plot(FILES, [found[row.format(name)]["mfusepy"] for name in FILES], marker="o", label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("KiB")
    axes.tick_params(axis="x", labelsize=7)
    axes.legend(fontsize=7)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", help="output of 'scripts/bench --json transfer costs'")
    found = json.loads(Path(parser.parse_args().figures).read_text())
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # keep text as text, not as outlines
    mpl.rcParams["svg.hashsalt"] = "asdffs"  # same figures, same file
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6))
    draw_rates(left, medians(found["transfer"]))
    draw_costs(right, medians(found["costs"]))
    left.set_title("throughput relative to bindfs", fontsize=9)
    right.set_title("cost of a mount and an edit as files grow", fontsize=9)
    figure.tight_layout()
    figure.savefig(OUT, metadata={"Date": None})
    print(OUT)


if __name__ == "__main__":
    main()

"""Draws the throughput of mounts relative to bindfs, and how time and memory of operations grow with their files."""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RATES = (
    "read cold, MiB/s",
    "read again, MiB/s",
    "write in place, MiB/s",
    "random 4 KiB cold, /s",
    "ls -l of 10,000, /s",
)
PEERS = ("bindfs", "ratarmount", "libfuse3", "libfuse2")
#: What grows -> its label.
AXES = {"bytes": "bytes in one block", "blocks": "blocks", "arrays": "arrays", "files": "files"}
STYLES = {
    "mount": "C0o-", "info": "C1o-", "get": "C2o-", "set": "C3o-", "save that grows": "C3s--", "read": "C4o-",
    "write": "C4s--", "repack": "C5o-", "explode": "C6o-", "page outline": "C7o-", "index": "C8o-", "find": "C9o-",
}  # fmt: skip


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


def draw_slopes(figure: Any, found: dict[str, dict[str, float]]) -> None:
    """Draw the time (above) and the memory (below) of the operations against each size."""
    panels = figure.subplots(2, len(AXES), sharey="row")
    for column, (axis, label) in enumerate(AXES.items()):
        for panel, unit in zip(panels[:, column], ("s", "MiB"), strict=True):
            for operation, style in STYLES.items():
                if medians := found.get(f"{operation} by {axis}, {unit}"):
                    sizes = [int(size.replace(",", "")) for size in medians]
                    panel.plot(sizes, list(medians.values()), style, markersize=3, linewidth=1, label=operation)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.minorticks_off()
            panel.yaxis.set_major_formatter("{x:g}")
            panel.tick_params(labelsize=7)
        panels[0, column].legend(fontsize=6)
        panels[1, column].set_xlabel(label, fontsize=8)
    panels[0, 0].set_ylabel("seconds", fontsize=8)
    panels[1, 0].set_ylabel("MiB", fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", help="output of 'scripts/bench --json transfer slopes', or of one of them")
    found = json.loads(Path(parser.parse_args().figures).read_text())
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"  # keep text as text, not as outlines
    mpl.rcParams["svg.hashsalt"] = "asdffs"  # same figures, same file
    from matplotlib import pyplot

    if "transfer" in found:
        figure, axes = pyplot.subplots(figsize=(7, 3.6))
        draw_rates(axes, medians(found["transfer"]))
        _save(figure, "performance.svg")
    if "slopes" in found:
        figure = pyplot.figure(figsize=(11, 6))
        draw_slopes(figure, medians(found["slopes"]))
        _save(figure, "slopes.svg")


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(DOCS / name, metadata={"Date": None})
    print(DOCS / name)


if __name__ == "__main__":
    main()

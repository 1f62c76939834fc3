"""The measured figures, and the targets for them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """A bound in ``row`` for the peers ``of``, by default both libraries.

    A value should be at least ``least`` times, or at most ``most`` times, that of the peer ``than`` in the same
    round, plus ``plus``.  If ``than`` is empty, the bound is ``plus`` alone.  In each round a value is better or
    worse than its bound by some amount; the median of these amounts decides.
    """

    row: str
    than: str
    least: float | None = None
    most: float | None = None
    plus: float = 0.0
    of: tuple[str, ...] = ("libfuse3", "libfuse2")

    def __str__(self) -> str:
        factor, sign = (self.least, "≥") if self.least is not None else (self.most, "≤")
        parts = [f"{factor:g} x {self.than}"] if self.than else []
        return f"{sign} {' + '.join(parts + ([f'{self.plus:g}'] if self.plus else []))}"

    def surplus(self, value: float, other: float) -> float:
        """Return by how much ``value`` is better than the bound, given ``other``, the value of ``than``."""
        if self.least is not None:
            return value - self.least * other - self.plus
        return (self.most or 0.0) * other + self.plus - value


@dataclass
class Figures:
    """The values of all rounds: row -> peer -> values.  The name of a row ends with its unit."""

    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, row: str, peer: str, value: float) -> None:
        self.rows.setdefault(row, {}).setdefault(peer, []).append(value)

    def median(self, row: str, peer: str) -> float:
        return statistics.median(self.rows[row][peer])

    def pairs(self, row: str, peer: str, than: str) -> list[tuple[float, float]]:
        """Return each value of ``peer`` with that of ``than`` in the same round; 0 if there is no ``than``.

        A peer that was measured more or less often counts with its median.  Empty if one was not measured.
        """
        known = self.rows.get(row, {})
        values, others = known.get(peer, []), known.get(than, []) if than else [0.0]
        if not values or not others:
            return []
        even = others if len(others) == len(values) else [statistics.median(others)] * len(values)
        return list(zip(values, even, strict=True))


def judged(figures: Figures, targets: tuple[Target, ...]) -> Iterator[dict[str, Any]]:
    """Yield the ratio and the verdict for each target and each of its peers that was measured: medians of rounds."""
    for target in targets:
        for peer in target.of:
            if pairs := figures.pairs(target.row, peer, target.than):
                ratios = [value / other for value, other in pairs if other]
                ratio = statistics.median(ratios) if ratios else None
                met = statistics.median(target.surplus(*pair) for pair in pairs) >= 0
                yield {"row": target.row, "target": str(target), "peer": peer, "ratio": ratio, "met": met}


def table(figures: Figures, targets: tuple[Target, ...]) -> str:
    """Return a table with the medians of each row, and its targets below them."""
    verdicts = list(judged(figures, targets))
    lines = []
    for row, peers in figures.rows.items():
        medians = "  ".join(f"{peer} {_number(figures.median(row, peer))}" for peer in peers)
        lines.append(f"{row:<38} {medians}")
        for target in dict.fromkeys(one["target"] for one in verdicts if one["row"] == row):
            said = (_verdict(one) for one in verdicts if (one["row"], one["target"]) == (row, target))
            lines.append(f"    {target:<34} {'  '.join(said)}")
    return "\n".join([*lines, *figures.notes])


#: The columns of ``asdffs`` among the peers.
OURS = ("asdffs", "asdffs --sync", "references", "libfuse3", "libfuse2")
HEAD = "| | peers | asdffs | target | |\n|---|---|---|---|---|"


def in_markdown(figures: Figures, targets: tuple[Target, ...]) -> str:
    """Return the lines of a table for a page, below ``HEAD``: medians, targets, and the ratio to each."""
    verdicts, lines = list(judged(figures, targets)), []
    for row, peers in figures.rows.items():
        shown = {peer: _number(figures.median(row, peer)) for peer in peers}
        others = ", ".join(f"{peer} {shown[peer]}" for peer in peers if peer not in OURS)
        ours = {peer: shown[peer] for peer in peers if peer in OURS}
        said = ", ".join(ours.values()) if len(ours) == 1 else ", ".join(map(" ".join, ours.items()))
        own = [one for one in verdicts if one["row"] == row]
        bounds = ", ".join(dict.fromkeys(one["target"] for one in own))
        met = ", ".join(_verdict(one).removeprefix(one["peer"]).strip() for one in own).replace(
            "MISSED", "**missed**"
        )
        lines.append(f"| {row} | {others} | {said} | {bounds} | {met} |")
    return "\n".join(lines)


def _verdict(one: dict[str, Any]) -> str:
    ratio = "" if one["ratio"] is None else f" {one['ratio']:.3g} x"
    return f"{one['peer']}{ratio} {'met' if one['met'] else 'MISSED'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

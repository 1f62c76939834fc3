"""What was measured, and whether it is what was asked for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """``of`` peers have, in ``row``, at least or at most ``factor`` times what ``than`` has there, and ``plus``.

    ``than`` '' : the bound is ``plus`` alone.  ``of`` empty: both bindings.
    """

    row: str
    than: str
    least: float | None = None
    most: float | None = None
    plus: float = 0.0
    of: tuple[str, ...] = ("mfusepy", "fusepy")

    def __str__(self) -> str:
        factor, sign = (self.least, "≥") if self.least is not None else (self.most, "≤")
        parts = [f"{factor:g} x {self.than}"] if self.than else []
        return f"{sign} {' + '.join(parts + ([f'{self.plus:g}'] if self.plus else []))}"

    def is_met(self, value: float, other: float) -> bool:
        """``value`` of the peer, ``other`` of ``than``."""
        if self.least is not None:
            return value >= self.least * other + self.plus
        return value <= (self.most or 0.0) * other + self.plus


@dataclass
class Figures:
    """Row -> peer -> values of all rounds.  A row's name ends with its unit."""

    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, row: str, peer: str, value: float) -> None:
        self.rows.setdefault(row, {}).setdefault(peer, []).append(value)

    def median(self, row: str, peer: str) -> float | None:
        values = self.rows.get(row, {}).get(peer)
        return statistics.median(values) if values else None


def judged(figures: Figures, targets: tuple[Target, ...]) -> Iterator[dict[str, Any]]:
    """For each target and each peer of it that was measured: the ratio, and whether it is met."""
    for target in targets:
        other = figures.median(target.row, target.than) if target.than else 0.0
        for peer in target.of:
            value = figures.median(target.row, peer)
            if value is not None and other is not None:
                ratio = value / other if other else None
                met = target.is_met(value, other)
                yield {"row": target.row, "target": str(target), "peer": peer, "ratio": ratio, "met": met}


def table(figures: Figures, targets: tuple[Target, ...]) -> str:
    """The medians of each row, and below them its targets."""
    verdicts = list(judged(figures, targets))
    lines = []
    for row, peers in figures.rows.items():
        medians = "  ".join(f"{peer} {_number(figures.median(row, peer) or 0.0)}" for peer in peers)
        lines.append(f"{row:<38} {medians}")
        for target in dict.fromkeys(one["target"] for one in verdicts if one["row"] == row):
            said = (_verdict(one) for one in verdicts if (one["row"], one["target"]) == (row, target))
            lines.append(f"    {target:<34} {'  '.join(said)}")
    return "\n".join([*lines, *figures.notes])


def _verdict(one: dict[str, Any]) -> str:
    ratio = "" if one["ratio"] is None else f" {one['ratio']:.3g} x"
    return f"{one['peer']}{ratio} {'met' if one['met'] else 'MISSED'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

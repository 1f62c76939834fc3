"""The verdicts of the benchmarks: medians over rounds, each compared with the peer in the same round."""

from __future__ import annotations

import pytest
from benchmarks.figures import Figures, Target, in_markdown, judged


def figures(**peers: list[float]) -> Figures:
    found = Figures()
    for peer, values in peers.items():
        for value in values:
            found.add("copy, s", peer, value)
    return found


def test_a_round_on_a_slow_machine_counts_as_any_other() -> None:
    """The machine was slow in the last two rounds of cp, and in the last three of asdffs."""
    found = figures(cp=[1, 1, 1, 2, 2], asdffs=[1.1, 1.1, 2.2, 2.2, 2.2])
    verdict = next(judged(found, (Target("copy, s", "cp", most=1.2, of=("asdffs",)),)))
    assert verdict["ratio"] == pytest.approx(1.1)
    assert verdict["met"]


@pytest.mark.parametrize(("most", "plus", "met"), [(1, 0.2, True), (1, 0.05, False), (1.2, 0, True)])
def test_what_is_added_to_a_bound_counts_in_each_round(most: float, plus: float, met: bool) -> None:
    found = figures(cp=[1, 2, 3], asdffs=[1.1, 2.1, 3.1])
    assert [
        one["met"] for one in judged(found, (Target("copy, s", "cp", most=most, plus=plus, of=("asdffs",)),))
    ] == [met]


def test_a_bound_without_a_peer_and_a_peer_that_was_measured_once() -> None:
    found = figures(cp=[2], asdffs=[1, 3, 5])
    alone, once, least = judged(
        found,
        (
            Target("copy, s", "", most=0, plus=3, of=("asdffs",)),
            Target("copy, s", "cp", most=1, of=("asdffs",)),
            Target("copy, s", "cp", least=1.5, of=("asdffs",)),
        ),
    )
    assert (alone["ratio"], alone["met"]) == (None, True)
    assert (once["ratio"], once["met"]) == (1.5, False)
    assert least["met"]


def test_what_was_not_measured_has_no_verdict() -> None:
    targets = (Target("copy, s", "cp", most=1, of=("asdffs", "libfuse2")),)
    assert list(judged(figures(asdffs=[1]), targets)) == []
    assert len(list(judged(figures(asdffs=[1], cp=[1]), targets))) == 1


def test_a_peer_that_took_no_time_gives_no_ratio() -> None:
    verdict = next(judged(figures(cp=[0, 0], asdffs=[1, 1]), (Target("copy, s", "cp", most=2, of=("asdffs",)),)))
    assert (verdict["ratio"], verdict["met"]) == (None, False)


def test_the_line_of_a_page_says_what_is_missed() -> None:
    targets = (Target("copy, s", "cp", most=1, of=("asdffs",)),)
    line = in_markdown(figures(cp=[2, 2], asdffs=[3, 3]), targets)
    assert line == "| copy, s | cp 2 | 3 | ≤ 1 x cp | 1.5 x **missed** |"

"""When a daemon imports what it needs later."""

from __future__ import annotations

import pytest

from asdffs.mount.daemon import wait_until_idle


@pytest.mark.parametrize(
    ("used", "waits"),
    [
        ([0.0], 1),
        ([0.3, 0.1, 0.02, 0.001, 0.3], 4),
        ([0.3] * 100, 20),
    ],
)
def test_it_waits_until_nobody_uses_the_mount(used: list[float], waits: int) -> None:
    """``used``: the seconds of processor time in each interval.  A mount that is always busy waits 6 seconds."""
    clock, slept = 0.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal clock
        clock += used[len(slept)]
        slept.append(seconds)

    wait_until_idle(lambda: clock, sleep)
    assert len(slept) == waits
    assert sum(slept) <= 6.01

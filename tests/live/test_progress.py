"""How far a deployment is, and when it will be there, however long its micro-batches take."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from midstream.engine.world import World
from midstream.live.adopted.gate import Gate
from midstream.live.adopted.gate_log import CATCHING_UP, SWITCHED
from midstream.live.adopted.progress import Progress


class Under:
    """A deployment of version 2 under a clock, with a journal that grows."""

    def __init__(self) -> None:
        self.now_s, self.last, self.answered = 0.0, 40, 0
        self.deployment = SimpleNamespace(state=CATCHING_UP, to_version=2, from_version=1)
        self.journal = SimpleNamespace(last=40)
        clock = SimpleNamespace(elapsed_s=lambda: self.now_s)
        entries = (SimpleNamespace(number=2, first=1),)
        state = SimpleNamespace(deployment=self.deployment, versions=entries)
        gate = SimpleNamespace(state=state, journal=self.journal, answered=lambda number: self.answered)
        self.progress = Progress(cast(Gate, cast(Any, gate)), cast(World, cast(Any, SimpleNamespace(clock=clock))))

    def run(self, seconds: float, a_segment_s: float, new_every_s: float, looks: int) -> None:
        """Let time go on, with looks in between."""
        begun_s, last, answered = self.now_s, self.journal.last, self.answered
        for _ in range(looks):
            self.now_s += seconds / looks
            gone_s = self.now_s - begun_s + 1e-9
            self.answered, self.journal.last = answered + int(gone_s / a_segment_s), last + int(gone_s / new_every_s)
            self.progress.look()


@pytest.mark.parametrize("a_segment_s", [0.05, 1.0, 7.0])
def test_the_end_is_estimated_however_slow_micro_batches_are(a_segment_s: float) -> None:
    under = Under()
    assert under.progress.ends_in_s() is None
    under.run(10 * a_segment_s, a_segment_s, 2 * a_segment_s, looks=1000)
    # Of 45 segments 10 are answered; it comes closer by one in the time of two.
    assert under.progress.ends_in_s() == pytest.approx(70 * a_segment_s, rel=0.2)
    assert under.progress.pace_s() == pytest.approx(min(2 * a_segment_s, 30), rel=0.01)


def test_nobody_knows_the_end_when_it_comes_no_closer() -> None:
    under = Under()
    under.run(20, 1.0, 0.9, looks=200)
    assert under.progress.ends_in_s() is None
    under.deployment.state = SWITCHED
    under.progress.look()
    assert under.progress.pace_s() == 0.0

"""Progress: how far the streams of a running query have come, which are silent, which one holds the others back.

    what a micro-batch shows ──▶ too far ahead? not counted ──▶ largest time of each stream, when its last row came
                                                            └──▶ silent streams ──▶ the streams that are waited for

Every bucket sees the same of all streams, and so judges alike. Rows of one micro-batch count as coming in order of
their times. No clock has a say: a micro-batch that is run again gives the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from midstream.engine.rows.packed import Packed, Span
from midstream.model.time import FOREVER, NEVER
from midstream.model.timing import Timing

WITNESSES = 20
"""So many more rows must be too far ahead than are not, one after the other, for time to have really moved there."""
Timings = Mapping[int, Timing]
"""Per stream position; a position that is not there is of a stream without allowances."""


@dataclass
class Progress:
    """What micro-batches have shown of the streams, by position. Without a row of a stream it has no entry."""

    high: dict[int, int] = field(default_factory=dict)
    """The largest time of each stream, rows that are too far ahead aside."""
    heard: dict[int, int] = field(default_factory=dict)
    """Where the largest time of all streams was when a row of each came last."""
    first_us: int | None = None
    """The least time in the first micro-batch that had rows: from here on a stream without rows is silent."""
    doubts: int = 0
    """How many more rows there have been lately that are too far ahead than others."""

    @staticmethod
    def of(plain: dict[str, Any]) -> "Progress":
        """Read progress from plain values."""
        by_position = {k: {int(p): us for p, us in plain[k].items()} for k in ("high", "heard")}
        return Progress(**by_position, first_us=plain["first_us"], doubts=plain["doubts"])

    @staticmethod
    def seen(high: dict[int, int]) -> "Progress":
        """Return the progress of which an older release only wrote the largest times."""
        return Progress(high, dict(high), min(high.values(), default=None))

    def to_plain(self) -> dict[str, Any]:
        """Return the progress as plain values."""
        return {**vars(self), "high": dict(self.high), "heard": dict(self.heard)}

    @property
    def latest_us(self) -> int:
        """Return the largest time of all streams, or NEVER."""
        return max(self.high.values(), default=NEVER)

    def see(self, packed: Packed, timings: Timings) -> None:
        """Take notice of a micro-batch; what is too far ahead in it does not count, and `packed.bound` says so."""
        if packed.spans:
            self._judge(packed, timings)
        shown = {position: high for position, high in packed.high.items() if high != NEVER}
        if not shown:
            return
        before_us = self.latest_us
        if self.first_us is None:
            self.first_us = min(packed.low.values(), default=min(shown.values()))
        for position, high in shown.items():
            self.high[position] = max(high, self.high.get(position, high))
            self.heard[position] = max(high, before_us)

    def _judge(self, packed: Packed, timings: Timings) -> None:
        """Let only those rows count that time gets to step by step, no step longer than its stream may be ahead."""
        spans = sorted((span, position) for position, mine in packed.spans.items() for span in mine)
        latest_us = self.latest_us if self.high else spans[0][0].low
        near, latest_us, far = reach(spans, latest_us, timings)
        self.doubts = max(0, self.doubts + _rows(far) - _rows(near))
        if far and self.doubts >= WITNESSES:
            self.doubts = 0
            further, latest_us, far = reach(far, far[0][0].low, timings)
            near += further
        packed.high = {p: max((s.high for s, q in near if q == p), default=NEVER) for p in packed.spans}
        packed.low = {p: min(s.low for s, q in near if q == p) for p in packed.spans if packed.high[p] != NEVER}
        if far:
            ahead = {p: timings[p].ahead_us for p in packed.spans if p in timings}
            packed.bound = {p: min(latest_us + us, FOREVER) for p, us in ahead.items() if us is not None}

    def silent(self, timings: Timings) -> set[int]:
        """Return the positions of the streams that nobody waits for."""
        if self.first_us is None or not timings:
            return set()
        latest_us, first_us = self.latest_us, self.first_us
        idle = {p: t.idle_us for p, t in timings.items() if t.idle_us is not None}
        return {p for p, us in idle.items() if latest_us - self.heard.get(p, first_us) > us}

    def frontier_us(self, position: int, timings: Timings) -> int:
        """Return the time below which every further row of a stream is late; NEVER when it has had none."""
        high = self.high.get(position)
        return NEVER if high is None else high - _lateness_us(timings, position)

    def safe_us(self, positions: Iterable[int], timings: Timings) -> int:
        """Return the time below which no row of some streams is waited for; NEVER when one of them has had none.

        Where all of them are silent, time goes on as the others do.
        """
        waited_for = self.high.keys() | timings.keys() if timings else set(positions)
        waited_for -= self.silent(timings)
        return min(self.frontier_us(p, timings) for p in waited_for & set(positions) or waited_for)

    def holder(self, positions: Iterable[int], timings: Timings) -> tuple[int, int, int] | None:
        """Return which of some streams holds the others back, by how much event time, and how long it has been silent.

        None: nobody is held back.
        """
        waited_for = sorted(set(positions) - self.silent(timings))
        if self.first_us is None or len(waited_for) < 2:
            return None
        known = {p: self.frontier_us(p, timings) if p in self.high else self.first_us for p in waited_for}
        slowest = min(waited_for, key=lambda p: known[p])
        silent_us = self.latest_us - self.heard.get(slowest, self.first_us)
        lag_us = max(known.values()) - known[slowest]
        return (slowest, lag_us, silent_us) if lag_us > 0 else None


def reach(
    spans: list[tuple[Span, int]], latest_us: int, timings: Timings
) -> tuple[list[tuple[Span, int]], int, list[tuple[Span, int]]]:
    """Return the spans of times that can be reached, the largest time then, and the spans that are too far ahead."""
    near, far = list[tuple[Span, int]](), spans
    while True:
        beyond = list[tuple[Span, int]]()
        for span, position in far:
            ahead_us = timings[position].ahead_us if position in timings else None
            if ahead_us is not None and span.low - latest_us > ahead_us:
                beyond.append((span, position))
            else:
                near.append((span, position))
                latest_us = max(latest_us, span.high)
        if len(beyond) == len(far):
            return near, latest_us, beyond
        far = beyond


def _rows(spans: list[tuple[Span, int]]) -> int:
    return sum(span.rows for span, _ in spans)


def _lateness_us(timings: Timings, position: int) -> int:
    return timings[position].lateness_us if position in timings else 0

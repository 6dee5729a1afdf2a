"""Live streams that are silent hold nobody back, rows too far ahead are set aside; the same in any bucket and crash."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from engine.cluster import Cluster

import midstream as ms
from midstream.engine.bucket.progress import Progress
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.live.pack import spans_of
from midstream.local.sources import recorded_table
from midstream.model.timing import Timing
from seeds import seeds

QUERY = "SELECT a.v AS v, b.v AS w FROM a [RANGE 40 MICROSECONDS], b [RANGE 40 MICROSECONDS] WHERE a.k = b.k"
Batch = list[list[int]]
"""The times of the rows of each stream that a micro-batch brings."""


def columns_of(times: Sequence[int], first: int = 0) -> dict[str, pa.Array]:
    values = range(first, first + len(times))
    return {"ts": pa.array(times, pa.int64()), "k": pa.array([v % 3 for v in values]), "v": pa.array(list(values))}


class Live:
    """A query over two or three streams, of which it joins two; what it makes of micro-batches by the definitions."""

    def __init__(self, folder: Path, timings: Sequence[Timing], labels: tuple[int, ...] = (0,), **how: object) -> None:
        engine = ms.Engine()
        empty = columns_of([])
        for name, _ in zip("abc", timings, strict=False):
            engine.stream(name, pa.table({n: c.cast(pa.int64()) for n, c in empty.items()}), time="ts")
        plan = engine.query(QUERY).plan
        self.cluster = Cluster([plan], folder, labels, **how).live()  # type: ignore[arg-type]
        self.cluster.spec = replace(self.cluster.spec, timings=dict(enumerate(timings)))
        self.timings = timings
        self.taken: list[list[tuple[int, int]]] = [[] for _ in timings]
        """The rows of each stream that take part: time and value."""
        self.late, self.ahead, self.rows = 0, 0, 0
        self.high: dict[int, int] = {}
        self.heard: dict[int, int] = {}
        self.first: int | None = None
        self.gone_on = -(10**9)
        self.doubts = 0

    def bring(self, batch: Batch) -> None:
        """Run a micro-batch, in the cluster and by the definitions."""
        first, self.rows = self.rows, self.rows + sum(map(len, batch))
        firsts = [first + sum(map(len, batch[:k])) for k in range(len(batch))]
        spanned = any(t.ahead_us is not None for t in self.timings)

        def packed(place: int) -> Packed:
            brought = Packed()
            for position, times in enumerate(batch):
                if not times:
                    continue
                mine = np.array(times, np.int64)
                brought.high[position], brought.low[position] = int(mine.max()), int(mine.min())
                if spanned:
                    brought.spans[position] = spans_of(mine, self.timings[position].ahead_us)
                columns = columns_of(times, firsts[position])
                used = {n: columns[n] for n in ("k", "v")}
                if position < 2:
                    self.cluster.place(brought, place, 1, position, Rows(mine, np.arange(len(mine)), used), used)
            return brought

        self.cluster.batch(packed)
        self._define(batch, firsts)

    def _define(self, batch: Batch, firsts: list[int]) -> None:
        ahead = self._ahead(batch)
        latest = max(self.high.values(), default=-(10**9))
        for position, times in enumerate(batch):
            near = [t for t in times if t not in ahead[position]]
            before = self.high.get(position)
            for value, time in enumerate(times, firsts[position]):
                own = before is not None and before - time > self.timings[position].lateness_us
                if time in ahead[position]:
                    self.ahead += position < 2
                elif own or time < self.gone_on:
                    self.late += position < 2
                else:
                    self.taken[position].append((time, value))
            if near:
                self.high[position] = max(near) if before is None else max(before, *near)
                self.heard[position] = max(latest, *near)
        if self.first is None and self.high:
            self.first = min(t for k, times in enumerate(batch) for t in times if t not in ahead[k])
        if self.first is not None:
            self._go_on()

    def _go_on(self) -> None:
        latest, frontiers = max(self.high.values()), {}
        for position, timing in enumerate(self.timings):
            idle = timing.idle_us
            if idle is None or latest - self.heard.get(position, self.first or 0) <= idle:
                high = self.high.get(position)
                frontiers[position] = -(10**9) if high is None else high - timing.lateness_us
        own = [f for p, f in frontiers.items() if p < 2]
        self.gone_on = max(self.gone_on, min(own or frontiers.values()))

    def _ahead(self, batch: Batch) -> list[set[int]]:
        """Say which times of each stream are too far ahead: those that no steps lead to."""
        if not any(t.ahead_us is not None for t in self.timings):
            return [set() for _ in batch]
        times = sorted((t, p) for p, mine in enumerate(batch) for t in mine)
        if not times:
            return [set() for _ in batch]
        latest = max(self.high.values()) if self.high else times[0][0]

        def far_from(latest: int) -> list[tuple[int, int]]:
            far = times
            while True:
                still = [(t, p) for t, p in far if (us := self.timings[p].ahead_us) is not None and t - latest > us]
                if len(still) == len(far):
                    return still
                latest = max([latest, *(t for t, p in far if (t, p) not in still)])
                far = still

        far = far_from(latest)
        self.doubts = max(0, self.doubts + len(far) - (len(times) - len(far)))
        if far and self.doubts >= 20:
            self.doubts = 0
            near = [t for t, p in times if (t, p) not in far]
            far = far_from(max([latest, far[0][0], *near]))
        return [{t for t, p in far if p == k} for k in range(len(batch))]

    def finish(self) -> None:
        """End the run; compare output and counts with the definitions."""
        controls = [{"id": "end", "do": "drain"}]
        self.cluster.batch(lambda place: Packed(controls=controls), drain=True)
        got = [(row["v"], row["w"]) for d in self.cluster.departures for row in d.rows.to_pylist()]
        engine = ms.Engine()
        for name, taken in zip("ab", self.taken, strict=False):
            taken = sorted(taken, key=lambda row: row[0])
            rows = {"ts": [t for t, _ in taken], "k": [v % 3 for _, v in taken], "v": [v for _, v in taken]}
            engine.stream(name, pa.table({n: pa.array(c, pa.int64()) for n, c in rows.items()}), time="ts")
        out = engine.query(QUERY).start().table()  # type: ignore[union-attr, call-arg]
        expected = list(zip(out.column("v").to_pylist(), out.column("w").to_pylist(), strict=True))
        assert sorted(got) == sorted(expected)
        assert (self._total("late"), self._total("ahead")) == (self.late, self.ahead)
        assert self.cluster.late == self.late + self.ahead

    def _total(self, name: str) -> int:
        return sum(report[name] for reports in self.cluster.reports for report in reports)


def draw_batches(rnd: random.Random, streams: int) -> list[Batch]:
    """Draw micro-batches of streams that pause, come late and jump."""
    now, batches, quiet = 0, list[Batch](), [0] * streams
    for _ in range(rnd.choice([5, 20, 40])):
        now += rnd.choice([5, 10, 20]) if rnd.random() < 0.95 else rnd.choice([100, 500, 10_000])
        batch: Batch = []
        for k in range(streams):
            quiet[k] = quiet[k] - 1 if quiet[k] > 0 else rnd.choice([0, 0, 0, 0, 1, 4, 8])
            count = 0 if quiet[k] else rnd.choice([0, 1, 3, 8])
            times = [now - rnd.choice([0, 1, 3, 10, 30]) for _ in range(count)]
            if rnd.random() < 0.08:
                times.append(now + rnd.choice([60, 300, 10**7]))
            batch.append(sorted(times))
        batches.append(batch)
    return batches


@pytest.mark.parametrize("seed", seeds(0, 120, quick=4))
def test_what_is_waited_for_and_set_aside_is_as_defined(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(seed)
    timings = [
        Timing(rnd.choice([0, 5, 30]), rnd.choice([None, 0, 15, 40]), rnd.choice([None, None, 30, 100]))
        for _ in range(rnd.choice([2, 2, 3]))
    ]
    labels = rnd.choice([(0,), (4, 7), (1, 2, 5)])
    live = Live(tmp_path, timings, labels, rnd=rnd, crashes=rnd.choice([0.0, 0.4]))
    for batch in draw_batches(rnd, len(timings)):
        live.bring(batch)
    live.finish()


def test_a_silent_stream_is_not_waited_for_and_one_that_comes_back_is(tmp_path: Path) -> None:
    live = Live(tmp_path, [Timing(), Timing(lateness_us=5, idle_us=30)])
    seen = []
    for batch in ([[10], [10]], [[40], []], [[50], []], [[60], [55, 58]], [[70], [30, 50, 66]], [[71], []]):
        live.bring(batch)
        report = live.cluster.reports[-1][0]
        seen.append((report["waiting"], report["silent"], report["held_by"], report["late"]))
    held = [{"stream": "b", "lag_us": 35, "silent_us": 30}, {"stream": "b", "lag_us": 7, "silent_us": 2}]
    assert seen[:2] == [(2, [], {"stream": "b", "lag_us": 5, "silent_us": 0}, 0), (3, [], held[0], 0)]
    assert seen[2] == (1, ["b"], None, 0)  # 40 later than its last row, which is more than 30
    assert seen[3] == (3, [], held[1], 0)  # back: its rows after 50 are in time
    assert seen[4][3] == 2  # but those of 30 and 50 are late: the others went on to 50, and to 53 with it
    live.finish()


def test_a_stream_without_a_row_is_silent_from_the_first_row_of_another(tmp_path: Path) -> None:
    live = Live(tmp_path, [Timing(), Timing(idle_us=30)])
    for times, waiting in (([100, 110], 2), ([130], 3), ([131], 1), ([140], 1)):
        live.bring([times, []])
        assert live.cluster.reports[-1][0]["waiting"] == waiting
    live.finish()


def test_time_moves_on_when_most_rows_bear_out_a_jump(tmp_path: Path) -> None:
    live = Live(tmp_path, [Timing(ahead_us=100), Timing(ahead_us=100)])
    live.bring([[1, 2], [2, 10**9]])
    assert (live.ahead, live.high) == (1, {0: 2, 1: 2})
    for k in range(12):
        live.bring([[10_000 + k], [10_000 + k]])
    assert live.ahead == 1 + 2 * 9
    live.finish()


def test_progress_of_an_older_release_goes_on() -> None:
    progress = Progress.seen({0: 50, 1: 20})
    assert progress.silent({1: Timing(idle_us=29)}) == {1}
    assert Progress.of(progress.to_plain()) == progress
    assert recorded_table("s", pa.table({"ts": pa.array([1])}), "ts", Timing(idle_us=5)).timing.idle_us == 5

"""Rows of recorded streams that are late, or too far ahead, are those of the definitions, however they are read."""

import random

import pyarrow as pa
import pytest

from midstream.local import sources
from midstream.local.arrivals import read_together, skip
from midstream.local.sources import RecordedStream, recorded_table
from midstream.model.time import FOREVER
from midstream.model.timing import Timing
from oracle.set_aside import set_aside
from seeds import seeds

UNIT = 1000


def draw_times(rnd: random.Random, count: int) -> list[int]:
    """Draw times with pauses, jumps and rows that come late."""
    now, times = rnd.randint(0, 50), []
    for _ in range(count):
        now += rnd.choice([0, 1, 1, 2, 3]) if rnd.random() < 0.95 else rnd.choice([30, 80, 300])
        time = now
        if rnd.random() < 0.2:
            time -= rnd.choice([1, 5, 20, 90])
        elif rnd.random() < 0.04:
            time += rnd.choice([60, 1000, 10**6])
        times.append(time * UNIT)
    return times


def draw_timing(rnd: random.Random) -> Timing:
    idle = rnd.choice([None, 0, 5, 10, 25, 100])
    ahead = rnd.choice([None, None, 10, 50, 200])
    spans = [None if span is None else span * UNIT for span in (idle, ahead)]
    return Timing(rnd.choice([0, 3, 10, 25, 100]) * UNIT, *spans)


def recorded(name: str, times: list[int], timing: Timing) -> RecordedStream:
    columns = {"ts": times, "v": range(len(times))}
    return recorded_table(name, pa.table({n: pa.array(c, pa.int64()) for n, c in columns.items()}), "ts", timing)


@pytest.mark.parametrize("seed", seeds(0, 400, quick=40))
def test_rows_set_aside_are_those_of_the_definitions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(seed)
    monkeypatch.setattr(sources, "CHUNK_ROWS", rnd.choice([1, 7, 50, 1000]))
    names = [f"s{k}" for k in range(rnd.choice([1, 2, 2, 3, 4]))]
    times = {name: draw_times(rnd, rnd.choice([0, 1, 2, 10, 60, 150])) for name in names}
    timings = {name: draw_timing(rnd) for name in names}
    streams = [recorded(name, times[name], timings[name]) for name in names]
    kept: dict[str, list[int]] = {name: [] for name in names}
    readers = read_together(streams, {n: ["v"] for n in names}, lambda n: lambda r: kept[n].extend(r.offsets), streams)
    out: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    end = -(10**9)
    if rnd.random() < 0.3:  # as a run that is resumed
        end = rnd.randrange(1, 300) * UNIT
        skip(readers.values(), end)
    from_us = end
    while (earliest := min(r.next_time() for r in readers.values())) < FOREVER:
        if rnd.random() < 0.3:
            for reader in readers.values():
                reader.time_of(rnd.randint(1, 40))
        end = max(earliest, end) + rnd.choice([1, 3 * UNIT, 40 * UNIT, 2000 * UNIT])
        for name, reader in readers.items():
            rows = reader.until(end)
            assert list(rows.columns) == ["v"]
            out[name] += zip(rows.times.tolist(), rows.offsets.tolist(), strict=True)
    expected = set_aside(times, timings)
    for name, reader in readers.items():
        late, ahead = expected[name].late, expected[name].ahead
        assert (reader.late, reader.ahead) == (len(late), len(ahead)), f"{name}: {timings} {times}"
        assert set(kept[name]) == late | ahead
        taken = [(t, k) for k, t in enumerate(times[name]) if k not in late | ahead and t >= from_us]
        assert out[name] == sorted(taken), f"{name}: {timings} {times}"


def stream(times: list[int], **spans: int) -> RecordedStream:
    return recorded("s", [t * UNIT for t in times], Timing(10**9, **spans))


@pytest.mark.parametrize(
    ("times", "others", "far"),
    [
        ([1, 2, 10_000, 3, 4], [], [2]),
        ([1, 2, 3, 10_000], [], [3]),  # nothing bears out the last one
        ([1, 2, 3, 10_000], [9_950], []),  # but another stream that has come as far
        ([10_000, 1, 2, 3], [], [0]),
        ([0, 10_000, 10_001, 10_002], [], []),  # all rows come after a night, or a clock was not set
        ([1, 10_000, 10_001, 2, 10_002, 10_003], [], []),
        ([1, *range(10_000, 10_005), *range(2, 22)], [], [1, 2, 3, 4, 5]),
        ([7], [], []),
    ],
)
def test_a_row_far_ahead_counts_when_others_bear_it_out(times: list[int], others: list[int], far: list[int]) -> None:
    streams = [stream(times, ahead_us=100 * UNIT), *([stream(others)] if others else [])]
    kept: list[int] = []
    readers = read_together(streams[:1], {"s": []}, lambda _: lambda rows: kept.extend(rows.offsets), streams)
    rows = readers["s"].until(FOREVER)
    assert kept == far
    assert sorted(rows.offsets.tolist()) == [k for k in range(len(times)) if k not in far]

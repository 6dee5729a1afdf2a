"""Micro-batches by rows: few of them over sparse streams, the same ones for the same rows, and the same output."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream as ms
from midstream.local import width
from midstream.local.arrivals import StreamReader
from midstream.local.replay import prepare, replay
from midstream.local.scenario import read_scenario
from midstream.local.sources import recorded_table
from midstream.model.time import FOREVER
from midstream.model.timing import Timing
from seeds import few_quick

SECOND = 1_000_000
DAY = 86_400 * SECOND
JOIN = "SELECT a.v AS x, b.v AS y FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS] WHERE a.k = b.k"
GROUPS = "SELECT k, COUNT(*) AS n FROM a [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k"
HOPS = "SELECT a.k, b.v FROM a [RANGE 10 SECONDS], b [ROWS 5] WHERE a.k = b.k HOP BY 2 SECONDS EMIT DELTA"


def sparse(rows: int, every_us: int = 3 * SECOND) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table({"ts": numbers * every_us, "k": numbers % 7, "v": numbers})


def engine(**tables: pa.Table) -> ms.Engine:
    made = ms.Engine()
    for name, table in tables.items():
        made.stream(name, table, time="ts", lateness="5 seconds")
    return made


def finished(sql: str, tables: dict[str, pa.Table], **how: Any) -> Any:
    return engine(**tables).query(sql).start(**how)


def test_a_sparse_stream_has_few_micro_batches() -> None:
    tables = {"a": sparse(40_000), "b": sparse(20_000, 6 * SECOND)}
    report = finished(JOIN, tables).report
    assert len(report.batches) == 3
    assert report.batch == "16384 rows"
    by_time = finished(JOIN, {name: t.slice(0, 50) for name, t in tables.items()}, batch="1 second").report
    assert len(by_time.batches) == 75, "one for every second that has rows"
    assert by_time.batch == "1 SECOND"


def test_time_without_rows_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.array([0, 1, 3 * DAY, 3 * DAY + 1, 900 * DAY])
    rows = pa.table({"ts": times, "k": times % 2, "v": times})
    monkeypatch.setattr(width, "BATCH_ROWS", 1)
    assert len(finished(JOIN, {"a": rows, "b": rows}).report.batches) == 5
    assert len(finished(JOIN, {"a": rows, "b": rows}, batch="1 second").report.batches) == 3


def test_answers_that_time_alone_brings_are_limited() -> None:
    tables = {"a": sparse(1_000), "b": sparse(1_000)}
    for sql, step_us in ((GROUPS, 3 * SECOND), (HOPS, 2 * SECOND)):
        ends = [b.end for b in finished(sql, tables).report.batches]
        assert max(np.diff(ends)) <= width.MOST_ANSWERS * step_us
        assert len(ends) < 60


@pytest.mark.parametrize("sql", [JOIN, GROUPS, HOPS], ids=["join", "groups", "hops"])
@pytest.mark.parametrize("seed", few_quick(range(5)))
def test_the_same_output(sql: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    tables = {}
    for name in "ab":
        count = int(rng.integers(0, 90))
        times = np.cumsum(rng.choice([0, 10_000, SECOND, 9 * SECOND], count)) + rng.integers(-2, 3, count) * SECOND
        tables[name] = pa.table({"ts": times, "k": rng.integers(0, 3, count), "v": rng.integers(0, 9, count)})
    expected = finished(sql, tables, batch="1 second")
    for rows, answers in ((1, 1), (7, 3), (64, 64), (16_384, 64)):
        monkeypatch.setattr(width, "BATCH_ROWS", rows)
        monkeypatch.setattr(width, "MOST_ANSWERS", answers)
        found = [finished(sql, tables) for _ in range(2)]
        assert found[0].table() == expected.table()
        assert found[0].report.late == expected.report.late
        ends = [[b.end for b in run.report.batches] for run in found]
        assert ends[0] == ends[1]


def test_a_reader_knows_its_next_rows() -> None:
    rnd = random.Random(5)
    times = [t + rnd.randint(-40, 0) for t in range(0, 3_000, 3)]
    stream = recorded_table("a", pa.table({"ts": times}), "ts", Timing(lateness_us=40))
    in_order = sorted(times)
    for count in (1, 10, 999, 1_000):
        assert StreamReader(stream, []).time_of(count) == in_order[count - 1]
    assert StreamReader(stream, []).time_of(1_001) == FOREVER
    reader = StreamReader(stream, [])
    reader.until(in_order[500])
    left = [t for t in in_order if t >= in_order[500]]
    assert reader.time_of(3) == left[2]


def test_a_scenario_says_how_far_they_go(tmp_path: Path) -> None:
    pq.write_table(sparse(100), tmp_path / "a.parquet")
    pq.write_table(sparse(100), tmp_path / "b.parquet")
    streams = "".join(f'[streams.{n}]\npath = "{n}.parquet"\ntime = "ts"\n' for n in "ab")
    found = {}
    for said in ("", 'batch = "1 second"'):
        (tmp_path / "s.toml").write_text(f'sql = """{JOIN}"""\n{streams}[run]\n{said}\n')
        report = tmp_path / "report.json"
        _, table = replay(prepare(read_scenario(tmp_path / "s.toml")), report=report)
        found[said] = json.loads(report.read_text()), table
    (by_rows, first), (by_time, second) = found.values()
    assert (by_rows["batch"], len(by_rows["batches"])) == ("16384 rows", 1)
    assert (by_time["batch"], len(by_time["batches"])) == ("1 SECOND", 100)
    assert first == second


def test_a_checkpoint_goes_on_as_it_began(tmp_path: Path) -> None:
    tables = {"a": sparse(60), "b": sparse(60)}
    place = {"checkpoint": str(tmp_path / "c"), "sink": str(tmp_path / "out")}
    run = engine(**tables).query(JOIN).start(batch="9 seconds", paused=True, **place)
    run.advance(90 * SECOND)
    run.stop()
    again = engine(**tables).query(JOIN).start(**place)
    assert again.report.batch == "9 SECONDS"
    assert {b.end % (9 * SECOND) for b in again.report.batches} == {0}
    with pytest.raises(ms.MidstreamError, match=r"\(microseconds: 9000000, not 1000000\)"):
        engine(**tables).query(JOIN).start(batch="1 second", **place)

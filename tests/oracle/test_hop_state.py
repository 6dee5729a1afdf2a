"""Hopping queries hold what the last hop held and what the next one can hold, however far apart hops are."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine.test_hop_recovery import (
    HopCluster,
    arrivals,
    draw_asked,
    draw_requests,
    in_process,
    plan_of,
    rows_of,
    run_case,
    streams_of,
)

import midstream as ms
from midstream.engine.bucket import intake
from midstream.engine.bucket.store import WINDOW
from midstream.engine.bucket.version import VersionInBucket
from midstream.engine.control.controls import MIGRATE
from midstream.engine.results.schema import output_schema
from midstream.engine.run.hopping import HoppingRun
from midstream.local.loop import Loop
from midstream.local.sinks import TableSink
from midstream.migrate.request import MigrationRequest
from midstream.operators.hopping import build_execution
from midstream.operators.hopping import window as window_module
from midstream.plan.source import Source
from midstream.plan.window import RowsWindow
from oracle.hop_generate import draw_case
from oracle.hop_queries import HopCase, Window, times_of
from oracle.hop_recompute import in_window
from seeds import few_quick, seeds

SECOND = 1_000_000


def draw_far_apart(rnd: random.Random) -> HopCase:
    """Draw a case with a hop that may be much longer than its windows."""
    case = draw_case(rnd)
    return replace(case, hop_us=case.hop_us * rnd.choice([1, 2, 3, 7, 20]), buckets=rnd.choice([1, 1, 2]))


def wanted(case: HopCase, source: Source, run: HoppingRun, upto_us: int) -> set[int]:
    """Return the rows below a time that were in a window at the last hop, or can be at the next one."""
    window = source.window
    if isinstance(window, RowsWindow):
        drawn = Window(rows=window.count, by=tuple(c.name for c in window.partition_by))
    else:
        assert window is not None
        drawn = Window(width_us=window.width_us)
    table = case.streams[source.stream.name]
    come = table.slice(0, sum(t < upto_us for t in times_of(table)))
    hops = [hop for hop in (run.last_us, run.next_us) if hop is not None]
    return {i for hop in hops for i in in_window(come, drawn, hop)}


def watch_windows(case: HopCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on fail when a window holds a row that it cannot need."""
    take = HoppingRun.take

    def take_and_look(run: HoppingRun, rows: Any, upto_us: int, clock_us: int) -> None:
        take(run, rows, upto_us, clock_us)
        if run.next_us is None:
            return
        for source in run.plan.query.sources:
            held = set(run.execution.windows[source.alias].stamps()[1].tolist())
            needed = wanted(case, source, run, upto_us)
            # Rows that others push out are dropped when they are as many as those inside.
            most = len(needed) if isinstance(source.window, RowsWindow) else 0
            assert len(held - needed) <= most, f"{source}, {run.last_us} to {run.next_us}: {sorted(held)}{case}"

    monkeypatch.setattr(window_module, "SLACK", 0)
    monkeypatch.setattr(HoppingRun, "take", take_and_look)


def watch_stores(case: HopCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on fail when a row is written down that cannot be needed, or kept with nothing beside it that can."""
    close = VersionInBucket.close

    def close_and_look(version: VersionInBucket, release: bool, last: bool) -> bool:
        done = close(version, release, last)
        run, state, durable = version.run, version.state, version._durable
        if not isinstance(run, HoppingRun) or durable is None or run.next_us is None:
            return done
        for rank, source in enumerate(version.intake.sources):
            needed = wanted(case, source, run, state.released_us)
            chunks = state.chunks.get(rank, [])
            kept = [durable._store.read(durable._key(WINDOW, rank, chunk.number)).column("_offset") for chunk in chunks]
            for offsets in kept if not isinstance(source.window, RowsWindow) else ():
                assert needed & set(offsets.to_pylist()), f"{source}: {offsets} is kept{case}"
            if chunks and chunks[-1].number == state.batches - 1:
                more = set(kept[-1].to_pylist()) - needed
                assert not more, f"{source}: {sorted(more)} are written down{case}"
            assert len(chunks) < 3 or sum(map(len, kept[1:-1])) <= 2 * len(kept[0]) + len(needed), f"{source}{case}"
        return done

    monkeypatch.setattr(intake, "SLACK", 0)
    monkeypatch.setattr(VersionInBucket, "close", close_and_look)


@pytest.mark.parametrize("seed", seeds(0, 200, quick=2))
def test_windows_hold_nothing_that_no_hop_needs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(4_500_000 + seed)
    case = draw_far_apart(rnd)
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    requests = draw_requests(rnd, case) if seed % 2 else []
    watch_windows(case, monkeypatch)
    loop = Loop(plan, streams_of(case.streams), case.batch_us, case.buckets, requests)
    loop.run(TableSink(output_schema(plan)))


@pytest.mark.parametrize("seed", seeds(0, 200, quick=1))
def test_nothing_is_written_down_that_no_hop_needs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets that fail and lose their memory answer as in process, through other plans and other hops."""
    rnd = random.Random(4_600_000 + seed)
    case = draw_far_apart(rnd)
    plan = plan_of(case.sql, case.streams, draw_asked(rnd, case.hop_us))
    requests = draw_requests(rnd, case) if seed % 2 else []
    expected, _ = in_process(plan, case.streams, case.batch_us, case.buckets, requests)
    watch_windows(case, monkeypatch)
    watch_stores(case, monkeypatch)
    cluster = run_case(case, plan, rnd, tmp_path, requests, 0.3 if seed % 3 else 0.0)
    assert rows_of(cluster.output()) == rows_of(expected), f"{plan} | {requests}{case}"


def by_name(modes: str, working: str) -> str:
    """Return words for a plan that is the same whatever is known of the rows."""
    return f"as-written modes={modes} working={working}"


@pytest.mark.parametrize("seed", seeds(0, 80, quick=1, kept=[72]))
def test_flips_do_not_depend_on_the_width_of_batches(seed: int, tmp_path: Path) -> None:
    """Nor on buckets, where they are and what happens to them: operators that work by tuple work at fixed times."""
    rnd = random.Random(4_650_000 + seed)
    case = draw_case(rnd, rnd.choice(["set", "absent", "pushable"]))
    plan = plan_of(case.sql, case.streams, by_name("delta", "window" if seed % 5 == 0 else "tuple"))
    requests = draw_requests(rnd, case) if seed % 2 else []
    words = [by_name(rnd.choice(["delta", "delta", "complete"]), rnd.choice(["tuple", "window"])) for _ in requests]
    requests = [replace(request, plan=word) for request, word in zip(requests, words, strict=True)]
    flips = set()
    for batch_us in (case.batch_us, case.hop_us // 3 + 1, case.hop_us * 50 + 1):
        for buckets in (1, 3):
            loop = Loop(plan, streams_of(case.streams), max(batch_us, case.hop_us // 20 + 1), buckets, requests)
            report = loop.run(TableSink(output_schema(plan)))
            flips.add(sum(b.flips for b in report.batches))
    for crashes in (0.0, 0.4):
        cluster = run_case(case, plan, rnd, tmp_path / str(crashes), requests, crashes)
        flips.add(sum(report["flips"] for reports in cluster.reports for report in reports))
    assert len(flips) == 1, f"{sorted(flips)}{case}"


@pytest.mark.parametrize("seed", seeds(0, 80, quick=1))
def test_flips_after_a_migration_are_those_of_the_plan_it_leads_to(seed: int) -> None:
    """Those before it and those after it are together those of a run without: computing a state is no flip."""
    rnd = random.Random(4_660_000 + seed)
    case = draw_case(rnd, rnd.choice(["set", "absent", "pushable"]))
    names = {m: by_name(m, "window" if seed % 4 == 0 else "tuple") for m in ("delta", "complete")}
    times = [t for name in {n for n, _ in case.windows} for t in times_of(case.streams[name])] or [0]
    at_us = rnd.randint(min(times), max(times))

    def flips(*modes: str) -> int:
        plan = plan_of(case.sql, case.streams, names[modes[0]])
        requests = [MigrationRequest(names[to], at_us=at_us, identity=to) for to in modes[1:]]
        loop = Loop(plan, streams_of(case.streams), max(case.batch_us, case.hop_us // 20 + 1), case.buckets, requests)
        return sum(b.flips for b in loop.run(TableSink(output_schema(plan))).batches)

    before, after, without = flips("delta", "complete"), flips("complete", "delta"), flips("complete")
    assert before + after - without == flips("delta"), f"{at_us}{case}"


def numbered(count: int) -> pa.Table:
    """Return a row a millisecond, each with a string of its own."""
    texts = pa.array([f"text {i}" for i in range(count)])
    return pa.table({"ts": np.arange(count) * 1000, "k": np.arange(count) % 7, "s": texts})


@pytest.mark.parametrize("working", ["window", "tuple"])
@pytest.mark.parametrize("window", few_quick(["RANGE 1 SECOND", "ROWS 1", "ROWS 1000", "ROWS 100 PARTITION BY k"]))
def test_state_is_of_the_size_of_the_window(
    window: str, working: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty seconds of rows, and no hop: neither what is held nor what a checkpoint keeps grows with them."""
    monkeypatch.setattr(build_execution, "SLACK", 1000)
    engine = ms.Engine()
    engine.stream("a", numbered(30_000), time="ts")
    query = engine.query(f"SELECT k, s FROM a [{window}] HOP BY 1 HOUR", plan=f"optimal working={working}")
    run = query.start(tmp_path / "out", batch="100 ms", checkpoint=tmp_path / "run", paused=True).advance(29_500_000)
    assert max(b.state_tuples for b in run.report.batches) <= 3200
    if working == "window":
        assert max(b.state_bytes for b in run.report.batches) < 500_000
    assert sum(f.stat().st_size for f in (tmp_path / "run").rglob("*") if f.is_file()) < 400_000


@pytest.mark.parametrize("at_s", [5, 10, 13, 15, 16, 21])
def test_a_shorter_hop_asked_for_a_position_that_has_passed(at_s: int, tmp_path: Path) -> None:
    """Rows between two hops that only the later one was to look at are there when another one comes in between."""
    table = pa.table({"ts": np.arange(40) * SECOND})
    plan = plan_of("SELECT COUNT(*) AS n FROM a [RANGE 3 SECONDS] HOP BY 10 SECONDS", {"a": table})
    cluster = HopCluster(plan, tmp_path, 1, random.Random(at_s), 0.0)
    cluster.live()
    bounds = [5 * SECOND, 16 * SECOND, 19 * SECOND, 33 * SECOND, 2**60]
    cluster.clock_us = 39 * SECOND
    for number, batch in enumerate(arrivals(plan, {"a": table}, bounds, 0)):
        asked = {"plan": "same hop=1s", "at_us": at_s * SECOND}
        cluster.step(batch, [{"id": "a", "do": MIGRATE, "migration": asked}] if number == 2 else [])
    answers = cluster.output().select(["_hop", "n"]).to_pylist()
    assert [a["n"] for a in answers] == [3] * len(answers)
    first = 20 if at_s < 21 else 30
    assert [a["_hop"] // SECOND for a in answers] == [*range(10, first, 10), *range(first, 40)]

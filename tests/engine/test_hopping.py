"""Hopping queries in process: hops, flips, explanations, adaptation, calibration, refusals."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import midstream as ms
from midstream.app.cli import app
from midstream.app.engine import Run
from midstream.engine.planning.adapt import parse_adaptation
from midstream.engine.planning.constants import VARIABLE, load_constants, save_constants
from midstream.local.calibrate import fitted, ranked
from midstream.local.measure import Case, measure
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError, PlanError, SourceError
from midstream.operators.hopping import build_execution
from midstream.optimize.hopping.cost import Constants
from seeds import few_quick

SECOND = 1_000_000


def engine_of(**streams: Sequence[tuple[float, int]]) -> ms.Engine:
    engine = ms.Engine()
    for name, rows in streams.items():
        table = pa.table({"ts": [int(t * SECOND) for t, _ in rows], "k": pa.array([k for _, k in rows], pa.int64())})
        engine.stream(name, table, time="ts")
    return engine


def told(run: Run) -> list[tuple[int, ...]]:
    names = [n for n in run.table().column_names if n not in ("_time", "_version")]
    return [tuple(row[n] // SECOND if n == "_hop" else row[n] for n in names) for row in run.table().to_pylist()]


def test_hops_without_rows_are_answered() -> None:
    engine = engine_of(a=[(1, 5), (12, 6)])
    run = engine.query("SELECT COUNT(*) AS n FROM a [RANGE 2 SECONDS] HOP BY 2 SECONDS").start()
    assert told(run) == [(1, 2), (0, 4), (0, 6), (0, 8), (0, 10), (0, 12)]
    run = engine.query("SELECT k FROM a [RANGE 2 SECONDS] HOP BY 2 SECONDS").start()
    assert told(run) == [(5, 2)]
    assert sum(b.hops for b in run.report.batches) == 6


@pytest.mark.slow
def test_a_long_silence_is_passed_over() -> None:
    engine = engine_of(a=[(1, 5), (3_000_000, 6), (3_000_001, 7)])
    run = engine.query("SELECT k FROM a [RANGE 2 SECONDS] HOP BY 1 MILLISECOND").start(batch="1 hour")
    assert sum(b.hops for b in run.report.batches) == 3_000_000_000
    assert {k for k, _ in told(run)} == {5, 6}


def test_a_window_shorter_than_the_hop_holds_what_is_right_before_it() -> None:
    engine = engine_of(a=[(1, 1), (9, 2), (10, 3), (19, 4), (21, 5)])
    run = engine.query("SELECT k FROM a [RANGE 1 SECOND] HOP BY 10 SECONDS").start()
    assert told(run) == [(2, 10), (4, 20)]


def test_working_by_tuple_flips_and_working_by_window_does_not() -> None:
    engine = engine_of(a=[(1, 7), (3, 0)], b=[(2, 7), (12, 1)])
    sql = "SELECT k FROM a [RANGE 1 MINUTE] EXCEPT SELECT k FROM b [RANGE 1 MINUTE] HOP BY 10 SECONDS"
    flips = {}
    for working in ("tuple", "window"):
        run = engine.query(sql, plan=f"as-written modes=delta working={working}").start(batch="1 second")
        assert told(run) == [(0, 10)]
        flips[working] = sum(b.flips for b in run.report.batches)
    assert flips == {"tuple": 3, "window": 1}  # 7 comes and goes within the hop; 0 comes


def test_explain_says_modes_costs_and_partitioning() -> None:
    engine = engine_of(a=[(1, 5)], b=[(1, 5)])
    sql = "SELECT a.k FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k HOP BY 5 SECONDS EMIT DELTA"
    text = engine.query(sql, plan="as-written modes=delta").explain()
    assert "Plan (project:DIDO (join:DIDO a b))" in text
    assert "Hop by 5 SECONDS, emit delta" in text
    assert "join on (a.k = b.k)" in text
    assert "a: a [RANGE 10 SECONDS], the hop is 50% of it" in text
    assert "hash a.k = b.k" in text
    line = next(line for line in text.splitlines() if "join on" in line)
    assert len([word for word in line.split() if word.replace(".", "").isdigit() and "." in word]) == 4


def test_migrations_are_told() -> None:
    engine = engine_of(a=[(t, t % 3) for t in range(60)], b=[(t, t % 2) for t in range(60)])
    sql = "SELECT a.k FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k HOP BY 5 SECONDS"
    run = engine.query(sql, plan="as-written modes=delta").start(paused=True)
    run.advance(22 * SECOND)
    assert "holds nothing" in run.explain(migrate="same modes=complete")
    run.migrate("same modes=complete")
    run.migrate("same modes=complete")
    run.finish()
    records = run.migrations()
    assert [r["state"] for r in records] == ["finished", "no-op"]
    assert records[0]["position_us"] == 25 * SECOND
    assert str(run.plan) == "(project:CICO (join:CICO a b))"
    whole = engine.query(sql, plan="as-written modes=delta").start()
    assert told(run) == told(whole)


@pytest.mark.slow
def test_a_query_goes_from_deltas_to_complete_relations_when_its_hop_grows() -> None:
    rows = [(t // 200, t % 5000) for t in range(200 * 200)]
    engine = engine_of(a=rows, b=rows)
    sql = "SELECT a.k FROM a [RANGE 20 SECONDS] EXCEPT SELECT b.k FROM b [RANGE 20 SECONDS] HOP BY 20 SECONDS"
    run = engine.query(sql, plan="as-written modes=delta").start(adapt="modes")
    assert run.migrations()[0]["state"] == "finished"
    assert "CI" in run.migrations()[0]["plan"]
    assert told(run) == told(engine.query(sql, plan="as-written modes=delta").start())


def test_a_hop_adapts_within_its_bounds() -> None:
    engine = engine_of(a=[(t, t % 3) for t in range(200)])
    run = engine.query("SELECT k FROM a [RANGE 8 SECONDS] HOP BY 8 SECONDS").start(adapt="hop=2s..8s")
    hops = sorted({hop for *_, hop in told(run)})
    assert {b - a for a, b in pairwise(hops)} == {8, 4, 2}  # there is next to nothing to do
    assert all(r["state"] == "finished" for r in run.migrations())


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("sideways", "'sideways' is no shape of a hopping plan"),
        ("modes=DODO", "'DODO' is no mode"),
        ("modes=DIDO", "the plan has 2 operators, but 1 modes"),
        ("modes=CIDO,DIDO", "the query emits complete results, but project is DIDO"),
        ("working=never", "working is 'never'"),
        ("hop=0s", "a hop is longer than nothing"),
        ("same", "nothing runs yet"),
        ("optimal hop=2s", "hop= is for migrations"),
        ("optimal push-down", "plan 'optimal push-down' says its shape twice"),
        ("modes=delta modes=auto", "says its modes twice"),
        ("(a b", "plan '(a b' opens a bracket and does not close it"),
        ("(a z)", "'(a z)' is no shape of a hopping plan: plan '(a z)' names 'z', which is no alias of the query"),
        ("(a b) push-down", "says its shape twice"),
        ("color=red", "'color' is not known"),
    ],
)
def test_plans_that_cannot_be(plan: str, said: str) -> None:
    engine = engine_of(a=[(1, 5)], b=[(1, 5)])
    with pytest.raises(PlanError, match=re.escape(said)):
        engine.query(
            "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k HOP BY 1 SECOND", plan=plan
        )


SELF_JOIN = "SELECT a.k FROM a [RANGE 4 s], a [RANGE 4 s] b WHERE a.k = b.k HOP BY 2 SECONDS"


@pytest.mark.parametrize("asked", [{"strategy": "hybrid"}, {"background": True}, {"join": "hash"}, {"budget": 7}])
def test_a_migration_refuses_what_only_sliding_joins_have(asked: dict[str, object]) -> None:
    run = engine_of(a=[(1, 5), (9, 5)]).query(SELF_JOIN).start(paused=True)
    with pytest.raises(PlanError, match="is for sliding joins; a hopping query goes on with another plan at a hop"):
        run.migrate("same modes=delta", **asked)
    run.migrate("same modes=delta", strategy="moving-state")
    assert [r["strategy"] for r in run.finish().migrations()] == ["moving-state"]


def test_what_a_query_of_the_other_kind_has_is_refused() -> None:
    engine = engine_of(a=[(1, 5), (9, 5)])
    for method in ("hash", "nested-loop"):
        with pytest.raises(PlanError, match=f"join = '{method}' is for sliding joins"):
            engine.query(SELF_JOIN, join=method)
    with pytest.raises(PlanError, match="a hopping query runs as a tree, not as cacq"):
        engine.query(SELF_JOIN).start(framework="cacq")
    with pytest.raises(PlanError, match="the query begins with HOP BY 2 SECONDS, outside the bounds of its hop"):
        engine.query(SELF_JOIN).start(adapt="hop=4s..8s")
    with pytest.raises(PlanError, match="what adapts by itself is a hopping query"):
        engine.query("SELECT k FROM a").start(adapt="modes")
    with pytest.raises(PlanError, match="modes=delta is for plans of hopping queries"):
        engine.query("SELECT k FROM a", plan="modes=delta")
    with pytest.raises(PlanError, match="a plan is text"):
        engine.query(SELF_JOIN).start(paused=True).migrate(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k FROM a [RANGE 9 s]", [None, None]),
        ("SELECT k FROM a [RANGE 9 s] WHERE k IS NULL", [None, None]),
        ("SELECT k FROM a [RANGE 9 s] WHERE k = 1", []),
        ("SELECT DISTINCT k FROM a [RANGE 9 s]", [None]),
        ("SELECT COUNT(k) FROM a [RANGE 9 s]", [0]),
        ("SELECT COUNT(*) FROM a [RANGE 9 s] GROUP BY k", [2]),
        ("SELECT b.k FROM a [RANGE 9 s], a [RANGE 9 s] b WHERE a.k = b.k", []),
        ("SELECT k FROM a [RANGE 9 s] EXCEPT SELECT k FROM a [RANGE 9 s]", []),
        ("SELECT k FROM a [ROWS 1 PARTITION BY k]", [None]),
        ("SELECT k FROM a [RANGE 9 s] WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 9 s] b WHERE a.k = b.k)", [None, None]),
    ],
)
@pytest.mark.parametrize("modes", few_quick(["auto", "delta", "complete"]))
def test_a_column_without_any_value(sql: str, expected: list[object], modes: str) -> None:
    rows = pa.table({"ts": [SECOND, 2 * SECOND, 9 * SECOND], "k": pa.nulls(3)})
    query = ms.Engine().stream("a", rows, time="ts").query(f"{sql} HOP BY 9 SECONDS", plan=f"modes={modes}")
    assert query.explain()
    assert query.start().table().column(0).to_pylist() == expected


def test_a_window_of_more_rows_than_can_be_counted_holds_them_all() -> None:
    run = engine_of(a=[(1, 5), (3, 6), (9, 7)]).query(f"SELECT k FROM a [ROWS {10**20}] HOP BY 4 SECONDS").start()
    assert told(run) == [(5, 4), (6, 4), (5, 8), (6, 8)]


def test_the_least_integer_is_refused() -> None:
    engine = engine_of(a=[(1, -(2**63)), (9, 0)])
    with pytest.raises(
        SourceError, match=r"a\.k has the least BIGINT, -9223372036854775808, which a hopping query cannot hold"
    ):
        engine.query("SELECT k FROM a [RANGE 1 SECOND] HOP BY 1 SECOND").start()


def test_the_least_integer_is_refused_beside_a_null_and_is_null_when_computed() -> None:
    rows = pa.table({"ts": [0, 1, 9 * SECOND], "k": pa.array([-(2**63), None, 7], pa.int64())})
    engine = ms.Engine().stream("a", rows, time="ts")
    with pytest.raises(
        SourceError, match=r"a\.k has the least BIGINT, -9223372036854775808, which a hopping query cannot hold"
    ):
        engine.query("SELECT k FROM a [RANGE 1 SECOND] HOP BY 1 SECOND").start()
    computed = engine_of(a=[(0, -(2**63) + 1), (9, 0)]).query(
        "SELECT k - 1 AS j FROM a [RANGE 1 SECOND] HOP BY 9 SECONDS"
    )
    assert computed.start().table().num_rows == 0
    computed = engine_of(a=[(0, -(2**63) + 1), (9, 0)]).query(
        "SELECT k - 1 AS j FROM a [RANGE 9 SECONDS] HOP BY 9 SECONDS"
    )
    assert told(computed.start()) == [(None, 9)]


def test_strings_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_execution, "SLACK", 50)
    rows = pa.table({"ts": [k * 100_000 for k in range(3000)], "s": [f"name {k}" for k in range(3000)]})
    engine = ms.Engine().stream("a", rows, time="ts")
    run = engine.query("SELECT s FROM a [RANGE 1 SECOND] HOP BY 1 SECOND").start(paused=True)
    run.advance(290 * SECOND)
    assert run._running.host.buckets[0].newest.run.execution.coding.held < 120
    run.finish()
    assert run.table().num_rows == 2990


def test_deviations_do_not_depend_on_modes_and_migrations() -> None:
    rows = [(t, (t * 7919) % 1_000_003) for t in range(120)]
    engine = engine_of(a=rows, b=[(t, t % 5) for t in range(120)])
    sql = "SELECT STDDEV(a.k) AS sd FROM a [RANGE 9 SECONDS], b [RANGE 5 SECONDS] WHERE a.k % 5 = b.k HOP BY 2 SECONDS"
    answers = {m: told(engine.query(sql, plan=f"as-written modes={m}").start()) for m in ("delta", "complete")}
    assert answers["delta"] == answers["complete"]
    run = engine.query(f"{sql} EMIT DELTA", plan="as-written modes=delta").start(paused=True)
    run.advance(30 * SECOND)
    run.migrate("same modes=complete")
    run.finish()
    assert told(run) == told(engine.query(f"{sql} EMIT DELTA", plan="as-written modes=delta").start())


def test_a_migration_that_no_longer_fits_is_refused_and_the_query_goes_on() -> None:
    engine = engine_of(a=[(t, t % 3) for t in range(60)], b=[(t, t % 2) for t in range(60)])
    sql = "SELECT d.k FROM (SELECT a.k FROM a [RANGE 9 s] EXCEPT ALL SELECT b.k FROM b [RANGE 5 s]) d HOP BY 5 SECONDS"
    run = engine.query(sql, plan="as-written modes=delta").start(paused=True)
    run.advance(10 * SECOND)
    count = str(run.plan).count(":")
    run.migrate("same modes=complete")
    run._running.host.migrate(MigrationRequest("same modes=CICO", at_us=12 * SECOND, identity="9"))
    run.finish()
    assert count > 1
    assert [r["state"] for r in run.migrations()] == ["finished", "refused"]
    assert "modes" in run.migrations()[1]["reason"]
    asked = engine.query(sql, plan="as-written modes=delta").start(paused=True)
    asked.advance(10 * SECOND)
    said = ",".join(asked.plan.modes)
    asked.migrate(f"as-written modes={said}")
    asked.finish()
    assert asked.migrations()[0]["state"] == "no-op", "modes that were said are kept"


def skewed(seconds: int = 120, keys: int = 400, rate: int = 40, seed: int = 2) -> list[tuple[float, int]]:
    """Draw a stream in which few keys have most of the rows: the k-th is 1 / k as likely as the first."""
    rng = np.random.default_rng(seed)
    likely = 1 / np.arange(1, keys + 1)
    drawn = rng.choice(keys, seconds * rate, p=likely / likely.sum())
    return [(t / rate, int(k)) for t, k in enumerate(drawn)]


def rows_said(text: str, operator: str) -> float:
    """Return how many rows an explanation says that an operator gives."""
    line = next(line for line in text.splitlines() if operator in line and "Plan" not in line)
    return float(line.split("O ", 1)[1].split()[0].replace(",", ""))


PAIRS = """SELECT a.k, COUNT(*) AS n FROM a [RANGE 30 SECONDS], b [RANGE 30 SECONDS] WHERE a.k = b.k
GROUP BY a.k HOP BY 2 SECONDS EMIT DELTA"""


@pytest.mark.parametrize("modes", ["delta", "complete", "DICO,CIDO,DIDO", "CIDO,DIDO,DIDO"])
def test_explain_says_how_large_skewed_joins_are(modes: str) -> None:
    rows = {"a": skewed(seed=2), "b": skewed(seed=3)}
    engine = engine_of(**rows)
    query = engine.query(PAIRS, plan=f"as-written modes={modes}")
    run = query.start(paused=True, buckets=3)
    run.advance(100 * SECOND)
    held = {name: Counter(k for t, k in mine if 70 <= t < 100) for name, mine in rows.items()}
    pairs = sum(n * held["b"][k] for k, n in held["a"].items())
    text = run.explain()
    even = held["a"].total() * held["b"].total() / max(map(len, held.values()))
    assert pairs > 3 * even, "nothing is even about these keys"
    assert rows_said(query.explain(), "join on") == pytest.approx(pairs, rel=0.2), "common values are known beforehand"
    assert rows_said(text, "join on") == pytest.approx(pairs, rel=0.2)
    assert rows_said(text, "group by") == pytest.approx(len(held["a"].keys() & held["b"].keys()), rel=0.2)


@pytest.mark.slow
def test_adaptation_uses_what_operators_were_seen_to_give() -> None:
    """By its windows the join of a and b is smaller than that of b and c; by what it gives it is far larger."""
    rng = np.random.default_rng(7)
    even = [(t / 20, int(k)) for t, k in enumerate(rng.integers(0, 150, 120 * 20))]
    engine = engine_of(a=skewed(rate=20, seed=2), b=skewed(rate=20, seed=3), c=even)
    sql = """SELECT a.k, b.k AS l, c.k AS m FROM a [RANGE 15 SECONDS], b [RANGE 20 SECONDS], c [RANGE 20 SECONDS]
    WHERE a.k = b.k AND b.k = c.k HOP BY 2 SECONDS EMIT DELTA"""
    query = engine.query(sql, plan="as-written modes=delta")
    still = query.start(paused=True)
    still.advance(60 * SECOND)
    seen, adaptation = still._running.host.statistics(), parse_adaptation("plan")
    constants = Constants(fixed=1.0)
    assert adaptation.better(still.plan, replace(seen, measured={}), constants) is None
    assert "(join:DIDO b c)" in str(adaptation.better(still.plan, seen, constants))
    run = query.start(paused=True, adapt="plan")
    run.advance(119 * SECOND)
    assert "(join:DIDO b c)" in str(run.plan)
    assert len(run.migrations()) <= 3, "what was seen of a plan that does not run is remembered"
    run.finish()
    assert run.table() == still.finish().table()


def test_a_query_is_planned_from_its_recorded_rows() -> None:
    """What is chosen costs no more than what is asked for, by what explain knows of the rows."""
    engine = engine_of(
        a=[(t // 300, t * 7919 % 500) for t in range(300 * 60)],
        b=[(t // 300, t * 7919 % 5000) for t in range(300 * 60)],
    )
    for emit in ("DELTA", "COMPLETE"):
        sql = (
            "SELECT a.k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] WHERE NOT EXISTS "
            "(SELECT 1 FROM b [RANGE 5 SECONDS] WHERE b.k = a.k) GROUP BY a.k HOP BY 2 SECONDS "
        )
        asked = [None, *(f"as-written modes={modes}" for modes in ("delta", "complete"))]
        told = [engine.query(f"{sql} EMIT {emit}", plan=plan).explain() for plan in asked]
        chosen, *others = (float(t.split("expected cost ")[1].split()[0]) for t in told)
        assert chosen <= min(others)


def test_constants_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "costs.json"))
    assert load_constants() == Constants()
    told = Constants(insert=1.5, own={"join": Constants(insert=0.5)})
    save_constants(told, {"cases": 3})
    assert load_constants() == told
    (tmp_path / "costs.json").write_text('{"constants": {"insert": 1.0}}')
    assert load_constants() == Constants(), "constants of an older model"
    (tmp_path / "costs.json").write_text("{")
    with pytest.raises(MidstreamError, match="cannot read the costs"):
        load_constants()


@pytest.mark.slow
def test_constants_fit_what_was_measured() -> None:
    """Times made from known constants give them back."""
    made = Constants(insert=50, lookup=20, concatenate=10, fixed=10_000, scan=2, purge=5, build=25, match=70)
    case = Case("join", 0.5, 2000, 1000)
    seen = []
    for ratio in (0.1, 0.5, 1.0):
        for rows in (500, 2000, 8000):
            for keys in (500, 5000):
                for s in measure(Case("join", ratio, rows, keys), turns=1):
                    seen.append(replace(s, ns=s.expected(made).total))
    found = fitted(seen)
    assert found.error < 0.02
    assert found.ranked == 1.0
    assert ranked(seen, Constants(insert=1e9), 0.1) < 1.0
    assert case.hop_us == SECOND // 2


@pytest.mark.parametrize(
    ("sql", "run", "at", "said"),
    [
        ("k FROM a [RANGE 1 s] HOP BY 1 s", "", 'control = "halt"', "control is 'halt'"),
        ("k FROM a [RANGE 1 s] HOP BY 1 s", "", 'change = "SELECT k FROM a"', "column '_hop' (BIGINT) is removed"),
        ("k FROM a", "", 'change = "SELECT k FROM a [RANGE 1 s] HOP BY 1 s"', "column '_hop' (BIGINT) is added"),
        ("k FROM a [RANGE 1 s] HOP BY 1 s", "", 'migrate = "same"\nstrategy = "hybrid"', "hybrid is for sliding joins"),
        ("k FROM a [RANGE 1 s] HOP BY 1 s", "", 'migrate = "same hop=2s"\nhop = "3 s"', "says its hop twice"),
        ("k FROM a [RANGE 1 s] HOP BY 1 s", 'adapt = "hop=2s..3s"', 'migrate = "same"', "outside the bounds"),
        ("k FROM a", "", 'migrate = "a"\nmodes = "delta"', "modes=delta is for plans of hopping queries"),
    ],
)
def test_scenarios_that_cannot_be(tmp_path: Path, sql: str, run: str, at: str, said: str) -> None:
    pq.write_table(pa.table({"ts": [0, SECOND], "k": [1, 2]}), tmp_path / "a.parquet")
    scenario = tmp_path / "s.toml"
    streams = '[streams.a]\npath = "a.parquet"\ntime = "ts"\n'
    scenario.write_text(f'sql = "SELECT {sql}"\n{streams}[run]\n{run}\n[[at]]\ntime = 500000\n{at}\n')
    found = CliRunner().invoke(app, ["replay", str(scenario), "--out", str(tmp_path / "out.parquet")])
    assert isinstance(found.exception, MidstreamError)
    assert said in str(found.exception)
    assert "s.toml" in str(found.exception)
    assert not (tmp_path / "out.parquet").exists()


def test_the_command_line_explains_and_replays(tmp_path: Path) -> None:
    asked = CliRunner().invoke
    pq.write_table(pa.table({"ts": [k * SECOND for k in range(30)], "k": list(range(30))}), tmp_path / "a.parquet")
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        'sql = "SELECT COUNT(*) AS n FROM a [RANGE 10 SECONDS] HOP BY 5 SECONDS"\n'
        '[streams.a]\npath = "a.parquet"\ntime = "ts"\n[run]\nmodes = "delta"\nadapt = "plan"\n'
        '[[at]]\ntime = 12000000\nmigrate = "as-written"\nmodes = "complete"\n'
    )
    assert "group: COUNT(*)" in asked(app, ["explain", str(scenario)]).stdout
    forecast = asked(app, ["explain", str(scenario), "--migrate", "same modes=complete"]).stdout
    assert "holds nothing" in forecast
    per_hop = re.search(r"expected cost ([\d.]+) ms per hop", asked(app, ["explain", str(scenario)]).stdout)
    per_second = re.search(r"per second of event time: ([\d.]+) ms before", forecast)
    assert float(per_second[1]) == pytest.approx(float(per_hop[1]) / 5, abs=0.002)
    report = tmp_path / "report.json"
    assert asked(app, ["replay", str(scenario), "--report", str(report)]).exit_code == 0
    written = json.loads(report.read_text())
    assert sum(b["hops"] for b in written["batches"]) == 5
    assert written["migrations"][0]["position_us"] == 15 * SECOND

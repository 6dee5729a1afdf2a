"""Hopping windows: modes against the hop, the cost model, the plan of section 7.6, and windows of a million rows.

modes      a join and a difference, hop/window 10 to 100 %, all four modes in one run, operators' own time: of each hop
           the least of some turns, of the hops the mean
model      how many pairs of modes the calibrated cost model puts in the right order; what the assigner's choice costs
together   the default plan of deltas, with the difference pushed down, and with modes assigned as well
million    a 3-way join less a fourth stream, windows of a million rows: beside Spark and DuckDB anew each hop
"""

import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.table import Table

from benchmarks.measure import Progress
from benchmarks.migration_parts.verdict import Verdict, print_verdicts
from midstream.app.show import wide_console
from midstream.lang.sql import parse_query
from midstream.local.calibrate import Calibration, calibrate, ranked
from midstream.local.measure import SCHEMA, Case, Seen, measure
from midstream.model.statistics import Statistics
from midstream.model.stream import StreamSchema
from midstream.operators.hopping.build_execution import HopExecution
from midstream.optimize.hopping.choose import choose
from midstream.optimize.hopping.cost import Constants
from midstream.plan.modes import MODES
from midstream.plan.plan import Plan
from midstream.plan.query import Query

RATIOS = tuple(k / 10 for k in range(1, 11))
ROWS, KEYS = 100_000, 50_000
TURNS = 3
APART = 0.05
"""Measured times closer than this are a draw."""
TOGETHER = (
    "(SELECT a.k, a.v, c.v AS w FROM a [RANGE 1 SECOND] a, c [RANGE 1 SECOND] c WHERE a.k = c.k) EXCEPT ALL "
    "(SELECT b.k, b.v, c.v AS w FROM b [RANGE 1 SECOND] b, c [RANGE 1 SECOND] c WHERE b.k = c.k)"
)
TOGETHER_ROWS, TOGETHER_KEYS, TOGETHER_RATIO, TOGETHER_HOPS = 60_000, 30_000, 0.5, 6
PLANS = {
    "D2DPullUp: deltas, as written": ("as-written", "delta"),
    "D2DPushDown: deltas, difference pushed down": ("push-down", "delta"),
    "D2C2DPushDown: difference pushed down, modes assigned": ("push-down", "auto"),
}
WINDOW, DOMAIN, HOPS = 1_000_000, 4_000_000, 9
MILLION = (
    "SELECT a.k, a.v, b.v AS w, c.v AS u FROM {a} a, {b} b, {c} c WHERE a.k = b.k AND b.k = c.k "
    "AND NOT EXISTS (SELECT 1 FROM {d} d WHERE d.k = a.k)"
)
Answer = Callable[[int], int]
"""Answers at a hop and returns how many rows the answer has."""


def hopping(sql: str, names: str) -> Query:
    """Read a hopping query over streams of the benchmarks' columns."""
    found = parse_query(sql, [StreamSchema(name, SCHEMA, "ts") for name in names])
    assert found.hop_us is not None, "a hopping query"
    return found


# Modes ---------------------------------------------------------------------------------------------------------------


def modes(seed: int, progress: Callable[[], None]) -> list[Seen]:
    """Return what each mode of a join and a difference took at each ratio."""
    out: list[Seen] = []
    for name in ("join", "difference"):
        for ratio in RATIOS:
            out += measure(Case(name, ratio, ROWS, KEYS), seed, turns=TURNS)
            progress()
    return out


def chosen(seen: list[Seen], constants: Constants, gives: str) -> tuple[Seen, Seen]:
    """Return what the assigner would take of the modes that give deltas or complete relations, and the fastest."""
    fitting = [s for s in seen if s.mode[2] == gives]
    return min(fitting, key=lambda s: s.expected(constants).total), min(fitting, key=lambda s: s.ns)


def judge_modes(seen: list[Seen], found: Calibration) -> tuple[list[Verdict], dict[str, Any]]:
    """Tell which modes win where, what complete input saves, and what the assigner's choice costs."""
    out, figures = [], {}
    worst = 0.0
    for name in ("join", "difference"):
        by_ratio = {r: [s for s in seen if s.case.name == name and s.case.ratio == r] for r in RATIOS}
        ms = {r: {s.mode: s.ns / 1e6 for s in group} for r, group in by_ratio.items()}
        figures[name] = {f"{r:.0%}": {m: round(t, 3) for m, t in each.items()} for r, each in ms.items()}
        saved_small = 1 - ms[0.1]["DIDO"] / ms[0.1]["CICO"]
        saved_large = 1 - ms[1.0]["CICO"] / ms[1.0]["DIDO"]
        said = f"DIDO saves {saved_small:.0%} of CICO at 10 %, CICO saves {saved_large:.0%} of DIDO at 100 %"
        out.append(Verdict(f"{name}: delta input wins at 10 %, complete input at 100 %",
                           saved_small > 0 and saved_large > 0, said))  # fmt: skip
        for group in by_ratio.values():
            for gives in "DC":
                taken, best = chosen(group, found.constants, gives)
                worst = max(worst, taken.ns / best.ns - 1)
    out.append(Verdict("the assigner's choice is within 5 % of the best mode at every ratio", worst <= 0.05,
                       f"at most {worst:.1%} above"))  # fmt: skip
    share = ranked(seen, found.constants, APART)
    out.append(Verdict("the model ranks 95 % of the pairs of modes right", share >= 0.95,
                       f"{share:.1%} of those more than {APART:.0%} apart"))  # fmt: skip
    return out, figures


# Together ------------------------------------------------------------------------------------------------------------


def together(seed: int, constants: Constants, progress: Callable[[], None]) -> dict[str, float]:
    """Return the median milliseconds of work per hop of each plan, run hop by hop in turns."""
    hop_us = round(TOGETHER_RATIO * 1_000_000)
    query = hopping(f"{TOGETHER} HOP BY {hop_us} MICROSECONDS EMIT DELTA", "abc")
    known = Statistics()
    for alias in ("a", "b", "c", "c_2"):
        known.rows_per_s[alias] = float(TOGETHER_ROWS)
        known.distinct[alias, "k"], known.distinct[alias, "v"] = float(TOGETHER_KEYS), 4.0
    plans = {name: choose(query, known, constants, *asked) for name, asked in PLANS.items()}
    running = {name: HopExecution(plan) for name, plan in plans.items()}
    spans = 1 + TOGETHER_HOPS * TOGETHER_RATIO
    count = round(TOGETHER_ROWS * spans)
    tables = {}
    for place, name in enumerate("abc"):
        rng = np.random.default_rng([seed, place])
        stamps = np.sort(rng.integers(0, round(1_000_000 * spans), count))
        columns = {"k": rng.integers(0, TOGETHER_KEYS, count), "v": rng.integers(0, 4, count)}
        tables[name] = pa.table({"ts": stamps, **columns})
    times: dict[str, list[float]] = {name: [] for name in plans}
    edges = [0, *(1_000_000 + k * hop_us for k in range(TOGETHER_HOPS + 1))]
    for number, (start, end) in enumerate(pairwise(edges)):
        answers = set()
        for name, execution in running.items():
            before = execution.spent_s
            feed(execution, tables, start, end)
            answers.add(sum(batch.num_rows for batch in execution.answer(end)))
            if number:
                times[name].append((execution.spent_s - before) * 1000)
        assert len(answers) == 1, "every plan gives the same answer"
        progress()
    return {name: statistics.median(spent) for name, spent in times.items()}


def feed(execution: HopExecution, tables: dict[str, pa.Table], start: int, end: int) -> None:
    """Give an execution the rows of a stretch of time."""
    for source in execution.plan.query.sources:
        table = tables[source.stream.name]
        stamps = table.column("ts").to_numpy()
        low, high = np.searchsorted(stamps, [start, end])
        part = table.slice(low, high - low).combine_chunks()
        columns = {n: part.column(n).combine_chunks() for n in part.column_names}
        execution.add(source.alias, columns, stamps[low:high], np.arange(low, high), end)


# A million rows ------------------------------------------------------------------------------------------------------


def million(percent: int, seed: int, constants: Constants) -> dict[str, Any]:
    """Return seconds per hop of this engine and of DuckDB, answering the same hops in turns."""
    hop = WINDOW * percent // 100
    tables = million_rows(hop, seed)
    ours, plan = engine_answers(tables, hop, constants)
    seconds, sizes = answered(hop, {"midstream": ours, "DuckDB, two threads": duckdb_answers(tables)})
    return {"hop": f"{percent} %", "plan": plan, "sizes": sizes, "seconds": seconds}


def with_spark(measured: dict[str, Any], percent: int, seed: int, session: Any) -> dict[str, Any]:
    """Return the same with Spark's seconds per hop. Spark goes on working behind a query, so it comes last, alone."""
    hop = WINDOW * percent // 100
    seconds, sizes = answered(hop, {"Spark batch query": spark_answers(million_rows(hop, seed), session)})
    assert sizes == measured["sizes"], f"answers differ: {sizes}, {measured['sizes']}"
    rows = sizes[max(sizes)]
    return {**measured, "rows": rows, "seconds": {**measured["seconds"], **seconds}}


def million_rows(hop: int, seed: int) -> dict[str, pa.Table]:
    """Generate rows for a window and some hops, one a microsecond."""
    total = WINDOW + HOPS * hop
    tables = {}
    for place, name in enumerate("abcd"):
        rng = np.random.default_rng([seed, place])
        columns = {"k": rng.integers(0, DOMAIN, total), "v": rng.integers(0, 100, total)}
        tables[name] = pa.table({"ts": np.arange(total), **columns})
    return tables


def answered(hop: int, answers: dict[str, Answer]) -> tuple[dict[str, float], dict[int, int]]:
    """Let some answer the same hops in turns; return the median seconds of each, and how many rows there are."""
    seconds: dict[str, list[float]] = {name: [] for name in answers}
    sizes: dict[int, set[int]] = {}
    for number in range(HOPS + 1):
        end = WINDOW + number * hop
        for name, answer in answers.items():
            started = time.perf_counter()
            sizes.setdefault(end, set()).add(answer(end))
            if number:  # the first one fills the windows, and warms everybody up
                seconds[name].append(time.perf_counter() - started)
    assert all(len(same) == 1 for same in sizes.values()), f"answers differ: {sizes}"
    return {n: statistics.median(each) for n, each in seconds.items()}, {end: same.pop() for end, same in sizes.items()}


def engine_answers(tables: dict[str, pa.Table], hop: int, constants: Constants) -> tuple[Answer, str]:
    """Answer with this engine: rows that are new go in, the complete answer comes out as Arrow columns."""
    names = {name: f"{name} [RANGE {WINDOW} MICROSECONDS]" for name in "abcd"}
    query = hopping(f"{MILLION.format(**names)} HOP BY {hop} MICROSECONDS", "abcd")
    known = Statistics()
    for name in "abcd":
        known.rows_per_s[name] = 1e6
        known.distinct[name, "k"], known.distinct[name, "v"] = float(DOMAIN), 100.0
    plan: Plan = choose(query, known, constants)
    execution = HopExecution(plan)
    done = 0

    def answer(end: int) -> int:
        nonlocal done
        feed(execution, tables, done, end)
        done = end
        return int(sum(batch.num_rows for batch in execution.answer(end)))

    return answer, str(plan)


def duckdb_answers(tables: dict[str, pa.Table]) -> Answer:
    """Answer by running the query over the window in DuckDB, from tables of its own."""
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for name, table in tables.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")

    def answer(end: int) -> int:
        inside = {n: f"(SELECT * FROM {n} WHERE ts >= {end - WINDOW} AND ts < {end})" for n in tables}
        return int(connection.sql(MILLION.format(**inside)).to_arrow_table().num_rows)

    return answer


def spark_answers(tables: dict[str, pa.Table], session: Any) -> Answer:
    """Answer by running the query over the window in Spark, from tables it holds in memory."""
    for name, table in tables.items():
        frame = session.createDataFrame(table).repartition(2).cache()
        frame.count()
        frame.createOrReplaceTempView(f"bench_{name}")

    def answer(end: int) -> int:
        inside = {n: f"(SELECT * FROM bench_{n} WHERE ts >= {end - WINDOW} AND ts < {end})" for n in tables}
        return int(session.sql(MILLION.format(**inside)).toArrow().num_rows)

    return answer


# All of it -----------------------------------------------------------------------------------------------------------


def run(seconds: float | None, seed: int, progress: Progress) -> dict[str, Any]:
    """Return all figures and print them; `seconds` does not matter here."""
    steps = 100 + 2 * len(RATIOS) + TOGETHER_HOPS + 1 + 2
    done = 0

    def step(upto: int | None = None) -> None:
        nonlocal done
        done = done + 1 if upto is None else upto
        progress(done, steps)

    found = calibrate(lambda part, whole: step(100 * part // whole), seed)
    seen = modes(seed + 100, step)
    plans = together(seed, found.constants, step)
    verdicts, figures = judge_modes(seen, found)
    pulled, pushed, both = plans.values()
    verdicts.append(Verdict("push-down with modes beats the default delta plan 1.3 times", pulled / both >= 1.3,
                            f"{pulled / both:.2f} times; push-down alone {pulled / pushed:.2f}"))  # fmt: skip
    alone = {percent: million(percent, seed, found.constants) for percent in (10, 1)}
    step()
    from midstream.spark.settings import local_session  # PySpark is an extra

    session = local_session()
    large = [with_spark(measured, percent, seed, session) for percent, measured in alone.items()]
    step()
    verdicts += judge_million(large)
    print_tables(seen, plans, large, found)
    print_verdicts(wide_console(), verdicts)
    return {
        "rows_per_s": WINDOW * 0.1 * 4 / large[0]["seconds"]["midstream"],
        "peak_bytes": 0,
        "modes": figures,
        "calibration": {"error": found.error, "ranked": found.ranked, "cases": found.cases},
        "together": plans,
        "million": [{k: v for k, v in each.items() if k != "sizes"} for each in large],
        "verdicts": [v.to_dict() for v in verdicts],
        "parameters": {"rows": ROWS, "keys": KEYS, "window": WINDOW, "domain": DOMAIN, "seed": seed},
    }


def judge_million(large: list[dict[str, Any]]) -> list[Verdict]:
    """Tell how many times faster than answering anew."""
    ratios = [{n: s / each["seconds"]["midstream"] for n, s in each["seconds"].items()} for each in large]
    said = [
        f"hop {each['hop']}: Spark {r['Spark batch query']:.1f}x, DuckDB {r['DuckDB, two threads']:.1f}x"
        for each, r in zip(large, ratios, strict=True)
    ]
    return [
        Verdict("hop 10 %: 10 times faster than Spark anew", ratios[0]["Spark batch query"] >= 10, said[0]),
        Verdict("hop 1 %: 3 times faster than DuckDB anew", ratios[1]["DuckDB, two threads"] >= 3, said[1]),
    ]


def print_tables(seen: list[Seen], plans: dict[str, float], large: list[dict[str, Any]], found: Calibration) -> None:
    """Print what people compare."""
    console = wide_console()
    for name in ("join", "difference"):
        table = Table(title=f"{name}: measured (expected) ms per hop", title_justify="left")
        for head in ("hop/window", *MODES):
            table.add_column(head, justify="right")
        for ratio in RATIOS:
            group = {s.mode: s for s in seen if s.case.name == name and s.case.ratio == ratio}
            cells = [f"{s.ns / 1e6:.2f} ({s.expected(found.constants).total / 1e6:.2f})" for s in group.values()]
            table.add_row(f"{ratio:.0%}", *cells)
        console.print(table)
    table = Table(title="One query, three plans", title_justify="left")
    for head in ("plan", "ms per hop"):
        table.add_column(head)
    for name, ms in plans.items():
        table.add_row(name, f"{ms:.2f}")
    console.print(table)
    table = Table(title="Windows of a million rows", title_justify="left")
    for head in ("hop", "who", "ms per hop", "rows in the answer"):
        table.add_column(head, justify="right")
    for each in large:
        for name, s in each["seconds"].items():
            table.add_row(each["hop"], name, f"{s * 1000:,.1f}", f"{each['rows']:,}")
    console.print(table)

"""Random migrations of random queries: what to migrate to, when, how, and what the output may look like."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.plan.plan import Plan
from oracle.generate import Case, draw_tree
from oracle.recompute import plain
from oracle.test_moved_states import rows_between

STRATEGIES = ["moving-state", "parallel-track", "hybrid", "just-in-time", "auto"]


def with_times(case: Case) -> Case:
    """Select the time of every source too, so that the order of the output can be checked."""
    case.outputs += [(f"t{i}", f"{alias}.ts") for i, (alias, _) in enumerate(case.sources)]
    return case


def draw_dense_case(rnd: random.Random, flavour: str = "") -> Case:
    """Draw 3-5 streams with few keys and windows that are wide for their rows, so that old states matter."""
    count = rnd.choice([3, 3, 4, 4, 5])
    rng = np.random.default_rng(rnd.randrange(2**32))
    most, keys = {3: (90, 12), 4: (50, 10), 5: (30, 8)}[count]
    flavour = flavour or rnd.choice(["one key", "keys", "theta", "mixed"])
    case = Case({}, [], {}, [], [], "", rnd.choice(["auto", "auto", "nested-loop"]))
    for i in range(count):
        rows = rnd.randint(most // 2, most)
        times = np.sort(rng.integers(0, 20_000_000, rows)) // rnd.choice([1, 100_000]) * 1
        columns = {"k": rng.integers(0, keys, rows), "j": rng.integers(0, keys // 2, rows)}
        case.streams[f"s{i}"] = pa.table({"ts": times, **columns, "y": rng.integers(-20, 20, rows)})
        case.sources.append((f"q{i}", f"s{i}"))
        kind = rnd.random()
        by = [] if kind < 0.85 else [rnd.choice(["k", "j"])]
        wide = ("range", rnd.choice([3_000_000, 8_000_000, 15_000_000]), [])
        case.windows[f"q{i}"] = wide if kind < 0.65 else ("rows", rnd.choice([5, 15, 25]), by)
        case.outputs.append((f"o{i}", f"q{i}.y"))
    for i in range(1, count):
        a, b = f"q{rnd.randrange(i)}", f"q{i}"
        how = flavour if flavour != "mixed" else rnd.choice(["one key", "keys", "theta"])
        if how == "one key":
            case.conditions.append(f"{a}.k = {b}.k")
        elif how == "theta":
            case.conditions.append(f"{a}.y BETWEEN {b}.y - 2 AND {b}.y + {rnd.choice([0, 2])}")
        else:
            case.conditions.append(f"{a}.{rnd.choice('kj')} = {b}.{rnd.choice('kj')}")
            case.conditions += [f"{a}.j = {b}.j"] if rnd.random() < 0.4 else []
    if rnd.random() < 0.3:
        case.conditions.append(f"(q0.y + q{count - 1}.y) % 2 = 0")
    case.tree = draw_tree(rnd, [alias for alias, _ in case.sources])
    return case


def draw_case_of_keys(rnd: random.Random) -> Case:
    """Draw joins by one column or another, or by both, so that other plans ask for the same rows by other keys."""
    case = draw_dense_case(rnd, "keys")
    case.join = "auto"
    return case


def plan_of(case: Case) -> Plan:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree, join=case.join).plan


def span_us(case: Case) -> int:
    """Return the time of the last row."""
    times = [t.column("ts").cast(pa.int64()) for t in case.streams.values() if t.num_rows]
    return max((pa.compute.max(t).as_py() for t in times), default=0)


def draw_requests(rnd: random.Random, case: Case, plan: Plan, strategies: list[str]) -> list[MigrationRequest]:
    """Draw 1-5 migrations in order of time; those the query refuses are left out."""
    aliases = [alias for alias, _ in case.sources]
    span = span_us(case)
    close = rnd.random() < 0.4
    start = rnd.randrange(span + 1)
    times = [min(span, start + rnd.randrange(span // 8 + 1)) if close else rnd.randrange(span + 1) for _ in range(5)]
    asked = []
    for at_us in sorted(times[: rnd.randint(1, 5)]):
        strategy = rnd.choice(strategies)
        options = draw_options(rnd, strategy)
        request = MigrationRequest.of(draw_tree(rnd, aliases), strategy, options, at_us=at_us, identity=str(len(asked)))
        try:
            request.checked(plan)
        except PlanError:
            continue
        asked.append(request)
    return asked


def draw_options(rnd: random.Random, strategy: str) -> dict[str, object]:
    """Draw options that a strategy has."""
    options: dict[str, object] = {}
    if strategy == "hybrid":
        options = {"sharing": rnd.random() < 0.7, "background": rnd.random() < 0.5}
        options |= {"budget": rnd.choice([1, 20, 500, 100_000])} if options["background"] else {}
        options |= {"ordering": "serialized"} if rnd.random() < 0.15 else {}
        # Drawn apart, so that seeds from before there were these options draw what they did.
        apart = random.Random(rnd.getstate()[1][0])
        if options["background"] and apart.random() < 0.4:
            options["capacity"] = apart.choice([1, 100, 5_000, 10_000_000])
        elif not options["background"] and apart.random() < 0.5:
            options["region"] = "pairs"
    if strategy == "parallel-track":
        options = {"output": rnd.choice(["buffered", "merged"])}
    if strategy == "auto" and rnd.random() < 0.3:
        options = rnd.choice([{"background": True, "budget": 20}, {"output": "merged"}])
    if rnd.random() < 0.1:
        options["join"] = rnd.choice(["nested-loop", "auto"])
    return options


def run_with_migrations(
    case: Case, bounds: list[int], buckets: int, requests: list[MigrationRequest], move: bool, framework: str = "tree"
) -> tuple[pa.Table, DirectRun]:
    """Run a case in process, migrating on the way; `move` takes the states apart between micro-batches."""
    plan = plan_of(case)
    runtime = DirectRun(plan, buckets, requests, framework)
    found = []
    for rows in rows_between(case, runtime, bounds):
        found += [r.rows for r in runtime.on_rows(rows)]
        if move:
            description, arrays = take_apart(runtime.migrators)
            runtime.migrators = put_together(description, [a.copy() for a in arrays])
    found += [r.rows for r in runtime.finish()]
    schema = plan.query.schema.append(pa.field("_time", pa.int64()))
    return pa.Table.from_batches(found, schema), runtime


def is_in_parallel_track_order(table: pa.Table, sources: int) -> bool:
    """Tell whether no result comes before another whose rows are all earlier than its own."""
    times = np.column_stack([table.column(f"t{i}").cast(pa.int64()).to_numpy() for i in range(sources)])
    return all((times[:k] <= times[k]).any(axis=1).all() for k in range(1, len(times)))


def check_output(case: Case, got: pa.Table, expected: pa.Table, requests: list[MigrationRequest], told: str) -> None:
    """Compare with the recomputed output: the same rows, in max order or in parallel-track order."""
    a, b = plain(got, got.schema), plain(expected, got.schema)
    if any(r.strategy == "parallel-track" and r.output == "buffered" for r in requests):
        assert sorted(map(repr, a)) == sorted(map(repr, b)), told
        if got.num_rows < 3000:
            assert is_in_parallel_track_order(got, len(case.sources)), told
    else:
        assert a == b, told

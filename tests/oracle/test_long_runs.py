"""Runs long enough for states to fill, expire, move and be rebuilt: still equal to recomputing from scratch."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

import midstream as ms
from midstream.engine.rows import numbering
from oracle.generate import Case
from oracle.recompute import plain, recompute
from seeds import seeds

SECOND = 1_000_000


def draw_long_case(rnd: random.Random) -> Case:
    """Draw 2-4 streams of a few thousand rows that join on keys, so that results stay few while states turn over."""
    count = rnd.choice([2, 2, 3, 3, 4])
    rng = np.random.default_rng(rnd.randrange(2**32))
    keys = rnd.choice([60, 300, 1500]) if count == 2 else rnd.choice([300, 900])
    kind = rnd.choice(["int64", "string", "double"])
    streams, windows, sources = {}, {}, []
    for i in range(count):
        rows = rnd.choice([300, 2500, 4000])
        times = np.sort(rng.integers(0, 60 * SECOND, rows)) // rnd.choice([1, 1, 100_000]) * 1
        keyed = rng.integers(0, keys, rows)
        if rnd.random() < 0.3:  # one key is everywhere
            keyed[rng.random(rows) < 0.02] = 7
        k = pa.array(keyed, mask=rng.random(rows) < 0.03)
        k = k.cast(pa.string()) if kind == "string" else k.cast(pa.float64()) if kind == "double" else k
        columns = {"ts": times, "k": k, "j": rng.integers(0, keys, rows), "v": rng.integers(0, 1000, rows)}
        streams[f"s{i}"] = pa.table(columns)
        sources.append((f"q{i}", f"s{i}"))
        windows[f"q{i}"] = _draw_window(rnd)
    conditions = []
    for i in range(1, count):
        column = rnd.choice(["k", "k", "j"])
        conditions.append(f"q{rnd.randrange(i)}.{column} = q{i}.{column}")
    if rnd.random() < 0.4:
        conditions.append(f"q0.v {rnd.choice(['<', '>', '<>'])} q1.v")
    if rnd.random() < 0.3:
        conditions.append(f"(q0.v + q{count - 1}.v) % 2 = 0")
    if rnd.random() < 0.4:
        conditions.append(f"q{rnd.randrange(count)}.v < 700")
    outputs = [(f"o{i}", f"q{i}.{rnd.choice(['k', 'v', 'ts'])}") for i in range(count)]
    tree = "q0"
    for i in range(1, count):
        tree = f"({tree} q{i})" if rnd.random() < 0.5 else f"(q{i} {tree})"
    return Case(
        streams, sources, windows, conditions, outputs, tree, rnd.choice(["auto", "auto", "auto", "nested-loop"])
    )


def _draw_window(rnd: random.Random) -> tuple[str, int, list[str]]:
    if rnd.random() < 0.65:
        return "range", rnd.choice([200_000, SECOND, 4 * SECOND]), []
    return (
        "rows",
        rnd.choice([3, 50, 400]) if (by := rnd.choice([[], ["k"], ["k", "j"]])) == [] else rnd.choice([1, 3]),
        by,
    )


def run(case: Case, batch: str, buckets: int = 1) -> pa.Table:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=case.tree, join=case.join).start(batch=batch, buckets=buckets).table()


def check(case: Case, got: pa.Table, expected: pa.Table, setting: str) -> None:
    schema = got.schema.remove(got.schema.get_field_index("_version"))
    assert plain(got, schema) == plain(expected, schema), f"{case.sql} | {case.tree} | {case.join} | {setting}"


@pytest.mark.parametrize("seed", seeds(0, 12, quick=2))
def test_a_long_run_equals_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(seed)
    case = draw_long_case(rnd)
    expected = recompute(case)
    check(case, run(case, "1 s"), expected, "1 s")
    check(case, run(case, "20 s", rnd.choice([2, 3])), expected, "20 s, buckets")
    monkeypatch.setattr(numbering, "SLICE_ROWS", rnd.choice([17, 256]))
    check(case, run(case, "60 s"), expected, "small slices")


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["(q0 q1)", "(q1 q0)"])
def test_partitioned_windows_let_go_of_rows_in_the_middle(tree: str) -> None:
    rng = np.random.default_rng(5)
    streams = {
        name: pa.table(
            {"ts": np.sort(rng.integers(0, 60 * SECOND, 6000)), "k": rng.integers(0, 150, 6000), "v": np.arange(6000)}
        )
        for name in ("s0", "s1")
    }
    # Key 149 is seen early and never again, so its rows stay while thousands of others come and go.
    streams = {
        n: t.filter(pa.compute.or_(pa.compute.less(t["ts"], SECOND), pa.compute.not_equal(t["k"], 149)))
        for n, t in streams.items()
    }
    windows = {"q0": ("rows", 2, ["k"]), "q1": ("rows", 1, ["k"])}
    outputs = [("o0", "q0.v"), ("o1", "q1.v")]
    case = Case(streams, [("q0", "s0"), ("q1", "s1")], windows, ["q0.k = q1.k"], outputs, tree)
    expected = recompute(case)
    assert expected.num_rows > 10_000
    for batch in ("100 ms", "60 s"):
        check(case, run(case, batch), expected, batch)


@pytest.mark.parametrize("seed", seeds(100, 60))
def test_many_long_runs_equal_recomputing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    test_a_long_run_equals_recomputing(seed, monkeypatch)

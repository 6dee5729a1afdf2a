"""Input that is unusual but right: odd names, far-away times, rows that stand alone, zones nobody knows."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine.live_host import HostedRun, some_rows, two_streams

import midstream as ms

PLAIN = pa.table({"ts": [1, 2, 3], "k": [1, 2, 1]})


def ask(query: str, plan: str | None = None, batch: str | int = "1 s", **streams: pa.Table) -> list[dict[str, object]]:
    engine = ms.Engine()
    for name, table in streams.items():
        engine.stream(name, table, time="ts")
    run = engine.query(query, plan=plan).start(batch=batch)
    return run.table().drop(["_time", "_version"]).to_pylist()


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    odd = ["select", "a b", "x.y", "x", "Ünï", "K", "k", 'q"q', "", "日本"]
    table = pa.table({"ts": [1, 2]} | {name: [i, i + 100] for i, name in enumerate(odd)})
    expected = table.drop(["ts"]).to_pylist()
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in odd)
    assert ask(f"SELECT {quoted} FROM s", s=table) == expected
    assert ask("SELECT * FROM s", s=table) == table.to_pylist()
    pq.write_table(table, f"{tmp_path}/s.parquet")
    read = ms.Engine().stream("s", f"{tmp_path}/s.parquet", time="ts").query(f"SELECT {quoted} FROM s").start()
    assert read.table().drop(["_time", "_version"]).to_pylist() == expected
    joined = ask(
        'SELECT l."x.y", r."a b" FROM s [ROWS 2 PARTITION BY "a b"] l, s [ROWS 1] r WHERE l."x.y" = r."x.y"', s=table
    )
    assert joined == [{"x.y": 2, "a b": 1}, {"x.y": 102, "a b": 101}]


@pytest.mark.parametrize("alias", ["select", "Ünï", "a.b", "my alias", "a(b", 'q"q', "X"])
def test_aliases_may_have_any_name(alias: str) -> None:
    name = '"' + alias.replace('"', '""') + '"'
    query = f"SELECT {name}.k, y.ts FROM s [RANGE 0 SECONDS] {name}, s [RANGE 0 SECONDS] y WHERE {name}.k = y.k"
    assert ask(query, s=PLAIN) == [{"k": 1, "ts": 1}, {"k": 2, "ts": 2}, {"k": 1, "ts": 3}]


def test_names_meet_without_regard_to_case_unless_that_is_ambiguous() -> None:
    table = pa.table({"ts": [1], "Price": [5], "k": [1], "K": [2]})
    assert ask("SELECT X.PRICE AS p, x.k, x.K AS l FROM S x", s=table) == [{"p": 5, "k": 1, "l": 2}]


@pytest.mark.parametrize("first", [-(2**62) + 1, -1, 0, 2**62 - 4])
@pytest.mark.parametrize("window", ["1 MICROSECOND", "1000000 DAYS"])
def test_times_may_be_far_away(first: int, window: str) -> None:
    table = pa.table({"ts": [first, first + 1, first + 3], "k": [1, 1, 1]})
    query = f"SELECT x.ts AS x, y.ts AS y FROM s [RANGE {window}] x, s [RANGE {window}] y WHERE x.k = y.k"
    reach = 1 if window == "1 MICROSECOND" else 10
    expected = sum(abs(a - b) <= reach for a in (0, 1, 3) for b in (0, 1, 3))
    for batch in ("1 ms", "60 s", 1):
        assert len(ask(query, s=table, batch=batch)) == expected


def test_a_gap_of_years_is_one_step() -> None:
    year = 365 * 86_400 * 1_000_000
    table = pa.table({"ts": [0, 30 * year, 60 * year], "k": [1, 1, 1]})
    query = "SELECT x.ts FROM s [RANGE 1 HOUR] x, s [RANGE 1 HOUR] y WHERE x.k = y.k"
    assert len(ask(query, s=table, batch=1)) == 3


def test_a_batch_may_be_wider_than_time_itself() -> None:
    assert len(ask("SELECT k FROM s", s=PLAIN, batch="50000000 days")) == 3


@pytest.mark.parametrize("count", [0, 1])
def test_a_stream_may_have_no_row_or_one(count: int) -> None:
    few = PLAIN.slice(0, count)
    query = "SELECT a.k FROM a [ROWS 5], b [RANGE 1 SECOND] WHERE a.k = b.k"
    assert len(ask(query, a=few, b=PLAIN)) == 2 * count
    assert len(ask(query, a=few, b=few)) == count


def test_a_column_may_be_null_throughout() -> None:
    nothing = pa.table({"ts": [1, 2], "k": pa.nulls(2)})
    assert (
        ask("SELECT k, k IS NULL AS gone, k + 1 AS more FROM s", s=nothing)
        == [{"k": None, "gone": True, "more": None}] * 2
    )
    for other in (nothing, PLAIN):
        assert ask("SELECT a.k FROM a [ROWS 5], b [ROWS 5] WHERE a.k = b.k", a=nothing, b=other) == []


def test_eight_streams_and_any_tree() -> None:
    names = [f"s{i}" for i in range(8)]
    sources = ", ".join(f"s [RANGE 1 SECOND] {n}" for n in names)
    keys = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(names))
    query = f"SELECT s0.ts AS x, s7.ts AS y FROM {sources} WHERE {keys}"
    left = ask(query, s=PLAIN)
    assert len(left) == 2**8 + 1
    for plan in ("(((s0 s1) (s2 s3)) ((s4 s5) (s6 s7)))", "(s7 (s0 (s6 (s1 (s5 (s2 (s4 s3)))))))"):
        assert ask(query, plan, s=PLAIN) == left


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "+02:00", "GMT+2", "Z", "Mars/Olympus"])
def test_a_time_zone_is_passed_on_as_it_is(zone: str) -> None:
    zoned = pa.array([1, 2, 1], pa.int64()).cast(pa.timestamp("us", zone))
    table = PLAIN.append_column("z", zoned)
    engine = ms.Engine().stream("s", table, time="ts")
    got = engine.query("SELECT x.z FROM s [RANGE 0 SECONDS] x, s [RANGE 0 SECONDS] y WHERE x.z = y.z").start().table()
    assert got.column("z").combine_chunks().equals(zoned)


@pytest.mark.parametrize("wild", [2**62, -(2**62), 2**63 - 1, -(2**63)])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k, a.v, b.v AS w FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k",
        "SELECT k, COUNT(*) AS n FROM a [RANGE 6 SECONDS] GROUP BY k HOP BY 2 SECONDS EMIT DELTA",
    ],
)
def test_a_time_that_no_calendar_has_is_none(tmp_path: Path, sql: str, wild: int) -> None:
    """A replay refuses it; a live query counts the row and goes on as if it had not been there."""
    with pytest.raises(ms.MidstreamError, match="row 2"):
        ask("SELECT k FROM s", s=pa.table({"ts": pa.array([1, wild], pa.int64()), "k": [1, 2]}))
    plain, odd = [HostedRun(sql, two_streams(), tmp_path / name, {}, 2) for name in ("plain", "odd")]
    for batch in range(5):
        rows = some_rows(1, batch)
        assert plain.tick(rows)
        if batch == 2:
            row = rows["a"].slice(0, 1).set_column(0, "ts", pa.array([wild], pa.int64()))
            rows["a"] = pa.concat_tables([row, rows["a"]])
        assert odd.tick(rows)
    assert ms.read(tmp_path / "odd" / "out").equals(ms.read(tmp_path / "plain" / "out"))
    assert odd.status()["late"] == plain.status()["late"] + 1


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("method", ["immediate", "drain"])
def test_a_row_from_before_a_change_that_comes_after_it_is_late(tmp_path: Path, method: str, buckets: int) -> None:
    """The version that runs starts after it, and the one before is over: it is set aside all the same."""
    columns = "SELECT k, v FROM a"
    run = HostedRun(f"{columns} [RANGE 1 SECONDS]", two_streams(), tmp_path, {}, buckets)
    for n in range(12):
        if n == 4:
            run.change(f"{columns} [RANGE 2 SECONDS]", method)
        run.tick(some_rows(1, n))
    (change,) = run.changes()
    assert change["state"] == "finished"
    late = pa.table({"ts": [change["position_us"] - 1, 10], "k": [1, 2], "v": [3, 4], "s": ["x", "y"]})
    run.tick({"a": late})
    assert run.status()["late"] == 2
    kept = [row for file in (tmp_path / "checkpoint" / "late").iterdir() for row in pq.read_table(file).to_pylist()]
    assert sorted(row["v"] for row in kept) == [3, 4]

"""The contract of `midstream replay`: what a scenario may say, and what output, report and late rows then hold."""

import datetime as dt
import json
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midstream as ms
from midstream.app.cli import main
from midstream.app.engine import Run
from midstream.app.replay import replay
from midstream.local.replay import prepare
from midstream.local.report import Report
from midstream.local.scenario import read_scenario
from midstream.model.time import format_duration

JOIN = "SELECT a.v AS a, b.v AS b FROM a [RANGE 2 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"
SECOND = 1_000_000

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that puts streams and a scenario into a folder and returns the scenario's path."""

    def make(tables: dict[str, pa.Table | str], query: str = JOIN, run: str = "", **lateness: str) -> Path:
        lines = [f"sql = {json.dumps(query)}"]
        for name, table in tables.items():
            path = f"{name}.csv" if isinstance(table, str) else f"{name}.parquet"
            if isinstance(table, str):
                (tmp_path / path).write_bytes(table.encode())
            else:
                pq.write_table(table, tmp_path / path)
            lines += [f"[streams.{name}]", f'path = "{path}"', 'time = "ts"']
            lines += [f'lateness = "{lateness[name]}"'] if name in lateness else []
        scenario = tmp_path / "scenario.toml"
        scenario.write_text("\n".join([*lines, "[run]", run]) + "\n", encoding="utf-8")
        return scenario

    return make


def rows(seed: int = 1, count: int = 400, span_s: int = 20, keys: int = 5) -> pa.Table:
    rnd = random.Random(seed)
    times = sorted(rnd.randrange(0, span_s * 100) * 10_000 for _ in range(count))
    columns = {"ts": times, "k": [rnd.randrange(keys) for _ in times], "v": [f"r{seed}-{i}" for i in range(count)]}
    return pa.table(columns)


def run(scenario: Path) -> tuple[pa.Table, Report]:
    told, table = replay(prepare(read_scenario(scenario)))
    assert table is not None
    return table, told


def test_output_is_the_select_list_then_time_and_version(write: Write, tmp_path: Path) -> None:
    scenario = write(
        {"a": rows(1), "b": rows(2)}, "SELECT b.v AS second, a.v, a.k + b.k AS n FROM a [ROWS 1], b [ROWS 1]"
    )
    out = tmp_path / "out.parquet"
    replay(prepare(read_scenario(scenario)), out)
    kept = pq.read_table(out)
    assert kept.schema.equals(
        pa.schema(
            [
                ("second", pa.string()),
                ("v", pa.string()),
                ("n", pa.int64()),
                ("_time", pa.int64()),
                ("_version", pa.int64()),
            ]
        )
    )
    assert set(kept.column("_version").to_pylist()) == {1}
    assert kept.column("_time").to_pylist() == sorted(kept.column("_time").to_pylist())
    assert kept.equals(run(scenario)[0])


def test_time_is_that_of_the_latest_row(write: Write) -> None:
    query = JOIN.replace("SELECT", "SELECT a.ts AS x, b.ts AS y,")
    table, _ = run(write({"a": rows(1), "b": rows(2)}, query))
    assert table.num_rows > 100
    for row in table.to_pylist():
        assert row["_time"] == max(row["x"], row["y"])
        assert row["_time"] - row["x"] <= 2 * SECOND
        assert row["_time"] - row["y"] <= 3 * SECOND


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_empty_output_has_its_columns(write: Write, tmp_path: Path, ending: str) -> None:
    none = rows(1).slice(0, 0)
    out = tmp_path / f"out.{ending}"
    for tables in ({"a": none, "b": none}, {"a": rows(1), "b": none}):
        told, _ = replay(
            prepare(read_scenario(write(tables))), out, tmp_path / "report.json", tmp_path / "late.parquet"
        )
        assert told.rows_out == 0
        assert told.rows_in == tables["a"].num_rows
        if ending == "parquet":
            kept = pq.read_table(out)
            assert (kept.num_rows, kept.column_names) == (0, ["a", "b", "_time", "_version"])
        else:
            assert out.read_text().replace('"', "") == "a,b,_time,_version\n"
        assert json.loads((tmp_path / "report.json").read_text())["rows_out"] == 0
        assert pq.read_table(tmp_path / "late.parquet").num_rows == 0


BATCH_KEYS = {
    "end", "rows_in", "rows_out", "predicate_evaluations", "state_tuples", "state_bytes", "wall_ms", "plan", "phase",
}  # fmt: skip


@pytest.mark.parametrize(("batch", "width"), [("1 s", SECOND), ("70 ms", 70_000), ("60 s", 60 * SECOND), ("", None)])
def test_the_report_adds_up(write: Write, tmp_path: Path, batch: str, width: int | None) -> None:
    a, b = rows(1), rows(2)
    scenario = write({"a": a, "b": b}, run="" if width is None else f'batch = "{batch}"')
    out, path = tmp_path / "out.parquet", tmp_path / "report.json"
    replay(prepare(read_scenario(scenario)), out, path)
    report: dict[str, Any] = json.loads(path.read_text())
    assert {"rows_in", "rows_out", "late", "wall_s", "batches", "migrations", "changes"} <= report.keys()
    assert (report["migrations"], report["changes"], report["late"]) == ([], [], 0)
    assert report["wall_s"] > 0
    batches = report["batches"]
    assert all(b.keys() >= BATCH_KEYS for b in batches)
    assert sum(b["rows_in"] for b in batches) == report["rows_in"] == a.num_rows + b.num_rows
    assert sum(b["rows_out"] for b in batches) == report["rows_out"] == pq.read_table(out).num_rows
    ends = [b["end"] for b in batches]
    assert ends == sorted(set(ends))
    assert width is None or all(end % width == 0 for end in ends)
    assert report["batch"] == ("16384 rows" if width is None else format_duration(width))
    assert {b["plan"] for b in batches} == {"(a b)"}
    assert all(b["state_bytes"] > 0 and b["state_tuples"] >= 0 and b["predicate_evaluations"] >= 0 for b in batches)
    times = sorted(a.column("ts").to_pylist() + b.column("ts").to_pylist())
    emitted = pq.read_table(out).column("_time").to_pylist()
    for start, batch_report in zip([-(2**60), *ends], batches, strict=False):
        end = batch_report["end"]
        assert batch_report["rows_in"] == sum(start <= t < end for t in times)
        assert batch_report["rows_out"] == sum(start <= t < end for t in emitted)


def test_a_nested_loop_tests_more_pairs_than_a_hash_join(write: Write) -> None:
    counts = []
    for join in ("hash", "nested-loop"):
        table, told = run(write({"a": rows(1), "b": rows(2)}, run=f'join = "{join}"'))
        counts.append((sum(b.predicate_evaluations for b in told.batches), table.num_rows))
    (few, found), (many, again) = counts
    assert found == again
    assert found <= few < many


def test_rows_of_streams_the_query_does_not_read_do_not_count(write: Write) -> None:
    table, told = run(write({"a": rows(1), "b": rows(2), "c": rows(3)}, "SELECT v FROM b"))
    assert told.rows_in == told.rows_out == table.num_rows == rows(2).num_rows


def test_csv_and_parquet_give_the_same(write: Write) -> None:
    a, b = rows(1), rows(2)
    expected, _ = run(write({"a": a, "b": b}))

    def text(table: pa.Table, line: str) -> str:
        columns = table.to_pylist()
        return line.join(["ts,k,v", *(f'{r["ts"]},{r["k"]},"{r["v"]}"' for r in columns), ""])

    for line in ("\n", "\r\n"):
        got, _ = run(write({"a": text(a, line), "b": b}))
        assert got.equals(expected)
        got, _ = run(write({"a": "\ufeff" + text(a, line), "b": text(b, line)}))
        assert got.equals(expected)


def test_csv_cells(write: Write) -> None:
    text = 'ts,s,n,d,f\n1,"x,""y""\nz",,2024-02-03,1.5\n2,"",7,,\n3,,8,2024-02-04,2\n'
    table, _ = run(write({"a": text}, "SELECT s, n, d, f FROM a"))
    assert table.drop(["_time", "_version"]).to_pylist() == [
        {"s": 'x,"y"\nz', "n": None, "d": dt.date(2024, 2, 3), "f": 1.5},
        {"s": "", "n": 7, "d": None, "f": None},
        {"s": None, "n": 8, "d": dt.date(2024, 2, 4), "f": 2.0},
    ]


def test_a_csv_with_a_header_alone_is_an_empty_stream(write: Write) -> None:
    table, told = run(write({"a": "ts,k,v\n", "b": rows(2)}))
    assert (table.num_rows, told.rows_in) == (0, rows(2).num_rows)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_time_may_be_a_timestamp_of_any_unit(write: Write, unit: str, zone: str | None) -> None:
    whole = [i * SECOND for i in range(-5, 20)]
    columns = {"k": [0] * len(whole), "v": [str(t) for t in whole]}
    plain = pa.table({"ts": whole} | columns)
    stamps = pa.array(whole, pa.timestamp("us", zone)).cast(pa.timestamp(unit, zone))
    expected, _ = run(write({"a": plain, "b": plain}))
    assert expected.num_rows > 50
    got, _ = run(write({"a": pa.table({"ts": stamps} | columns), "b": plain}))
    assert got.equals(expected)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.uint32(), pa.uint64()])
def test_time_may_be_any_integer(write: Write, kind: pa.DataType) -> None:
    columns = {"k": [1, 1, 1], "v": ["x", "y", "z"]}
    got, _ = run(write({"a": pa.table({"ts": pa.array([1, 5, 90], kind)} | columns)}, "SELECT v, ts FROM a"))
    assert got.column("_time").to_pylist() == [1, 5, 90]
    assert got.column("ts").to_pylist() == [1, 5, 90]


def test_paths_are_taken_from_the_folder_of_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    pq.write_table(rows(1), tmp_path / "data" / "deep" / "a.parquet")
    pq.write_table(rows(2), tmp_path / "b.parquet")
    (tmp_path / "data" / "q.sql").write_text(JOIN)
    (tmp_path / "data" / "scenario.toml").write_text(
        'query = "q.sql"\n[streams.a]\npath = "deep/a.parquet"\ntime = "ts"\n'
        f'[streams.b]\npath = "{tmp_path / "b.parquet"}"\ntime = "ts"\n[run]\nlate = "late.parquet"\n'
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "argv", ["midstream", "replay", "../data/scenario.toml", "-o", "out.parquet", "-q"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code in (0, None)
    assert capsys.readouterr().out == ""
    assert pq.read_table("out.parquet").num_rows > 100
    assert (tmp_path / "data" / "late.parquet").exists()


def test_sql_in_the_scenario_or_in_a_file(write: Write, tmp_path: Path) -> None:
    scenario = write({"a": rows(1), "b": rows(2)})
    expected, _ = run(scenario)
    (tmp_path / "q.sql").write_text(f"-- a comment\n{JOIN};\n")
    scenario.write_text(scenario.read_text().replace(f"sql = {json.dumps(JOIN)}", 'query = "q.sql"'))
    assert run(scenario)[0].equals(expected)


def test_python_gives_what_the_scenario_gives(write: Write) -> None:
    a, b = rows(1), rows(2)
    expected, _ = run(write({"a": a, "b": b}))
    engine = ms.Engine().stream("a", a, time="ts").stream("b", b, time="ts")
    assert engine.query(JOIN).start().table().equals(expected)
    seen: list[pa.RecordBatch] = []
    engine.query(JOIN).start(sink=seen.append, batch="100 ms")
    assert pa.Table.from_batches(seen).equals(expected)


def test_an_earlier_output_is_replaced(write: Write, tmp_path: Path) -> None:
    scenario = write({"a": rows(1), "b": rows(2)})
    out = tmp_path / "out.parquet"
    out.write_text("from last week")
    replay(prepare(read_scenario(scenario)), out)
    assert pq.read_table(out).num_rows > 100
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_output_as_csv(write: Write, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    scenario = write({"a": rows(1), "b": rows(2)})
    replay(prepare(read_scenario(scenario)), out)
    expected, _ = run(scenario)
    text = pa.csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()})
    assert pa.csv.read_csv(out, convert_options=text).equals(expected)


def disordered(table: pa.Table, reach_us: int, rnd: random.Random) -> pa.Table:
    """Shuffle rows so that none comes after a row more than `reach_us` later than itself."""
    times = table.column("ts").to_pylist()
    moved = sorted(range(len(times)), key=lambda i: times[i] + rnd.uniform(0, reach_us))
    return table.take(pa.array(moved, pa.int64()))


def sorted_stably(table: pa.Table) -> pa.Table:
    times = table.column("ts").to_pylist()
    return table.take(pa.array(sorted(range(len(times)), key=lambda i: times[i]), pa.int64()))


def engine_run(tables: dict[str, pa.Table], lateness: dict[str, int], query: str, **how: Any) -> Run:
    engine = ms.Engine()
    for name, table in tables.items():
        engine.stream(name, table, time="ts", lateness=lateness.get(name, 0))
    return engine.query(query).start(**how)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_disorder_inside_the_lateness_does_not_show(rnd: random.Random) -> None:
    reach = rnd.choice([1, 5_000, SECOND, 30 * SECOND])
    step = rnd.choice([1, 1000, SECOND])  # large steps make ties

    def draw(name: str) -> pa.Table:
        times = sorted(rnd.randrange(0, 10 * SECOND) // step * step for _ in range(rnd.randrange(0, 60)))
        columns = {"k": [rnd.randrange(3) for _ in times], "v": [f"{name}{i}" for i in range(len(times))]}
        table = pa.table({"ts": pa.array(times, pa.int64())} | columns)
        pieces = rnd.choice([1, 7, 1000])
        shuffled = disordered(table, reach, rnd)
        return pa.concat_tables([shuffled.slice(i, pieces) for i in range(0, max(1, len(times)), pieces)])

    tables = {name: draw(name) for name in ("a", "b")}
    query = rnd.choice([JOIN, JOIN.replace("[RANGE 2 SECONDS]", "[ROWS 3]"), "SELECT v FROM a"])
    expected = engine_run({n: sorted_stably(t) for n, t in tables.items()}, {}, query)
    for batch in ("1 ms", "700 ms", "60 s"):
        got = engine_run(tables, {"a": reach, "b": reach}, query, batch=batch, buckets=rnd.choice([1, 2]))
        assert got.report.late == 0
        assert got.table().equals(expected.table())


def late_offsets(times: list[int], lateness: int) -> list[int]:
    """Say which rows are late, from the definition: further below the largest time before them than allowed."""
    late, largest = [], None
    for offset, time in enumerate(times):
        largest = time if largest is None else max(largest, time)
        if largest - time > lateness:
            late.append(offset)
    return late


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_which_rows_are_late_does_not_depend_on_batches(rnd: random.Random) -> None:
    times = [rnd.randrange(0, 40) * 100_000 for _ in range(rnd.randrange(1, 60))]
    lateness = rnd.choice([0, 100_000, SECOND, 2 * SECOND])
    table = pa.table({"ts": times, "k": [i % 3 for i in range(len(times))], "v": [str(i) for i in range(len(times))]})
    late = late_offsets(times, lateness)
    kept = sorted_stably(table.take(pa.array([i for i in range(len(times)) if i not in late], pa.int64())))
    expected = engine_run({"a": kept, "b": kept}, {}, JOIN).table()
    pieces = rnd.choice([1, 5, 100])
    cut = pa.concat_tables([table.slice(i, pieces) for i in range(0, len(times), pieces)])
    for batch in ("1 ms", "250 ms", "60 s"):
        got = engine_run({"a": cut, "b": cut}, {"a": lateness, "b": lateness}, JOIN, batch=batch)
        assert got.report.late == 2 * len(late)
        assert got.report.rows_in == 2 * kept.num_rows
        assert got.table().equals(expected)


def test_late_rows_are_counted_and_kept_per_stream(write: Write, tmp_path: Path) -> None:
    a = pa.table({"ts": [0, 5 * SECOND, 4 * SECOND, 3 * SECOND, 6 * SECOND], "k": [1] * 5, "v": list("abcde")})
    b = pa.table({"ts": [9 * SECOND, SECOND, 2 * SECOND], "k": [1, 2, 3], "v": list("xyz")})
    report, late = tmp_path / "report.json", tmp_path / "late.parquet"
    expected = {
        # lateness of a: late rows as (stream, offset, time, v)
        "0 s": [("a", 2, 4 * SECOND, "c"), ("a", 3, 3 * SECOND, "d")],
        "1 s": [("a", 3, 3 * SECOND, "d")],
        "1999 ms": [("a", 3, 3 * SECOND, "d")],
        "2 s": [],
    }
    of_b = [("b", 1, SECOND, "y"), ("b", 2, 2 * SECOND, "z")]
    for lateness, of_a in expected.items():
        for batch in ("1 ms", "60 s"):
            scenario = write({"a": a, "b": b}, run=f'batch = "{batch}"', a=lateness)
            told, _ = replay(prepare(read_scenario(scenario)), tmp_path / "out.parquet", report, late)
            kept = pq.read_table(late).to_pylist()
            assert [(r["_stream"], r["_offset"], r["_time"], r["v"]) for r in kept] == of_a + of_b
            assert json.loads(report.read_text())["late"] == told.late == len(kept)
            assert told.rows_in == 8 - len(kept)
    told, _ = replay(prepare(read_scenario(write({"a": a, "b": b}, run='lateness = "1 minute"'))))
    assert told.late == 0
    told, _ = replay(prepare(read_scenario(write({"a": a, "b": b}, run='lateness = "1 minute"', b="0 s"))))
    assert told.late == 2


def test_the_place_of_late_rows_may_stand_in_the_scenario(write: Write, tmp_path: Path) -> None:
    a = pa.table({"ts": [5, 1], "k": [1, 1], "v": ["x", "y"]})
    scenario = write({"a": a}, "SELECT v FROM a", 'late = "late.parquet"')
    replay(prepare(read_scenario(scenario)))
    assert pq.read_table(tmp_path / "late.parquet").column("v").to_pylist() == ["y"]
    replay(prepare(read_scenario(scenario)), late=tmp_path / "other.parquet")
    assert pq.read_table(tmp_path / "other.parquet").num_rows == 1


def test_late_rows_of_streams_that_share_names(write: Write, tmp_path: Path) -> None:
    a = pa.table({"ts": [5, 1], "v": ["x", "y"], "_time": [7, 8], "_stream": [1, 2]})
    b = pa.table({"ts": [5, 1], "v": [1.5, 2.5], "_time": ["p", "q"], "_stream": [1, 2]})
    query = "SELECT a.v, b.v AS w, a._time AS x, b._time AS y, a._stream AS z FROM a [ROWS 1], b [ROWS 1]"
    late = tmp_path / "late.parquet"
    told, _ = replay(prepare(read_scenario(write({"a": a, "b": b}, query))), tmp_path / "out.parquet", late=late)
    kept = pq.read_table(late)
    assert told.late == kept.num_rows == 2
    assert kept.column("_time").to_pylist() == [1, 1]
    assert kept.column("_stream").to_pylist() == ["a", "b"]
    assert kept.column("v").to_pylist() == ["y", "2.5"]


COLUMNS = {
    "int8": pa.array([-128, None, 127], pa.int8()),
    "int16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "uint8": pa.array([0, None, 255], pa.uint8()),
    "uint16": pa.array([0, None, 65535], pa.uint16()),
    "uint32": pa.array([0, None, 2**32 - 1], pa.uint32()),
    "float": pa.array([-0.5, None, float("inf")], pa.float32()),
    "double": pa.array([1e308, None, -0.0], pa.float64()),
    "decimal": pa.array([Decimal("-12345678.90"), None, Decimal("0.01")], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal(10**37), None, Decimal(-1)], pa.decimal128(38, 0)),
    "bool": pa.array([True, None, False]),
    "text": pa.array(["", None, "Grüße, 'quoted' \x00 \U0001f600"]),
    "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "stamp": pa.array([dt.datetime(1969, 1, 1), None, dt.datetime(2024, 2, 29, 1, 2, 3, 456789)], pa.timestamp("us")),
    "zoned": pa.array([0, None, 10**15], pa.timestamp("us", "Europe/Paris")),
    "nothing": pa.nulls(3),
}
HELD_OTHERWISE = {
    # Types that queries hold as another of the same values.
    "large": (pa.array(["a", None, "b"], pa.large_string()), pa.string()),
    "view": (pa.array(["a", None, "b"], pa.string_view()), pa.string()),
    "dictionary": (pa.array(["a", None, "a"]).dictionary_encode(), pa.string()),
    "uint64": (pa.array([0, None, 2**63 - 1], pa.uint64()), pa.int64()),
    "date64": (pa.array([dt.date(2024, 1, 1), None, dt.date(1900, 1, 1)], pa.date64()), pa.date32()),
    "seconds": (pa.array([-1, None, 10**9], pa.timestamp("s")), pa.timestamp("us")),
    "millis": (pa.array([-1, None, 10**12], pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC")),
}


@pytest.mark.parametrize("source", ["parquet", "memory"])
def test_values_of_every_type_reach_the_output_unchanged(write: Write, tmp_path: Path, source: str) -> None:
    held = {name: array for name, (array, _) in HELD_OTHERWISE.items()}
    table = pa.table({"ts": [1, 2, 3]} | COLUMNS | held)
    names = [*COLUMNS, *held]
    query = f"SELECT {', '.join(f'x.{n}' for n in names)} FROM a [RANGE 0 SECONDS] x, a [RANGE 0 SECONDS] y"
    out = tmp_path / "out.parquet"
    if source == "parquet":
        replay(prepare(read_scenario(write({"a": table}, query, "buckets = 2"))), out)
    else:
        ms.Engine().stream("a", table, time="ts").query(query).start(sink=out)
    kept = pq.read_table(out)
    assert kept.num_rows == 3
    for name, array in COLUMNS.items():
        assert kept.column(name).combine_chunks().equals(array), name
    for name, (array, wanted) in HELD_OTHERWISE.items():
        assert kept.column(name).combine_chunks().equals(array.cast(wanted)), name

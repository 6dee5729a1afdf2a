"""Streams declared otherwise than a checkpoint knows them: added at the end exact, everything else refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine.live_host import HostedRun, batches_of

import midstream as ms
from midstream.live.reading import read
from midstream.model.errors import MidstreamError
from midstream.model.stream import StreamSchema

SQL = "SELECT a.k, a.v, b.v AS w FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS] WHERE a.k = b.k"
COLUMNS = {"ts": pa.int64(), "at": pa.int64(), "k": pa.int64(), "v": pa.int64()}
Declared = list[tuple[str, dict[str, pa.DataType], str]]
KNOWN: Declared = [("a", COLUMNS, "ts"), ("b", COLUMNS, "ts")]
OTHER = ("z", COLUMNS, "ts")

REFUSED: dict[str, tuple[Declared, list[str]]] = {
    "added in front": ([OTHER, *KNOWN], ["a, b", "z, a, b", "new ones after them"]),
    "added between": ([KNOWN[0], OTHER, KNOWN[1]], ["a, z, b"]),
    "swapped": (KNOWN[::-1], ["b, a", "in this order"]),
    "renamed": ([("c", COLUMNS, "ts"), KNOWN[1]], ["c, b"]),
    "a column of another type": (
        [("a", {**COLUMNS, "v": pa.float64()}, "ts"), KNOWN[1]], ["'a'", "'v' was int64", "is double now"],
    ),
    "a narrower column": ([KNOWN[0], ("b", {**COLUMNS, "k": pa.int32()}, "ts")], ["'b'", "'k' was int64", "int32"]),
    "a column that is gone": (
        [("a", {n: t for n, t in COLUMNS.items() if n != "at"}, "ts"), KNOWN[1]], ["'a'", "'at'", "is not there"],
    ),
    "another time column": ([("a", COLUMNS, "at"), KNOWN[1]], ["'a'", "'ts'", "is 'at' now"]),
}  # fmt: skip
FINE: dict[str, Declared] = {
    "as before": KNOWN,
    "added at the end": [*KNOWN, OTHER],
    "a column more": [("a", {**COLUMNS, "more": pa.string()}, "ts"), KNOWN[1]],
    "columns in another order": [("a", dict(reversed(COLUMNS.items())), "ts"), KNOWN[1]],
}


def rows_of(name: str, columns: dict[str, pa.DataType]) -> pa.Table:
    times = [n * 100_000 + (name == "b") for n in range(60)]
    values = {"ts": times, "at": times, "k": [n % 3 for n in range(60)], "v": list(range(60))}
    return pa.table({n: pa.array(values.get(n, values["k"])).cast(t) for n, t in columns.items()})


def in_process(folder: Path, declared: Declared) -> Any:
    engine = ms.Engine()
    for name, columns, time in declared:
        engine.stream(name, rows_of(name, columns), time=time)
    query = engine.query(SQL, plan="(a b)")
    return query.start(paused=True, batch="1 s", checkpoint=folder / "checkpoint", sink=folder / "out")


def begin_in_process(folder: Path) -> Callable[[Declared], Any]:
    in_process(folder, KNOWN).advance(2_500_000).stop()
    return lambda declared: in_process(folder, declared).finish()


def begin_live(folder: Path) -> Callable[[Declared], Any]:
    stores: dict[int, Any] = {}

    def opened(declared: Declared, first: int, end: int) -> None:
        schemas = [StreamSchema(name, pa.schema(list(columns.items())), time) for name, columns, time in declared]
        run = HostedRun(SQL, schemas, folder, stores)
        for tables in batches_of(1, first, end):
            times = {name: table.column("ts") for name, table in tables.items()}
            named = {
                name: pa.table({n: tables[name].column(n) if n in ("k", "v") else times[name] for n in columns}).cast(
                    pa.schema(list(columns.items()))
                )
                for name, columns, _ in declared
                if name in tables
            }
            run.tick(named)
        run.end()

    opened(KNOWN, 0, 3)
    return lambda declared: opened(declared, 3, 6)


HOSTS = {"in process": begin_in_process, "live": begin_live}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", REFUSED)
def test_streams_declared_otherwise_are_refused_by_name(host: str, name: str, tmp_path: Path) -> None:
    go_on = HOSTS[host](tmp_path)
    declared, holds = REFUSED[name]
    with pytest.raises(MidstreamError) as caught:
        go_on(declared)
    for part in holds:
        assert part in str(caught.value)
    go_on(KNOWN)


def test_columns_in_another_order_are_refused_by_name_in_process(tmp_path: Path) -> None:
    go_on = begin_in_process(tmp_path)
    with pytest.raises(MidstreamError, match=r"stream .a.: its columns were ts, at, k, v .* now they are v, k, at, ts"):
        go_on(FINE["columns in another order"])


@pytest.mark.parametrize("host", HOSTS)
def test_streams_added_at_the_end_change_nothing(host: str, tmp_path: Path) -> None:
    outputs = []
    for name, declared in FINE.items():
        if (host, name) in (("live", "a column more"), ("in process", "columns in another order")):
            continue
        HOSTS[host](tmp_path / name)(declared)
        outputs.append(read(tmp_path / name / "out").sort_by([("_time", "ascending"), ("v", "ascending")]).to_pylist())
    assert outputs[0]
    assert all(output == outputs[0] for output in outputs)

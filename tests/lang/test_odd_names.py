"""Columns and streams may have any name: quotes, backticks, dots, spaces, words of SQL; their texts are read back."""

import pyarrow as pa
import pytest

import midstream as ms

NAMES = ["a`b", "``", "a.b", "a b", 'a"b', "'", "ä€😀", "select", "a``b.c", "x\\y", "a;--b", "{x}"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.v AS w, r.{q} AS {q} FROM s [RANGE 9 SECONDS], r [RANGE 9 SECONDS] AS {q} WHERE s.{q} = {q}.{q}",
        "SELECT {q}, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY {q}",
        "SELECT {q} FROM s [ROWS 2 PARTITION BY {q}] WHERE {q} > 1 HOP BY 1 SECOND",
        "SELECT {q} FROM s [RANGE 9 SECONDS] EXCEPT SELECT {q} FROM r [ROWS 1]",
    ],
    ids=["join", "group", "hops", "except"],
)
def test_a_name_may_be_anything(name: str, sql: str) -> None:
    found = []
    for column in (name, "k"):
        engine = ms.Engine()
        times = pa.array(range(0, 4_000_000, 1_000_000), pa.timestamp("us"))
        rows = pa.table({"ts": times, column: [1, 2, 3, 2], "v": [1, 2, 3, 4]})
        engine.stream("s", rows, time="ts")
        engine.stream("r", rows, time="ts")
        query = engine.query(sql.replace("r.{q} AS", "{q}.{q} AS").format(q=quoted(column)))
        text = str(query.plan.query)
        assert str(engine.query(text).plan.query) == text
        assert query.explain()
        found.append(query.start().table())
    mine, plain = found
    assert mine.num_rows
    assert mine.column_names == [name if c == "k" else c for c in plain.column_names]
    assert [c.to_pylist() for c in mine.columns] == [c.to_pylist() for c in plain.columns]

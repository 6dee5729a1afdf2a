"""Pairs of joins and anti-joins are found, tested and aggregated in pieces: any pieces give the same answer.

What a query takes in memory is then of the size of its answer, however many pairs there are.
"""

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from midstream.operators.hopping import bag, ends, group, held_values
from midstream.operators.source import memory
from oracle.hop_generate import draw_case
from oracle.hop_recompute import recompute
from oracle.test_hopping import check, draw_batch, draw_modes, parsed
from seeds import seeds

KINDS = ("join", "absent", "group", "aggregate", "pushable")


def in_small_pieces(rnd: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag, "TOGETHER", rnd.choice([1, 2, 5]))
    monkeypatch.setattr(bag, "MOST_PAIRS", rnd.choice([5, 8, 30]))
    monkeypatch.setattr(group, "FOLD_ROWS", 4)
    monkeypatch.setattr(held_values, "FOLD_ROWS", 4)
    monkeypatch.setattr(ends, "SAMPLE", np.arange(rnd.choice([1, 4])))
    monkeypatch.setattr(ends, "FOLD_ENDS", rnd.choice([1, 10]))


@pytest.mark.parametrize("seed", seeds(0, 150, quick=3))
def test_pieces_change_no_answer(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(4_700_000 + seed)
    in_small_pieces(rnd, monkeypatch)
    case = draw_batch(rnd, draw_case(rnd, KINDS[seed % len(KINDS)]))
    modes = ",".join(draw_modes(rnd, parsed(case).root, case.emit))
    check(case, recompute(case), tmp_path, modes, rnd.choice(["window", "tuple"]), "as-written")


QUERIES = {
    "COUNT(*)": "SELECT COUNT(*) AS n FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y",
    "SUM": "SELECT x.g, COUNT(*) AS n, SUM(y.v) AS t, SUM(x.d) AS m, AVG(y.v) AS o "
    "FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE x.v <> y.v GROUP BY x.g",
    "SUM of floats": "SELECT x.g, SUM(y.f) AS t, AVG(x.f * y.v) AS o FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "WHERE x.v <> y.v GROUP BY x.g",
    "MAX": "SELECT x.g, MAX(y.g) AS m, COUNT(DISTINCT y.g) AS n FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "GROUP BY x.g",
    "MAX of pairs": "SELECT MAX(x.f * y.f) AS m, MIN(x.v - y.v) AS l FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y",
    "mixed": "SELECT x.g, SUM(x.v + y.v) AS t, MAX(x.f * y.f) AS m, MIN(x.d) AS l, COUNT(DISTINCT y.v) AS n, "
    "AVG(DISTINCT x.f) AS o FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE x.v <> y.v GROUP BY x.g",
    "mixed, of rows": "SELECT x.g, SUM(x.v + y.v) AS t, MAX(x.v + y.v) AS m, COUNT(DISTINCT y.v) AS n "
    "FROM a [ROWS 2000] x, a [ROWS 2000] y WHERE x.v <> y.v GROUP BY x.g",
    "DISTINCT": "SELECT DISTINCT x.g, y.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y",
    "EXCEPT": "SELECT x.g, y.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "EXCEPT SELECT z.g, z.v FROM a [RANGE 1 HOUR] z",
    "EXCEPT pairs": "SELECT z.g, z.v FROM a [RANGE 1 HOUR] z "
    "EXCEPT SELECT x.g, y.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE y.v < 3",
    "EXCEPT ALL": "SELECT COUNT(*) AS n FROM (SELECT x.g FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "EXCEPT ALL SELECT z.g FROM a [RANGE 1 HOUR] z, a [RANGE 1 HOUR] u WHERE z.v <> u.v) q",
    "UNION": "SELECT x.g, y.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "UNION SELECT z.g, z.v FROM a [RANGE 1 HOUR] z",
    "UNION ALL": "SELECT COUNT(*) AS n, SUM(v) AS t FROM (SELECT x.v FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y "
    "UNION ALL SELECT u.v FROM a [RANGE 1 HOUR] z, a [RANGE 1 HOUR] u) q",
    "few partners": "SELECT x.v FROM a [RANGE 1 HOUR] x WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 1 HOUR] y "
    "WHERE y.v + x.v < x.v - 5)",
    "all partners": "SELECT x.v FROM a [RANGE 1 HOUR] x WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 1 HOUR] y "
    "WHERE y.v + x.v <> x.v - 5 AND x.v <> 3)",
    "best": "SELECT x.v, COUNT(*) AS n FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y WHERE y.v >= x.v "
    "GROUP BY x.v HAVING COUNT(*) <= 3",
}


@pytest.mark.parametrize("modes", ["delta", "complete"])
@pytest.mark.parametrize("query", QUERIES)
def test_memory_is_that_of_the_answer(query: str, modes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million pairs: whole, each of their columns, five at least, would take 8 MB."""
    monkeypatch.setattr(held_values, "FOLD_ROWS", 1 << 14)
    monkeypatch.setattr(ends, "SAMPLE", ends.SAMPLE[:256])
    monkeypatch.setattr(bag, "MOST_PAIRS", 1 << 14)
    monkeypatch.setattr(bag, "TOGETHER", 64)
    peaks = []
    for count in (100, 1000):
        values = np.arange(count)
        decimals = pa.array(values).cast(pa.decimal128(22, 2))
        table = pa.table(
            {"ts": values * 1000 + 5_000_000, "v": values, "g": values % 5, "d": decimals, "f": values / 7}
        )
        more = pa.table({"ts": [10_000_000], "v": [0], "g": [0], "d": decimals[:1], "f": [0.0]})
        engine = ms.Engine()
        engine.stream("a", pa.concat_tables([table, more]), time="ts")
        planned = engine.query(f"{QUERIES[query]} HOP BY 10 SECONDS", plan=f"as-written modes={modes}")
        tracemalloc.start()
        answer = planned.start().table()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert answer.num_rows
    assert peaks[1] < peaks[0] + 10_000_000


@pytest.mark.parametrize("modes", ["delta", "complete"])
@pytest.mark.parametrize("select", ["x.v, y.v AS w", "x.g, STDDEV(y.v) AS s", "DISTINCT x.v, y.v AS w"])
def test_what_does_not_fit_is_refused_in_a_sentence(select: str, modes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CHECKED_BYTES", 1 << 16)
    monkeypatch.setattr(memory, "free_bytes", lambda: 1 << 20)
    engine = ms.Engine()
    values = np.arange(1000)
    engine.stream("a", pa.table({"ts": values * 10_100, "v": values, "g": values % 5}), time="ts")
    by = " GROUP BY x.g" if "STDDEV" in select else ""
    text = f"SELECT {select} FROM a [RANGE 1 HOUR] x, a [RANGE 1 HOUR] y{by} HOP BY 10 SECONDS"
    query = engine.query(text, plan=f"as-written modes={modes}")
    with pytest.raises(ms.MidstreamError, match=r"would take .* GB, and 0.0 GB of memory are free"):
        query.start()

"""Groups of hopping queries: kept up to date or computed anew, by deltas or complete, they are what the windows hold.

DuckDB gives the tuples that are grouped, Python's integers and decimals their aggregates.
"""

import datetime as dt
import decimal
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream as ms
from midstream.operators.hopping import build_execution, group, held_values
from oracle.hop_generate import draw_case
from oracle.hop_queries import Row, Window, times_of
from oracle.hop_recompute import connection, in_window, recompute
from oracle.test_hop_migrations import draw_migration
from oracle.test_hopping import check, draw_batch, draw_modes, parsed
from seeds import seeds

COLUMNS = ("k", "s", "v", "w", "m", "d")
EXACT = {"COUNT(*)", *(f"COUNT({c})" for c in COLUMNS), "SUM(v)", "SUM(w)", "SUM(m)", "AVG(v)", "AVG(w)"}
OTHERS = ("MIN(v)", "MAX(m)", "COUNT(DISTINCT v)", "MAX(s)", "MIN(d)")
BELOW = (
    "SELECT k, s, v, w, m, d FROM a {0}",
    "SELECT k, s, v, w, m, d FROM a {0} EXCEPT SELECT k, s, v, w, m, d FROM b {1}",
    "SELECT k, s, v, w, m, d FROM a {0} EXCEPT ALL SELECT k, s, v, w, m, d FROM b {1}",
    "SELECT DISTINCT k, s, v, w, m, d FROM a {0}",
    "SELECT a.k, b.s, a.v, b.w, b.m, a.d FROM a {0}, b {1} WHERE a.k = b.k",
    "SELECT k, s, v, w, m, d FROM a {0} WHERE NOT EXISTS (SELECT 1 FROM b {1} WHERE b.w = a.w)",
    "SELECT k, s, v, w, m, d FROM a {0} UNION ALL SELECT k, s, v, w, m, d FROM b {1}",
)
HAVING = ("", "", "", "COUNT(*) > 1", "SUM(w) > 2", "COUNT(v) = 0")


@dataclass(frozen=True)
class Drawn:
    """Streams, what is grouped, and how."""

    streams: dict[str, pa.Table]
    below: str
    windows: tuple[Window, Window]
    keys: tuple[str, ...]
    asked: tuple[str, ...]
    having: str
    hop_us: int

    def sql(self, emit: str) -> str:
        names = [*self.keys, *(f"{a} AS o{i}" for i, a in enumerate(self.asked))]
        by = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        by += f" HAVING {self.having}" if self.having else ""
        body = self.below.format(*(w.sql for w in self.windows))
        return f"SELECT {', '.join(names)} FROM ({body}) q{by} HOP BY {self.hop_us} MICROSECONDS EMIT {emit}"

    def __str__(self) -> str:
        return "\n".join([self.sql("COMPLETE"), *(f"{n}: {t.to_pylist()}" for n, t in self.streams.items())])


def draw(rnd: random.Random) -> Drawn:
    below = rnd.choice(BELOW)
    windows = tuple(
        Window(rows=rnd.choice([1, 4, 12]), by=rnd.choice([(), ("k",)]))
        if rnd.random() < 0.25
        else Window(width_us=rnd.choice([1, 3, 10, 40]))
        for _ in range(2)
    )
    digits = rnd.choice([(9, 2), (18, 4), (38, 0), (38, 30)])
    huge = rnd.choice([0.0, 0.1, 0.5])
    most = [rnd.randint(0, 9), *rnd.choices([25, 60], k=2)]
    streams = {name: draw_stream(rnd, rnd.choice(most), digits, huge) for name in "ab"}
    keys = rnd.choice([(), (), ("k",), ("k",), ("s",), ("k", "s"), ("m",), ("d",)])
    asked = rnd.sample(sorted(EXACT), rnd.randint(1, 5))
    if rnd.random() < 0.4:
        asked += rnd.sample(OTHERS, rnd.choice([1, 1, 2, 3]))
    return Drawn(
        streams, below, (windows[0], windows[1]), keys, tuple(asked), rnd.choice(HAVING), rnd.choice([1, 3, 8])
    )


def draw_stream(rnd: random.Random, rows: int, digits: tuple[int, int], huge: float) -> pa.Table:
    keys, nulls = rnd.choice([1, 3, 8]), rnd.choice([0.0, 0.1, 0.5])
    precision, scale = digits
    most = decimal.Context(prec=60).scaleb(Decimal("9" * precision), -scale)

    def number() -> int:
        if rnd.random() < huge:
            return rnd.choice([1, -1]) * (2 ** rnd.choice([62, 63]) - rnd.randint(1, 3))
        return rnd.randint(-3, 9)

    def exact() -> Decimal:
        if rnd.random() < huge:
            return rnd.choice([most, most.copy_negate()])
        return Decimal(rnd.randint(-300, 300)).scaleb(-min(scale, 2))

    def draw_row() -> Row:
        day = dt.date(2024, 2, 27) + dt.timedelta(rnd.randrange(4))
        values = (rnd.randrange(keys), rnd.choice("xyz"), number(), rnd.randint(-5, 5), exact(), day)
        return tuple(None if rnd.random() < nulls else v for v in values)

    made: list[Row] = []
    for _ in range(rows):  # equal rows are there often: differences take them back
        made.append(rnd.choice(made) if made and rnd.random() < 0.3 else draw_row())
    types = [pa.int64(), pa.string(), pa.int64(), pa.int32(), pa.decimal128(*digits), pa.date32()]
    columns = {n: pa.array([r[i] for r in made], t) for i, (n, t) in enumerate(zip(COLUMNS, types, strict=True))}
    stamps = sorted(rnd.randrange(rnd.choice([20, 90])) for _ in range(rows))
    return pa.table({"ts": pa.array(stamps, pa.int64()), **columns})


def aggregated(text: str, rows: list[dict[str, Any]]) -> Any:
    """Compute an aggregate; what no type holds is NULL, and so is the least integer."""
    function, _, column = text[:-1].partition("(")
    if column == "*":
        return len(rows)
    distinct = column.startswith("DISTINCT ")
    values = [r[column.removeprefix("DISTINCT ")] for r in rows]
    values = [v for v in values if v is not None]
    values = list(set(values)) if distinct else values
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("MIN", "MAX"):
        return min(values) if function == "MIN" else max(values)
    with decimal.localcontext(prec=80):
        total = sum(values)
        if function == "AVG":
            return float(total) / len(values)
        if isinstance(total, Decimal):
            return total if len(total.as_tuple().digits) <= 38 else None
        return total if -(2**63) < total < 2**63 else None


def holds(having: str, rows: list[dict[str, Any]]) -> bool:
    if not having:
        return True
    what, compare, number = having.rsplit(" ", 2)
    value = aggregated(what, rows)
    return value is not None and (value > int(number) if compare == ">" else value == int(number))


def snapshots(case: Drawn, first_us: int, last_us: int) -> list[tuple[int, Counter[Row]]]:
    """Return the rows of every group at every hop."""
    con, out = connection(), []
    for hop in range((first_us // case.hop_us + 1) * case.hop_us, last_us + 1, case.hop_us):
        for name, window in zip("ab", case.windows, strict=True):
            table = case.streams[name]
            con.register(f"{name}_held", table.take(pa.array(in_window(table, window, hop), pa.int64())))
        text = case.below.format("", "").replace("FROM a ", "FROM a_held a ").replace("FROM b ", "FROM b_held b ")
        found = con.execute(text.replace(", b ", ", b_held b ")).fetchall()
        groups: dict[Row, list[dict[str, Any]]] = {} if case.keys else {(): []}
        for row in (dict(zip(COLUMNS, r, strict=True)) for r in found):
            groups.setdefault(tuple(row[k] for k in case.keys), []).append(row)
        answer = Counter(
            (*key, *(aggregated(a, rows) for a in case.asked))
            for key, rows in groups.items()
            if holds(case.having, rows)
        )
        out.append((hop, answer))
    return out


def run(case: Drawn, emit: str, modes: str, working: str, batch_us: int) -> pa.Table:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    query = engine.query(case.sql(emit), plan=f"as-written modes={modes} working={working}")
    return query.start(batch=f"{batch_us} microseconds").table()


@pytest.mark.parametrize("seed", seeds(0, 400, quick=2))
def test_groups_are_the_same_in_every_mode_and_equal_the_snapshots(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(5_100_000 + seed)
    monkeypatch.setattr(group, "FOLD_ROWS", 1 + seed % 5)
    monkeypatch.setattr(held_values, "FOLD_ROWS", 1 + seed % 5)
    case = draw(rnd)
    read = [n for n in "ab" if n == "a" or " b " in case.below]
    times = [t for n in read for t in times_of(case.streams[n])]
    expected = snapshots(case, min(times), max(times)) if times else []
    for emit in ("COMPLETE", "DELTA"):
        whole = run(case, emit, "complete", "window", 1000)
        for working in ("window", "tuple"):
            kept = run(case, emit, "delta", working, rnd.choice([1000, case.hop_us, 1, 7]))
            assert kept.equals(whole), f"{emit} {working}\n{kept.to_pylist()}\n{whole.to_pylist()}\n{case}"
        found: dict[int, Counter[Row]] = {}
        names = [*case.keys, *(f"o{i}" for i in range(len(case.asked)))]
        last: Counter[Row] = Counter()
        for row in whole.to_pylist():
            found.setdefault(row["_hop"], Counter())[tuple(row[n] for n in names)] += row.get("_sign", 1)
        for hop, answer in expected:
            got = found.pop(hop, Counter())
            if emit == "DELTA":
                got.update(last)
                got, last = +got, +got
            assert got == answer, f"{emit} at {hop}\ngot {got}\nexpected {answer}\n{case}"
        assert not found


@pytest.mark.parametrize("seed", seeds(0, 200, quick=3))
def test_drawn_groups_by_deltas_equal_the_snapshots(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of whatever query, migrated to other modes and back, some with strings numbered anew at every hop."""
    rnd = random.Random(5_200_000 + seed)
    case = draw_batch(rnd, draw_case(rnd, rnd.choice(["group", "group", "aggregate"])))
    expected = recompute(case)
    for working in ("window", "tuple"):
        check(case, expected, tmp_path, "delta", working, "as-written")
    if not case.hops:
        return
    monkeypatch.setattr(group, "FOLD_ROWS", 1 + seed % 3)
    monkeypatch.setattr(held_values, "FOLD_ROWS", 1 + seed % 3)
    if rnd.random() < 0.5:
        monkeypatch.setattr(build_execution, "SLACK", 0)
    first, last = case.hops[0] - case.hop_us, case.hops[-1]
    times = sorted(rnd.randint(first, last) for _ in range(3))
    more = [line for at_us in times for line in draw_migration(rnd, case, at_us)]
    check(case, expected, tmp_path, ",".join(draw_modes(rnd, parsed(case).root, case.emit)), None, "as-written", more)


@pytest.mark.slow
def test_draws_are_of_both_ways_and_overflow() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        case = draw(random.Random(5_100_000 + seed))
        seen["kept" if set(case.asked) <= EXACT else "anew"] += 1
        seen["keys" if case.keys else "no keys"] += 1
        seen["difference"] += "EXCEPT" in case.below
        seen["having"] += bool(case.having)
        times = times_of(case.streams["a"])
        for _, answer in snapshots(case, min(times), max(times)) if times else []:
            rows = list(answer)
            sums = [len(case.keys) + i for i, a in enumerate(case.asked) if a.startswith("SUM") and a != "SUM(w)"]
            seen["NULL sums"] += any(r[i] is None for r in rows for i in sums)
            seen["groups"] += len(rows) > 1
    assert not {name: n for name, n in seen.items() if n < 5}, seen

"""Aggregates over a window right over a join: equal to recomputing, and to the same over a subquery, row for row."""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from midstream.operators.aggregate import stage as stage_module
from midstream.operators.sliding import join as join_module
from oracle.change_run import Oracle
from oracle.changes import Aggregates, Condition, InstanceWindow, Join, PredicateSlide, RangeSlide, RowsSlide
from oracle.test_changes import draw_join, draw_rows, draw_rows_slide, draw_run, run_engine, tick_us
from seeds import seeds


@dataclass(frozen=True)
class OverJoin(Aggregates):
    """Aggregates over a join whose results have all columns under their own aliases."""

    join: Join | None = None
    direct: bool = True
    """Without a subquery."""

    @property
    def sql(self) -> str:
        assert self.join is not None
        conditions = [*(f"{a} {op} {b}" for a, op, b in self.join.on), *map(str, self.join.where)]
        *first, last = map(str, self.join.sources)
        joined = f"{' CROSS JOIN '.join(first)} JOIN {last} ON {' AND '.join(conditions)}"
        select = ", ".join(f"{f'{f}({c})' if f else c} AS {name}" for name, f, c in self.outputs)
        where = f" WHERE {' AND '.join(map(str, self.where))}" if self.where else ""
        above = f"{self.window}{where}{f' GROUP BY {self.group_by}' if self.group_by else ''}"
        if self.direct:
            return f"SELECT {select} FROM ({joined}) {above}"
        columns = [name for name, _ in self.join.outputs]
        inner = ", ".join(f'{c} AS "{c}"' for c in columns)
        for c in columns:
            select, above = select.replace(c, f'"{c}"'), above.replace(c, f'"{c}"')
        return f"SELECT {select} FROM (SELECT {inner} FROM {joined}) {above}"


def draw_window(rnd: random.Random, tick: int) -> InstanceWindow:
    kind = rnd.random()
    if kind < 0.6:
        drawn = draw_rows_slide(rnd, 6)
        return RowsSlide(drawn.count, drawn.slide, "a.k" if kind < 0.2 else None)
    if kind < 0.85:
        slide = rnd.randint(1, 6) * tick
        return RangeSlide(rnd.choice([slide, slide * 2, rnd.randint(1, 15) * tick]), slide)
    return PredicateSlide(Condition("a.v", ">", 3), Condition("b.v", "<", 6))


@pytest.mark.parametrize("seed", seeds(0, 150, quick=4))
def test_windows_over_joins_equal_recomputing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rnd = random.Random(81_000 + seed)
    monkeypatch.setattr(join_module, "OUT_ROWS", 1 + seed % 5)
    monkeypatch.setattr(stage_module, "FOLD_ROWS", 1 + seed % 7)
    rows = draw_rows(rnd, rnd.choice([12, 30]))
    tick = tick_us(rows)
    drawn = draw_join(rnd, tick, counted=True)
    columns = tuple(f"{s.alias}.{c}" for s in drawn.sources for c in "kv")
    join = replace(drawn, outputs=tuple((c, c) for c in columns))
    group_by = rnd.choice([None, "a.k", "b.k", "b.v"])
    first = ("a", "", group_by) if group_by else ("a", "COUNT", "*")
    outputs = (first, ("b", *rnd.choice([("SUM", "b.v"), ("MAX", "a.v"), ("COUNT", "*"), ("MIN", "b.k")])))
    where = (Condition(rnd.choice(columns), "<", 6),) if rnd.random() < 0.4 else ()
    below: Aggregates = join  # type: ignore[assignment]
    query = OverJoin(below, draw_window(rnd, tick), outputs, where, group_by, join)
    case = draw_run(rnd, rows, query, ())
    got, _ = run_engine(case, tmp_path)
    expected = [g.row for g in Oracle(case.rows, query, ()).given_out()]
    # Instances that one row closes leave together, so that the order is compared with that of the other form.
    assert sorted(map(repr, got)) == sorted(map(repr, expected)), str(case)
    same, _ = run_engine(replace(case, first=replace(query, direct=False)), tmp_path)
    assert got == same, str(case)

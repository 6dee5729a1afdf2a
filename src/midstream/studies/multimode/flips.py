"""Figs. 4.1 and 4.2: flips of a difference that works tuple by tuple, beside one that works window by window.

rows ──▶ the difference in both ways, by deltas ──▶ how often values came into it or left it before their time
"""

from typing import Any

from midstream.plan.algebra import operators
from midstream.plan.modes import DIDO
from midstream.plan.plan import Plan
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.multimode.rows import (
    SECOND_US,
    known,
    mean_looked_at,
    measure_plans,
    modelled_ms,
    query_of,
    streams,
)

WAYS = {"window": "window at a time", "tuple": "tuple at a time"}
SEMANTICS = {"EXCEPT": "sets", "EXCEPT ALL": "bags"}
PERCENTS = (10, 25, 50, 75, 100)
ROWS, KEYS, HOPS, SLICES, SEED = 20_000, 2_000, 4, 8, 4
SQL = (
    "SELECT d.k FROM (SELECT k FROM a [RANGE 1 SECOND] {op} SELECT k FROM b [RANGE 1 SECOND]) d "
    "HOP BY {hop} MICROSECONDS EMIT DELTA"
)


def run_ways(operator: str, rows: int, percents: list[int]) -> Columns:
    """Run a difference both ways at hops of some parts of the window; return flips, and rows in, per hop."""
    out: dict[str, list[Any]] = {}
    keys = max(2, rows * KEYS // ROWS)
    for percent in percents:
        hop_us = SECOND_US * percent // 100
        query = query_of(SQL.format(op=operator, hop=hop_us), "ab")
        count = sum(1 for _ in operators(query.root))
        plans = {way: Plan(query, query.root, (DIDO,) * count, (way,) * count) for way in WAYS}
        span_us = SECOND_US + HOPS * hop_us
        total = rows * span_us // SECOND_US
        tables = streams("ab", total, keys, 2, span_us, SEED)
        seen = measure_plans(plans, tables, SECOND_US, hop_us, HOPS, SLICES)
        statistics = known(query, float(rows), float(keys), 2.0)
        for way, plan in plans.items():
            row = {
                "percent": percent, "way": way, "flips": sum(seen[way].flips) / HOPS,
                "rows_in": 2 * rows * percent / 100, "looked_at": mean_looked_at(seen[way]),
                "model_ms": modelled_ms(plan, statistics),
            }  # fmt: skip
            for key, value in row.items():
                out.setdefault(key, []).append(value)
    return out


def _cases(scale: Scale) -> list[Case]:
    rows = scale.of(ROWS, least=2_000)
    return [Case(run_ways, {"operator": op, "rows": rows, "percents": list(PERCENTS)}) for op in SEMANTICS]


def _figures(data: Data) -> Figures:
    out: dict[str, Any] = {"percents": list(PERCENTS)}
    for op, name in SEMANTICS.items():
        for what in ("flips", "model_ms"):
            out[f"{name}, {what}"] = {
                way: [round(float(data.value(what, operator=op, way=way, percent=p)), 4) for p in PERCENTS]
                for way in WAYS
            }
        mine = data.where(operator=op, way="tuple")
        # What comes, and what has come and goes.
        out[f"{name}, most"] = [2 * float(mine.value("rows_in", percent=p)) for p in PERCENTS]
    return out


def _fewer(figures: Figures) -> Finding:
    flips = {name: figures[f"{name}, flips"] for name in SEMANTICS.values()}
    saved = {n: [1 - w / t for w, t in zip(f["window"], f["tuple"], strict=True) if t] for n, f in flips.items()}
    least = min(min(values, default=0.0) for values in saved.values())
    most = max(max(values, default=0.0) for values in saved.values())
    return found(least > 0, f"window at a time saves {least:.0%} to {most:.0%} of the flips", other=most > 0)


def _bounded(figures: Figures) -> Finding:
    parts = {n: max(f / m for f, m in zip(figures[f"{n}, flips"]["tuple"], figures[f"{n}, most"], strict=True))
             for n in SEMANTICS.values()}  # fmt: skip
    told = ", ".join(f"{n} {p:.0%}" for n, p in parts.items())
    return found(
        max(parts.values()) <= 1, f"flips at most, as a part of the tuples that come and go on both sides: {told}"
    )


def _dearer(figures: Figures) -> Finding:
    pairs = [
        (t, w)
        for n in SEMANTICS.values()
        for t, w in zip(figures[f"{n}, model_ms"]["tuple"], figures[f"{n}, model_ms"]["window"], strict=True)
    ]
    times = [t / w for t, w in pairs]
    why = f"by our model tuple at a time costs {min(times):.2f} to {max(times):.2f} times as much"
    return found(min(times) > 1, why)


def _draw(data: Data, figure: Any) -> None:
    for place, (op, name) in enumerate(SEMANTICS.items()):
        axes = panel(figure, (1, 2, place + 1), f"({'ab'[place]}) {name}: {op}", "hop / window (%)", "flips per hop")
        for number, (way, label) in enumerate(WAYS.items()):
            line(
                axes,
                number,
                PERCENTS,
                [data.value("flips", operator=op, way=way, percent=p) for p in PERCENTS],
                label,
                "o",
            )
        axes.set_ylim(bottom=0)
    legend(figure, axes)


def _like(flips: list[float], most: list[float], costs: list[float]) -> Figures:
    out: dict[str, Any] = {"percents": [10, 100]}
    for name in SEMANTICS.values():
        out |= {
            f"{name}, flips": {"window": [9.0, 9.0], "tuple": flips}, f"{name}, most": most,
            f"{name}, model_ms": {"window": [2.0, 2.0], "tuple": costs},
        }  # fmt: skip
    return out


STUDY = Study(
    name="multimode-flips",
    paper="Multi-mode hopping",
    figure="Figures 4.1 and 4.2",
    title="Flips of a difference that decides too early",
    about=f"A difference by deltas over windows of {ROWS:,} rows, {KEYS:,} values; working tuple by tuple it decides "
    f"{SLICES} times a hop on what has come since.",
    lesson="Let operators work window at a time, the default: what is decided within a hop is often taken back.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("Window at a time avoids flips within a hop.", _figures, _fewer, _like([5.0, 5.0], [99, 99], [3.0, 3.0])),
        Claim("Flips are linear additive: there are never more than tuples on both inputs.", _figures, _bounded,
              _like([100.0, 100.0], [99, 99], [3.0, 3.0])),
        Claim("Tuple at a time costs more.", _figures, _dearer, _like([20.0, 20.0], [99, 99], [1.0, 1.0])),
    ),
    size=(7.4, 3.4),
)  # fmt: skip

"""Figs. 7.5 and 7.6: a difference above joins or pushed below them, with deltas everywhere or with modes assigned."""

from typing import Any

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.multimode.rows import (
    SECOND_US,
    asked,
    known,
    mean_looked_at,
    measure_plans,
    modelled_ms,
    query_of,
    streams,
)

UP, DOWN, BOTH = "D2DPullUp", "D2DPushDown", "D2C2DPushDown"
WANTED = {UP: ("as-written", "delta"), DOWN: ("push-down", "delta"), BOTH: ("push-down", "auto")}
PERCENTS = (10, 25, 50, 75, 100)
ROWS, PER_KEY, HOPS, SEED = 30_000, 4, 4, 6
SQL = (
    "(SELECT a.k, a.v, c.v AS w FROM a [RANGE 1 SECOND] a, c [RANGE 1 SECOND] c WHERE a.k = c.k) EXCEPT ALL "
    "(SELECT b.k, b.v, c.v AS w FROM b [RANGE 1 SECOND] b, c [RANGE 1 SECOND] c WHERE b.k = c.k) "
    "HOP BY {} MICROSECONDS EMIT DELTA"
)


def run_plans(rows: int, percents: list[int]) -> Columns:
    """Run three plans of a query at hops of some parts of the window; return what they cost per hop."""
    out: dict[str, list[Any]] = {}
    keys = max(2, rows // PER_KEY)
    for percent in percents:
        hop_us = SECOND_US * percent // 100
        query = query_of(SQL.format(hop_us), "abc")
        statistics = known(query, float(rows), float(keys), 2.0)
        plans = asked(query, statistics, WANTED)
        span_us = SECOND_US + HOPS * hop_us
        tables = streams("abc", rows * span_us // SECOND_US, keys, 2, span_us, SEED)
        seen = measure_plans(plans, tables, SECOND_US, hop_us, HOPS)
        for name, plan in plans.items():
            row = {
                "percent": percent, "plan": name, "looked_at": mean_looked_at(seen[name]),
                "model_ms": modelled_ms(plan, statistics), "wall_ms": min(seen[name].ns) / 1e6,
            }  # fmt: skip
            for key, value in row.items():
                out.setdefault(key, []).append(value)
    return out


def _cases(scale: Scale) -> list[Case]:
    return [Case(run_plans, {"rows": scale.of(ROWS, least=3_000), "percents": list(PERCENTS)})]


def _costs(*names: str) -> Any:
    def figures(data: Data) -> Figures:
        out: dict[str, Any] = {"percents": list(PERCENTS)}
        for name in names:
            out[name] = {p: [data.value(name, percent=r, plan=p) for r in PERCENTS] for p in WANTED}
        return out

    return figures


def _times(figures: Figures, kind: str, plan: str, other: str) -> list[float]:
    return [a / b for a, b in zip(figures[kind][plan], figures[kind][other], strict=True)]


def _listed(times: list[float]) -> str:
    return ", ".join(f"{t:.2f}" for t in times)


def _less(plan: str, other: str, *kinds: str) -> Any:
    """Judge that a plan costs less than another at every hop, in all kinds of cost."""

    def judge(figures: Figures) -> Finding:
        times = {kind: _times(figures, kind, plan, other) for kind in kinds}
        told = "; ".join(f"{kind.replace('_', ' ')} {_listed(t)}" for kind, t in times.items())
        return found(
            all(max(t) < 1 for t in times.values()),
            f"{plan} over {other} at hops of {', '.join(map(str, figures['percents']))} %: {told}",
            other=any(max(t) < 1 for t in times.values()) or all(min(t) < 1 for t in times.values()),
        )

    return judge


def _draw_of(*plans: str) -> Any:
    def draw(data: Data, figure: Any) -> None:
        kinds = {"looked_at": ("(a) looked at", "tuples and pairs per hop"),
                 "model_ms": ("(b) our model", "ms per hop"),
                 "wall_ms": ("(c) measured on this machine", "ms per hop")}  # fmt: skip
        for place, (kind, (title, y)) in enumerate(kinds.items()):
            axes = panel(figure, (1, 3, place + 1), title, "hop / window (%)", y)
            for number, plan in enumerate(plans):
                line(axes, number, PERCENTS, [data.value(kind, percent=r, plan=plan) for r in PERCENTS], plan, "o")
            axes.set_ylim(bottom=0)
        legend(figure, axes)

    return draw


def _same(*names: str) -> Figures:
    return {"percents": [10, 100], **{n: {p: [1.0, 1.0] for p in WANTED} for n in names}}


ABOUT = (
    f"(a joined with c) less (b joined with c), windows of {ROWS:,} rows a stream, {PER_KEY} rows to a key; the "
    "difference can be pushed below the join: (a less b) joined with c, which reads c once. "
)
PUSH = Study(
    name="multimode-push-down",
    paper="Multi-mode hopping",
    figure="Figure 7.5",
    title="A difference pushed down, and left above",
    about=ABOUT + "All operators read and give deltas.",
    lesson="Push differences below joins: what they take away is joined no more.",
    cases=_cases,
    draw=_draw_of(UP, DOWN),
    claims=(
        Claim("The plan with the difference pushed down is better than the one with it on top.",
              _costs("looked_at", "model_ms"), _less(DOWN, UP, "looked_at", "model_ms"),
              _same("looked_at", "model_ms")),
        Claim("Measured: it is faster (time of this machine).", _costs("wall_ms"), _less(DOWN, UP, "wall_ms"),
              _same("wall_ms")),
    ),
    size=(8.2, 3.4),
)  # fmt: skip
TOGETHER = Study(
    name="multimode-together",
    paper="Multi-mode hopping",
    figure="Figure 7.6",
    title="Heuristic and modes together",
    about=ABOUT + "The third plan has the modes that the assigner chooses; deltas leave in all three.",
    lesson="Complete relations between operators pay most where hops are long; ask for plan optimal, modes auto.",
    cases=_cases,
    draw=_draw_of(UP, DOWN, BOTH),
    claims=(
        Claim("D2DPullUp has the worst performance: D2DPushDown is better.", _costs("model_ms"),
              _less(DOWN, UP, "model_ms"), _same("model_ms")),
        Claim("D2C2DPushDown is more efficient than D2DPushDown.", _costs("model_ms"), _less(BOTH, DOWN, "model_ms"),
              _same("model_ms")),
        Claim("Measured: heuristic and modes together beat the default plan (time of this machine).", _costs("wall_ms"),
              _less(BOTH, UP, "wall_ms"), _same("wall_ms")),
    ),
    size=(8.2, 3.4),
)  # fmt: skip

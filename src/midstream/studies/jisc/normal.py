"""Figure 9 of JISC: what it costs in normal operation, beside plain hash joins and CACQ."""

from typing import Any

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.jisc.chain import CACQ, JISC, PLAIN, ROUND_US, WORST, Chain, cost_of
from midstream.studies.jisc.stage import SPEED, WINDOW_ROWS

JOINS = 20
WAYS = (JISC, PLAIN, CACQ)
POINTS = 10


def operate(way: str, window_rows: int) -> Columns:
    """Fill the windows; with JISC migrate and wait until all is complete; then run two windows of rows."""
    chain = Chain(JOINS, window_rows)
    begin, rounds = 4 * window_rows, 2 * window_rows
    run = chain.run(way, begin + rounds, max(1, rounds // (4 * POINTS)))
    run.advance(2 * chain.window_us)
    if way == JISC:
        run.migrate(chain.new_plan(WORST), "just-in-time")
    run.advance(begin * ROUND_US)
    start = run.effort
    costs, rows = [], []
    for point in range(1, POINTS + 1):
        at = begin + rounds * point // POINTS
        run.advance(at * ROUND_US)
        costs.append(cost_of(way, run.effort - start))
        rows.append((at - begin) * (JOINS + 1))
    finished = not run.records or run.records[0]["state"] == "finished"
    return {"rows": rows, "cost": costs, "complete": [finished] * POINTS}


def _cases(scale: Scale) -> list[Case]:
    rows = 200 if scale.quick else scale.of(WINDOW_ROWS // 2, least=200)
    return [Case(operate, {"way": way, "window_rows": rows}) for way in WAYS]


def _of_jisc(data: Data) -> Figures:
    own = data.where(way=JISC)
    last = {way: int(part["cost"][-1]) for way, part in data.split("way")}
    return {"cost": last, "complete": bool(own["complete"].all())}


def _judge_overhead(figures: Figures) -> Finding:
    cost = figures["cost"]
    ratio = cost[JISC] / cost[PLAIN]
    why = f"JISC does {ratio:.4f} times the work of plain hash joins" + (
        "" if figures["complete"] else "; not complete"
    )
    return found(figures["complete"] and ratio <= 1.03, why, other=ratio <= 1.15)


def _judge_cacq(figures: Figures) -> Finding:
    ratio = figures["cost"][CACQ] / figures["cost"][JISC]
    return found(1.6 <= ratio <= 2.4, f"CACQ takes {ratio:.2f} times as long as JISC", other=ratio > 1.1)


def _draw(data: Data, figure: Any) -> None:
    for place, other in enumerate((PLAIN, CACQ), 1):
        axes = panel(figure, (1, 2, place), f"JISC and {other}", "rows (millions)", "virtual time (s)")
        for k, way in enumerate(WAYS):
            if way in (JISC, other):
                part = data.where(way=way)
                line(axes, k, part["rows"] / 1e6, part["cost"] / SPEED, way, "o")
        axes.set_ylim(bottom=0)
    handles = {
        text: handle for axes in figure.axes for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3)


STUDY = Study(
    name="jisc-9",
    paper="JISC",
    figure="Figure 9",
    title="Normal operation of 20 joins",
    about="JISC has migrated by its worst case and completed all states before; then two windows of rows run "
    "through 20 "
    "joins, with windows of 5,000 rows. What is counted is that of Figure 7.",
    lesson="After a migration just-in-time leaves nothing behind. CACQ changes plans for free and pays for it "
    "with every "
    "row: take it only when plans change all the time.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("JISC adds almost nothing to a plan of symmetric hash joins.", _of_jisc, _judge_overhead,
              {"cost": {JISC: 130, PLAIN: 100, CACQ: 200}, "complete": True}),
        Claim("JISC is nearly twice as fast as CACQ.", _of_jisc, _judge_cacq,
              {"cost": {JISC: 100, PLAIN: 100, CACQ: 105}, "complete": True}),
    ),
    size=(7.4, 3.6),
)  # fmt: skip

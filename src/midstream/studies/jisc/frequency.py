"""Figures 11 and 12 of JISC: running time by how often the plan changes."""

from typing import Any

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.jisc.chain import BEST, CACQ, JISC, PT, ROUND_US, STRATEGY, WORST, Chain, cost_of
from midstream.studies.jisc.stage import SPEED

JOINS = 20
WAYS = (JISC, PT, CACQ)
MILLIONS = (1, 2, 4, 6, 8, 10)
WINDOW_ROWS, TOTAL_MILLIONS = 10_000, 20
PART = 0.05
"""Windows and rows at full scale, as a part of the paper's: the ratio of both is the paper's."""


def operate(way: str, case: str, millions: int, part: float) -> Columns:
    """Run the rows of the study, changing the plan there and back every so many; return what it cost."""
    window_rows = max(20, round(WINDOW_ROWS * part))
    chain = Chain(JOINS, window_rows)
    rounds = round(TOTAL_MILLIONS * 1_000_000 * part / (JOINS + 1))
    every = rounds * millions // TOTAL_MILLIONS
    run = chain.run(way, rounds, max(1, window_rows // 4))
    plans = [chain.new_plan(case), chain.old_plan]
    transitions = 0
    for at in range(every, rounds, every):
        run.advance(at * ROUND_US)
        run.migrate(plans[transitions % 2], STRATEGY[way])
        transitions += 1
    run.finish()
    rows = rounds * (JOINS + 1)
    out = run.running.report.rows_out
    return {"cost": [cost_of(way, run.effort)], "transitions": [transitions], "rows": [rows], "rows_out": [out]}


def _cases(case: str, scale: Scale) -> list[Case]:
    millions = (1, 4, 10) if scale.quick else MILLIONS
    part = 0.005 if scale.quick else PART * scale.factor
    cases = [Case(operate, {"way": w, "case": case, "millions": m, "part": part}) for m in millions for w in (JISC, PT)]
    # Nothing is different for CACQ however often the plan changes: two points show it.
    ends = (millions[0], millions[-1])
    return cases + [Case(operate, {"way": CACQ, "case": case, "millions": m, "part": part}) for m in ends]


def _figures(data: Data) -> Figures:
    return {
        way: {str(m): int(c) for m, c in zip(part["millions"].tolist(), part["cost"].tolist(), strict=True)}
        for way, part in data.split("way")
    }


def _judge_best(figures: Figures) -> Finding:
    own = figures[JISC]
    pt = [figures[PT][m] / c for m, c in own.items()]
    cacq = [min(figures[CACQ].values()) / c for c in own.values()]
    why = (
        f"PT takes {min(pt):.2f} to {max(pt):.2f} times as long as JISC, CACQ {min(cacq):.2f} to {max(cacq):.2f} times"
    )
    return found(min(*pt, *cacq) > 1, why)


def _judge_cacq(figures: Figures) -> Finding:
    costs = list(figures[CACQ].values())
    return found(max(costs) <= 1.01 * min(costs), f"its costs differ by {max(costs) / min(costs) - 1:.2%}")


def _judge_pt(figures: Figures) -> Finding:
    pt, own = list(figures[PT].values()), list(figures[JISC].values())
    falls, worst = pt[0] / pt[-1], all(p > o for p, o in zip(pt, own, strict=True))
    ahead = pt[0] >= min(figures[CACQ].values())
    why = (
        f"PT costs {falls:.2f} times as much every million rows as every ten millions, more than JISC at each "
        f"frequency; "
        f"{'worse than CACQ' if ahead else 'but better than CACQ: it pays for a window after each transition, not for'}"
        f"{'' if ahead else ' looking for duplicates and for the end of the old plan'}"
    )
    return found(falls > 1.1 and worst and ahead, why, other=falls > 1.05 and worst)


def _judge_often(figures: Figures) -> Finding:
    own = list(figures[JISC].values())
    ratio = own[0] / own[-1]
    why = f"every million rows JISC costs {ratio:.3f} times what it does every ten millions"
    return found(ratio > 1.05, why, other=ratio > 1.005)


def _draw(data: Data, figure: Any) -> None:
    axes = panel(figure, (1, 1, 1), "Running time", "rows between two transitions (millions, at the paper's size)",
                 "virtual time (s)")  # fmt: skip
    for place, (way, part) in enumerate(data.split("way")):
        line(axes, place, part["millions"], part["cost"] / SPEED, way, "o")
    axes.set_ylim(bottom=0)
    legend(figure, axes)


BROKEN = {JISC: {"1": 10, "10": 10}, PT: {"1": 9, "10": 9}, CACQ: {"1": 9, "10": 12}}


def _study(case: str, number: int, lesson: str) -> Study:
    missing = "all states are new" if case == WORST else "one state is new"
    return Study(
        name=f"jisc-{number}",
        paper="JISC",
        figure=f"Figure {number}",
        title=f"How often the plan changes, {case}",
        about=f"20 joins, transitions there and back in which {missing}. Rows and windows are a twentieth of "
        f"the paper's "
        "20 million and 10,000, so that as many windows pass between transitions.",
        lesson=lesson,
        cases=lambda scale: _cases(case, scale),
        draw=_draw,
        claims=(
            Claim("JISC has a higher throughput than PT and CACQ at any frequency.", _figures, _judge_best, BROKEN),
            Claim("CACQ is not affected by how often the plan changes.", _figures, _judge_cacq, BROKEN),
            Claim("PT does worst when transitions are frequent.", _figures, _judge_pt, BROKEN),
            *(
                (Claim("JISC's throughput is lower when transitions are frequent.", _figures, _judge_often, BROKEN),)
                if case == WORST
                else ()
            ),
        ),
        size=(6.4, 3.8),
    )


WORST_CASE = _study(WORST, 11, "Just-in-time bears frequent changes of the whole plan; no work is done for nobody.")
BEST_CASE = _study(BEST, 12, "Where most states stay, frequent transitions cost almost nothing.")

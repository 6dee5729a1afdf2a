"""Figures 7 and 8 of JISC: what the window of rows after a plan transition costs, by the number of joins."""

from typing import Any

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.jisc.chain import BEST, CACQ, JISC, MS, PT, STAIRS, STRATEGY, WORST, Chain, cost_of

JOINS = (4, 8, 12, 16, 20)
WAYS = (JISC, PT, CACQ, MS, STAIRS)
WINDOW_ROWS = 10_000
WARM_UP_WINDOWS = 2
BATCHES = 20
"""Micro-batches a window."""
SPEED = 1_000_000.0
"""Units of cost that a simulated processor does in a second."""


def stage(way: str, case: str, joins: int, window_rows: int) -> Columns:
    """Run a transition and the window of rows after it; return what that has cost."""
    chain = Chain(joins, window_rows)
    width = max(1, window_rows // BATCHES)
    run = chain.run(way, (WARM_UP_WINDOWS + 1) * window_rows, width)
    run.advance(WARM_UP_WINDOWS * chain.window_us)
    before, rows = run.effort, run.running.report.rows_out
    run.migrate(chain.new_plan(case), STRATEGY[way])
    run.finish()
    record = run.records[0]
    done = run.effort - before
    return {
        "cost": [cost_of(way, done, record["entries_demoted"] if way == STAIRS else 0)],
        "evaluations": [done.evaluations], "entries": [done.entries], "probes": [done.probes],
        "completed": [record["entries_completed"]], "rows_out": [run.running.report.rows_out - rows],
    }  # fmt: skip


def _cases(case: str, scale: Scale) -> list[Case]:
    joins = JOINS[::2] if scale.quick else JOINS
    rows = scale.of(WINDOW_ROWS, least=200) if not scale.quick else 400
    given = [{"way": way, "case": case, "joins": n, "window_rows": rows} for n in joins for way in WAYS]
    return [Case(stage, one) for one in given]


def _speedups(data: Data) -> Figures:
    joins = data.each("joins")
    own = [data.value("cost", way=JISC, joins=n) for n in joins]
    return {
        "joins": joins,
        "times_jisc": {
            way: [round(data.value("cost", way=way, joins=n) / o, 3) for n, o in zip(joins, own, strict=True)]
            for way in WAYS[1:]
        },
    }


def _judge_fastest(figures: Figures) -> Finding:
    pt, cacq = figures["times_jisc"][PT], figures["times_jisc"][CACQ]
    why = (
        f"PT takes {min(pt):.2f} to {max(pt):.2f} times as long as JISC, CACQ {min(cacq):.2f} to {max(cacq):.2f} times"
    )
    return found(min(*pt, *cacq) > 1, why)


def _judge_tenfold(figures: Figures) -> Finding:
    most = max(figures["times_jisc"][PT])
    why = (
        f"at most {most:.2f} times; PT runs two plans here, no more: it knows from the time of rows when the "
        f"old one is "
        "over, and which results are duplicates from their row numbers, where the paper's looks at states and results"
    )
    return found(most >= 8, why, other=most > 1.1)


def _judge_growth(figures: Figures) -> Finding:
    cacq = figures["times_jisc"][CACQ]
    joins = figures["joins"]
    why = f"CACQ takes {cacq[0]:.2f} times as long with {joins[0]} joins, {cacq[-1]:.2f} with {joins[-1]}"
    return found(cacq[-1] > cacq[0] and cacq[-1] > 1, why)


def _judge_close_to_ms(figures: Figures) -> Finding:
    ms = figures["times_jisc"][MS]
    why = f"MS takes {min(ms):.2f} to {max(ms):.2f} times as long in all"
    return found(min(ms) >= 0.9 and max(ms) <= 1.1, why, other=min(ms) >= 0.6 and max(ms) <= 1.5)


def _same_results(data: Data) -> Figures:
    return {"rows_out": {way: data.where(way=way)["rows_out"].tolist() for way in WAYS}}


def _judge_same(figures: Figures) -> Finding:
    counts = list(figures["rows_out"].values())
    return found(all(c == counts[0] for c in counts), f"{sum(counts[0]):,} results in all, of each contender")


def _draw(data: Data, figure: Any) -> None:
    joins = data.each("joins")
    time = panel(figure, (1, 2, 1), "Running time", "number of joins", "virtual time (s)")
    speedup = panel(figure, (1, 2, 2), "Speedup of JISC", "number of joins", "times as long as JISC")
    for place, way in enumerate(WAYS):
        values = [data.value("cost", way=way, joins=n) / SPEED for n in joins]
        line(time, place, joins, values, way, "o")
        if way != JISC:
            line(speedup, place, joins, _speedups(data)["times_jisc"][way], way, "o")
    time.set_ylim(bottom=0)
    speedup.axhline(1, color="#777777", linewidth=0.8)
    legend(figure, time)


BROKEN = {"joins": [4, 20], "times_jisc": {PT: [0.9, 0.8], CACQ: [2.0, 0.9], MS: [3.0, 2.0], STAIRS: [1.0, 1.0]}}


def _study(case: str, number: int, lesson: str, more: tuple[Claim, ...]) -> Study:
    return Study(
        name=f"jisc-{number}",
        paper="JISC",
        figure=f"Figure {number}",
        title=f"The migration stage, {case}",
        about="Hash joins over windows of 10,000 rows, left-deep; "
        + ("two neighbours below the last stream change places" if case == BEST else "the order is reversed")
        + ". Counted is the window of rows until PT's old plan is over, for all contenders: probes, candidates, "
        "entries "
        "put into states or demoted, and each pass through an eddy, at a million of them per second.",
        lesson=lesson,
        cases=lambda scale: _cases(case, scale),
        draw=_draw,
        claims=(
            Claim("JISC is faster than PT and CACQ with every number of joins.", _speedups, _judge_fastest, BROKEN),
            *more,
            Claim("All give the same results.", _same_results, _judge_same, {"rows_out": {JISC: [5], PT: [4]}}),
        ),
        size=(7.6, 3.8),
    )


BEST_CASE = _study(
    BEST, 7, "When a plan changes little, just-in-time costs hardly more than no migration at all.",
    (
        Claim(
            "JISC's speedup over PT reaches an order of magnitude with many joins.",
            _speedups,
            _judge_tenfold,
            BROKEN,
        ),
        Claim("CACQ falls behind as joins are added.", _speedups, _judge_growth, BROKEN),
    ),
)  # fmt: skip
WORST_CASE = _study(
    WORST, 8, "When every state is new, just-in-time still costs less than running both plans.",
    (
        Claim("JISC's overall time is close to that of moving states; it differs in when the work is done.", _speedups,
              _judge_close_to_ms, BROKEN),
    ),
)  # fmt: skip

"""Figure 10 of JISC: from a plan transition to the next output, by window, for hash and nested-loop joins."""

from typing import Any

import numpy as np

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.jisc.chain import JISC, MS, ROUND_US, STAIRS, STRATEGY, WORST, Chain, cost_of
from midstream.studies.jisc.stage import SPEED

JOINS = 5
WAYS = (JISC, MS, STAIRS)
METHODS = ("hash", "nested-loop")
WINDOWS = (1000, 2000, 4000, 7000, 10_000)


def first_output(way: str, join: str, window_rows: int) -> Columns:
    """Migrate in full windows; return what is done until the first result leaves."""
    chain = Chain(JOINS, window_rows, join)
    run = chain.run(way, 2 * window_rows, max(1, window_rows // 20))
    run.advance(chain.window_us)
    before, rows = run.effort, run.running.report.rows_out
    run.migrate(chain.new_plan(WORST), STRATEGY[way])
    at = chain.window_us
    while run.running.report.rows_out == rows:
        at += ROUND_US // (2 * (JOINS + 1))
        run.advance(at)
    demoted = run.records[0]["entries_demoted"] if way == STAIRS else 0
    return {"cost": [cost_of(way, run.effort - before, demoted)]}


def _cases(scale: Scale) -> list[Case]:
    windows = [100, 300, 1000] if scale.quick else [scale.of(w, least=50) for w in WINDOWS]
    return [
        Case(first_output, {"way": way, "join": join, "window_rows": w})
        for join in METHODS for w in windows for way in (WAYS if join == "hash" else (JISC, MS))
    ]  # fmt: skip


def _costs(data: Data, join: str) -> Figures:
    part = data.where(join=join)
    return {
        "window_rows": part.each("window_rows"),
        "cost": {way: [int(v) for v in rows["cost"]] for way, rows in part.split("way")},
    }


def slope(windows: list[int], costs: list[int]) -> float:
    """Return the power of the window with which costs grow.

    >>> round(slope([10, 100], [5, 500]), 3)
    2.0
    """
    return float(np.polyfit(np.log(windows), np.log(np.maximum(costs, 1)), 1)[0])


def _judge_flat(figures: Figures) -> Finding:
    own, ms = figures["cost"][JISC], figures["cost"][MS]
    ratio = ms[-1] / max(1, own[-1])
    why = (
        f"JISC's latency grows {own[-1] / own[0]:.2f} times while windows grow "
        f"{figures['window_rows'][-1] / figures['window_rows'][0]:g} times; MS's is {ratio:,.0f} times as long "
        f"at the end"
    )
    return found(own[-1] <= 1.5 * own[0] and ratio >= 10, why, other=own[-1] * 10 <= ms[-1])


def _judge_nested(figures: Figures) -> Finding:
    power = slope(figures["window_rows"], figures["cost"][MS])
    seconds = figures["cost"][MS][-1] / SPEED
    why = f"MS's latency grows with the power {power:.2f} of the window, to {seconds:,.0f} s of virtual time"
    return found(1.8 <= power <= 2.2, why, other=power > 1.3)


def _judge_hash(figures: Figures) -> Finding:
    power = slope(figures["window_rows"], figures["cost"][MS])
    seconds = figures["cost"][MS][-1] / SPEED
    why = f"MS's latency grows with the power {power:.2f} of the window, to {seconds:.2f} s of virtual time"
    return found(power <= 1.3 and seconds < 60, why, other=power <= 1.6)


def _judge_stairs(figures: Figures) -> Finding:
    ratio = figures["cost"][STAIRS][-1] / figures["cost"][MS][-1]
    return found(
        0.8 <= ratio <= 2.5, f"STAIRs take {ratio:.2f} times as long as MS to the next output", other=ratio > 0.5
    )


def _draw(data: Data, figure: Any) -> None:
    for place, join in enumerate(METHODS, 1):
        axes = panel(figure, (1, 2, place), join, "window (rows)", "latency (s of virtual time)", "xy")
        part = data.where(join=join)
        for k, (way, rows) in enumerate(part.split("way")):
            line(axes, k, rows["window_rows"], rows["cost"] / SPEED, way, "o")
    legend(figure, figure.axes[0])


STUDY = Study(
    name="jisc-10",
    paper="JISC",
    figure="Figure 10",
    title="From a plan transition to the next output",
    about="Five joins in reverse order, so that all states are new. Windows are a tenth of the paper's, for the "
    "sake of "
    "nested loops. Counted is all work from the transition until the first result leaves.",
    lesson="Just-in-time answers at once whatever the window; moving state pauses as long as computing all "
    "states takes, "
    "which with nested loops over large windows is out of the question.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("JISC's output latency is minimal whatever the window, with hash joins.", lambda d: _costs(d, "hash"),
              _judge_flat, {"window_rows": [10, 100], "cost": {JISC: [10, 100], MS: [10, 100]}}),
        Claim("With hash joins MS's latency is of the order of seconds even for large windows.",
              lambda d: _costs(d, "hash"), _judge_hash,
              {"window_rows": [10, 100], "cost": {JISC: [1, 1], MS: [10**7, 10**9]}}),
        Claim("With nested loops MS's latency grows with the square of the window.",
              lambda d: _costs(d, "nested-loop"), _judge_nested,
              {"window_rows": [10, 100], "cost": {JISC: [1, 1], MS: [10, 100]}}),
        Claim("STAIRs, promoting and demoting eagerly, are as late as MS.", lambda d: _costs(d, "hash"), _judge_stairs,
              {"window_rows": [10, 100], "cost": {JISC: [1, 1], MS: [10, 100], STAIRS: [1, 1]}}),
    ),
    size=(7.6, 3.8),
)  # fmt: skip

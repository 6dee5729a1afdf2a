"""Figure 16 of HybMig: tuples in states and work per second while three strategies migrate."""

from itertools import pairwise
from typing import Any

import numpy as np

from midstream.studies.frame.capacity import Floats
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.migration import HYBRID, MS, PAPER, PT, at_work, case, costs, size_of, speed_of

WAYS = (MS, PT, PAPER, HYBRID)


def _cases(scale: Scale) -> list[Case]:
    return [case(way, size=size_of(scale)) for way in WAYS]


def memory(data: Data) -> Floats:
    """Return what is held at the end of each second: tuples in states, and rows that wait."""
    work = at_work(data)
    before = 0.0 if data.value("switch_cost") else float(data["tuples"][0])
    states = work.at_end_of(data["tuples"], before, len(data))
    pause = data.value("switch_cost") / speed_of(data)
    # While states are computed they fill.
    filling = np.arange(1, len(data) + 1) < pause
    states = np.where(filling, data["tuples"][0] * np.arange(1, len(data) + 1) / max(pause, 1e-9), states)
    return np.asarray(states + work.waiting(data["rows_in"], len(data)))


def load(data: Data) -> Floats:
    """Return what the processor does in each second, in evaluations."""
    work = at_work(data)
    busy = work.per_second(costs(data), len(data))
    pause = data.value("switch_cost") / speed_of(data)
    return np.asarray(busy + np.clip(pause - np.arange(len(data)), 0, 1) * speed_of(data))


def _parts(values: Floats, window_s: int, parts: int = 6) -> list[int]:
    cuts = [window_s * k // parts for k in range(parts + 1)]
    return [round(float(values[a:b].mean())) for a, b in pairwise(cuts)]


def _saturated(data: Data) -> Figures:
    part = data.where(way=MS)
    work, speed = at_work(part), speed_of(part)
    late = work.through - work.arrived > 1.0
    through = int(np.flatnonzero(late)[-1]) + 1 if late.any() else 0
    window_s = data.value("window_s")
    return {"states_s": round(part.value("switch_cost") / speed, 1), "backlog_s": through, "window_s": window_s}


def _judge_saturated(figures: Figures) -> Finding:
    window_s = figures["window_s"]
    done, through = figures["states_s"] / window_s, figures["backlog_s"] / window_s
    why = (
        f"states are computed after {figures['states_s']:g} s ({done:.0%} of the window; paper 27%), what waited is "
        f"through after {figures['backlog_s']} s ({through:.0%}; paper 33%)"
    )
    return found(abs(done - 0.27) < 0.06 and abs(through - 0.33) < 0.07, why, other=through > done > 0.01)


def _falling(data: Data) -> Figures:
    window_s = data.value("window_s")
    part = data.where(way=MS)
    return {"tuples": _parts(memory(part), window_s), "evaluations": _parts(load(part), window_s)}


def _judge_falling(figures: Figures) -> Finding:
    falls = {name: all(b <= a * 1.02 for a, b in pairwise(v[1:])) for name, v in figures.items()}
    ratio = {name: v[1] / max(1, v[-1]) for name, v in figures.items()}
    why = f"from the second sixth of the window to the last memory falls {ratio['tuples']:.1f} times, "
    why += f"work {ratio['evaluations']:.1f} times"
    return found(all(falls.values()) and min(ratio.values()) > 1.5, why)


def _rising(data: Data) -> Figures:
    window_s = data.value("window_s")
    part = data.where(way=PT)
    return {"tuples": _parts(memory(part), window_s), "evaluations": _parts(load(part), window_s)}


def _judge_rising(figures: Figures) -> Finding:
    rises = all(b > a for v in figures.values() for a, b in pairwise(v))
    ratio = {name: v[-1] / max(1, v[0]) for name, v in figures.items()}
    why = f"from the first sixth of the window to the last memory grows {ratio['tuples']:.1f} times, "
    why += f"work {ratio['evaluations']:.1f} times"
    return found(rises, why, other=min(ratio.values()) > 2)


def _every_second(data: Data, way: str) -> Figures:
    window_s = data.value("window_s")
    pt, own = (load(data.where(way=one))[:window_s] for one in (PT, way))
    worst = float((own / np.maximum(pt, 1.0)).max())
    return {"seconds": window_s, "better": int(((own < pt) | (own == 0)).sum()), "worst": round(worst, 2)}


def _judge_every_second(figures: Figures) -> Finding:
    part = figures["better"] / figures["seconds"]
    why = f"in {figures['better']} of {figures['seconds']} seconds; at worst {figures['worst']:.2f} times PT's work"
    return found(part == 1.0, why, other=part >= 0.9)


def _totals(data: Data) -> Figures:
    window_s = data.value("window_s")
    return {
        way: {
            "peak_tuples": round(float(memory(data.where(way=way))[:window_s].max())),
            "work": round(
                float(costs(data.where(way=way))[:window_s].sum() + data.where(way=way).value("switch_cost"))
            ),
        }
        for way in WAYS
    }


def _judge_totals(figures: Figures) -> Finding:
    own = figures[PAPER]
    ratios = {what: min(figures[way][what] for way in (MS, PT)) / own[what] for what in ("peak_tuples", "work")}
    why = (
        f"HybMig's peak is {ratios['peak_tuples']:.1f} times smaller than the better one of the others', its work "
        f"{ratios['work']:.1f} times"
    )
    return found(min(ratios.values()) > 1, why)


def _drop(data: Data) -> Figures:
    window_s = data.value("window_s")
    result: dict[str, float] = {}
    for way in (PT, PAPER):
        values = memory(data.where(way=way))
        tenth = max(2, window_s // 20)
        result[way] = round(float(values[window_s - tenth : window_s].mean() / values[-tenth:].mean()), 2)
    return result


def _judge_drop(figures: Figures) -> Finding:
    why = f"before w PT holds {figures[PT]:.1f} times as much as after it, HybMig {figures[PAPER]:.1f} times"
    return found(min(figures.values()) > 1.3, why, other=min(figures.values()) > 1.05)


def _draw(data: Data, figure: Any) -> None:
    about = "time since the migration began (s)"
    tuples = panel(figure, (1, 2, 1), "Memory", about, "tuples in states, and rows that wait", "y")
    work = panel(figure, (1, 2, 2), "CPU", about, "work per second (evaluations)", "y")
    for place, way in enumerate(WAYS):
        part = data.where(way=way)
        line(tuples, place, np.arange(len(part)) + 1, memory(part), way)
        values = load(part)
        line(work, place, np.arange(len(part)) + 1, np.where(values > 0, values, np.nan), way)
    legend(figure, tuples)


STUDY = Study(
    name="hybmig-16",
    paper="HybMig",
    figure="Figure 16",
    title="Memory and CPU while a six-way nested-loop join migrates",
    about="The migration of Figure 15. Memory is what is live in states, counted at the end of each second, and rows "
    "that wait for the processor; what PT holds back is not in it. HybMig has the paper's region (pairs of old "
    "rows), ours all old rows. CPU is evaluations of predicates, and 50 for each "
    "entry put into a state.",
    lesson="Moving state needs at once what the new plan needs anyway; parallel track needs both plans' states and "
    "grows until the end. Hybrid is the cheapest in memory and work when joins are nested loops.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("MS saturates the processor: states are computed after 49 s of 180, delayed rows are through after 60.",
              _saturated, _judge_saturated, {"states_s": 0.0, "backlog_s": 0, "window_s": 180}),
        Claim("After that MS's memory and CPU drop until w.", _falling, _judge_falling,
              {"tuples": [1, 5, 5, 6, 7, 8], "evaluations": [9, 8, 7, 6, 5, 4]}),
        Claim("PT's memory and CPU increase until w.", _rising, _judge_rising,
              {"tuples": [1, 2, 3, 3, 2, 1], "evaluations": [1, 2, 3, 4, 5, 6]}),
        Claim("HybMig costs less CPU than PT at every timestamp.", lambda data: _every_second(data, PAPER),
              _judge_every_second, {"seconds": 100, "better": 60, "worst": 1.4}),
        Claim("So does ours, which leaves all old rows of one input to the old plan.",
              lambda data: _every_second(data, HYBRID), _judge_every_second,
              {"seconds": 100, "better": 60, "worst": 1.4}),
        Claim("HybMig has the lowest peak of memory and the least work in all.", _totals, _judge_totals,
              {MS: {"peak_tuples": 5, "work": 5}, PT: {"peak_tuples": 5, "work": 9},
               PAPER: {"peak_tuples": 6, "work": 3}}),
        Claim("At w the overhead of PT and HybMig drops, when the old plan is eliminated.", _drop, _judge_drop,
              {PT: 1.0, PAPER: 1.0}),
    ),
    size=(7.6, 3.8),
)  # fmt: skip

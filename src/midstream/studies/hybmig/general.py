"""Figure 22 of HybMig: the generalized methods, which know nothing of the plans, with a median above the joins."""

from itertools import pairwise
from typing import Any

import numpy as np

from midstream.studies.frame.capacity import Floats
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.follow import Followed, follow
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.clique import OLD, RIGHT_DEEP, SECOND_US, Clique
from midstream.studies.hybmig.migration import LEAST, at_work, cost_at, costs

GMS, GPT, GHM = "GMS", "GPT", "GHM"
WAYS = {GMS: "general-moving-state", GPT: "general-parallel-track", GHM: "general-hybrid"}
STREAMS = 6


def migrate(way: str, size: float) -> Columns:
    """Run a migration of joins with a median above them, second by second."""
    clique = Clique(STREAMS, size=size, median=True)
    run = Followed(clique.sql, clique.tables(), OLD[STREAMS], "nested-loop", SECOND_US)
    # As much again as comes: the old rows are through after about a window divided by that.
    options = {"rows": 2 * STREAMS} if way == GHM else {}
    change_us = clique.change_s * SECOND_US
    target = RIGHT_DEEP[STREAMS]
    trace, switch = follow(run, change_us, clique.after_s, lambda: run.migrate(target, WAYS[way], **options))
    run.finish()
    record, seconds = run.records[0], len(trace)
    lasted = -1.0 if record["duration_us"] is None else record["duration_us"] / SECOND_US
    known = {
        "switch_cost": cost_at(size, switch.evaluations, switch.entries),
        "lasted_s": lasted,
        "window_s": clique.window_s,
    }
    return {**trace.columns(), **{name: [value] * seconds for name, value in known.items()}}


def _cases(scale: Scale) -> list[Case]:
    size = max(LEAST, scale.factor / 2)
    return [Case(migrate, {"way": way, "size": size}) for way in WAYS]


def rate(data: Data) -> Floats:
    """Return the output of each second."""
    return at_work(data).per_second(data["rows_out"], len(data))


def _silence(data: Data) -> Figures:
    gaps = {}
    for way, part in data.split("way"):
        quiet = rate(part)[: part.value("window_s")] == 0
        gaps[way] = _longest(quiet.tolist())
    return {"silent_s": gaps, "window_s": data.value("window_s")}


def _longest(flags: list[bool]) -> int:
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best


def _judge_silence(figures: Figures) -> Finding:
    gaps = figures["silent_s"]
    why = f"without output for at most {gaps[GMS]} s with GMS, {gaps[GPT]} s with GPT, {gaps[GHM]} s with GHM"
    return found(gaps[GMS] > max(gaps[GPT], gaps[GHM], 1), why)


def _durations(data: Data) -> Figures:
    lasted = {way: round(float(part.value("lasted_s")), 1) for way, part in data.split("way")}
    return {"lasted_s": lasted, "window_s": data.value("window_s")}


def _judge_durations(figures: Figures) -> Finding:
    lasted = figures["lasted_s"]
    why = f"GMS {lasted[GMS]:g} s, GHM {lasted[GHM]:g} s, GPT {lasted[GPT]:g} s; the window is {figures['window_s']} s"
    early = max(lasted[GMS], lasted[GHM]) <= 0.75 * lasted[GPT]
    return found(early and min(lasted.values()) >= 0, why, other=max(lasted[GMS], lasted[GHM]) < lasted[GPT])


def _bursts(data: Data) -> Figures:
    return {way: round(float(rate(data.where(way=way)).max()), 2) for way in WAYS}


def _judge_bursts(figures: Figures) -> Finding:
    why = f"at most {figures[GPT]:g} answers a second with GPT, {figures[GHM]:g} with GHM, {figures[GMS]:g} with GMS"
    return found(figures[GPT] <= 1.6 * figures[GHM] and figures[GPT] <= 2.5, why)


def _loads(data: Data) -> Figures:
    window_s = data.value("window_s")
    cuts = [window_s * k // 6 for k in range(7)]
    return {way: [round(float(costs(data.where(way=way))[a:b].mean())) for a, b in pairwise(cuts)] for way in WAYS}


def _judge_loads(figures: Figures) -> Finding:
    gpt, ghm, gms = figures[GPT], figures[GHM], figures[GMS]
    grows = gpt[-1] > 2 * gpt[0]
    ends = ghm[-1] < gpt[-1] / 1.5 and gms[-1] < gpt[-1] / 1.5
    why = (
        f"in the last sixth of the window GPT does {gpt[-1] / max(1, ghm[-1]):.1f} times the work of GHM and "
        f"{gpt[-1] / max(1, gms[-1]):.1f} times that of GMS; it began with {gpt[0] / max(1, gpt[-1]):.2f} of that"
    )
    return found(grows and ends, why, other=ends)


def _draw(data: Data, figure: Any) -> None:
    about = "time since the migration began (s)"
    rates = panel(figure, (1, 2, 1), "Output rate", about, "medians per second")
    work = panel(figure, (1, 2, 2), "CPU", about, "work that comes per second (evaluations)", "y")
    for place, (way, part) in enumerate(data.split("way")):
        at = np.arange(len(part)) + 1
        line(rates, place, at, rate(part), way)
        values = costs(part)
        line(work, place, at, np.where(values > 0, values, np.nan), way)
    rates.set_ylim(bottom=0)
    legend(figure, rates)


STUDY = Study(
    name="hybmig-22",
    paper="HybMig",
    figure="Figure 22",
    title="Black boxes: the generalized methods",
    about="The migration of Figure 15 with a median of the results of the last ten seconds above the joins, answered "
    "once a second. Windows and values are half the paper's at full scale. GHM gives the new plan 12 rows a second "
    "beyond those that come.",
    lesson="With aggregates above the joins only the general strategies are left: general-hybrid answers all the time "
    "and ends early; general-moving-state pauses; general-parallel-track needs no old rows but a whole window.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("GMS suspends output during the migration; GPT and GHM do not.", _silence, _judge_silence,
              {"silent_s": {GMS: 1, GPT: 1, GHM: 1}, "window_s": 90}),
        Claim("GPT does not suffer from PT's bursts: its rate is like GHM's.", _bursts, _judge_bursts,
              {GMS: 5.0, GPT: 30.0, GHM: 1.0}),
        Claim("The migration ends much earlier with GHM and GMS than with GPT.", _durations, _judge_durations,
              {"lasted_s": {GMS: 0.0, GHM: 95.0, GPT: 90.0}, "window_s": 90}),
        Claim("GHM and GMS cost about the same and drop early; GPT's cost grows until the end.", _loads, _judge_loads,
              {GMS: [1, 1, 1, 1, 1, 9], GPT: [1, 1, 2, 3, 4, 9], GHM: [1, 1, 1, 1, 1, 9]}),
    ),
    size=(7.6, 3.8),
)  # fmt: skip

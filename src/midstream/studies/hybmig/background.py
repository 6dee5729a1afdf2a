"""Figure 21 of HybMig: how long migrations last by stream rate, with states computed in spare time and without."""

from itertools import pairwise
from typing import Any

import numpy as np

from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import bars, legend, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.migration import BACKGROUND, MS, PAPER, PT, at_work, case, speed_of, sweep_size
from midstream.studies.hybmig.sweeps import QUICK, work

WAYS = (MS, PT, PAPER, BACKGROUND)
RATES = (0.4, 0.7, 1.0, 1.3, 1.6)


def _cases(scale: Scale) -> list[Case]:
    rates = QUICK["rate"] if scale.quick else RATES
    return [case(way, rate=rate, size=sweep_size(scale)) for rate in rates for way in WAYS]


def duration(data: Data) -> float:
    """Return how long a migration lasts, in windows, on the simulated processor."""
    window_s = data.value("window_s")
    if data.value("switch_cost"):
        return float(data.value("switch_cost") / speed_of(data) / window_s)
    lasted = data.value("lasted_s")
    through = at_work(data).through
    ended = min(len(through) - 1, int(np.ceil(lasted)))
    # It ends when the processor has come to the rows it ends with; a second there is what it takes to collect them.
    return float(max(lasted, through[ended] - 2) / window_s)


def _durations(data: Data) -> Figures:
    table = {way: [round(duration(data.where(way=way, rate=r)), 3) for r in data.each("rate")] for way in WAYS}
    return {"rate": data.each("rate"), "windows": table}


def _at(figures: Figures, way: str) -> dict[float, float]:
    return dict(zip(figures["rate"], figures["windows"][way], strict=True))


def _judge_ms(figures: Figures) -> Finding:
    ms, others = _at(figures, MS), [_at(figures, PT), _at(figures, PAPER)]
    low = all(ms[r] < min(o[r] for o in others) for r in ms if r <= 1)
    high = max(ms)
    longest = ms[high] > max(o[high] for o in others)
    why = f"{ms[min(ms)]:.3f} windows at {min(ms):g} rows/s, {ms[high]:.2f} at {high:g} (paper: about 5)"
    return found(low and longest, why, other=low and ms[high] > 20 * max(ms[min(ms)], 1e-3))


def _judge_pt(figures: Figures) -> Finding:
    pt = _at(figures, PT)
    high = max(pt)
    rest = [v for r, v in pt.items() if r <= 1]
    why = f"{min(rest):.2f} to {max(rest):.2f} windows up to 1 row/s, {pt[high]:.2f} at {high:g}"
    overloads = pt[high] > 1.06
    return found(max(rest) <= 1.06 and overloads, why, other=overloads and max(rest) <= min(1.25, pt[high]))


def _judge_hybmig(figures: Figures) -> Finding:
    own = _at(figures, PAPER)
    why = ", ".join(f"{v:.2f} at {r:g}" for r, v in own.items()) + " rows/s, in windows"
    return found(
        all(0.9 <= v <= 1.06 for v in own.values()), why, other=all(v <= 1.06 for r, v in own.items() if r <= 1)
    )


def _judge_background(figures: Figures) -> Finding:
    own, plain = _at(figures, BACKGROUND), _at(figures, PAPER)
    low = [v for r, v in own.items() if r <= 0.7]
    grows = all(a <= b * 1.02 for a, b in pairwise(own.values()))
    why = ", ".join(f"{v:.2f} at {r:g}" for r, v in own.items()) + " rows/s, in windows"
    never = all(own[r] <= plain[r] * 1.02 for r in own)
    return found(max(low) <= 0.1 and grows and never, why, other=max(low) <= 0.3 and never)


def _works(data: Data) -> Figures:
    return {
        "rate": data.each("rate"),
        "work": {way: [round(work(data.where(way=way, rate=r))) for r in data.each("rate")] for way in WAYS},
    }


def _judge_work(figures: Figures) -> Finding:
    own, table = figures["work"][BACKGROUND], figures["work"]
    ratios = [min(table[MS][k], table[PT][k]) / own[k] for k in range(len(own))]
    why = f"the better one of MS and PT takes {min(ratios):.2f} to {max(ratios):.2f} times the work"
    return found(min(ratios) > 1, why, other=min(ratios) > 0.9 and max(ratios) > 1.05)


def _draw(data: Data, figure: Any) -> None:
    groups = [f"{r:g}" for r in data.each("rate")]
    lasts = panel(figure, (1, 2, 1), "Duration", "stream rate (rows/s)", "windows", "y")
    bars(lasts, groups, {w: [max(1e-3, duration(data.where(way=w, rate=r))) for r in data.each("rate")] for w in WAYS})
    lasts.axhline(1, color="#777777", linewidth=0.8)
    cost = panel(figure, (1, 2, 2), "CPU", "stream rate (rows/s)", "work in a window (evaluations)", "y")
    bars(cost, groups, {w: [work(data.where(way=w, rate=r)) for r in data.each("rate")] for w in WAYS})
    legend(figure, cost)


STUDY = Study(
    name="hybmig-21",
    paper="HybMig",
    figure="Figure 21",
    title="States computed in the background, by spare capacity",
    about="Background computation has what arriving rows leave of the processor's 10 million evaluations per second, "
    "newest pairs first. MS lasts as long as it computes states; the others until the processor has come to the row "
    "they end with. Sizes as in Figure 18.",
    lesson="Where there is capacity to spare, hybrid with background ends a migration in a fraction of a window; where "
    "there is none, it costs nothing and ends with the window.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("MS is the shortest up to 1 row/s and the longest beyond, about 5 windows at 1.6.", _durations, _judge_ms,
              {"rate": [0.4, 1.6], "windows": {MS: [2.0, 0.1], PT: [1, 1], PAPER: [1, 1], BACKGROUND: [1, 1]}}),
        Claim("PT lasts a window, except at 1.6 rows/s where it overloads the system.", _durations, _judge_pt,
              {"rate": [0.4, 1.6], "windows": {MS: [0, 0], PT: [1.4, 1.0], PAPER: [1, 1], BACKGROUND: [1, 1]}}),
        Claim("HybMig lasts a window at every rate.", _durations, _judge_hybmig,
              {"rate": [0.4, 1.6], "windows": {MS: [0, 0], PT: [1, 1], PAPER: [1.5, 3], BACKGROUND: [1, 1]}}),
        Claim("Background computation makes the duration negligible at 0.4 and 0.7 rows/s; its effect decreases "
              "with the rate.", _durations, _judge_background,
              {"rate": [0.4, 1.6], "windows": {MS: [0, 0], PT: [1, 1], PAPER: [1, 1], BACKGROUND: [0.9, 1.2]}}),
        Claim("With background computation HybMig still costs less than MS and PT.", _works, _judge_work,
              {"rate": [1.0], "work": {MS: [10], PT: [12], PAPER: [5], BACKGROUND: [20]}}),
    ),
    size=(7.8, 3.8),
)  # fmt: skip

"""Figure 15 of HybMig: output per second while three strategies migrate."""

from itertools import pairwise
from typing import Any

import numpy as np

from midstream.studies.frame.capacity import Floats
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.migration import MS, PAPER, PT, at_work, case, size_of

WAYS = (MS, PT, PAPER)
PAUSE_S, WINDOW_S = 50, 180
"""What the paper saw, and in which window."""


def _cases(scale: Scale) -> list[Case]:
    return [case(way, size=size_of(scale)) for way in WAYS]


def rate(data: Data) -> Floats:
    """Return the output of each second, as the simulated processor finds it."""
    return at_work(data).per_second(data["rows_out"], len(data))


def _pause(data: Data) -> Figures:
    own = rate(data.where(way=MS))
    first = int(np.flatnonzero(own > 0)[0])
    return {"pause_s": first, "window_s": data.value("window_s"), "paper_pause_s": PAUSE_S, "paper_window_s": WINDOW_S}


def _judge_pause(figures: Figures) -> Finding:
    part, paper = figures["pause_s"] / figures["window_s"], figures["paper_pause_s"] / figures["paper_window_s"]
    why = f"nothing for {figures['pause_s']} s, {part:.0%} of the window; in the paper {paper:.0%}"
    return found(abs(part - paper) <= 0.2 * paper, why, other=figures["pause_s"] >= 1)


def _burst(data: Data) -> Figures:
    ms, own = rate(data.where(way=MS)), rate(data.where(way=PAPER))
    shown = slice(0, data.value("window_s"))
    over = ms[shown] / np.maximum(own[shown], own[shown].mean() / 10)
    return {"most_over_hybmig": round(float(over.max()), 2)}


def _judge_burst(figures: Figures) -> Finding:
    most = figures["most_over_hybmig"]
    return found(most >= 1.5, f"up to {most:.2f} times HybMig's output of the same second", other=most > 1.1)


def _parts(values: Floats, window_s: int, parts: int = 6) -> list[float]:
    """Return the mean of each part of a window."""
    cuts = [window_s * k // parts for k in range(parts + 1)]
    return [float(values[a:b].mean()) for a, b in pairwise(cuts)]


def _fading(data: Data) -> Figures:
    window_s = data.value("window_s")
    parts = 12 if window_s >= 60 else 4
    pt, own = (_parts(rate(data.where(way=way)), window_s, parts) for way in (PT, PAPER))
    return {"of_hybmig": [round(a / max(b, 1.0), 3) for a, b in zip(pt, own, strict=True)]}


def _judge_fading(figures: Figures) -> Finding:
    share = figures["of_hybmig"]
    falls = all(b <= a + 0.05 for a, b in pairwise(share))
    why = f"in parts of the window PT gives {', '.join(f'{s:.0%}' for s in share)} of what HybMig does"
    return found(falls and share[-1] <= 0.1, why, other=falls and share[-1] <= 0.8)


def _release(data: Data) -> Figures:
    pt, own = rate(data.where(way=PT)), rate(data.where(way=PAPER))
    return {"largest": round(float(pt.max())), "of_hybmig": round(float(own.max()))}


def _judge_release(figures: Figures) -> Finding:
    ratio = figures["largest"] / figures["of_hybmig"]
    why = f"at the end {figures['largest']:,} results leave in a second, {ratio:.1f} times the most of HybMig"
    return found(ratio >= 2, why, other=ratio > 1.2)


def _delay(data: Data) -> Figures:
    return {"longest_wait_s": round(at_work(data.where(way=PAPER)).longest_wait_s, 3)}


def _judge_delay(figures: Figures) -> Finding:
    wait = figures["longest_wait_s"]
    return found(wait <= 1.0, f"HybMig's slowest results leave {wait:.2f} s after their latest row", other=wait <= 3.0)


def _draw(data: Data, figure: Any) -> None:
    axes = panel(figure, (1, 1, 1), "Output rate", "time since the migration began (s)", "results per second", "y")
    for place, way in enumerate(WAYS):
        part = data.where(way=way)
        values = rate(part)
        line(axes, place, np.arange(len(values)), np.where(values > 0, values, np.nan), way)
    axes.axvline(data.value("window_s"), color="#777777", linewidth=0.8)
    axes.annotate("w", (data.value("window_s"), 1.0), xycoords=("data", "axes fraction"), ha="center", va="bottom")
    legend(figure, axes)


STUDY = Study(
    name="hybmig-15",
    paper="HybMig",
    figure="Figure 15",
    title="Output rate while a six-way nested-loop join migrates",
    about="Six streams joined with each other, windows of 3 minutes, one row per second and stream; the rare stream "
    "changes and (((((AB)C)D)E)F) goes to (A(B(C(D(EF))))). The engine runs it second by second; a simulated processor "
    "of 10 million evaluations per second, the least with which PT keeps up, takes the seconds in turn. HybMig has the "
    "paper's region. Streams are joined on one attribute; the first and the last agree in a second one, so that "
    "fewer results leave.",
    lesson="Moving state stops output and then floods; parallel track lets it fade and floods at the end. Where a "
    "steady output matters: hybrid (or just-in-time where joins have keys).",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("MS gives nothing for the first 50 s of a window of 180 s.", _pause, _judge_pause,
              {"pause_s": 0, "window_s": 180, "paper_pause_s": 50, "paper_window_s": 180}),
        Claim("After its pause MS's output soars above the others'.", _burst, _judge_burst, {"most_over_hybmig": 1.05}),
        Claim("PT's output decreases all the time and reaches zero at w.", _fading, _judge_fading,
              {"of_hybmig": [1.0, 0.9, 1.0, 1.0]}),
        Claim("PT's buffer is released in a burst at the end of the migration.", _release, _judge_release,
              {"largest": 100, "of_hybmig": 100}),
        Claim("HybMig's output is steady: no result is delayed by more than a second.", _delay, _judge_delay,
              {"longest_wait_s": 7.5}),
    ),
)  # fmt: skip

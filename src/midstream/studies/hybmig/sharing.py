"""Figure 20 of HybMig: what it brings to compute once what both plans compute."""

from typing import Any

from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import bars, legend, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.migration import PAPER, case, sweep_size
from midstream.studies.hybmig.sweeps import peak, work

STREAMS = (4, 5, 6, 7)


def _cases(scale: Scale) -> list[Case]:
    streams = (4, 6) if scale.quick else STREAMS
    size = sweep_size(scale)
    return [case(PAPER, "shared", n, size=size, sharing=sharing) for n in streams for sharing in (False, True)]


def _gain(data: Data) -> Figures:
    found: dict[str, list[float]] = {"memory": [], "work": []}
    for _, part in data.split("streams"):
        for name, measure in (("memory", peak), ("work", work)):
            found[name].append(round(measure(part.where(sharing=False)) / measure(part.where(sharing=True)), 2))
    return {"streams": data.each("streams"), **found}


def _judge(figures: Figures) -> Finding:
    most = {name: max(figures[name]) for name in ("memory", "work")}
    why = f"up to {most['memory']:.2f} times less memory and {most['work']:.2f} times less work"
    largest = max(most.values())
    return found(1.6 <= largest <= 2.4, why, other=largest > 1.1)


def _never_worse(figures: Figures) -> Finding:
    least = min(*figures["memory"], *figures["work"])
    return found(least >= 1.0, f"without sharing it costs {least:.2f} to {max(figures['work']):.2f} times as much")


def _draw(data: Data, figure: Any) -> None:
    groups = [str(n) for n in data.each("streams")]
    for place, (measure, title, unit) in enumerate(
        ((peak, "Memory", "peak tuples held"), (work, "CPU", "work in a window (evaluations)")), 1
    ):
        axes = panel(figure, (1, 2, place), title, "number of streams n", unit, "y")
        series = {
            label: [measure(part.where(sharing=sharing)) for _, part in data.split("streams")]
            for sharing, label in ((False, "HybMig without sharing"), (True, "HybMig with sharing"))
        }
        bars(axes, groups, series)
    legend(figure, axes)


STUDY = Study(
    name="hybmig-20",
    paper="HybMig",
    figure="Figure 20",
    title="Subquery sharing",
    about="The new plan joins the last two streams first and all others as the old plan does, which both plans then "
    "compute once. Sizes as in Figure 19.",
    lesson="Leave sharing on: where plans have joins in common it saves memory and work, and it costs nothing.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("Sharing improves performance up to a factor of 2.", _gain, _judge,
              {"streams": [4], "memory": [1.0], "work": [1.05]}),
        Claim("Sharing never costs anything.", _gain, _never_worse,
              {"streams": [4], "memory": [1.0], "work": [0.8]}),
    ),
    size=(7.4, 3.6),
)  # fmt: skip

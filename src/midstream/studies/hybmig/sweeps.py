"""Figures 17 to 19 of HybMig: peak memory and work of migrations by window, stream rate and number of streams."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import COLORS, legend, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.hybmig.migration import MS, PAPER, PT, case, costs, sweep_size
from midstream.studies.hybmig.overhead import memory

WAYS = (MS, PT, PAPER)
PLANS = ("right-deep", "bushy")
TABLE3: dict[str, Sequence[float]] = {
    "minutes": (1, 2, 3, 4, 5),
    "rate": (0.4, 0.7, 1.0, 1.3, 1.6),
    "streams": (4, 5, 6, 7),
}
QUICK: dict[str, Sequence[float]] = {"minutes": (1, 3, 4), "rate": (0.4, 1.0, 1.3), "streams": (4, 6)}
LABEL = {"minutes": "window w (min)", "rate": "stream rate (rows/s)", "streams": "number of streams n"}


def _cases(name: str, scale: Scale) -> list[Case]:
    values = (QUICK if scale.quick else TABLE3)[name]
    size = sweep_size(scale)
    asked: list[dict[str, Any]] = [{name: value} for value in values]
    return [case(way, plan, size=size, **more) for more in asked for plan in PLANS for way in WAYS]


def peak(data: Data) -> float:
    """Return the most tuples that are held while a migration lasts, which is a window at most."""
    return float(memory(data)[: data.value("window_s")].max())


def work(data: Data) -> float:
    """Return what a window from the switch on costs."""
    return float(costs(data)[: data.value("window_s")].sum() + data.value("switch_cost"))


def _ratios(name: str, what: str) -> Any:
    measure = {"memory": peak, "work": work}[what]

    def figures(data: Data) -> Figures:
        found: dict[str, Any] = {}
        for plan in PLANS:
            part = data.where(plan=plan)
            own = [measure(part.where(way=PAPER, **{name: v})) for v in part.each(name)]
            found[plan] = {
                way: [
                    round(measure(part.where(way=way, **{name: v})) / o, 2)
                    for v, o in zip(part.each(name), own, strict=True)
                ]
                for way in (MS, PT)
            }
        return {name: data.each(name), "times_hybmig": found}

    return figures


def _judge(figures: Figures, what: str) -> Finding:
    ratios = [r for ways in figures["times_hybmig"].values() for values in ways.values() for r in values]
    worse = sum(r <= 1 for r in ratios)
    middle = float(np.median(ratios))
    why = f"MS and PT need {min(ratios):.1f} to {max(ratios):.0f} times HybMig's {what}, {middle:.1f} in the middle" + (
        f"; in {worse} of {len(ratios)} comparisons they need less" if worse else ""
    )
    return found(not worse and middle >= 2, why, other=worse <= len(ratios) // 4 and middle > 1.2)


def _claims(name: str) -> tuple[Claim, ...]:
    broken = {name: [1, 2], "times_hybmig": {"right-deep": {MS: [0.9, 0.8], PT: [1.2, 0.5]}}}
    return tuple(
        Claim(
            f"HybMig outperforms MS and PT by a wide margin in {what} at every {LABEL[name]}, to both new plans.",
            _ratios(name, kind),
            lambda figures, what=what: _judge(figures, what),  # type: ignore[misc]
            broken,
        )
        for kind, what in (("memory", "peak memory"), ("work", "CPU cost"))
    )


def _draw(name: str, data: Data, figure: Any) -> None:
    values = data.each(name)
    for place, (measure, title, unit) in enumerate(
        ((peak, "Memory", "peak tuples held"), (work, "CPU", "work in a window (evaluations)")), 1
    ):
        axes = panel(figure, (1, 2, place), title, LABEL[name], unit, "y")
        for k, way in enumerate(WAYS):
            for plan in PLANS:
                heights = [measure(data.where(way=way, plan=plan, **{name: v})) for v in values]
                at = np.arange(len(values)) + (k - 1) * 0.27
                if plan == "right-deep":
                    axes.bar(at, heights, 0.25, color=COLORS[k], label=f"{way}, right-deep")
                else:
                    axes.plot(at, heights, color=COLORS[k], marker="o", markersize=4, markeredgecolor="white",
                              label=f"{way}, bushy")  # fmt: skip
        axes.set_xticks(range(len(values)), [f"{v:g}" for v in values])
    legend(figure, axes)


def _study(name: str, number: int, by: str, lesson: str) -> Study:
    return Study(
        name=f"hybmig-{number}",
        paper="HybMig",
        figure=f"Figure {number}, Tables 3 and 4",
        title=f"Memory and CPU of migrations by {by}",
        about="The other parameters have the defaults of Table 3 (3 minutes, 1 row/s, 6 streams); plans are those of "
        "Table 4. At full scale windows and the number of values are a quarter of the paper's, so that a row finds as "
        "many partners.",
        lesson=lesson,
        cases=lambda scale: _cases(name, scale),
        draw=lambda data, figure: _draw(name, data, figure),
        claims=_claims(name),
        size=(7.8, 4.2),
    )


WINDOW = _study("minutes", 17, "window", "The larger the window, the more hybrid saves against both others.")
RATE = _study("rate", 18, "stream rate", "Costs grow with about the sixth power of the rate; hybrid stays below.")
STREAMS = _study("streams", 19, "number of streams", "Each further stream multiplies costs; hybrid's the least.")

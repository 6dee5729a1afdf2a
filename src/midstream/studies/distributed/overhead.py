"""Fig. 5: what modifying plans and migrating to them takes, by each update."""

from typing import Any

from midstream.studies.distributed.runs import CENTRAL, COUNTS, FALLS, RISES, SPREAD, cases, of_phase
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import COLORS, legend, panel
from midstream.studies.frame.study import Claim, Figures, Finding, Study, found

PARTS = {"modification_s": "plan modification", "migration_s": "plan migration"}
SHORT = {CENTRAL: "CNU", SPREAD: "DNU"}
FACTORS = {4: (1.4, 2.5), 8: (2.1, 2.7)}
"""The paper's factors of the overhead with the distributed update over that with the centralized one."""


def _seconds(data: Data) -> Figures:
    out: dict[str, Any] = {}
    for n in COUNTS:
        for u in SHORT:
            for way, phases in (("rises", RISES), ("falls", FALLS)):
                for part in PARTS:
                    values = of_phase(data, part, n, u, phases)
                    out.setdefault(f"{n} sites", {}).setdefault(u, {})[f"{way}, {part}"] = [round(v, 6) for v in values]
    return out


def _whole(costs: Figures, way: str) -> float:
    return float(sum(costs[f"{way}, {part}"][0] for part in PARTS))


def _factor(count: int) -> Any:
    low, high = FACTORS[count]

    def judge(figures: Figures) -> Finding:
        mine = figures[f"{count} sites"]
        factors = {way: _whole(mine[SPREAD], way) / _whole(mine[CENTRAL], way) for way in ("rises", "falls")}
        return found(
            all(low <= f <= high for f in factors.values()),
            f"{factors['rises']:.2f} times when the rate rises, {factors['falls']:.2f} when it falls; the paper has "
            f"{low} to {high}",
            other=all(1 < f <= 2 * high for f in factors.values()),
        )

    return judge


def _compared(better: str, pairs: Any) -> Any:
    """Judge that in each pair (its name, two numbers) the first is larger."""

    def judge(figures: Figures) -> Finding:
        given = {name: (a, b) for name, a, b in pairs(figures)}
        right = [a > b for a, b in given.values()]
        told = "; ".join(f"{name} {a * 1e3:.0f} and {b * 1e3:.0f} ms" for name, (a, b) in given.items())
        return found(all(right), f"{better}: {told}", other=sum(right) > len(right) / 2)

    return judge


def _of_sizes(figures: Figures) -> Any:
    for u, short in SHORT.items():
        for way in ("rises", "falls"):
            key = f"{way}, modification_s"
            yield f"{short} {way}", figures["8 sites"][u][key][0], figures["4 sites"][u][key][0]


def _of_ways(figures: Figures) -> Any:
    for n in COUNTS:
        for u, short in SHORT.items():
            mine = figures[f"{n} sites"][u]
            yield f"{short}, {n} sites", mine["rises, modification_s"][0], mine["falls, modification_s"][0]


def _of_updates(part: str, *counts: int) -> Any:
    def pairs(figures: Figures) -> Any:
        for n in counts:
            mine = figures[f"{n} sites"]
            for way in ("rises", "falls"):
                yield f"{n} sites, {way}", mine[SPREAD][f"{way}, {part}"][0], mine[CENTRAL][f"{way}, {part}"][0]

    return pairs


def _less_with_eight(figures: Figures) -> Any:
    for name, spread, central in _of_updates("migration_s", 8)(figures):
        yield name, central, spread


def _repeats(figures: Figures) -> Finding:
    apart = [
        max(values) / min(values) - 1
        for by in figures.values() for costs in by.values() for values in costs.values() if len(values) > 1
    ]  # fmt: skip
    return found(
        bool(apart) and max(apart) <= 0.25,
        f"the second rise and fall differ from the first ones by at most {max(apart):.0%}",
        other=max(apart) <= 1.0,
    )


def _draw(data: Data, figure: Any) -> None:
    for place, count in enumerate(COUNTS):
        axes = panel(
            figure, (1, 2, place + 1), f"({'ab'[place]}) {count}-way join", "change of the rate", "overhead (s)"
        )
        names, at = [], 0.0
        for phase in (p for p in (1, 2, 3, 4) if p in data.each("phase")):
            for u, short in SHORT.items():
                below = 0.0
                for number, (part, label) in enumerate(PARTS.items()):
                    (value,) = of_phase(data, part, count, u, (phase,))
                    axes.bar(at, value, 0.85, bottom=below, color=COLORS[number], label=label if not at else None)
                    below += value
                names.append((at, f"{short}\n{'rise' if phase in RISES else 'fall'}"))
                at += 1
            at += 0.5
        axes.set_xticks([x for x, _ in names], [name for _, name in names], fontsize=7)
        axes.grid(False, axis="x")
    legend(figure, figure.axes[0])


_BROKEN: Figures = {
    f"{n} sites": {u: {f"{way}, {part}": [1.0, 9.0] for way in ("rises", "falls") for part in PARTS} for u in SHORT}
    for n in COUNTS
}
"""Everything costs the same, and the second time nine times as much."""
STUDY = Study(
    name="distributed-overhead",
    paper="Distributed joins",
    figure="Figure 5",
    title="Overhead of modifying and migrating plans",
    about="The runs of Figure 4. Overhead is the time on links of all messages that modify the plan (reports, operator "
    "sets, visits along the sequences) and of those that migrate it (window requests, windows, the two phases).",
    lesson="A central site that knows everything modifies a plan with a message a site. Without one it costs two to "
    "three times as much; choose it where no site may be central.",
    cases=cases,
    draw=_draw,
    claims=(
        Claim("With four sites the distributed update costs 1.4 to 2.5 times the centralized one.",
              _seconds, _factor(4), _BROKEN),
        Claim("With eight sites it costs 2.1 to 2.7 times the centralized one.", _seconds, _factor(8), _BROKEN),
        Claim("Plan modification costs significantly more with eight sites than with four.",
              _seconds, _compared("eight and four sites", _of_sizes), _BROKEN),
        Claim("Plan modification costs more when the rate rises than when it falls.",
              _seconds, _compared("rises and falls", _of_ways), _BROKEN),
        Claim("Plan modification costs more with the distributed update than with the centralized one.",
              _seconds, _compared("distributed and centralized", _of_updates("modification_s", 4, 8)), _BROKEN),
        Claim("With four sites plan migration costs more with the distributed update.",
              _seconds, _compared("distributed and centralized", _of_updates("migration_s", 4)), _BROKEN),
        Claim("With eight sites plan migration costs less with the distributed update.",
              _seconds, _compared("centralized and distributed", _less_with_eight), _BROKEN),
        Claim("The same changes of the rate cost the same again.", _seconds, _repeats, _BROKEN),
    ),
    size=(7.6, 3.6),
)  # fmt: skip

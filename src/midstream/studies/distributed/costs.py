"""Fig. 4: what joins over sites cost while a rate goes up and down, by plans that follow and one that stays."""

from typing import Any

from midstream.studies.distributed.runs import (
    CENTRAL,
    COUNTS,
    LABELS,
    SETTLED_BINS,
    SPREAD,
    STAYS,
    cases,
    mean_cost,
)
from midstream.studies.distributed.streams import FIRST_CHANGE_US, PHASE_US
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.study import Claim, Figures, Finding, Study, found

SAME, CLEARLY = 0.02, 0.1


def _by_phase(phase: int, last: int | None = None) -> Any:
    def read(data: Data) -> Figures:
        return {f"{n} sites": {u: mean_cost(data, n, u, phase, last) for u in LABELS} for n in COUNTS}

    return read


def _apart(costs: Figures, update: str, to: str = STAYS) -> float:
    return float(costs[update] / costs[to] - 1)


def _same(figures: Figures, when: str) -> Finding:
    apart = {f"{n}, {u}": _apart(costs, u) for n, costs in figures.items() for u in (CENTRAL, SPREAD)}
    worst = max(apart, key=lambda name: abs(apart[name]))
    close = min(abs(a) for a in apart.values())
    return found(
        abs(apart[worst]) <= SAME,
        f"{when} costs differ by at most {abs(apart[worst]):.1%} ({worst}: {apart[worst]:+.1%})",
        other=close <= SAME,
    )


def _rises(data: Data) -> Figures:
    whole, settled = _by_phase(1)(data), _by_phase(1, SETTLED_BINS)(data)
    return {"whole phase": whole, "its last second": settled}


def _follows(figures: Figures) -> Finding:
    saved = {
        span: {f"{n}, {u}": -_apart(costs, u) for n, costs in by.items() for u in (CENTRAL, SPREAD)}
        for span, by in figures.items()
    }
    whole, settled = saved["whole phase"], saved["its last second"]
    least = min(whole, key=lambda name: whole[name])
    return found(
        min(whole.values()) >= CLEARLY and min(settled.values()) >= CLEARLY,
        f"over two seconds after the rise plans that follow save {min(whole.values()):.0%} to {max(whole.values()):.0%}"
        f" (least: {least}), moving windows included; in the last of them {min(settled.values()):.0%} to "
        f"{max(settled.values()):.0%}",
        other=min(settled.values()) >= CLEARLY,
    )


LAST_BINS = 2
"""By then windows have moved with either update."""


def _updates_agree(data: Data) -> Figures:
    ends = {f"{n} sites, end of phase {p}": {u: mean_cost(data, n, u, p, LAST_BINS) for u in LABELS}
            for n in COUNTS for p in (1, 2)}  # fmt: skip
    whole = {f"{n} sites": {u: round(float(data.where(count=n, update=u)["cost"].mean()), 4) for u in LABELS}
             for n in COUNTS}  # fmt: skip
    return {"ends of phases": ends, "whole run": whole}


def _agree(figures: Figures) -> Finding:
    ends = max(abs(_apart(costs, SPREAD, CENTRAL)) for costs in figures["ends of phases"].values())
    whole = {name: _apart(costs, SPREAD, CENTRAL) for name, costs in figures["whole run"].items()}
    told = ", ".join(f"{name} {apart:+.1%}" for name, apart in whole.items())
    return found(
        ends <= SAME and all(abs(w) <= 0.05 for w in whole.values()),
        f"once windows have moved costs differ by at most {ends:.1%}: the plans are the same. Over the whole run the "
        f"distributed update costs: {told}, since it takes longer",
        other=ends <= SAME,
    )


def _spikes(data: Data) -> Figures:
    out: dict[str, Any] = {}
    for n in COUNTS:
        for u in LABELS:
            costs = data.where(count=n, update=u, phase=2)["cost"]
            after = float(costs[SETTLED_BINS:].mean())
            out.setdefault(f"{n} sites", {})[u] = round(float(costs[:SETTLED_BINS].max()) / after, 4)
    return out


def _spike(figures: Figures) -> Finding:
    four = figures["4 sites"]
    why = f"highest interval after the fall over what follows, 4 sites: {_listed(four)}"
    return found(four[CENTRAL] > 1 + CLEARLY and four[SPREAD] > 1 + CLEARLY, why)


def _spike_spread(figures: Figures) -> Finding:
    four, eight = figures["4 sites"], figures["8 sites"]
    why = f"4 sites {_listed(four)}; 8 sites {_listed(eight)}. Here nodes go to the new plan at once and no other is "
    why += "in use before, and the centralized update copies windows sooner, when they hold more rows of the high rate"
    return found(
        four[SPREAD] > four[CENTRAL] and eight[SPREAD] > eight[CENTRAL], why, other=eight[SPREAD] > eight[CENTRAL]
    )


def _spike_small(figures: Figures) -> Finding:
    four, eight = figures["4 sites"], figures["8 sites"]
    less = [eight[u] < four[u] for u in (CENTRAL, SPREAD)]
    return found(all(less), f"4 sites {_listed(four)}; 8 sites {_listed(eight)}", other=any(less))


def _listed(values: Figures) -> str:
    return ", ".join(f"{LABELS[u]} {v:.2f}" for u, v in values.items())  # type: ignore[index]


def _sizes(data: Data) -> Figures:
    return {
        "mean": {f"{n} sites": round(float(data.where(count=n, update=STAYS)["cost"].mean()), 4) for n in COUNTS},
        "deviation": {f"{n} sites": round(float(data.where(count=n, update=CENTRAL)["cost"].std()), 4) for n in COUNTS},
    }


def _larger(figures: Figures) -> Finding:
    mean, deviation = figures["mean"], figures["deviation"]
    return found(
        mean["8 sites"] > mean["4 sites"] and deviation["8 sites"] > deviation["4 sites"],
        f"mean cost {mean['4 sites']:.2f} with four and {mean['8 sites']:.2f} with eight sites, standard deviation "
        f"{deviation['4 sites']:.2f} and {deviation['8 sites']:.2f}",
    )


def _draw(data: Data, figure: Any) -> None:
    for place, count in enumerate(COUNTS):
        axes = panel(figure, (1, 2, place + 1), f"({'ab'[place]}) {count}-way join", "time (s)", "cost (s per second)")
        for number, (update, label) in enumerate(LABELS.items()):
            mine = data.where(count=count, update=update)
            line(axes, number, mine["time_s"], mine["cost"], label)
        for change in range(FIRST_CHANGE_US, round(max(data["time_s"]) * 1e6), PHASE_US):
            axes.axvline(change / 1e6, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_ylim(bottom=0)
    legend(figure, axes)


STUDY = Study(
    name="distributed-costs",
    paper="Distributed joins",
    figure="Figure 4",
    title="Plans that follow the rate of a stream",
    about="Four and eight streams of 150-byte rows, one a site, 100 rows per second, selectivity 0.01, windows of "
    "500 ms, links of 5 ms and 1,024 kbit/s, simulated. One stream goes from 50 to 200 rows per second at 1.6 s (the "
    "paper: 1.5 s) and back every two seconds. Cost is what sending, keeping and probing take, per second, over all "
    "sites; messages about plans are in Figure 5.",
    lesson="Following the rates saves about a third once windows have moved. Centralized updates have moved them after "
    "some hundred milliseconds; with eight sites distributed ones take most of two seconds, so that rates have to stay "
    "for longer than that.",
    cases=cases,
    draw=_draw,
    claims=(
        Claim(
            "At first adaptive and non-adaptive processing use the same plan and cost the same.",
            _by_phase(0), lambda f: _same(f, "before the first change"),
            {"4 sites": {STAYS: 1.0, CENTRAL: 1.2, SPREAD: 1.3}},
        ),
        Claim(
            "When the rate rises the cost of the plan that stays increases by a much larger margin.",
            _rises, _follows,
            {"whole phase": {"4 sites": {STAYS: 2.0, CENTRAL: 2.0, SPREAD: 2.1}},
             "its last second": {"4 sites": {STAYS: 2.0, CENTRAL: 1.99, SPREAD: 2.0}}},
        ),
        Claim(
            "When the rate falls adaptive processing goes back to the first plan and costs the same again.",
            _by_phase(2, SETTLED_BINS), lambda f: _same(f, "a second after the rate fell"),
            {"8 sites": {STAYS: 1.0, CENTRAL: 0.9, SPREAD: 0.8}},
        ),
        Claim(
            "There is hardly any difference between the two updates: they produce identical plans.",
            _updates_agree, _agree,
            {"ends of phases": {"4 sites": {STAYS: 1.0, CENTRAL: 1.0, SPREAD: 1.2}},
             "whole run": {"4 sites": {STAYS: 1.0, CENTRAL: 1.0, SPREAD: 1.2}}},
        ),
        Claim(
            "With four sites the cost has a spike when the rate falls.",
            _spikes, _spike, {"4 sites": {STAYS: 1.0, CENTRAL: 1.0, SPREAD: 1.0}},
        ),
        Claim(
            "The spike is higher with the distributed update.",
            _spikes, _spike_spread,
            {"4 sites": {STAYS: 1.0, CENTRAL: 1.5, SPREAD: 1.2}, "8 sites": {STAYS: 1.0, CENTRAL: 1.5, SPREAD: 1.2}},
        ),
        Claim(
            "The spike is less visible with eight sites.",
            _spikes, _spike_small,
            {"4 sites": {STAYS: 1.0, CENTRAL: 1.2, SPREAD: 1.2}, "8 sites": {STAYS: 1.0, CENTRAL: 1.5, SPREAD: 1.4}},
        ),
        Claim(
            "A join of eight streams costs more than one of four, and its cost fluctuates more.",
            _sizes, _larger,
            {"mean": {"4 sites": 2.0, "8 sites": 1.5}, "deviation": {"4 sites": 0.2, "8 sites": 0.1}},
        ),
    ),
    size=(7.6, 3.6),
)  # fmt: skip

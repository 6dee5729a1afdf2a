"""Table 3: messages for modifying plans and migrating to them."""

from collections.abc import Sequence
from math import log2
from typing import Any

from midstream.studies.distributed.runs import CENTRAL, COUNTS, FALLS, RISES, SPREAD, cases, of_phase
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import bars, panel
from midstream.studies.frame.study import Claim, Figures, Finding, Study, found

KINDS = ("modification", "migration", "synchronization")
WAYS = {"rises": RISES, "falls": FALLS}
PAPER = {
    "4 sites, centralized, rises": (4, 34, 24), "4 sites, centralized, falls": (4, 27, 24),
    "4 sites, distributed, rises": (65, 61, 44), "4 sites, distributed, falls": (59, 55, 32),
    "8 sites, centralized, rises": (8, 131, 112), "8 sites, centralized, falls": (8, 115, 112),
    "8 sites, distributed, rises": (561, 181, 152), "8 sites, distributed, falls": (283, 83, 48),
}  # fmt: skip
"""Table 3: messages of modification, of migration (window requests and synchronization), of synchronization."""

ONCE = (
    ". Here windows move once, when all sequences are in order; the paper's move, and nodes synchronize, at every swap"
)
TOGETHER = (
    ". What a place has decided goes to its neighbour and to the node that executes the join in one message where "
    "these are one node; and ties stand in FROM order, so that both updates end with the same plan"
)


def _messages(data: Data, second: bool = False) -> Figures:
    out = {}
    for n in COUNTS:
        for u in (CENTRAL, SPREAD):
            for way, phases in WAYS.items():
                chosen = phases[1:] if second else phases[:1]
                parts = [of_phase(data, w, n, u, chosen) for w in ("modification", "requests", "synchronization")]
                if all(parts):
                    modified, asked, synchronized = (int(p[0]) for p in parts)
                    out[f"{n} sites, {u}, {way}"] = [modified, asked + synchronized, synchronized]
    return out


def _exact(place: int, update: str, because: str = "") -> Any:
    """Judge that counts are those that the paper prints."""

    def judge(figures: Figures) -> Finding:
        pairs = {name: (figures[name][place], PAPER[name][place]) for name in PAPER if update in name}
        told = "; ".join(
            f"{name.replace(f', {update}', '')} {mine} (paper {paper})" for name, (mine, paper) in pairs.items()
        )
        near = all(paper / 2 <= mine <= paper * 2 for mine, paper in pairs.values())
        return found(all(mine == paper for mine, paper in pairs.values()), told + because, other=near)

    return judge


def _growth(figures: Figures) -> Finding:
    powers = {
        way: log2(figures[f"8 sites, distributed, {way}"][0] / figures[f"4 sites, distributed, {way}"][0])
        for way in WAYS
    }
    central = [figures[f"{n} sites, centralized, {way}"][0] / n for n in COUNTS for way in WAYS]
    return found(
        all(2.5 <= p <= 3.5 for p in powers.values()) and set(central) == {1.0},
        f"from four to eight sites messages of the distributed update grow with power {powers['rises']:.2f} (rises) "
        f"and {powers['falls']:.2f} (falls); the paper's with {log2(561 / 65):.2f} and {log2(283 / 59):.2f}",
        other=all(p > 1.5 for p in powers.values()),
    )


def _repeated(data: Data) -> Figures:
    first, again = _messages(data), _messages(data, second=True)
    changed = {name: again[name] for name in again if again[name] != first[name]}
    by = [abs(a - b) / b for name in changed for a, b in zip(changed[name], first[name], strict=True)]
    return {"changed": list(changed), "compared": len(again), "by": round(max(by, default=0.0), 4)}


def _repeats(figures: Figures) -> Finding:
    changed = ", ".join(figures["changed"]) or "none"
    return found(
        figures["compared"] == len(PAPER) and not figures["changed"],
        f"of {figures['compared']} counts these were others when the rate rose and fell again: {changed}; by "
        f"{figures['by']:.1%} at most. What sites measure of their rows differs a little, and so do ties",
        other=figures["compared"] == len(PAPER) and figures["by"] <= 0.02,
    )


def _draw(data: Data, figure: Any) -> None:
    found_now = _messages(data)
    for place, kind in enumerate(KINDS):
        axes = panel(figure, (1, 3, place + 1), kind, "sites, update, rate", "messages", "" if place else "y")
        names = [n.replace(" sites, centralized,", " CNU").replace(" sites, distributed,", " DNU") for n in PAPER]
        series: dict[str, Sequence[float]] = {
            "here": [found_now[n][place] for n in PAPER],
            "paper": [PAPER[n][place] for n in PAPER],
        }
        bars(axes, names, series)
        axes.tick_params(axis="x", labelrotation=90, labelsize=7)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)


_BROKEN: Figures = {name: [1000, 1000, 1000] for name in PAPER}
STUDY = Study(
    name="distributed-messages",
    paper="Distributed joins",
    figure="Table 3",
    title="Messages of modification, migration and synchronization",
    about="The runs of Figure 4. Migration is window requests and synchronization, as in the paper. Not counted: "
    "asking for a turn, of which the paper has nothing.",
    lesson="A central update takes one message a site, a distributed one some n cubed; both synchronize with "
    "2n(n - 1).",
    cases=cases,
    draw=_draw,
    claims=(
        Claim("The centralized update modifies a plan with n messages: 4 and 8.",
              _messages, _exact(0, CENTRAL), _BROKEN),
        Claim("Its two-phase synchronization takes 2n(n - 1) messages: 24 and 112.",
              _messages, _exact(2, CENTRAL), _BROKEN),
        Claim("Its migration takes 34, 27, 131 and 115 messages.",
              _messages, _exact(1, CENTRAL), _BROKEN),
        Claim("The distributed update modifies a plan with 65, 59, 561 and 283 messages.",
              _messages, _exact(0, SPREAD, TOGETHER), _BROKEN),
        Claim("Its migration takes 61, 55, 181 and 83 messages.", _messages, _exact(1, SPREAD, ONCE), _BROKEN),
        Claim("The distributed update needs O(n^3) messages, the centralized one O(n).", _messages, _growth, _BROKEN),
        Claim("The measured numbers do not change through repetitions.", _repeated, _repeats,
              {"changed": ["4 sites, centralized, rises"], "compared": 8, "by": 0.5}),
    ),
    size=(8.4, 4.2),
)  # fmt: skip

"""Figs. 7.1 and 7.2: a join and a difference in all four modes, the hop from a tenth of the window to all of it.

rows ──▶ the operator in four modes, hop by hop ──▶ what each looked at and gave ──▶ cost by both models
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from midstream.local.measure import Case as Measured
from midstream.local.measure import measure
from midstream.optimize.hopping.cost import Constants
from midstream.plan.modes import CICO, CIDO, DICO, DIDO, MODES
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found
from midstream.studies.multimode.thesis import THESIS

RATIOS = tuple(k / 10 for k in range(1, 11))
FEW_RATIOS = (0.1, 0.3, 0.5, 0.8, 1.0)
"""Of a quick run."""
ROWS, PARTNERS, SEED = 40_000, 2, 1
"""Rows in a window, and how many of the other stream have the same key."""
JOIN, DIFFERENCE = "join", "difference"
PAPER = {JOIN: 0.34, DIFFERENCE: 0.40}
"""What the thesis saves by complete input where windows do not overlap."""


def run_modes(operator: str, ratio: float, rows: int) -> Columns:
    """Run an operator in all modes; return what each costs per hop, in nanoseconds and as the thesis counts."""
    case = Measured(operator, ratio, rows, rows // PARTNERS)
    seen = measure(case, SEED, turns=2)
    thesis = THESIS[operator](rows, round(ratio * rows), PARTNERS / rows)
    return {
        "mode": [s.mode for s in seen],
        "thesis": [round(thesis[s.mode], 3) for s in seen],
        "model_ms": [round(s.expected(Constants()).total / 1e6, 6) for s in seen],
        "looked_at": [round(s.tested, 3) for s in seen],
        "wall_ms": [s.ns / 1e6 for s in seen],
    }


def _cases(operator: str) -> Callable[[Scale], list[Case]]:
    def cases(scale: Scale) -> list[Case]:
        rows = scale.of(ROWS, least=4_000)
        ratios = FEW_RATIOS if scale.quick else RATIOS
        return [Case(run_modes, {"operator": operator, "ratio": r, "rows": rows}) for r in ratios]

    return cases


def _costs(*names: str) -> Callable[[Data], Figures]:
    """Read costs by kind and mode: a list over the ratios."""

    def figures(data: Data) -> Figures:
        ratios = data.each("ratio")
        out: dict[str, Any] = {"ratios": ratios}
        for name in names:
            out[name] = {m: [data.value(name, mode=m, ratio=r) for r in ratios] for m in MODES}
        return out

    return figures


def _order(figures: Figures) -> Finding:
    orders = {k: sorted(MODES, key=lambda m: figures[k][m][0]) for k in ("thesis", "model_ms")}
    told = f"at 10 % by the thesis's model {', '.join(orders['thesis'])}; by ours {', '.join(orders['model_ms'])}"
    wanted = [DIDO, DICO, CICO, CIDO]
    return found(all(o == wanted for o in orders.values()), told,
                 other=all(o[0] == DIDO and o.index(CICO) < o.index(CIDO) for o in orders.values()))  # fmt: skip


def _advantage(costs: Figures) -> list[float]:
    """Return how many times as much complete input costs as deltas, over the ratios."""
    return [c / d for c, d in zip(costs[CICO], costs[DIDO], strict=True)]


def _gains(figures: Figures) -> Finding:
    advantage = {k: _advantage(figures[k]) for k in ("thesis", "model_ms")}
    falls = {k: all(b <= a * 1.001 for a, b in pairwise(v)) for k, v in advantage.items()}
    ends = {k: (v[0], v[-1]) for k, v in advantage.items()}
    told = "; ".join(f"{name} {ends[k][0]:.2f} at 10 %, {ends[k][1]:.2f} at 100 %"
                     for name, k in (("the thesis's model", "thesis"), ("ours", "model_ms")))  # fmt: skip
    return found(all(falls.values()) and all(b < 1 < a for a, b in ends.values()), f"CICO over DIDO: {told}",
                 other=all(b < 1 < a for a, b in ends.values()))  # fmt: skip


def crossing(ratios: list[float], advantage: list[float]) -> float | None:
    """Return the ratio from which on complete input is cheaper.

    >>> round(crossing([0.1, 0.2, 0.3], [2.0, 1.2, 0.8]), 2)
    0.25
    """
    for (r, a), (s, b) in zip(
        zip(ratios, advantage, strict=True), zip(ratios[1:], advantage[1:], strict=True), strict=False
    ):
        if a > 1 >= b:
            return r + (s - r) * (a - 1) / (a - b)
    return None


def _cross(figures: Figures) -> Finding:
    at = {k: crossing(figures["ratios"], _advantage(figures[k])) for k in ("thesis", "model_ms")}
    told = {k: "nowhere" if x is None else f"{x:.0%}" for k, x in at.items()}
    return found(all(x is not None and 0.1 < x < 1 for x in at.values()),
                 f"the curves cross at a hop of {told['thesis']} of the window by the thesis's model, "
                 f"{told['model_ms']} by ours", other=any(x is not None for x in at.values()))  # fmt: skip


def _saved(operator: str, kind: str) -> Callable[[Figures], Finding]:
    paper = PAPER[operator]

    def judge(figures: Figures) -> Finding:
        saved = 1 - figures[kind][CICO][-1] / figures[kind][DIDO][-1]
        return found(abs(saved - paper) <= 0.05,
                     f"CICO saves {saved:.0%} of DIDO at 100 %, the thesis up to {paper:.0%}",
                     other=saved > 0.05)  # fmt: skip

    return judge


def _measured(figures: Figures) -> Finding:
    wall = figures["wall_ms"]
    small, large = wall[DIDO][0] < wall[CICO][0], wall[CICO][-1] < wall[DIDO][-1]
    return found(small and large, f"DIDO {wall[DIDO][0]:.2f} and CICO {wall[CICO][0]:.2f} ms a hop at 10 %, "
                 f"{wall[DIDO][-1]:.2f} and {wall[CICO][-1]:.2f} ms at 100 % on this machine",
                 other=small or large)  # fmt: skip


def _draw(data: Data, figure: Any) -> None:
    kinds = {"thesis": ("(a) the thesis's model", "steps per hop"), "model_ms": ("(b) our model", "ms per hop"),
             "wall_ms": ("(c) measured on this machine", "ms per hop")}  # fmt: skip
    for place, (kind, (title, y)) in enumerate(kinds.items()):
        axes = panel(figure, (1, 3, place + 1), title, "hop / window (%)", y)
        for number, mode in enumerate(MODES):
            ratios = data.each("ratio")
            costs = [data.value(kind, mode=mode, ratio=r) for r in ratios]
            line(axes, number, [100 * r for r in ratios], costs, mode)
        axes.set_ylim(bottom=0)
    legend(figure, axes)


def _like(didos: list[float], cicos: list[float], names: tuple[str, ...] = ("thesis", "model_ms")) -> Figures:
    """Return figures with these costs of two modes at 10, 50 and 100 %, the others in between."""
    costs = {DIDO: didos, DICO: didos, CICO: cicos, CIDO: cicos}
    return {"ratios": [0.1, 0.5, 1.0], **dict.fromkeys(names, costs)}


def _study(operator: str, name: str, figure: str, title: str, lesson: str) -> Study:
    models = _costs("thesis", "model_ms")
    return Study(
        name=name,
        paper="Multi-mode hopping",
        figure=figure,
        title=title,
        about=f"One {operator} over two streams, windows of {ROWS:,} rows, keys drawn evenly, each with {PARTNERS} "
        "rows of the other stream; the hop is 10 to 100 % of the window. The thesis's cost model stands beside ours, "
        "with what operators were seen to give, and beside measured time.",
        lesson=lesson,
        cases=_cases(operator),
        draw=_draw,
        claims=(
            Claim("At small hops DIDO is cheapest, then DICO, CICO and CIDO.", models, _order,
                  _like([9.0, 9, 9], [1.0, 1, 1])),
            Claim("The larger the hop, the more advantage complete input has.", models, _gains,
                  _like([1.0, 1, 1], [2.0, 3, 4])),
            Claim("The curves of DIDO and CICO cross.", models, _cross, _like([1.0, 1, 1], [2.0, 2, 2])),
            Claim(f"Without overlap CICO saves up to {PAPER[operator]:.0%} of DIDO.", _costs("model_ms"),
                  _saved(operator, "model_ms"), _like([1.0, 1, 1], [2.0, 2, 2], ("model_ms",))),
            Claim("Measured: DIDO is faster at 10 %, CICO at 100 % (time of this machine).", _costs("wall_ms"),
                  _measured, _like([2.0, 1, 1], [1.0, 2, 2], ("wall_ms",))),
        ),
        size=(8.2, 3.4),
    )  # fmt: skip


JOINS = _study(
    JOIN, "multimode-join", "Figure 7.1", "A join in four modes",
    "Deltas up to a hop of about half a window, complete input beyond; avoid converting complete input to deltas.",
)  # fmt: skip
DIFFERENCES = _study(
    DIFFERENCE, "multimode-difference", "Figure 7.2", "A difference in four modes",
    "A difference changes over to complete input sooner than a join: its deltas take back what was decided.",
)  # fmt: skip

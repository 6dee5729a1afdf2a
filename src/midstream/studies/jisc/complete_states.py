"""Propositions 1 to 3 of JISC: how many states are complete after two streams of a left-deep plan change places.

positions i < j with probability proportional to 1 / (j - i) ──▶ two plans ──▶ states that both have, counted
"""

from typing import Any

import numpy as np

from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
DRAWS = 40_000
COUNTED_SIZES = (5, 10, 20)
"""Operators of the plans whose states are compared set by set; beyond, the states between both places are missing."""
NEAR = 0.08


def harmonic(n: int) -> float:
    """Return the sum of 1/r up to n.

    >>> harmonic(2)
    1.5
    """
    return float((1.0 / np.arange(1, n + 1)).sum())


def expected(n: int) -> float:
    """Return E[C_n] by the paper's formula (2).

    >>> round(expected(2), 12)
    1.0
    """
    h = harmonic(n)
    return n - (n * (n - 1) / 2) / (n * h - n)


def variance(n: int) -> float:
    """Return Var[J - I] for the distribution of formula (1): E[(J - I)^2] - E[J - I]^2."""
    h = harmonic(n)
    alpha = 1 / (n * h - n)
    pairs = n * (n - 1) / 2
    return alpha * (n + 1) * pairs / 3 - (alpha * pairs) ** 2


def missing_states(n: int, i: int, j: int) -> int:
    """Count the states of a left-deep plan of n joins that it did not have before two of its streams changed places.

    >>> missing_states(4, 2, 4), missing_states(4, 1, 2)
    (2, 1)
    """
    before = list(range(n + 1))
    after = before.copy()
    # The two streams of the lowest join have position 1 together; the upper of them is the one that moves.
    after[i], after[j] = after[j], after[i]
    have = {frozenset(before[:k]) for k in range(2, n + 2)}
    return sum(frozenset(after[:k]) not in have for k in range(2, n + 2))


def draw_swaps(n: int, draws: int) -> Columns:
    """Draw pairs of positions and count complete states."""
    rng = np.random.default_rng([17, n])
    gaps = np.arange(1, n)
    weight = (n - gaps) / gaps
    drawn = rng.choice(gaps, draws, p=weight / weight.sum())
    if n in COUNTED_SIZES:
        lows = rng.integers(1, n - drawn + 1)
        missing = np.array([missing_states(n, int(i), int(i + d)) for i, d in zip(lows, drawn, strict=True)])
    else:
        missing = drawn
    complete = n - missing
    return {
        "mean": [float(complete.mean())], "variance": [float(complete.var())],
        "formula_mean": [expected(n)], "formula_variance": [variance(n)],
        "spread": [float(np.abs(complete / expected(n) - 1).mean())],
        "far": [float((np.abs(complete / expected(n) - 1) > 0.2).mean())],
    }  # fmt: skip


def _cases(scale: Scale) -> list[Case]:
    draws = scale.of(DRAWS, least=20_000)
    return [Case(draw_swaps, {"n": n, "draws": draws}) for n in SIZES]


def _ratios(data: Data, simulated: str, formula: str) -> Figures:
    ratios = data[simulated] / data[formula]
    return {"operators": data["n"].tolist(), "ratio": [round(float(r), 4) for r in ratios]}


def _near(figures: Figures, what: str, allowed: float) -> Finding:
    worst = max(abs(r - 1) for r in figures["ratio"])
    sizes = f"{min(figures['operators'])} to {max(figures['operators']):,} operators"
    return found(worst <= allowed, f"simulated and computed {what} differ by at most {worst:.1%} over {sizes}")


def _concentration(data: Data) -> Figures:
    return {"operators": data["n"].tolist(), "far": [round(float(v), 4) for v in data["far"]]}


def _concentrates(figures: Figures) -> Finding:
    far = dict(zip(figures["operators"], figures["far"], strict=True))
    small, large = far[min(far)], far[max(far)]
    falls = large < small
    why = (
        f"more than 20% from the mean: {small:.1%} of the draws with {min(far)} operators, {large:.1%} with "
        f"{max(far):,}; the law is slow, of order 1 / ln n"
    )
    return found(falls and large < 0.2, why, other=falls)


def _draw(data: Data, figure: Any) -> None:
    mean = panel(figure, (1, 2, 1), "Complete states after a swap", "operators n", "E[C$_n$] / n", "x")
    line(mean, 0, data["n"], data["formula_mean"] / data["n"], "formula")
    mean.plot(data["n"], data["mean"] / data["n"], "o", color="#222222", markersize=4, label="simulated")
    mean.set_ylim(0, 1.02)
    spread = panel(figure, (1, 2, 2), "Variance", "operators n", "Var[C$_n$] / n$^2$", "x")
    line(spread, 0, data["n"], data["formula_variance"] / data["n"] ** 2, "formula")
    spread.plot(data["n"], data["variance"] / data["n"] ** 2, "o", color="#222222", markersize=4, label="simulated")
    spread.set_ylim(bottom=0)
    legend(figure, mean)


def _printed(n: int) -> float:
    """Return the variance as the paper prints it."""
    h = harmonic(n)
    return (2 * n * n * h - 5 * n * n + 6 * n - 2 * h - 1) / (12 * (h - 1) ** 2)


def _printed_ratios(data: Data) -> Figures:
    pairs = zip(data["n"].tolist(), data["variance"].tolist(), strict=True)
    return {"operators": data["n"].tolist(), "ratio": [round(_printed(n) / seen, 4) for n, seen in pairs]}


def _printed_variance(figures: Figures) -> Finding:
    ratio = dict(zip(figures["operators"], figures["ratio"], strict=True))
    worst = max(abs(r - 1) for r in ratio.values())
    large = ratio[max(ratio)]
    return found(
        worst <= NEAR,
        f"the printed formula over the simulated variance: {ratio[min(ratio)]:.3f} with {min(ratio)} operators, "
        f"{large:.3f} with {max(ratio):,}",
        other=abs(large - 1) <= NEAR,
    )


STUDY = Study(
    name="jisc-complete-states",
    paper="JISC",
    figure="Propositions 1-3",
    title="Most states are complete after two streams change places",
    about="Two streams of a left-deep plan change places, near ones more often than far ones (the paper's triangular "
    "distribution). For up to 20 operators the states of both plans are compared set by set, beyond that by the "
    "distance of the two places.",
    lesson="A new join order usually keeps most of the states: of 20 operators 16 are complete on average. What "
    "completes only what is missing, just-in-time or hybrid with sharing, has little to do.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim(
            "The mean number of complete states is n - (n choose 2) / (n H_n - n).",
            lambda data: _ratios(data, "mean", "formula_mean"),
            lambda figures: _near(figures, "means", 0.02),
            {"operators": [5, 10], "ratio": [1.0, 1.2]},
        ),
        Claim(
            "Its variance is (2 n^2 H_n - 5 n^2 + 6 n - 2 H_n - 1) / (12 (H_n - 1)^2), as printed.",
            _printed_ratios,
            _printed_variance,
            {"operators": [5, 10], "ratio": [1.0, 1.9]},
        ),
        Claim(
            "C_n / E[C_n] converges to 1 in probability: most states stay complete.",
            _concentration,
            _concentrates,
            {"operators": [5, 10_000], "far": [0.2, 0.4]},
        ),
    ),
    size=(7.4, 3.6),
)

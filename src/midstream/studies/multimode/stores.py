"""Section 5.1.1: a FIFO list or a hash map for the cache of an operator that reads deltas, gives complete relations."""

from typing import Any

from midstream.local.measure_stores import BAG, FIFO, HASH, store_steps
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

STORES = (FIFO, HASH, BAG)
WINDOW, SHARE, HOPS, SEED = 10_000, 0.1, 40, 5
TAKEN_BACK = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Tuples taken back before their time, as a part of those that come."""


def run_stores(window: int, parts: list[float]) -> Columns:
    """Run all stores with each part of the tuples taken back; return steps per hop."""
    out: dict[str, list[Any]] = {"taken_back": [], "store": [], "steps": []}
    for part in parts:
        for store, steps in store_steps(window, round(window * SHARE), HOPS, part, SEED).items():
            out["taken_back"].append(part)
            out["store"].append(store)
            out["steps"].append(round(steps, 3))
    return out


def _cases(scale: Scale) -> list[Case]:
    return [Case(run_stores, {"window": scale.of(WINDOW, least=5_000), "parts": list(TAKEN_BACK)})]


def _figures(data: Data) -> Figures:
    steps = {s: [data.value("steps", store=s, taken_back=p) for p in TAKEN_BACK] for s in STORES}
    return {"taken back": list(TAKEN_BACK), **steps}


def _few(figures: Figures) -> Finding:
    fifo, hashed = figures[FIFO][0], figures[HASH][0]
    return found(fifo < hashed, f"with no tuple taken back {fifo:,.0f} and {hashed:,.0f} steps a hop")


def _many(figures: Figures) -> Finding:
    fifo, hashed = figures[FIFO][-1], figures[HASH][-1]
    pairs = zip(figures["taken back"], figures[FIFO], figures[HASH], strict=True)
    at = next((part for part, f, h in pairs if f > h), None)
    why = f"with {figures['taken back'][-1]:.0%} taken back {fifo:,.0f} and {hashed:,.0f} steps a hop"
    return found(hashed < fifo, f"{why}; the hash map is better from {at:.1%} on" if at is not None else why)


def _both(figures: Figures) -> Finding:
    over = [b / min(f, h) for b, f, h in zip(figures[BAG], figures[FIFO], figures[HASH], strict=True)]
    told = ", ".join(f"{o:.2f}" for o in over)
    return found(max(over) <= 2, f"the engine's bag takes {told} of the steps of the better one, from none "
                 "taken back to most", other=over[0] <= 2 and over[-1] <= 2)  # fmt: skip


def _draw(data: Data, figure: Any) -> None:
    x = "tuples taken back (% of those that come)"
    axes = panel(figure, (1, 1, 1), "Cache of a DICO operator", x, "steps per hop", "y")
    for number, store in enumerate(STORES):
        steps = [data.value("steps", store=store, taken_back=p) for p in TAKEN_BACK]
        line(axes, number, [100 * p for p in TAKEN_BACK], steps, store, "o")
    axes.set_xscale("symlog", linthresh=0.1)
    legend(figure, axes)


STUDY = Study(
    name="multimode-stores",
    paper="Multi-mode hopping",
    figure="Section 5.1.1",
    title="FIFO list or hash map",
    about=f"The cache of a DICO operator over windows of {WINDOW:,} tuples, a tenth of which comes at every hop; some "
    "are taken back before their time. A step is one tuple put somewhere, looked at or hashed.",
    lesson="Nothing to choose: the bag of the engine keeps the order while nothing is taken back, and hashes then.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("With few negative tuples a FIFO list is better than a hash map.", _figures, _few,
              {"taken back": [0.0], FIFO: [9.0], HASH: [1.0], BAG: [1.0]}),
        Claim("With many of them a hash map is better.", _figures, _many,
              {"taken back": [0.0, 0.3], FIFO: [1.0, 1.0], HASH: [9.0, 9.0], BAG: [1.0, 1.0]}),
        Claim("The cache of this engine, which is both, takes at most twice the steps of the better one.", _figures,
              _both, {"taken back": [0.0, 0.3], FIFO: [1.0, 1.0], HASH: [9.0, 9.0], BAG: [3.0, 5.0]}),
    ),
    size=(6.2, 3.8),
)  # fmt: skip

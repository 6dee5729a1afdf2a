"""Fig. 10: which method guarantees what, each cell by a witness or by the lack of one."""

from typing import Any

from midstream.studies.changing.runs import DD, GD, GI, IM, METHODS, QD, SD, SUM, cases, changed
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

SAFETY = {
    "No Loss": "loss", "No Query-Level Disorder": "query_disorder", "No Stream-Level Disorder": "stream_disorder",
    "No Duplicates": "duplicates",
}  # fmt: skip
PAPER_SAFETY = {
    IM: (False, True, True, True), DD: (False, True, True, True), QD: (True, True, False, True),
    SD: (True, False, True, True), GI: (False, True, True, True), GD: (True, False, True, False),
}  # fmt: skip
PAPER_LIVENESS = {
    IM: (True, True), DD: (False, False), QD: (True, False), SD: (True, False), GI: (True, False), GD: (True, False),
}  # fmt: skip
"""Progress of the new query, and termination of the old one."""
NEVER_CLOSES = "SELECT COUNT(*) AS total FROM s [START WHEN v = 1 END WHEN v = 9]"
NEVER_OPENS = "SELECT COUNT(*) AS total FROM s [START WHEN v = 9 END WHEN v = 1]"
SLIDING = SUM.format(50, 1)
LIVES = {
    "an old window that never closes": (NEVER_CLOSES, SLIDING),
    "a new query that never answers": (SLIDING, NEVER_OPENS),
    "windows of rows": (SLIDING, SUM.format(10, 1)),
}


def live(method: str) -> Columns:
    """Change between queries that may never end or answer: does the new one start, does the old one end?"""
    records = [changed(first, then, method) for first, then in LIVES.values()]
    return {
        "situation": list(LIVES),
        "progress": [r["started_us"] is not None for r in records],
        "termination": [r["ended_us"] is not None for r in records],
    }


def _cases(scale: Scale) -> list[Case]:
    return [*cases(scale), *(Case(live, {"method": m}) for m in METHODS)]


def _safety(data: Data) -> Figures:
    """Return the most there was of each, over all runs."""
    counted = {m: data.where(method=m, slide=1) for m in METHODS}
    return {m: {name: int(max(mine[column])) for name, column in SAFETY.items()} for m, mine in counted.items()}


def _liveness(data: Data) -> Figures:
    out: dict[str, Any] = {}
    for m in METHODS:
        mine = data.where(method=m)
        out[m] = {what: [s for s in LIVES if not mine.value(what, situation=s)] for what in ("progress", "termination")}
    return out


def _as_in_the_paper(cells: dict[str, tuple[bool, bool]], none: str) -> Finding:
    """Judge cells by whether a guarantee was kept here, and in the paper; where the paper has none it may be broken."""
    broken = [name for name, (kept, paper) in cells.items() if paper and not kept]
    unseen = [name for name, (kept, paper) in cells.items() if kept and not paper]
    told = f"of {len(cells)} cells {len(cells) - len(broken) - len(unseen)} are as in the paper"
    if broken:
        told += f"; broken: {', '.join(broken)}"
    if unseen:
        told += f"; {none}: {', '.join(unseen)}"
    return found(not broken and not unseen, told, other=not broken)


def _safe(figures: Figures) -> Finding:
    cells = {
        f"{m}, {name}": (figures[m][name] == 0, PAPER_SAFETY[m][k]) for m in METHODS for k, name in enumerate(SAFETY)
    }
    return _as_in_the_paper(cells, "no run shows what is not guaranteed")


def _alive(figures: Figures) -> Finding:
    cells = {
        f"{m}, {what}": (not figures[m][what], PAPER_LIVENESS[m][k])
        for m in METHODS for k, what in enumerate(("progress", "termination"))
    }  # fmt: skip
    return _as_in_the_paper(cells, "guaranteed here where the paper does not")


def _two_of_three(figures: Figures) -> Finding:
    three = list(SAFETY)[:3]
    kept = {m: sum(figures[m][name] == 0 for name in three) for m in METHODS}
    told = ", ".join(f"{m} {n}" for m, n in kept.items())
    return found(max(kept.values()) == 2, f"of no loss, no query-level and no stream-level disorder: {told}")


def _lossless_ends(figures: Figures) -> Finding:
    safety, liveness = figures["safety"], figures["liveness"]
    lossless = [m for m in METHODS if safety[m]["No Loss"] == 0]
    ends = [m for m in lossless if not liveness[m]["termination"]]
    return found(bool(lossless) and not ends, f"without loss: {', '.join(lossless)}; of them always ending: "
                 f"{', '.join(ends) or 'none'}")  # fmt: skip


def _draw(data: Data, figure: Any) -> None:
    safety, liveness = _safety(data), _liveness(data)
    columns = [*SAFETY, "Progress", "Termination"]
    axes = figure.add_subplot(1, 1, 1)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(METHODS) - 0.5, -0.5)
    for y, m in enumerate(METHODS):
        kept = [safety[m][name] == 0 for name in SAFETY] + [not liveness[m][w] for w in ("progress", "termination")]
        paper = [*PAPER_SAFETY[m], *PAPER_LIVENESS[m]]
        for x, (mine, theirs) in enumerate(zip(kept, paper, strict=True)):
            axes.text(x, y, "yes" if mine else "no", ha="center", va="center", color="#2a8a4a" if mine else "#b8323a",
                      weight="normal" if mine == theirs else "bold")  # fmt: skip
            if mine != theirs:
                axes.text(x, y + 0.3, f"paper: {'yes' if theirs else 'no'}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(columns)), [c.replace(" ", "\n") for c in columns], fontsize=8)
    axes.set_yticks(range(len(METHODS)), list(METHODS))
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    axes.set_xlabel("guarantee, as seen here; where the paper has another answer it stands below")
    axes.grid(False)


_ALL = {m: dict.fromkeys(SAFETY, 0) for m in METHODS}
_NONE = {m: {"progress": ["windows of rows"], "termination": ["windows of rows"]} for m in METHODS}
STUDY = Study(
    name="changing-guarantees",
    paper="Changing queries",
    figure="Figure 10, Table 10",
    title="What each method guarantees",
    about="The runs of Figures 14 to 16 show what is lost, repeated and out of order. A change from a window that "
    "never closes, and one to a query that never answers, show which old query ends and which new one starts.",
    lesson="No method has everything. Without loss take a drain: in stream order, or in query order where versions "
    "must not mix. Immediate alone always ends.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("Safety: which method allows loss, disorder of two kinds and duplicates (24 cells).", _safety, _safe,
              {m: dict.fromkeys(SAFETY, 1) for m in METHODS}),
        Claim("Liveness: which method lets the new query progress and the old one end (12 cells).", _liveness, _alive,
              _NONE),
        Claim("LDD rule: at most two of no loss, no query-level and no stream-level disorder.", _safety, _two_of_three,
              _ALL),
        Claim("LT rule: no method without loss guarantees termination.",
              lambda data: {"safety": _safety(data), "liveness": _liveness(data)}, _lossless_ends,
              {"safety": _ALL, "liveness": {m: {"progress": [], "termination": []} for m in METHODS}}),
    ),
    size=(7.2, 3.4),
)  # fmt: skip

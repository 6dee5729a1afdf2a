"""Table 1 of HybMig: which plan answers which combination of old and new rows, case by case.

four streams, one old and one new row each, all matching ──▶ 16 results ──▶ by which plan each one came
"""

from typing import Any, cast

import numpy as np
import pyarrow as pa

from midstream.engine.run.sliding import SlidingRun
from midstream.migrate.hybrid import Hybrid
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.follow import Followed
from midstream.studies.frame.picture import COLORS
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

NAMES = "abcd"
OLD, RIGHT_DEEP, BUSHY = "(((a b) c) d)", "(a (b (c d)))", "((a b) (c d))"
PLANS = {"right-deep": (OLD, RIGHT_DEEP), "bushy": ("(((b c) a) d)", BUSHY)}
"""Old and new plan; those to the bushy one have no join in common."""
POSITION_US, END_US = 10_000, 20_000
HYBMIG, ROWS, PT = "HybMig", "HybMig (ours)", "PT"
STRATEGY: dict[str, tuple[str, dict[str, Any]]] = {
    HYBMIG: ("hybrid", {"region": "pairs"}),
    ROWS: ("hybrid", {"region": "rows"}),
    PT: ("parallel-track", {"output": "merged"}),
}
PAPER = {HYBMIG: 12, PT: 1}
"""Cases of 2 to 16 that the new, right-deep plan answers."""


def cases_of(way: str, plan: str) -> Columns:
    """Run a migration; return for each case of Table 1 which plan answers it, and how often the result left."""
    rows = {name: pa.table({"ts": [1 + k, POSITION_US + 1 + k], "k": [7, 7], "new": [0, 1]}) for k, name in
            enumerate(NAMES)}  # fmt: skip
    sources = ", ".join(f"{x} [RANGE 1 SECOND]" for x in NAMES)
    columns = ", ".join(f"{x}.new AS {x}" for x in NAMES)
    sql = f"SELECT {columns} FROM {sources} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    left: list[int] = []

    def see(batch: pa.RecordBatch) -> None:
        news = [batch.column(x).to_pylist() for x in NAMES]
        left.extend(1 + sum(bit << (3 - k) for k, bit in enumerate(row)) for row in zip(*news, strict=True))

    before, after = PLANS[plan]
    run = Followed(sql, rows, before, "nested-loop", END_US, see=see)
    run.advance(POSITION_US)
    strategy, options = STRATEGY[way]
    run.migrate(after, strategy, **options)
    by_old = _by_old(run, way)
    run.finish()
    numbers = np.arange(1, 17)
    return {
        "case": numbers,
        "rows": ["".join("NO"[not (n - 1) >> (3 - k) & 1] for k in range(4)) for n in numbers.tolist()],
        "old_plan": [n in by_old for n in numbers.tolist()],
        "times": [left.count(n) for n in numbers.tolist()],
    }


def _by_old(run: Followed, way: str) -> set[int]:
    """Return the cases that the old plan answers, by the table that divides the work."""
    if way == PT:
        return set(range(1, 16))
    newest = run.running.host.buckets[0].newest
    assert newest is not None
    execution = cast(Hybrid, cast(SlidingRun, newest.run).migrator.pipeline.execution)
    (task,) = (task for task in execution.tasks if task.table)
    # Of each stream row 0 is old and row 1 new; what lies in a region is the old plan's.
    results = np.zeros((16, 4 + len(NAMES)), np.int64)
    for k in range(len(NAMES)):
        results[:, -len(NAMES) + k] = np.arange(16) >> (3 - k) & 1
    return {1, *(np.flatnonzero(task.table.needed(results, tuple(NAMES))) + 1).tolist()}


def _cases(scale: Scale) -> list[Case]:
    given = [(way, "right-deep") for way in STRATEGY] + [(HYBMIG, "bushy")]
    return [Case(cases_of, {"way": way, "plan": plan}) for way, plan in given]


def _by_new(data: Data, way: str, plan: str = "right-deep") -> list[int]:
    found = data.where(way=way, plan=plan)
    return [int(n) for n, old in zip(found["case"], found["old_plan"], strict=True) if not old]


def _counted(way: str) -> Claim:
    def figures(data: Data) -> Figures:
        return {"cases": _by_new(data, way), "paper": PAPER[way]}

    def judge(figures: Figures) -> Finding:
        count = len(figures["cases"])
        rest = [n for n in range(2, 17) if n not in figures["cases"]]
        return found(count == figures["paper"], f"{count} cases; the old plan answers {', '.join(map(str, rest))}")

    text = f"With {way} the new plan answers {PAPER[way]} of the 15 cases at once"
    if way == HYBMIG:
        text += "; the old plan is left with 5, 9 and 13"
    return Claim(f"{text}.", figures, judge, {"cases": [16, 15], "paper": PAPER[way]})


def _bushy(data: Data) -> Figures:
    return {"old": sorted(set(range(2, 17)) - set(_by_new(data, HYBMIG, "bushy")))}


def _judge_bushy(figures: Figures) -> Finding:
    return found(figures["old"] == [2, 3, 4, 5, 9, 13], f"the old plan answers {', '.join(map(str, figures['old']))}")


def _once(data: Data) -> Figures:
    return {"times": data["times"].tolist()}


def _judge_once(figures: Figures) -> Finding:
    return found(
        set(figures["times"]) == {1}, f"each of {len(figures['times'])} results left {set(figures['times'])} times"
    )


def _draw(data: Data, figure: Any) -> None:
    axes = figure.add_subplot(1, 1, 1)
    runs = [(way, "right-deep") for way in STRATEGY] + [(HYBMIG, "bushy")]
    for row, (way, plan) in enumerate(runs):
        part = data.where(way=way, plan=plan)
        for n, old in zip(part["case"].tolist(), part["old_plan"].tolist(), strict=True):
            color = "#e4e7ea" if n == 1 else COLORS[1] if old else COLORS[0]
            axes.barh(row, 0.9, left=n - 0.45, height=0.7, color=color)
            axes.text(
                n, row, "" if n == 1 else "old" if old else "new", ha="center", va="center", color="white", fontsize=6
            )
    axes.set_yticks(range(len(runs)), [f"{way},\n{plan}" for way, plan in runs])
    labels = data.where(way=HYBMIG, plan="right-deep")["rows"].tolist()
    axes.set_xticks(range(1, 17), [f"{n}\n{text}" for n, text in enumerate(labels, 1)], fontsize=6.5)
    axes.set_xlabel("case of Table 1: rows of A, B, C, D that are old (O) or new (N)")
    axes.set_title("Which plan answers", loc="left")
    axes.invert_yaxis()
    axes.grid(False)


STUDY = Study(
    name="hybmig-table1",
    paper="HybMig",
    figure="Table 1",
    title="Which plan answers which combination of old and new rows",
    about="Four streams with one old and one new row each, all matching, while (((AB)C)D) goes to (A(B(CD))), or "
    "(((BC)A)D) to ((AB)(CD)). Without background "
    'computation our hybrid leaves all results with an old D to the old plan (region "rows"), since that plan is '
    'good at old rows; the paper leaves those in which C and D are both old (region "pairs").',
    lesson="Hybrid takes most of the work to the new plan at once, parallel track almost none before the end.",
    cases=_cases,
    draw=_draw,
    claims=(
        _counted(HYBMIG),
        _counted(PT),
        Claim(
            "With a bushy new plan the old one answers cases 2, 3, 4, 5, 9 and 13.", _bushy, _judge_bushy,
            {"old": [5, 9, 13]},
        ),
        Claim("Every result leaves once, whichever plan answers.", _once, _judge_once, {"times": [1, 2, 1]}),
    ),
    size=(7.4, 2.8),
)  # fmt: skip

"""Section 6.2: slides larger than one row, and tumbling windows changed where they end."""

from typing import Any

from midstream.studies.changing.runs import AFTER, METHODS, OLD, change_sizes
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

SLIDES = (1, 2, 5, 10, 25, 50)
NEW = 25
WITHIN = AFTER + 10
"""A change that is not where a window of 50 rows ends."""
ERRORS = ("loss", "query_disorder", "stream_disorder", "duplicates")


def _cases(scale: Scale) -> list[Case]:
    return [
        Case(change_sizes, {"method": m, "old": OLD, "slide": s, "sizes": [NEW], "after": after})
        for m in METHODS for s in SLIDES for after in (AFTER, WITHIN)
    ]  # fmt: skip


def _errors(data: Data, method: str, slide: int, after: int = AFTER) -> int:
    mine = data.where(method=method, slide=slide, after=after)
    return sum(int(mine[name][0]) for name in ERRORS)


def _by_slide(data: Data) -> Figures:
    return {"slides": list(SLIDES), "errors": {m: [_errors(data, m, s) for s in SLIDES] for m in METHODS}}


def _fewer(figures: Figures) -> Finding:
    never_more = {m: v == sorted(v, reverse=True) and v[-1] < v[0] for m, v in figures["errors"].items()}
    told = "; ".join(f"{m} {', '.join(map(str, v))}" for m, v in figures["errors"].items())
    slides = ", ".join(map(str, figures["slides"]))
    why = f"results lost, repeated or out of order with slides of {slides}: {told}"
    return found(all(never_more.values()), why, other=all(v[-1] < v[0] for v in figures["errors"].values()))


def _tumbling(data: Data) -> Figures:
    return {
        "at the end of a window": {m: _errors(data, m, OLD) for m in METHODS},
        "within a window": {m: _errors(data, m, OLD, WITHIN) for m in METHODS},
    }


def _error_free(figures: Figures) -> Finding:
    at_end, within = figures["at the end of a window"], figures["within a window"]
    wrong = [m for m, n in at_end.items() if n]
    why = (
        f"at the end of a window: {', '.join(wrong) or 'no method'} with errors ({sum(at_end.values())} in all); "
        f"within a window {sum(within.values())} in all. A GDChange keeps the old query until the new one answers, "
        "which begins another old window"
    )
    return found(not wrong, why, other=len(wrong) == 1 and sum(at_end.values()) < sum(within.values()))


def _draw(data: Data, figure: Any) -> None:
    axes = panel(figure, (1, 1, 1), "Windows of 50 rows to windows of 25", "slide (rows)", "errors (results)", "x")
    for place, m in enumerate(METHODS):
        line(axes, place, SLIDES, [_errors(data, m, s) for s in SLIDES], m, "o")
    axes.set_xticks(SLIDES, [str(s) for s in SLIDES])
    axes.minorticks_off()
    legend(figure, axes)


STUDY = Study(
    name="changing-slides",
    paper="Changing queries",
    figure="Section 6.2, slides",
    title="The larger the slide, the less can go wrong",
    about="Sums over 50 rows changed to sums over 25, with slides from 1 to 50 rows (25 for the new one at most); "
    "errors are results lost, repeated or out of order. The change is where a window of 50 rows ends, or ten rows "
    "later.",
    lesson="Place a change of tumbling windows where one ends: then the cheapest method, immediate, loses nothing.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("The bigger the slide, the fewer correctness problems occur.", _by_slide, _fewer,
              {"slides": [1, 2], "errors": {m: [1, 2] for m in METHODS}}),
        Claim("Tumbling windows changed where they end are error-free with every method.", _tumbling, _error_free,
              {"at the end of a window": dict.fromkeys(METHODS, 3), "within a window": dict.fromkeys(METHODS, 1)}),
    ),
    size=(6.6, 4.0),
)  # fmt: skip

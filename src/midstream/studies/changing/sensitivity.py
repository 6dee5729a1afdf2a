"""Figs. 14 to 16: response, correctness and cost of each method, for windows of the new query of 10 to 100 rows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from midstream.studies.changing.runs import DD, GD, GI, IM, METHODS, OLD, QD, SD, SIZES, cases, change_sizes
from midstream.studies.frame.data import Data
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

OLD_SIZES = (25, 50, 100)
BySize = dict[str, dict[str, list[int]]]


def _read(*names: str) -> Any:
    """Read columns by method: a list over the sizes of the new window."""

    def figures(data: Data) -> Figures:
        out: dict[str, Any] = {"new": list(SIZES)}
        for name in names:
            out[name] = {m: data.where(method=m, old=OLD, slide=1)[name].tolist() for m in METHODS}
        return out

    return figures


def _at(figures: Figures, name: str, method: str) -> dict[int, int]:
    return dict(zip(figures["new"], figures[name][method], strict=True))


def _series(values: Sequence[int]) -> str:
    same = len(set(values)) == 1
    return f"{values[0]} at every size" if same else ", ".join(map(str, values))


def _linear(figures: Figures) -> Finding:
    slopes = {}
    for m in (IM, DD):
        mine = _at(figures, "response", m)
        slopes[m] = [(mine[b] - mine[a]) / (b - a) for a, b in pairwise(SIZES)]
    exact = all(s == 1 for each in slopes.values() for s in each)
    rises = all(s > 0 for each in slopes.values() for s in each)
    return found(exact, f"rows without a result: IChange {_series(figures['response'][IM])}; DDChange "
                 f"{_series(figures['response'][DD])}", other=rises)  # fmt: skip


def _query_drain(figures: Figures) -> Finding:
    mine = _at(figures, "response", QD)
    small = [mine[s] for s in SIZES if s <= OLD]
    large = [mine[s] for s in SIZES if s > OLD]
    steps = [b - a for a, b in pairwise(large)]
    grows = all(s == 10 for s in steps)
    return found(max(small) <= 1 and grows, f"at most {max(small)} rows up to a size of {OLD}, then {_series(large)}",
                 other=max(small) <= 1 and all(s > 0 for s in steps))  # fmt: skip


def _stream_drain(figures: Figures) -> Finding:
    mine, other = _at(figures, "response", SD), _at(figures, "response", QD)
    negative = all(mine[s] < 0 for s in SIZES if s < OLD)
    same = all(mine[s] == other[s] for s in SIZES if s > OLD)
    return found(negative and same, f"{_series(list(mine.values()))} rows; QDChange above {OLD}: "
                 f"{_series([other[s] for s in SIZES if s > OLD])}", other=negative)  # fmt: skip


def _graceful(figures: Figures) -> Finding:
    immediate, drain = figures["response"][GI], figures["response"][GD]
    return found(
        set(immediate) == {1} and max(drain) < 0 and len(set(drain)) == 1,
        f"GIChange {_series(immediate)}: results come row by row as ever; GDChange {_series(drain)}",
        other=max(immediate) <= 1 and max(drain) < 0,
    )


def _constant_loss(figures: Figures) -> Finding:
    values = {m: figures["loss"][m] for m in (IM, DD)}
    constant = all(len(set(v)) == 1 for v in values.values())
    exact = all(set(v) == {49} for v in values.values())
    return found(exact, "; ".join(f"{m} {_series(v)}" for m, v in values.items()), other=constant)


def _no_loss(figures: Figures) -> Finding:
    values = {m: max(figures["loss"][m]) for m in (QD, SD, GD)}
    return found(not any(values.values()), "at most " + ", ".join(f"{m} {v}" for m, v in values.items()))


def _graceful_loss(figures: Figures) -> Finding:
    mine = _at(figures, "loss", GI)
    exact = all(mine[s] == max(0, OLD - s) for s in SIZES)
    return found(exact, f"GIChange loses {_series(list(mine.values()))}: the difference of the sizes",
                 other=mine[SIZES[0]] > mine[OLD] == 0)  # fmt: skip


def _no_disorder(figures: Figures) -> Finding:
    most = {m: max(*figures["query_disorder"][m], *figures["stream_disorder"][m]) for m in (IM, DD, GI)}
    return found(not any(most.values()), "at most " + ", ".join(f"{m} {v}" for m, v in most.items()))


def _drain_disorder(figures: Figures) -> Finding:
    stream, query = _at(figures, "stream_disorder", QD), _at(figures, "query_disorder", SD)
    exact = stream[10] == query[10] == 39
    linear = all(v[s] == max(0, OLD - 1 - s) for v in (stream, query) for s in SIZES)
    return found(exact and linear, f"QDChange out of stream order {_series(list(stream.values()))}; SDChange out of "
                 f"query order {_series(list(query.values()))}", other=stream[10] > stream[40])  # fmt: skip


def _graceful_disorder(data: Data) -> Figures:
    mine = {o: data.where(method=GD, old=o, new=10, slide=1)["query_disorder"].tolist()[0] for o in OLD_SIZES}
    return {"old": list(mine), "query_disorder": list(mine.values())}


def _with_old_window(figures: Figures) -> Finding:
    pairs = dict(zip(figures["old"], figures["query_disorder"], strict=True))
    told = ", ".join(f"{n} with an old window of {o}" for o, n in pairs.items())
    return found(all(0.9 * o <= n <= o for o, n in pairs.items()), told,
                 other=sorted(pairs.values()) == list(pairs.values()) and min(pairs.values()) > 0)  # fmt: skip


def _twice(figures: Figures) -> Finding:
    where = {(m, s): n for m in METHODS for s, n in _at(figures, "duplicates", m).items() if n}
    told = ", ".join(f"{m} at {s}: {n}" for (m, s), n in where.items()) or "none"
    return found(set(where) == {(GD, OLD)}, f"duplicates: {told}", other=(GD, OLD) in where)


def _additional(figures: Figures) -> Finding:
    values = {m: figures["extra"][m] for m in (GI, GD)}
    others = max(max(figures["extra"][m]) for m in (IM, DD, QD, SD))
    everywhere = all(min(v) > 0 for v in values.values())
    told = "; ".join(f"{m} {_series(v)}" for m, v in values.items())
    return found(everywhere and not others, f"{told}; other methods at most {others}. A GIChange to a smaller window "
                 "ends the old query before it has such results",
                 other=all(max(v) > 0 for v in values.values()))  # fmt: skip


def _free(figures: Figures) -> Finding:
    most = {m: max(figures["parallel"][m]) for m in (IM, DD)}
    return found(not any(most.values()), "rows taken by two versions: at most "
                 + ", ".join(f"{m} {v}" for m, v in most.items()))  # fmt: skip


def _constant_cost(figures: Figures) -> Finding:
    values = {m: figures["parallel"][m] for m in (QD, SD)}
    return found(all(len(set(v)) == 1 and v[0] > 0 for v in values.values()),
                 "; ".join(f"{m} {_series(v)}" for m, v in values.items()))  # fmt: skip


def _graceful_cost(figures: Figures) -> Finding:
    drains = max(figures["parallel"][QD])
    values = {m: figures["parallel"][m] for m in (GI, GD)}
    rises = all(b > a for v in values.values() for a, b in pairwise(v))
    higher = all(min(v) > drains for v in values.values())
    told = "; ".join(f"{m} {_series(v)}" for m, v in values.items())
    return found(rises and higher, f"{told}; drains {drains}. A GIChange to a window smaller than the old one is over "
                 "sooner than a drain", other=rises)  # fmt: skip


def _which_is_dearer(figures: Figures) -> Finding:
    a, b = figures["parallel"][GI], figures["parallel"][GD]
    return found(all(x > y for x, y in zip(a, b, strict=True)), f"rows taken by two versions: GIChange {_series(a)}; "
                 f"GDChange {_series(b)}. Here a GIChange ends at the first new result; the paper's goes on to compute "
                 "what it discards")  # fmt: skip


def _cases(scale: Scale) -> list[Case]:
    others = [Case(change_sizes, {"method": GD, "old": o, "slide": 1, "sizes": [10]}) for o in OLD_SIZES if o != OLD]
    return [*cases(scale), *others]


def _lines(data: Data, axes: Any, name: str) -> None:
    for place, m in enumerate(METHODS):
        line(axes, place, SIZES, data.where(method=m, old=OLD, slide=1)[name], m)


def _draw_response(data: Data, figure: Any) -> None:
    axes = panel(
        figure,
        (1, 1, 1),
        "From the last old result to the first new one",
        "size of the new window (rows)",
        "response (rows)",
    )
    _lines(data, axes, "response")
    legend(figure, axes)


def _draw_counts(data: Data, figure: Any) -> None:
    titles = {"loss": "(a) loss", "stream_disorder": "(b) stream-level disorder",
              "query_disorder": "(c) query-level disorder", "duplicates": "(d) duplicates"}  # fmt: skip
    for place, (name, title) in enumerate(titles.items()):
        axes = panel(figure, (2, 2, place + 1), title, "size of the new window (rows)", "results")
        _lines(data, axes, name)
    legend(figure, axes)


def _draw_cost(data: Data, figure: Any) -> None:
    axes = panel(figure, (1, 1, 1), "Work done twice", "size of the new window (rows)", "rows taken by two versions")
    _lines(data, axes, "parallel")
    legend(figure, axes)


def _flat(name: str, value: int = 7, also: str = "") -> Figures:
    """Return figures that say the same of all methods and sizes."""
    return {"new": list(SIZES), **{n: {m: [value] * len(SIZES) for m in METHODS} for n in (name, also) if n}}


ABOUT = (
    "Sums over windows of rows with a slide of 1: 50 rows before the change, 10 to 100 after it; 2,000 rows, the "
    "change after 1,000, as in the paper. "
)
RESPONSE = Study(
    name="changing-response",
    paper="Changing queries",
    figure="Figure 14",
    title="Response: how long no results come",
    about=ABOUT + "The paper takes milliseconds; here it is rows between the two results, the same on every machine.",
    lesson="Where silence is what hurts, a graceful change has none. Immediate and delayed drain are silent for a "
    "whole new window; a drain only for as much as the new window is larger.",
    cases=cases, draw=_draw_response,
    claims=(
        Claim("With IChange and DDChange the response is linear in the size of the new window.",
              _read("response"), _linear, _flat("response")),
        Claim("With QDChange it is about nothing up to the old size, then grows like that of IChange.",
              _read("response"), _query_drain, _flat("response")),
        Claim("With SDChange it is negative for smaller windows, and like QDChange's for larger ones.",
              _read("response"), _stream_drain, _flat("response")),
        Claim("GIChange has perfect response times, GDChange negative ones, at every size.",
              _read("response"), _graceful, _flat("response")),
    ),
    size=(6.6, 4.0),
)  # fmt: skip
CORRECTNESS = Study(
    name="changing-correctness",
    paper="Changing queries",
    figure="Figure 15",
    title="Loss, disorder and duplicates",
    about=ABOUT + "Counted against the reference: the old query drained, the new one started at once.",
    lesson="Drains lose nothing: stream order mixes versions, query order holds results back. What a graceful change "
    "costs depends on which window is larger.",
    cases=_cases, draw=_draw_counts,
    claims=(
        Claim("IChange and DDChange lose 49 results at every size.", _read("loss"), _constant_loss, _flat("loss", 48)),
        Claim("QDChange, SDChange and GDChange lose nothing.", _read("loss"), _no_loss, _flat("loss", 1)),
        Claim("GIChange loses in proportion to the difference of the sizes.", _read("loss"), _graceful_loss,
              _flat("loss")),
        Claim("IChange, DDChange and GIChange never cause disorder.", _read("query_disorder", "stream_disorder"),
              _no_disorder, _flat("query_disorder", also="stream_disorder")),
        Claim("39 results are out of stream order with QDChange at size 10, and as many out of query order with "
              "SDChange; in proportion to the difference.", _read("stream_disorder", "query_disorder"), _drain_disorder,
              _flat("query_disorder", also="stream_disorder")),
        Claim("GDChange has as many results out of query order as the old window has rows.", _graceful_disorder,
              _with_old_window, {"old": list(OLD_SIZES), "query_disorder": [5, 3, 0]}),
        Claim("Duplicates are only seen with GDChange and windows of the same size.", _read("duplicates"), _twice,
              _flat("duplicates")),
        Claim("GIChange and GDChange produce additional results, with other inputs.", _read("extra"), _additional,
              _flat("extra", 0)),
    ),
    size=(7.4, 5.4),
)  # fmt: skip
COST = Study(
    name="changing-cost",
    paper="Changing queries",
    figure="Figure 16",
    title="Cost: work that two versions do at the same time",
    about=ABOUT + "The paper takes CPU time of its helper threads; here it is the rows that both versions take in.",
    lesson="Immediate and delayed drain are free, drains cost one old window, graceful changes cost until the new "
    "query answers, and a graceful drain an old window more.",
    cases=cases, draw=_draw_cost,
    claims=(
        Claim("IChange and DDChange cost nothing: versions never run at the same time.", _read("parallel"), _free,
              _flat("parallel")),
        Claim("QDChange and SDChange cost the same at every size.", _read("parallel"), _constant_cost,
              _flat("parallel", 0)),
        Claim("GIChange and GDChange cost more, and the more the larger the new window.", _read("parallel"),
              _graceful_cost, _flat("parallel")),
        Claim("GIChange is slightly more expensive than GDChange.", _read("parallel"), _which_is_dearer,
              _flat("parallel")),
    ),
    size=(6.6, 4.0),
)  # fmt: skip

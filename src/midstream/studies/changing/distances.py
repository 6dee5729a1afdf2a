"""Section 6.2: several changes one after the other, closer and closer."""

from typing import Any

from midstream.studies.changing.runs import AFTER, BATCH_ROWS, GD, IM, METHODS, OLD, QD, ROW_US, ROWS, SD, SUM, rows
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.follow import Followed
from midstream.studies.frame.picture import legend, line, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

DISTANCES = (200, 100, 60, 50, 40, 30, 20, 10, 5, 1)
CHANGES = (40, 30, 20)
FOLLOWED = (IM, QD, SD, GD)
DRAINS = (QD, SD, GD)
ERRORS = ("loss", "extra", "query_disorder", "stream_disorder", "duplicates")


def change_thrice(method: str, distances: list[int]) -> Columns:
    """Change three times, so many rows apart; return the counts of each change, and when both versions ran."""
    found_now: dict[str, list[Any]] = {"distance": [], "number": [], "begin": [], "end": []}
    for distance in distances:
        run = Followed(SUM.format(OLD, 1), {"s": rows(ROWS)}, None, "auto", BATCH_ROWS * ROW_US)
        for number, new in enumerate(CHANGES):
            run.advance((AFTER + number * distance) * ROW_US)
            run.change(SUM.format(new, 1), **METHODS[method], audit=True)
        run.finish()
        for number, record in enumerate(run.running.changes()):
            position = record["position_us"]
            found_now["distance"].append(distance)
            found_now["number"].append(number + 1)
            found_now["begin"].append(round(position / ROW_US))
            found_now["end"].append(round(max(position, record["ended_us"] or 0) / ROW_US))
            for name in ERRORS:
                found_now.setdefault(name, []).append(record[name])
    return found_now


def _cases(scale: Scale) -> list[Case]:
    return [Case(change_thrice, {"method": m, "distances": list(DISTANCES)}) for m in FOLLOWED]


def _counts(data: Data, method: str, distance: int) -> list[list[int]]:
    mine = data.where(method=method, distance=distance)
    return [mine[name].tolist() for name in ERRORS]


def _drain(data: Data, method: str) -> int:
    """Return for how many rows both versions run at most, when nothing disturbs a change."""
    alone = data.where(method=method, distance=DISTANCES[0])
    return int(max(alone["end"] - alone["begin"]))


def _versions(data: Data, method: str, distance: int) -> int:
    """Return how many versions run at the same time at most."""
    mine = data.where(method=method, distance=distance)
    spans: list[tuple[int, int]] = list(zip(mine["begin"].tolist(), mine["end"].tolist(), strict=True))
    return 1 + max(sum(a <= at < b for a, b in spans) for at, _ in spans)


def _independence(data: Data) -> Figures:
    out: dict[str, Any] = {}
    for m in DRAINS:
        drain, alone = _drain(data, m), _counts(data, m, DISTANCES[0])
        out[m] = {
            "drain": drain,
            "apart": [d for d in DISTANCES if d >= drain],
            "influenced": [d for d in DISTANCES if d >= drain and _counts(data, m, d) != alone],
        }
    return out


def _independent(figures: Figures) -> Finding:
    parts = []
    for m, f in figures.items():
        changed = f"others at {f['influenced']}" if f["influenced"] else f"the same from {min(f['apart'])} rows on"
        parts.append(f"{m}: drains for {f['drain']} rows, counts are {changed}")
    return found(not any(f["influenced"] for f in figures.values()), "; ".join(parts))


def _overlap(data: Data) -> Figures:
    return {
        "distances": list(DISTANCES),
        "versions": {m: [_versions(data, m, d) for d in DISTANCES] for m in FOLLOWED},
    }


def _more_versions(figures: Figures) -> Finding:
    drains = {m: v for m, v in figures["versions"].items() if m in (QD, SD)}
    rises = all(v[0] == 2 and max(v) > 2 for v in drains.values())
    told = "; ".join(f"{m} {', '.join(map(str, v))}" for m, v in figures["versions"].items())
    return found(rises, f"versions at the same time at {', '.join(map(str, figures['distances']))} rows: {told}")


def _disorder(data: Data) -> Figures:
    out: dict[str, Any] = {"distances": list(DISTANCES)}
    for kind, names in (("disorder", ("query_disorder", "stream_disorder")), ("duplicates", ("duplicates",))):
        out[kind] = {
            m: [sum(int(data.where(method=m, distance=d)[name].sum()) for name in names) for d in DISTANCES]
            for m in FOLLOWED
        }
    return out


def _more_disorder(figures: Figures) -> Finding:
    drains = [m for m in (QD, SD, GD) if max(figures["disorder"][m]) > figures["disorder"][m][0]]
    twice = max(max(v) for v in figures["duplicates"].values())
    told = "; ".join(f"{m} {', '.join(map(str, v))}" for m, v in figures["disorder"].items())
    why = f"results out of order: {told}; duplicates {twice}: windows of different sizes never hold the same rows"
    return found(len(drains) == 3 and twice > 0, why, other=len(drains) == 3)


def _draw(data: Data, figure: Any) -> None:
    found_now = _disorder(data)["disorder"], _overlap(data)["versions"]
    titles = ("results out of order", "results"), ("versions at the same time", "versions")
    for place, (values, (title, y)) in enumerate(zip(found_now, titles, strict=True)):
        axes = panel(figure, (1, 2, place + 1), title, "rows between two changes", y, "x")
        for number, m in enumerate(FOLLOWED):
            line(axes, number, DISTANCES, values[m], m, "o")
        axes.set_ylim(bottom=0)
    legend(figure, axes)


STUDY = Study(
    name="changing-distances",
    paper="Changing queries",
    figure="Section 6.2, distances",
    title="Three changes, closer and closer",
    about="Sums over 50 rows are changed to sums over 40, 30 and 20, with 200 rows to 1 row between two changes.",
    lesson="Wait for a drain to be over before the next change, and nothing adds up. Where that cannot be, drains in "
    "stream order bear it best.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("Changes do not influence each other as long as drains do not overlap the start of later versions.",
              _independence, _independent,
              {m: {"drain": 48, "apart": [200, 100, 50], "influenced": [50]} for m in DRAINS}),
        Claim("From then on more versions run at the same time.", _overlap, _more_versions,
              {"distances": [200, 1], "versions": {m: [2, 2] for m in FOLLOWED}}),
        Claim("And there are duplicates and disorder.", _disorder, _more_disorder,
              {"distances": [200, 1], "disorder": {m: [9, 9] for m in FOLLOWED},
               "duplicates": {m: [0, 0] for m in FOLLOWED}}),
    ),
    size=(7.6, 3.6),
)  # fmt: skip

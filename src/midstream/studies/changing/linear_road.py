"""Linear Road: segments with an accident, a query of nested windows whose outer one changes.

reports of cars, every 30 s ──▶ the last 4 of each car, all at one place: it has stopped
    ──▶ two stopped cars or more in a segment, over the last minutes, every 30 s ──▶ the segment
"""

from typing import Any

import numpy as np
import pyarrow as pa

from midstream.studies.changing.runs import COUNTED, DD, GD, GI, IM, METHODS, QD, SD
from midstream.studies.frame.data import Columns, Data
from midstream.studies.frame.follow import Followed
from midstream.studies.frame.picture import bars, legend, panel
from midstream.studies.frame.scale import Scale
from midstream.studies.frame.study import Case, Claim, Figures, Finding, Study, found

SECOND_US = 1_000_000
REPORT_S, MINUTES, CARS = 30, 40, 600
"""Each car reports every 30 seconds, as in the benchmark."""
SEGMENTS, SEGMENT_FEET, FEET_A_REPORT = 100, 5_280, 2_640
"""A hundred miles; 60 miles per hour."""
STOPPED, CRASH_EVERY_S = (5, 12), 45
"""A crash stops two cars for 5 to 11 reports."""
OLD_MINUTES, NEW_MINUTES = 5, (2, 5, 8)
CHANGE_S = MINUTES * 60 // 2
QUERY = """SELECT seg, COUNT(*) AS stopped FROM (
  SELECT car, MAX(seg) AS seg FROM reports [ROWS 4 SLIDE 1 PARTITION BY car] GROUP BY car HAVING MIN(pos) = MAX(pos)
) [RANGE {} MINUTES SLIDE 30 SECONDS] GROUP BY seg HAVING COUNT(*) >= 2"""


def reports(cars: int, seed: int = 1) -> pa.Table:
    """Return what cars report: they drive, and now and then two of them stop at one place for a while."""
    rng = np.random.default_rng(seed)
    count = MINUTES * 60 // REPORT_S
    first = rng.integers(0, REPORT_S * SECOND_US, cars)
    speed = rng.integers(FEET_A_REPORT // 2, FEET_A_REPORT * 3 // 2, (cars, count))
    stops = np.zeros((cars, count), np.bool_)
    beside = np.full((cars, count), -1)
    for at in range(2, count - STOPPED[1], max(1, CRASH_EVERY_S // REPORT_S)):
        a, b = rng.choice(cars, 2, replace=False)
        until = at + int(rng.integers(*STOPPED))
        if not stops[[a, b], at : until + 1].any():
            stops[[a, b], at:until] = True
            beside[b, at:until] = a
    # A car that has stopped reports where it was; the second of a crash is where the first one is.
    places = rng.integers(0, SEGMENTS * SEGMENT_FEET, cars)
    pos = np.empty((cars, count), np.int64)
    for k in range(count):
        places = np.where(stops[:, k], places, (places + speed[:, k]) % (SEGMENTS * SEGMENT_FEET))
        with_other = beside[:, k] >= 0
        places = np.where(with_other, places[np.maximum(beside[:, k], 0)], places)
        pos[:, k] = places
    times = first[:, None] + np.arange(count) * REPORT_S * SECOND_US
    order = np.argsort(times, axis=None, kind="stable")
    car = np.broadcast_to(np.arange(cars)[:, None], times.shape)
    return pa.table({
        "ts": times.ravel()[order], "car": car.ravel()[order], "pos": pos.ravel()[order],
        "seg": (pos // SEGMENT_FEET).ravel()[order],
    })  # fmt: skip


def change_road(method: str, cars: int, sizes: list[int]) -> Columns:
    """Change how far back accidents count; return what was counted of it."""
    table = reports(cars)
    out: dict[str, list[Any]] = {"minutes": list(sizes)}
    for minutes in sizes:
        run = Followed(QUERY.format(OLD_MINUTES), {"reports": table}, None, "auto", 10 * SECOND_US)
        run.advance(CHANGE_S * SECOND_US)
        run.change(QUERY.format(minutes), **METHODS[method], audit=True)
        run.finish()
        record = run.running.changes()[0]
        for name in (*COUNTED, "rows_held"):
            out.setdefault(name, []).append(record[name])
        out.setdefault("response_s", []).append(round((record["response_us"] or 0) / SECOND_US, 6))
        out.setdefault("results", []).append(run.running.report.rows_out)
    return out


def _cases(scale: Scale) -> list[Case]:
    cars = scale.of(CARS, least=300)
    return [Case(change_road, {"method": m, "cars": cars, "sizes": list(NEW_MINUTES)}) for m in METHODS]


def _read(*names: str) -> Any:
    def figures(data: Data) -> Figures:
        out: dict[str, Any] = {"minutes": list(NEW_MINUTES)}
        for name in names:
            out[name] = {m: data.where(method=m)[name].tolist() for m in METHODS}
        return out

    return figures


def _listed(values: Figures, *methods: str) -> str:
    return "; ".join(f"{m} {', '.join(map(str, values[m]))}" for m in methods)


def _loss(figures: Figures) -> Finding:
    loss = figures["loss"]
    lossy = all(len(set(loss[m])) == 1 and loss[m][0] > 0 for m in (IM, DD))
    safe = not any(max(loss[m]) for m in (QD, SD, GD))
    why = f"lost with new windows of {figures['minutes']} minutes: {_listed(loss, *METHODS)}"
    return found(lossy and safe, why, other=safe and all(max(loss[m]) > 0 for m in (IM, DD)))


def _order(figures: Figures) -> Finding:
    stream, query = figures["stream_disorder"], figures["query_disorder"]
    ordered = not any(max(*stream[m], *query[m]) for m in (IM, DD, GI))
    drains = stream[QD][0] > 0 == max(stream[QD][1:]) and query[SD][0] > 0 == max(query[SD][1:])
    graceful = min(query[GD]) > 0
    why = f"out of stream order {_listed(stream, QD)}; out of query order {_listed(query, SD, GD)}; others none. "
    why += "Windows of time answer from their first slide on, whatever their length, so that sizes matter little"
    return found(ordered and drains and graceful, why if ordered else f"{why}, but {_listed(query, IM, DD, GI)}",
                 other=ordered)  # fmt: skip


def _twice(figures: Figures) -> Finding:
    where = [(m, minutes) for m in METHODS
             for minutes, n in zip(figures["minutes"], figures["duplicates"][m], strict=True) if n]  # fmt: skip
    told = ", ".join(f"{m} at {minutes} minutes" for m, minutes in where) or "none"
    return found(
        where == [(GD, OLD_MINUTES)],
        f"duplicates: {told}. Windows of time that have just begun hold the same rows, whatever their length",
        other=(GD, OLD_MINUTES) in where,
    )


def _waits(figures: Figures) -> Finding:
    held = {m: max(figures["rows_held"][m]) for m in METHODS}
    waiting = [m for m, n in held.items() if n]
    why = (
        f"results that wait for others: {', '.join(f'{m} {n}' for m, n in held.items())}; with QDChange they wait for "
        "as long as the old windows are longer, minutes here, with every other method for nothing"
    )
    return found(not waiting, why, other=waiting == [QD])


def _draw(data: Data, figure: Any) -> None:
    titles = {"loss": "lost", "query_disorder": "out of query order", "stream_disorder": "out of stream order"}
    for place, (name, title) in enumerate(titles.items()):
        axes = panel(figure, (1, 3, place + 1), title, "new window (minutes)", "results")
        bars(axes, [str(m) for m in NEW_MINUTES], {m: data.where(method=m)[name].tolist() for m in METHODS})
    legend(figure, axes)


def _flat(*names: str) -> Figures:
    return {"minutes": list(NEW_MINUTES), **{n: {m: [3, 3, 3] for m in METHODS} for n in names}}


STUDY = Study(
    name="changing-linear-road",
    paper="Changing queries",
    figure="Section 6.2, Linear Road",
    title="Accident segments of Linear Road",
    about="600 cars on a hundred segments report every 30 seconds for 40 minutes; two of them stop at one place every "
    "now and then. A car whose last four reports are of one place has stopped; segments with two such cars or more in "
    "the last 5 minutes are reported every 30 seconds. After 20 minutes that becomes the last 2, 5 or 8 minutes.",
    lesson="What sums over rows show holds for nested windows of time. Where results are due within seconds, drain in "
    "stream order: query order holds results back for minutes.",
    cases=_cases,
    draw=_draw,
    claims=(
        Claim("As with sums: IChange and DDChange lose the same at every size, QDChange, SDChange, GDChange nothing.",
              _read("loss"), _loss, _flat("loss")),
        Claim("As with sums: QDChange is out of stream order and SDChange out of query order for smaller windows, "
              "GDChange for all.", _read("stream_disorder", "query_disorder"), _order,
              _flat("stream_disorder", "query_disorder")),
        Claim("As with sums: duplicates only with GDChange and the same size.", _read("duplicates"), _twice,
              _flat("duplicates")),
        Claim("Results come in time (within 5 seconds) with every method.", _read("rows_held", "response_s"), _waits,
              _flat("rows_held", "response_s")),
    ),
    size=(8.0, 3.6),
)  # fmt: skip

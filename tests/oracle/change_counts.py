"""What the record of each change is to say: counted on what is emitted, against the reference of the paper.

The reference of a change: DStop of the versions that run at its position, FStart of the new one there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from oracle.change_run import ChangeRun, Given, Oracle, left_before
from oracle.changes import BEGINNING, NEVER, Result


@dataclass(frozen=True)
class Counts:
    """What a change did to the output, and when."""

    state: str
    loss: int
    extra: int
    query_disorder: int
    stream_disorder: int
    duplicates: int
    old_results: int
    new_results: int
    rows_held: int
    first_result_us: int | None
    response_us: int | None
    started_us: int | None
    ended_us: int | None
    two_versions_us: int


def count(oracle: Oracle, place: int, given: Sequence[Given]) -> Counts:
    """Count for one change of those whose position is reached; `given` is all that is emitted."""
    run = oracle.runs[place]
    at = run.change.position
    old_numbers = {v.number for v in run.old}
    mine = [g for g in given if _counts(run, g)]
    olds = [g for g in mine if g.version in old_numbers and not left_before(g.result.trigger, at)]
    news = [g for g in mine if g.version == run.new.number]
    # A change takes effect after those asked for before it at the same position; what they let out has left.
    first_here = not any(r.change.position == at and r.change.method != "drain/query" for r in oracle.runs[:place])
    before = [
        g.result.trigger[0]
        for g in given
        if left_before(g.moment, at) and not (first_here and g.released and g.moment[0] == at)
    ]
    sequence = [g for g in mine if g in olds or g in news]
    left = _left(sequence)
    first = next((n for n, g in enumerate(sequence) if g in news), len(sequence))
    last_old = max((n for n, g in enumerate(sequence) if g in olds), default=None)
    first_us = left[first] if news else None
    last_us = left[last_old] if last_old is not None else max(before, default=None)
    extra = [g for g in olds if not g.result.has_row_before(at)]
    prints = Counter(oracle.printed(run, g.result) for g in extra)
    start = None if run.new.start == NEVER else run.new.start
    end = oracle.latest if run.state == "unfinished" else run.end
    return Counts(
        run.state,
        loss(oracle, run),
        len(extra),
        sum(g in olds for g in sequence[first:]),
        stream_disorder([g.result for g in sequence]),
        sum(prints[oracle.printed(run, g.result)] for g in news),
        len(olds),
        sum(run.state != "finished" or g.result.trigger[0] < run.end for g in news),
        _waited(oracle, run),
        first_us,
        None if first_us is None or last_us is None else first_us - last_us,
        start,
        None if run.state == "unfinished" else run.end,
        0 if start is None else max(0, end - start),
    )


def _counts(run: ChangeRun, given: Given) -> bool:
    """Tell whether something leaves while a change lasts; one that finishes leaves nothing behind to mistake."""
    if run.state in ("finished", "unfinished"):
        return True
    return left_before(given.moment, run.end) and not (given.released and given.moment[0] == run.end)


def _left(sequence: Sequence[Given]) -> list[int]:
    """Return when each result has left: what had to wait for others left with the last of them."""
    out, latest = [], BEGINNING
    for g in sequence:
        latest = max(latest, g.result.trigger[0])
        out.append(latest)
    return out


def _waited(oracle: Oracle, run: ChangeRun) -> int:
    """Count the results of the new version that had to wait for older versions while the change lasted."""
    if run.change.method != "drain/query":
        return 0
    if run.state in ("finished", "unfinished"):
        until = max((oracle._over(v) for v in run.new.waits_for), default=BEGINNING)
    else:
        until = min(run.end, max((oracle._known(v) for v in run.new.waits_for), default=BEGINNING))
    return sum(y.trigger[0] < until for y in run.new.given_out())


def loss(oracle: Oracle, run: ChangeRun) -> int:
    """Count the results of the reference that this change keeps from leaving."""
    lost = 0
    for version in run.old:
        if version.stopped_by is run:
            owed_before = min(run.change.position, version.drains_from)
            kept = Counter(y.identity for y in version.given_out())
            owed = Counter(y.identity for y in version.results if y.has_row_before(owed_before))
            lost += (owed - kept).total()
    if run.change.method == "delayed-drain":
        # Another hop that is asked for later is asked of both.
        reference = oracle.fresh_start(run.new.query, run.change.position)
        given = Counter(y.identity for y in run.new.given_out())
        lost += (Counter(y.identity for y in reference if left_before(y.trigger, run.audited_until)) - given).total()
    return lost


def stream_disorder(results: Sequence[Result]) -> int:
    """Count the results that come after one with a greater trigger."""
    count, greatest = 0, (BEGINNING, 0, 0)
    for y in results:
        count += y.trigger < greatest
        greatest = max(greatest, y.trigger)
    return count


def measure(oracle: Oracle, given: Sequence[Given]) -> Counts:
    """Count for the one change of a run, which is reached."""
    assert len(oracle.runs) == 1, "one change that is reached"
    return count(oracle, 0, given)


GUARANTEES = {
    "immediate": ("query_disorder", "stream_disorder", "duplicates"),
    "delayed-drain": ("query_disorder", "stream_disorder", "duplicates"),
    "drain/query": ("loss", "query_disorder", "duplicates"),
    "drain/stream": ("loss", "stream_disorder", "duplicates"),
    "graceful-immediate": ("query_disorder", "stream_disorder", "duplicates"),
    "graceful-drain": ("loss", "stream_disorder"),
}
"""What each method never does: figure 10 of the paper."""


def guaranteed(method: str, given: Sequence[Given]) -> tuple[str, ...]:
    """Return the measures that must be 0.

    That graceful-immediate never repeats holds where a result leaves with the latest row it depends on. Two queries can
    take the same rows and answer at different times, such as [ROWS 3 SLIDE 3] and [RANGE ...] with three rows in it.
    """
    prompt = all(g.result.trigger == max((row.key for row in g.result.depends), default=None) for g in given)
    return tuple(m for m in GUARANTEES[method] if prompt or (method, m) != ("graceful-immediate", "duplicates"))

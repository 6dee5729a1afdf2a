"""Cases whose rows come in disorder, from streams that pause and clocks that jump: what takes part is by definition.

case ──▶ rows in the order they come, lateness, idle and ahead of each stream ──▶ what does not take part ──▶ the rest
"""

import random
from dataclasses import dataclass, replace

import pyarrow as pa

from midstream.model.timing import Timing
from oracle.generate import SECOND, Case, draw_case
from oracle.recompute import times_of
from oracle.set_aside import SetAside, set_aside


@dataclass(frozen=True)
class SilentCase:
    """A case as its rows come; `case` has only those that take part, in order of time."""

    case: Case
    streams: dict[str, pa.Table]
    timings: dict[str, Timing]
    set_aside: dict[str, SetAside]

    @property
    def read(self) -> list[str]:
        """Return the streams that the query reads, in declaration order."""
        return [name for name in self.streams if name in {stream for _, stream in self.case.sources}]


def draw_silent(rnd: random.Random) -> SilentCase:
    """Draw a case of which some rows are set aside, most of them because a run has gone on without a stream."""
    pausing = rnd.random() < 0.7
    while True:
        case = draw_case(rnd, most_streams=4)
        used = {stream for _, stream in case.sources}
        span = max((t for table in case.streams.values() for t in times_of(table)), default=0) + 1
        timings = {name: _draw_timing(rnd, span) for name in case.streams}
        if pausing and len(used) > 1:
            timings = {name: replace(t, lateness_us=rnd.randrange(span // 20 + 1)) for name, t in timings.items()}
            timings[rnd.choice(sorted(used))] = Timing(2 * span, rnd.choice([span // 40, span // 10]))
        coming = {name: _disturbed(rnd, table, timings[name], span) for name, table in case.streams.items()}
        times = {name: times_of(table) for name, table in coming.items()}
        read = [name for name in times if name in used]
        found = set_aside(times, timings, read)
        waiting = set_aside(times, {name: replace(t, idle_us=None) for name, t in timings.items()}, read)
        if any(found[name] != (waiting[name] if pausing else SetAside()) for name in used):
            taken = {name: _taken(table, found[name]) for name, table in coming.items()}
            return SilentCase(replace(case, streams=taken), coming, timings, found)


def _draw_timing(rnd: random.Random, span: int) -> Timing:
    lateness = rnd.choice([0, span // 50, span // 4, 2 * span])
    idle = rnd.choice([None, span // 40, span // 10, span // 3])
    return Timing(lateness, idle, rnd.choice([None, None, span // 3 + 1]))


def _disturbed(rnd: random.Random, table: pa.Table, timing: Timing, span: int) -> pa.Table:
    """Return the rows of a stream as they come: some late, those of a pause after it, a few with times far ahead."""
    times = times_of(table)
    pauses = [(at, at + rnd.randrange(span // 4 + 1)) for at in rnd.sample(range(span), min(2, span))]
    comes = []
    for time in times:
        come = time + rnd.randrange(min(timing.lateness_us, span) + 1) if rnd.random() < 0.3 else time
        for start, end in pauses:
            if start <= time < end:
                come = end + rnd.randrange(span // 20 + 1)
        comes.append(come)
    order = sorted(range(len(times)), key=lambda k: (comes[k], k))
    jumped = [times[k] + (rnd.choice([span, 10**6 * SECOND]) if rnd.random() < 0.04 else 0) for k in order]
    place = table.column_names.index("ts")
    stamps = pa.array(jumped, pa.int64()).cast(table.schema.field("ts").type)
    return table.take(pa.array(order, pa.int64())).set_column(place, "ts", stamps)


def _taken(table: pa.Table, found: SetAside) -> pa.Table:
    """Return the rows that take part, in order of time."""
    times = times_of(table)
    kept = [k for k in range(len(times)) if k not in found.late | found.ahead]
    return table.take(pa.array(sorted(kept, key=lambda k: times[k]), pa.int64()))

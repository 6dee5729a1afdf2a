"""Which rows of recorded streams do not take part, from the definitions, row by row: too far ahead, late by their own
stream, late because the run went on without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from midstream.model.timing import Timing

AFTER = 20
"""So many rows after one that is far ahead are asked whether it counts."""


@dataclass
class SetAside:
    """Offsets of the rows of one stream that do not take part."""

    late: set[int] = field(default_factory=set)
    ahead: set[int] = field(default_factory=set)


def set_aside(
    streams: Mapping[str, Sequence[int]], timings: Mapping[str, Timing], read: Sequence[str] | None = None
) -> dict[str, SetAside]:
    """Return which rows of streams, in declaration order, do not take part; `read`: the streams that the run reads."""
    found = {}
    for name, times in streams.items():
        others = [_end(streams[o], timings[o]) for o in streams if o != name]
        found[name] = SetAside(ahead=_ahead(times, timings[name], [end for end in others if end is not None]))
    coming = []
    names = [name for name in streams if read is None or name in read]
    for place, name in enumerate(names):
        largest = None
        for offset, time in enumerate(streams[name]):
            if offset not in found[name].ahead:
                largest = time if largest is None else max(largest, time)
                coming.append((largest, place, offset, name, time))
    largest_of: dict[str, int] = {}
    gone_on = None
    first = min((c[0] for c in coming), default=0)
    for now, _, offset, name, time in sorted(coming):
        before = largest_of.get(name)
        of_its_own = before is not None and before - time > timings[name].lateness_us
        if of_its_own or (gone_on is not None and time < gone_on):
            found[name].late.add(offset)
        largest_of[name] = now
        frontiers = []
        for other in names:
            idle = timings[other].idle_us
            if idle is not None and now - largest_of.get(other, first) > idle:
                continue
            frontiers.append(None if other not in largest_of else largest_of[other] - timings[other].lateness_us)
        if None not in frontiers:
            least = min(f for f in frontiers if f is not None)
            gone_on = least if gone_on is None else max(gone_on, least)
    return found


def _ahead(times: Sequence[int], timing: Timing, others: Sequence[int]) -> set[int]:
    if timing.ahead_us is None:
        return set()
    largest, ahead = None, set()
    for offset, time in enumerate(times):
        if largest is None or time - largest > timing.ahead_us:
            after = times[offset + 1 : offset + 1 + AFTER]
            follow = sum(t >= time - timing.ahead_us for t in after)
            if after:
                counts = follow > len(after) / 2
            else:
                counts = largest is None or any(end >= time - timing.ahead_us for end in others)
            if not counts:
                ahead.add(offset)
                continue
        largest = time if largest is None else max(largest, time)
    return ahead


def _end(times: Sequence[int], timing: Timing) -> int | None:
    ahead = _ahead(times, timing, [])
    return max((t for k, t in enumerate(times) if k not in ahead), default=None)

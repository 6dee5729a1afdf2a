"""A query that was planned to run live, and the streams it may read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.model.stream import StreamSchema
from midstream.model.timing import Timing
from midstream.plan.aggregates import UserAggregate
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class LiveStream:
    """A declared stream."""

    schema: StreamSchema
    timing: Timing


@dataclass(frozen=True)
class PlannedLive:
    """A query that can be started, with all that later versions of it may use."""

    name: str
    plan: Plan
    streams: Sequence[LiveStream]
    planner: Callable[[Any, str | None, str], Plan]
    """Plans another query over the same streams."""
    aggregates: Mapping[str, UserAggregate]

"""Silence: recorded streams that others do not wait for, and their rows that come too late because of it.

    rows of all streams in the order they come ──▶ silent? ──▶ the time that the run goes on to ──▶ rows before it: late

A recording does not say when its rows came, so they count as coming in order of time: a row comes when its stream has
shown the largest time up to it. After each row the run has gone on to the least frontier (largest time less the
lateness) of the streams that are not silent, and a row from before that is late. So it is the same at any batch width.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from midstream.engine.rows.rows import Vector
from midstream.model.time import FOREVER, NEVER
from midstream.model.timing import Timing


class Coming(Protocol):
    """A stream that is read with others."""

    timing: Timing

    @property
    def reached_us(self) -> int:
        """Return up to where it has been read: its largest time so far; FOREVER when that is all of it."""

    def read_on(self) -> None:
        """Read a chunk."""

    def take_records(self, upto_us: int) -> Vector:
        """Return the times up to one that were the largest of the stream when they came, and forget them."""

    def go_on(self, records: Vector, gone_on_us: Vector) -> None:
        """Take notice of where the run had gone on to after each of these times had come."""


class Silence:
    """Streams that come together, row by row.

    State: the largest time of each stream, and up to where the run has gone on.
    """

    def __init__(self) -> None:
        self._streams: Sequence[Coming] = ()
        self._largest: list[int] = []
        self._first_us = NEVER
        self._gone_on_us = NEVER

    def join(self, streams: Sequence[Coming]) -> None:
        """Begin with all streams, in declaration order."""
        self._streams = streams
        self._largest = [NEVER] * len(streams)

    def come_to(self, upto_us: int) -> None:
        """Let everything come up to a time."""
        while (behind := min(self._streams, key=lambda stream: stream.reached_us)).reached_us < upto_us:
            behind.read_on()
        records = [stream.take_records(upto_us) for stream in self._streams]
        times = np.concatenate(records)
        streams = np.repeat(np.arange(len(records)), [len(r) for r in records])
        order = np.lexsort((streams, times))
        times, streams = times[order], streams[order]
        gone_on = self._gone_on(times, streams)
        for k, stream in enumerate(self._streams):
            stream.go_on(times[streams == k], gone_on[streams == k])

    def _gone_on(self, times: Vector, streams: Vector) -> Vector:
        """Return up to where the run has gone on after each time that was the largest of its stream."""
        if not len(times):
            return times
        if self._first_us == NEVER:
            self._first_us = int(times[0])
        least = np.full(len(times), FOREVER, np.int64)
        for k, stream in enumerate(self._streams):
            timing = stream.timing
            largest = np.maximum.accumulate(np.where(streams == k, times, self._largest[k]))
            self._largest[k] = int(largest[-1])
            lateness_us = min(timing.lateness_us, FOREVER)
            frontier = np.maximum(largest, NEVER + lateness_us) - lateness_us
            if timing.idle_us is not None:
                heard = np.maximum(largest, self._first_us)
                frontier = np.where(times - heard > timing.idle_us, FOREVER, frontier)
            least = np.minimum(least, frontier)
        gone_on: Vector = np.maximum.accumulate(np.maximum(least, self._gone_on_us))
        self._gone_on_us = int(gone_on[-1])
        return gone_on

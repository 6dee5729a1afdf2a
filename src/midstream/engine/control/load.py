"""Load: how far a query is behind its input, when it would be too far, and when what may give is to give.

    micro-batches ──▶ lag ──▶ trend ──▶ falling behind, said early
                       ├──▶ behind: the lighter query takes over
                       └──▶ caught up, and there is time for the full one: it goes on

Nothing gives that nobody has said may give. Whoever runs the query tells the lag: on the clock, or, of recorded
streams, how far a machine of a given capacity would be behind.
State: the lag of the last micro-batches, and which of the two queries runs.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.model.time import format_duration

ROW = 25.0
"""What a row takes that comes or leaves, in predicate evaluations."""
TREND = 8
"""Micro-batches that a trend is taken from."""
EARLY = 3.0
"""It is said that a query falls behind when it will be too far behind within so many times the lag that is too far."""
CAUGHT = 0.1
"""A query has caught up when it is behind by no more than this part of what is too far."""
CALM = 0.8
"""The full query goes on again when it would take no more than this part of the time there is."""
FALLING, BEHIND, CAUGHT_UP = "falling behind", "behind", "caught up"


@dataclass(frozen=True)
class LoadNews:
    """Something to say of the load: what has happened, and which query is to run now, if another one is."""

    what: str
    lag_us: int
    trend: float
    """Seconds that the query falls behind in a second; below 0: it catches up."""
    until_us: int | None
    """In which time it will be too far behind, if it goes on so."""
    lighter: bool | None = None
    """The lighter query is to run, or the full one again; None: what runs goes on."""

    @property
    def why(self) -> str:
        """Say it."""
        told = f"the query is {format_duration(self.lag_us)} behind its input"
        if self.what == FALLING:
            assert self.until_us is not None
            return f"{told} and will be too far behind in {format_duration(self.until_us)}"
        return told

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        plain = {"what": self.what, "lag_s": self.lag_us / 1e6, "trend": round(self.trend, 4)}
        return plain if self.until_us is None else plain | {"until_s": self.until_us / 1e6}


@dataclass
class LoadWatch:
    """Watches the lag of one query.

    Invariant: the lighter query is asked for only when the lag has come to what is too far; the full one only when
    it has caught up, and it had time to spare at such a rate, or would have, by what a row took of it last.
    """

    when_behind_us: int
    lighter: bool = False
    """The lighter query runs, or is to."""
    falling: bool = False
    """It was said that the query falls behind."""
    seen: list[list[float]] = field(default_factory=list)
    """Time and lag after the last micro-batches, in microseconds, and the rows a second that came in them."""
    full_share: float = 0.0
    """The part of the time there is that the full query took, for each row a second of input."""
    managed_per_s: float = 0.0
    """The most rows a second for which the full query had time to spare."""

    @property
    def lag_us(self) -> int:
        """Return how far the query is behind."""
        return round(self.seen[-1][1]) if self.seen else 0

    @property
    def _caught_us(self) -> float:
        return CAUGHT * self.when_behind_us

    @property
    def trend(self) -> float:
        """Return how many seconds the query falls behind in a second."""
        if not self.seen:
            return 0.0
        (first, before, _), (last, now, _) = self.seen[0], self.seen[-1]
        return (now - before) / (last - first) if last > first else 0.0

    @property
    def until_us(self) -> int | None:
        """Return in which time the query will be too far behind, if it goes on as it does."""
        left = self.when_behind_us - self.lag_us
        return None if self.trend <= 0 or left <= 0 else round(left / self.trend)

    def on_batch(self, at_us: int, lag_us: float, rows_per_s: float, busy: float) -> LoadNews | None:
        """Take a micro-batch that ended at a time; `busy` is the part of its time that it took.

        Return what there is to say.
        """
        self.seen = [*self.seen[1 - TREND :], [float(at_us), max(0.0, float(lag_us)), rows_per_s]]
        if not self.lighter and rows_per_s > 0:
            self.full_share = busy / rows_per_s
            if busy <= CALM:  # a rate that has lasted: states have filled by then
                self.managed_per_s = max(self.managed_per_s, min(rate for _, _, rate in self.seen))
        if not self.lighter and self.lag_us >= self.when_behind_us:
            self.lighter = self.falling = True
            return self._news(BEHIND, lighter=True)
        if self.lighter:
            calm = rows_per_s <= self.managed_per_s or self.full_share * rows_per_s <= CALM
            if not calm or len(self.seen) < 2 or max(lag for _, lag, _ in self.seen[-2:]) > self._caught_us:
                return None
            self.lighter = self.falling = False
            return self._news(CAUGHT_UP, lighter=False)
        until_us = self.until_us
        if not self.falling and until_us is not None and until_us <= EARLY * self.when_behind_us:
            self.falling = len(self.seen) > 2 and self.lag_us > self._caught_us
            return self._news(FALLING) if self.falling else None
        if self.falling and self.lag_us <= self._caught_us:
            self.falling = False
            return self._news(CAUGHT_UP)
        return None

    def _news(self, what: str, lighter: bool | None = None) -> LoadNews:
        return LoadNews(what, self.lag_us, self.trend, self.until_us, lighter)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> "LoadWatch":
        """Return it from plain values."""
        return LoadWatch(**plain)


@dataclass
class Machine:
    """A machine that does so much in a second of event time: how far it would be behind recorded streams."""

    capacity: float
    ready_us: float | None = None
    """When it would have done everything so far."""

    def on_batch(self, start_us: int, end_us: int, evaluations: float, rows: float) -> tuple[float, float]:
        """Take a micro-batch of some event time; return how far behind it is after it, and how busy it was."""
        took_us = (evaluations + ROW * rows) * 1e6 / self.capacity
        before_us = start_us if self.ready_us is None else max(self.ready_us, start_us)
        self.ready_us = before_us + took_us
        return max(0.0, self.ready_us - end_us), took_us / max(end_us - start_us, 1)

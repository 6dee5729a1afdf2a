"""Load of a live query: how far it is behind, by its clock, and what gives then if somebody has said what may.

    micro-batch ──▶ clock less event time reached, beside the least there was ──▶ lag ──▶ watch ──▶ events, a change

The lag is how much further behind the clock the query is than it was at best in this run: rows may be old when they
come.
State: that of the watch, in this run. Which query runs is in the checkpoint.
"""

from collections.abc import Callable, Mapping
from typing import Any

from midstream.engine.control.load import LoadNews, LoadWatch
from midstream.engine.control.load_policy import LoadPolicy, load_policy
from midstream.engine.results.reports import BatchSummary
from midstream.model.errors import MidstreamError
from midstream.model.time import NEVER

Change = Callable[[str, str], str]
"""Asks for a change to a query, by its text, with a method; returns the id of the control row."""
UNSAID_US = 60_000_000
"""What is too far behind where nobody has said."""


def live_policy(asked: Mapping[str, Any], text: str) -> LoadPolicy:
    """Read what may give of a live query, or refuse it."""
    if not text:
        raise MidstreamError("load needs a query that is given as text, to go back to it")
    if "capacity" in asked:
        raise MidstreamError("load capacity is for recorded streams: a live query has a lag of its own")
    return load_policy(asked, text)


class LiveLoad:
    """The load of one run."""

    def __init__(self, policy: LoadPolicy | None, full: str, running: str) -> None:
        """`full` and `running` are the texts of the query itself and of the one that runs."""
        self._policy, self._full = policy, full
        self._watch = LoadWatch(UNSAID_US if policy is None else policy.when_behind_us)
        self._watch.lighter = policy is not None and running == policy.sql != full
        self._least_us: int | None = None
        self._before_s: float | None = None
        self._version = 0
        self._expects = False
        """Another version is on its way because of what gives here."""
        self._gives = policy is not None
        self._behind_s: dict[str, float] = {}

    def on_batch(
        self, summary: BatchSummary, now_us: int, elapsed_s: float, took_s: float, change: Change
    ) -> list[dict[str, Any]]:
        """Take a micro-batch; return what there is to say, and go on with the other query where that is to be."""
        passed_s, self._before_s = (None if self._before_s is None else elapsed_s - self._before_s), elapsed_s
        self._behind_s = {name: round((now_us - us) / 1e6, 3) for name, us in sorted(summary.seen.items())}
        if summary.released_us <= NEVER // 2 or not passed_s:
            return []
        self._follow(summary.version)
        offset_us = round(elapsed_s * 1e6) - summary.released_us
        self._least_us = offset_us if self._least_us is None else min(self._least_us, offset_us)
        rate, busy = summary.rows_in / passed_s, took_s / passed_s
        news = self._watch.on_batch(round(elapsed_s * 1e6), offset_us - self._least_us, rate, busy)
        if news is None or self._policy is None:
            return []
        told = [{**news.to_dict(), "why": news.why}]
        return told if news.lighter is None or not self._gives else [*told, self._ask(news, change)]

    def _follow(self, version: int) -> None:
        """See who has changed the query: if it was somebody else, nothing gives any more."""
        if version and version != self._version:
            if self._version and not self._expects:
                self._gives = False
            self._version, self._expects = version, False

    def _ask(self, news: LoadNews, change: Change) -> dict[str, Any]:
        assert self._policy is not None
        to, sql = (self._policy.said, self._policy.sql) if news.lighter else ("the full query", self._full)
        try:
            identity = change(sql, self._policy.method)
        except MidstreamError as error:
            self._gives = False
            return {"what": f"to {to}", "refused": str(error)}
        self._expects = True
        return {"what": f"to {to}", "change": identity, "method": self._policy.method, "why": news.why}

    def status(self) -> dict[str, Any]:
        """Return what the status says of the load."""
        until_us = self._watch.until_us
        return {
            "lag_s": self._watch.lag_us / 1e6,
            "trend": round(self._watch.trend, 4),
            "until_s": None if until_us is None else until_us / 1e6,
            "when_behind_s": None if self._policy is None else self._policy.when_behind_us / 1e6,
            "gives": None if self._policy is None or not self._gives else self._policy.said,
            "lighter": self._watch.lighter,
            "behind_the_clock_s": self._behind_s,
        }

"""What a user says may give when a query is behind its input: another query, prepared beforehand, and when it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstream.change.repository import check_registered
from midstream.change.request import DRAIN, METHODS
from midstream.lang.lighter import with_hop, with_windows
from midstream.model.errors import MidstreamError
from midstream.model.time import format_duration, parse_duration

GIVES = {
    "query": "another query, as text or as a file",
    "version": "a registered one, by its number",
    "hop": "the same query with hops that are farther apart",
    "window": "the same query with windows of time no longer than this",
}
"""What may give."""
KEYS = ("when_behind", *GIVES, "method", "capacity")


@dataclass(frozen=True)
class LoadPolicy:
    """What may give, and when."""

    when_behind_us: int
    sql: str
    """The query that runs while the full one would be behind."""
    said: str
    """What gives, in words."""
    method: str = DRAIN
    """The method of change by which one query takes over from the other."""
    capacity: float | None = None
    """Of recorded streams: what the machine does in a second of event time; see `Machine`."""


def load_policy(asked: Mapping[str, Any], text: str, versions: Sequence[str] = ()) -> LoadPolicy:
    """Read what may give of the query with a text; `versions` are others that it can be changed to, from 2 on.

    >>> load_policy({"when_behind": "30 seconds", "window": "5 seconds"}, "SELECT a.k FROM a [RANGE 1 MINUTE]").sql
    'SELECT a.k FROM a [RANGE 5 SECONDS]'
    """
    for key in asked:
        if key not in KEYS:
            raise MidstreamError(f"load has no '{key}'; it has {', '.join(KEYS)}")
    given = [key for key in GIVES if key in asked]
    if len(given) != 1:
        raise MidstreamError(f"load says what gives by one of {', '.join(GIVES)}, not by {len(given)} of them")
    if "when_behind" not in asked:
        raise MidstreamError('load needs when_behind = "...": how far behind its input the query may be')
    when_us = parse_duration(asked["when_behind"])
    if when_us <= 0:
        raise MidstreamError(f"load when_behind must be longer than nothing, not {asked['when_behind']!r}")
    method, capacity = asked.get("method", DRAIN), asked.get("capacity")
    if method not in METHODS:
        raise MidstreamError(f"load method is {method!r}; it can be {', '.join(METHODS)}")
    if capacity is not None and (isinstance(capacity, bool) or not isinstance(capacity, int | float) or capacity <= 0):
        raise MidstreamError(f"load capacity must be a number above 0, not {capacity!r}")
    sql, said = _lighter(given[0], asked[given[0]], text, versions)
    return LoadPolicy(when_us, sql, said, method, None if capacity is None else float(capacity))


def _lighter(kind: str, value: Any, text: str, versions: Sequence[str]) -> tuple[str, str]:
    """Return the lighter query, and what to call it."""
    if kind == "version":
        if value == 1:
            raise MidstreamError("load version 1 is the query itself; name another one")
        number = check_registered(value, range(1, len(versions) + 2))
        return versions[number - 2], f"version {number}"
    if kind == "query":
        if not isinstance(value, str):
            raise MidstreamError(f"load query must be text, not {value!r}")
        return value, "another query"
    width_us = parse_duration(value)
    if width_us <= 0:
        raise MidstreamError(f"load {kind} must be longer than nothing, not {value!r}")
    shown = format_duration(width_us).lower()
    if kind == "hop":
        return with_hop(text, width_us), f"hops of {shown}"
    return with_windows(text, width_us), f"windows of {shown}"

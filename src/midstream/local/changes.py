"""Changes as they are asked for: the new query, its plan, and what is known before anything happens."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from midstream.change.forecast import ChangeForecast, forecast_change
from midstream.change.guarantees import LABELS
from midstream.change.request import DRAIN, ORDERS, ChangeRequest
from midstream.lang.sql import parse_query
from midstream.local.replay import Rehearsal, make_plan
from midstream.local.sources import RecordedStream
from midstream.local.statistics import gather
from midstream.model.errors import MidstreamError
from midstream.model.statistics import Statistics
from midstream.plan.plan import Plan


def query_text(query: str) -> tuple[str, str]:
    """Return the text of a query that is a file whose name ends in .sql, or the text itself; and how to call it."""
    file = query.strip() if query.strip().lower().endswith(".sql") else None
    if file is None:
        return query, "the new query"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except FileNotFoundError as error:
        raise MidstreamError(f"there is no query file {file}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise MidstreamError(f"query file {file} cannot be read") from error


def plan_change(query: str, rehearsal: Rehearsal) -> Plan:
    """Plan the query a change goes to: a file whose name ends in .sql, or the text itself."""
    text, name = query_text(query)
    catalog = [s.schema for s in rehearsal.streams]
    try:
        asked = parse_query(text, catalog, rehearsal.aggregates)
        return make_plan(asked, streams=rehearsal.streams)
    except MidstreamError as error:
        raise MidstreamError(f"{name}: {error}") from error


def ask_change(
    query: Any, planner: Callable[[Any, str | None, str], Plan], asked: dict[str, Any], identity: str = ""
) -> tuple[ChangeRequest, Plan]:
    """Return the request of a change to a query given as text or by the builder, and the plan of that query."""
    request = ChangeRequest.of(query if isinstance(query, str) else "(built)", asked, identity=identity)
    return request, planner(query, request.plan, request.join)


def explain_change(
    old: Plan, new: Plan, streams: Sequence[RecordedStream], matters: Iterable[str] = ()
) -> ChangeForecast:
    """Say what each way from a query to another would guarantee and take, estimated from recorded streams."""
    before, after = (gather(plan.query, streams) or Statistics() for plan in (old, new))
    return forecast_change(old, new, before, after, matters)


def labels_of(method: str | None, order: str | None) -> tuple[str, ...]:
    """Return the methods that someone asks about, as the table of guarantees calls them; a drain in both orders.

    >>> labels_of("drain", None), labels_of(None, "query"), labels_of("immediate", None)
    (('drain/query', 'drain/stream'), ('drain/query',), ('immediate',))
    """
    if method is None and order is None:
        return LABELS
    method = ChangeRequest("", method or DRAIN, order).method
    return tuple(label for label in LABELS if label in ((f"{method}/{order}",) if order else _orders(method)))


def _orders(method: str) -> tuple[str, ...]:
    return method, *(f"{method}/{order}" for order in ORDERS)

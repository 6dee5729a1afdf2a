"""The repository of queries: each validated, planned and ready before a change to it is asked for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.change.lifecycle import DSTOP
from midstream.change.reach import reach_of
from midstream.change.request import IMMEDIATE, ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.model.errors import PlanError
from midstream.plan.aggregates import UserAggregate
from midstream.plan.capabilities import refuse
from midstream.plan.json import read_plan, write_plan
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class QueryVersion:
    """A query that a run can change to by its number."""

    number: int
    sql: str
    plan: Plan

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"number": self.number, "sql": self.sql, "plan": str(self.plan)}


class Repository:
    """Queries that a run can change to, planned beforehand: number 1 is the one it was started with.

    Numbers are not given twice. `_version` in the output is another number: it counts the changes.
    """

    def __init__(self, first: Plan) -> None:
        self._versions = {1: QueryVersion(1, " ".join(str(first.query).split()), first)}
        self._next = 2
        self._written: dict[int, dict[str, Any]] = {}
        """Plans as they were last written down."""

    def add(self, sql: str, plan: Plan) -> QueryVersion:
        """Register a query."""
        version = QueryVersion(self._next, sql, plan)
        self._versions[self._next] = version
        self._next += 1
        return version

    def remove(self, number: int) -> None:
        """Forget a registered query; what runs is not touched."""
        del self._versions[check_removable(number, self._versions)]

    def __getitem__(self, number: int) -> QueryVersion:
        return self._versions[check_registered(number, self._versions)]

    def all(self) -> list[QueryVersion]:
        """Return all queries, by number."""
        return list(self._versions.values())

    def to_plain(self) -> dict[str, Any]:
        """Return all but the first query as plain values, and the next number."""
        added = [v for v in self.all() if v.number > 1]
        self._written = {v.number: self._written.get(v.number) or write_plan(v.plan) for v in added}
        return {"next": self._next, "added": [[v.number, v.sql, self._written[v.number]] for v in added]}

    def load(self, plain: dict[str, Any], aggregates: Mapping[str, UserAggregate]) -> None:
        """Be as `to_plain` said; plans may call aggregates of the user."""
        for number, sql, plan in plain["added"]:
            self._versions[number] = QueryVersion(number, sql, read_plan(plan, aggregates))
        self._next = plain["next"]


def check_registered(number: int, known: Iterable[int]) -> int:
    """Return the number of a registered query, or refuse."""
    known = sorted(known)
    if isinstance(number, bool) or number not in known:
        raise PlanError(f"there is no registered query {number!r}; there are {', '.join(map(str, known))}")
    return number


def check_removable(number: int, known: Iterable[int]) -> int:
    """Return the number of a registered query that can be removed, or refuse."""
    if check_registered(number, known) == 1:
        raise PlanError("query 1 is the one the run was started with; it cannot be removed")
    return number


def check_change(old: Plan, new: Plan, request: ChangeRequest) -> None:
    """Refuse a change that cannot be honoured."""
    for plan, which in ((old, "the running query"), (new, "the new query")):
        plan.query.ask_of_times("change of hops of rows", which=which)
        if not reach_of(plan).drains and request.method != IMMEDIATE:
            raise refuse("change of a difference", which=which, allowed=IMMEDIATE, method=request.method)
    changed = schema_change(columns_of(old), columns_of(new))
    if changed and not request.allow_schema_change:
        raise PlanError(f"the output changes: {'; '.join(changed)}; say allow_schema_change if that is wanted")


def check_control(request: ControlRequest, running: Sequence[Plan]) -> None:
    """Refuse a control element that cannot be honoured."""
    for plan in running:
        plan.query.ask_of_times("change of hops of rows", which="the running query")
    if request.element == DSTOP and not all(reach_of(plan).drains for plan in running):
        raise refuse("drain of a difference")


def columns_of(plan: Plan) -> pa.Schema:
    """Return the columns of a query's output that depend on the query."""
    return pa.schema([f for f in plan.query.output_schema if f.name not in ("_time", "_version")])


def united(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of several outputs side by side; those of one name must have one type."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            held = fields.setdefault(field.name, field)
            if held.type != field.type:
                raise PlanError(
                    f"column '{field.name}' is {held.type} in one version and {field.type} in another; one file cannot "
                    "hold both: cast one of them, or rename it"
                )
    return pa.schema(list(fields.values()))

"""The repository of query versions: each validated, planned and ready before a change takes effect."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.change.lifecycle import DSTOP
from midstream.change.request import IMMEDIATE, ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.model.errors import PlanError
from midstream.plan.capabilities import refuse
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class QueryVersion:
    """One version of a query; the first is number 1."""

    number: int
    plan: Plan

    @property
    def schema(self) -> pa.Schema:
        """Return what it emits."""
        return self.plan.query.schema


class Repository:
    """The versions of one query, in the order they were added."""

    def __init__(self, first: Plan) -> None:
        self.versions = [QueryVersion(1, first)]

    def __getitem__(self, number: int) -> QueryVersion:
        return self.versions[number - 1]

    @property
    def newest(self) -> QueryVersion:
        """Return the version added last."""
        return self.versions[-1]

    def add(self, plan: Plan, request: ChangeRequest, running: int | None = None) -> QueryVersion:
        """Add a version, or refuse the change that asks for it, from version `running` or the newest one."""
        check_change((self.newest if running is None else self[running]).plan, plan, request)
        self.versions.append(QueryVersion(len(self.versions) + 1, plan))
        return self.newest


def check_change(old: Plan, new: Plan, request: ChangeRequest) -> None:
    """Refuse a change that cannot be honoured."""
    for plan, which in ((old, "the running query"), (new, "the new query")):
        if plan.query.takes_back and request.method != IMMEDIATE:
            raise refuse("change of a difference", which=which, allowed=IMMEDIATE, method=request.method)
    changed = schema_change(columns_of(old), columns_of(new))
    if changed and not request.allow_schema_change:
        raise PlanError(f"the output changes: {'; '.join(changed)}; say allow_schema_change if that is wanted")


def check_control(request: ControlRequest, running: Sequence[Plan]) -> None:
    """Refuse a control element that cannot be honoured."""
    if request.element == DSTOP and any(plan.query.takes_back for plan in running):
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

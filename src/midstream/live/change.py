"""Asking a live query to change, from its own process or another: checked, planned, written down, then sent."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from midstream.change.guarantees import Guarantees, guarantees
from midstream.change.record import ABORTED, SUPERSEDED
from midstream.change.repository import check_change, check_registered, columns_of, united
from midstream.change.request import DRAIN, ChangeRequest
from midstream.change.schema import schema_change
from midstream.engine.control.controls import CHANGE
from midstream.lang.sql import parse_query
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import (
    Catalog,
    StoredVersions,
    VersionFiles,
    read_catalog,
    register,
    registered,
)
from midstream.local.replay import make_plan
from midstream.model.errors import MidstreamError
from midstream.plan.aggregates import UserAggregate
from midstream.plan.plan import Plan


def stored_versions(
    checkpoint: Checkpoint, identity: str, first: Plan, aggregates: Mapping[str, UserAggregate]
) -> StoredVersions:
    """Return the versions of the query that lives in a checkpoint."""
    folder, controls = checkpoint.versions.absolute(), checkpoint.controls.folder.absolute()
    return StoredVersions(folder, controls, identity, first, dict(aggregates), checkpoint.world)


@dataclass(frozen=True)
class PreparedChange:
    """A change that can be honoured: planned and checked, but nobody knows of it yet."""

    checkpoint: Checkpoint
    running: Plan
    plan: Plan
    request: ChangeRequest

    @property
    def guarantees(self) -> Guarantees:
        """Return what its method guarantees for the two queries."""
        return guarantees(self.running, self.plan)[self.label]

    @property
    def label(self) -> str:
        """Return its method as the table of guarantees calls it."""
        method = self.request.method
        return f"{method}/{self.request.ordering}" if method == DRAIN else method

    @property
    def schema(self) -> list[str]:
        """Say how the output changes, a sentence a column."""
        return schema_change(columns_of(self.running), columns_of(self.plan))

    def send(self) -> str:
        """Put the version into the repository and send the control row; return its id."""
        controls, versions = self.checkpoint.controls, VersionFiles(self.checkpoint.versions, self.checkpoint.world)
        identity = controls.new_id()
        number = versions.add(self.request.sql, self.plan, identity)
        return controls.send(CHANGE, identity=identity, change=self.request.to_dict(), version=number)


def prepare_change_to(folder: Path, sql: str, request: ChangeRequest) -> PreparedChange:
    """Plan and check a change of the query that lives in a checkpoint to another one, given as text."""
    checkpoint, catalog = open_checkpoint(folder)
    query = parse_query(sql, catalog.streams, catalog.aggregates)
    return prepare_change(checkpoint, catalog, make_plan(query, request.plan, request.join), request)


def prepare_registered(folder: Path, number: int, request: ChangeRequest) -> PreparedChange:
    """Check a change of the query that lives in a checkpoint to a registered one."""
    checkpoint, catalog = open_checkpoint(folder)
    return prepare_known(checkpoint, catalog, number, request)


def prepare_known(checkpoint: Checkpoint, catalog: Catalog, number: int, request: ChangeRequest) -> PreparedChange:
    """Check a change to a registered query, which has been planned."""
    known = registered(checkpoint.versions, catalog, checkpoint.world)
    version = known[check_registered(number, known)]
    return prepare_change(checkpoint, catalog, version.plan, replace(request, sql=version.sql))


def register_text(folder: Path, sql: str, plan: str | None = None, join: str = "auto") -> int:
    """Plan and check a query for the one that lives in a checkpoint, to be changed to later; return its number."""
    checkpoint, catalog = open_checkpoint(folder)
    made = make_plan(parse_query(sql, catalog.streams, catalog.aggregates), plan, join)
    catalog.check(made)
    return register(checkpoint.versions, sql, made, checkpoint.world)


def open_checkpoint(folder: Path) -> tuple[Checkpoint, Catalog]:
    """Return a checkpoint and what later queries of its run may read."""
    checkpoint = Checkpoint.existing(folder)
    catalog = read_catalog(checkpoint.versions, world=checkpoint.world)
    if catalog is None:
        raise MidstreamError(f"the query of {folder} has not begun to run; start it first")
    return checkpoint, catalog


def prepare_change(checkpoint: Checkpoint, catalog: Catalog, plan: Plan, request: ChangeRequest) -> PreparedChange:
    """Check a change of the query that lives in a checkpoint to another plan."""
    catalog.check(plan)
    gone, identity = _given_up(checkpoint), (checkpoint.known() or {}).get("id", "")
    versions = stored_versions(checkpoint, identity, catalog.first, catalog.aggregates)
    running = versions.plan_of(max((n for n in versions.asked() if n not in gone), default=1))
    check_change(running, plan, request)
    # Results of versions that run together can leave in one table.
    together = [p for n, p in versions.wanted() if n not in gone]
    united([columns_of(p) for p in (*together, plan)])
    return PreparedChange(checkpoint, running, plan, request)


def _given_up(checkpoint: Checkpoint) -> set[int]:
    """Return the versions that were asked for and will not run: no change goes from them."""
    events = [e for e in checkpoint.events.all() if e.get("event") == CHANGE and "to_version" in e]
    # A version whose change was superseded may have started; then it runs or drains on.
    never = [e for e in events if e["state"] == SUPERSEDED and e.get("started_us") is None]
    return {e["to_version"] for e in (*never, *(e for e in events if e["state"] == ABORTED))}

"""Asking a live query to change, from its own process or another: checked, planned, written down, then sent."""

from pathlib import Path

from midstream.change.repository import check_change
from midstream.change.request import ChangeRequest
from midstream.lang.sql import parse_query
from midstream.plan.plan import Plan
from midstream.runtime.replay import make_plan
from midstream.runtime.spark.checkpoint import Checkpoint
from midstream.runtime.spark.control import CHANGE
from midstream.runtime.spark.repository import Catalog, add_version, newest, read_catalog


def ask_for_change(checkpoint: Checkpoint, catalog: Catalog, plan: Plan, request: ChangeRequest) -> str:
    """Check a change, put its version into the repository and send the control row; return its id."""
    running = newest(checkpoint.versions, catalog.first)
    catalog.check(plan)
    check_change(running, plan, request)
    stored = add_version(checkpoint.versions, request.sql, plan)
    return checkpoint.controls.send(CHANGE, change=request.to_dict(), version=stored.number)


def change_from_text(folder: Path, sql: str, request: ChangeRequest) -> str:
    """Ask the query that lives in a checkpoint for another one, given as text."""
    checkpoint = Checkpoint.existing(folder)
    catalog = read_catalog(checkpoint.versions)
    query = parse_query(sql, catalog.streams, catalog.aggregates)
    return ask_for_change(checkpoint, catalog, make_plan(query, request.plan, request.join), request)

"""Users: what they ask of a live query, from the process that runs it or from one of their own, where they may die.

Each goes the way of the command line: open the checkpoint, look at the status, check, send.
"""

from pathlib import Path
from typing import Any

from midstream.change.request import ChangeRequest
from midstream.engine.control import controls
from midstream.live.change import prepare_change, prepare_known
from midstream.live.checkpoint import Checkpoint
from midstream.live.repository import read_catalog, register
from midstream.live.run import LiveRun
from midstream.migrate.request import MigrationRequest
from simulation.process import Process
from simulation.scripts import CHANGE, CONTROL, DRAIN, MIGRATE, REGISTERED, SNAPSHOT, STOP, Action, Script

Sent = tuple[str, int | None]
"""The id of a control row, and the run that it is for; None: for any."""


def act_here(run: LiveRun, script: Script, action: Action) -> Sent:
    """Ask for something in the process that runs the query; return the id of the control row."""
    ends = action.what in (STOP, DRAIN)
    return _act_here(run, script, action), run.runs.latest if ends else None


def _act_here(run: LiveRun, script: Script, action: Action) -> str:
    if action.what == CHANGE:
        number, method = action.arguments
        name, _, order = method.partition("/")
        return run.change(script.queries[number], name, order or None, allow_schema_change=True, audit=True)
    if action.what == MIGRATE:
        plan, strategy, options = action.arguments
        return run.migrate(plan, strategy, **dict(options))
    if action.what == CONTROL:
        return run.control(*action.arguments)
    if action.what == SNAPSHOT:
        return run.snapshot()
    if action.what == REGISTERED:
        number, method = action.arguments
        name, _, order = method.partition("/")
        known = run.register(script.queries[number])
        return run.change(known, name, order or None, allow_schema_change=True)
    assert action.what in (STOP, DRAIN)
    return run.ask_to_end(action.what == DRAIN)


def act_elsewhere(process: Process, folder: Path, script: Script, action: Action) -> Sent | None:
    """Ask for the same in a process of one's own."""
    world = process.world
    held = Checkpoint.existing(folder, world)
    status = held.read_status()
    if status["state"] != "running":
        return None
    if action.what in (STOP, DRAIN):
        do, run = controls.DRAIN if action.what == DRAIN else controls.STOP, status.get("run")
        return held.controls.send(do, run=run), run
    return _act_elsewhere(held, world, script, action), None


def _act_elsewhere(held: Checkpoint, world: Any, script: Script, action: Action) -> str:
    if action.what in (CHANGE, REGISTERED):
        return _change(held, world, script, action)
    if action.what == MIGRATE:
        plan, strategy, options = action.arguments
        return held.controls.send(
            controls.MIGRATE, migration=MigrationRequest.of(plan, strategy, dict(options)).to_dict()
        )
    if action.what == CONTROL:
        return held.controls.send(controls.CONTROL, control=action.arguments[0])
    assert action.what == SNAPSHOT
    return held.controls.send(controls.SNAPSHOT)


def _change(held: Checkpoint, world: Any, script: Script, action: Action) -> str:
    number, method = action.arguments
    name, _, order = method.partition("/")
    options = {"method": name, "allow_schema_change": True, "audit": True, **({"order": order} if order else {})}
    request = ChangeRequest.of(script.queries[number], options)
    catalog = read_catalog(held.versions, world=world)
    assert catalog is not None
    plan = script.planned(script.queries[number], None, "auto")
    if action.what == REGISTERED:
        known = register(held.versions, script.queries[number], plan, world)
        return prepare_known(held, catalog, known, request).send()
    return prepare_change(held, catalog, plan, request).send()

"""Asking an adopted query for a deployment, from any process that can write its checkpoint."""

from collections.abc import Mapping
from typing import Any

from midstream.engine.control.controls import CONTROL
from midstream.live.adopted.build import source_of, with_its_folder
from midstream.live.adopted.gate import DEPLOY, ROLLBACK
from midstream.live.adopted.request import deploy_request
from midstream.live.checkpoint import Checkpoint


def ask_deploy(held: Checkpoint, build: str, change: bool, how: str | None, options: Mapping[str, Any]) -> str:
    """Send a version, with the text of its file; return the id of the deployment."""
    request = deploy_request(with_its_folder(build), change, how, options)
    source = source_of(build)
    return held.controls.send(CONTROL, control=DEPLOY, deployment=request.to_dict(), source=source)


def ask_rollback(held: Checkpoint) -> str:
    """Ask for the old version; return the id of the control row."""
    return held.controls.send(CONTROL, control=ROLLBACK)

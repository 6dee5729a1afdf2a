"""Records: what people are shown of deployments, in events and status."""

from collections.abc import Sequence
from typing import Any

from midstream.live.adopted.gate_log import Deployment


def record_of(deployment: Deployment) -> dict[str, Any]:
    """Return what people are shown of a deployment."""
    asked = deployment.request
    said = deployment.to_dict()
    del said["request"]
    return {**said, "build": asked.build, "asked": asked.label, "verify": asked.verify, "segments": asked.segments}


def describe(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last record of each deployment among some events, oldest first."""
    last: dict[str, dict[str, Any]] = {}
    for event in events:
        if event.get("event") == "deployment":
            last[event["identity"]] = event
    return list(last.values())

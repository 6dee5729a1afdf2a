"""History: how much of the journal a new version must have read to answer as if it had always run."""

from midstream.live.adopted.gate_log import BEFORE_SWITCH, Deployment
from midstream.live.adopted.journal import Journal
from midstream.live.adopted.request import PARALLEL_TRACK, DeployRequest
from midstream.model.errors import MidstreamError


def history_us(request: DeployRequest, keep_us: int | None) -> int | None:
    """Return how far back in event time it goes; None: to the beginning. A migration that does not say takes all."""
    return request.history_us if request.history_us is not None or request.change else keep_us


def check_request(request: DeployRequest, under_way: Deployment | None, keep_us: int | None) -> None:
    """Refuse a deployment that cannot be honoured."""
    if under_way is not None and under_way.state in BEFORE_SWITCH:
        raise MidstreamError(f"version {under_way.to_version} is {under_way.state}: roll it back first, or wait")
    if keep_us is not None and (request.history_us or 0) > keep_us:
        raise MidstreamError("the journal does not go back that far: start the query with a longer `keep`")
    if request.how == PARALLEL_TRACK and history_us(request, keep_us) is None:
        raise MidstreamError("general-parallel-track ends when `history` has passed: say how long that is")


def has_passed(request: DeployRequest, keep_us: int | None, journal: Journal, first: int, at: int) -> bool:
    """Return whether all rows that matter after segment `at` are in segment `first` or later ones."""
    width_us = history_us(request, keep_us)
    assert width_us is not None, "the request was checked"
    return at >= first and journal.needed(width_us, at) >= first

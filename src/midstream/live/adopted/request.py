"""What can be asked of an adopted query: another version of equal meaning, or of new meaning, and how to get there.

| of equal meaning: strategy | |
|---|---|
| general-hybrid | the new version reads the last `history` of the journal while the old one answers |
| general-parallel-track | it starts empty; the old one answers until `history` of event time has passed |
| general-moving-state | as hybrid, but the old one pauses meanwhile: no segment is computed twice after the position |

| of new meaning: method | |
|---|---|
| immediate | the old version stops at the position, the new one starts there |
| graceful-immediate | the new one starts there, the old one stops at its first answer |
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from midstream.model.errors import MidstreamError
from midstream.model.time import format_duration, parse_duration

HYBRID, PARALLEL_TRACK, MOVING_STATE = "general-hybrid", "general-parallel-track", "general-moving-state"
STRATEGIES = (HYBRID, PARALLEL_TRACK, MOVING_STATE)
IMMEDIATE, GRACEFUL = "immediate", "graceful-immediate"
METHODS = (IMMEDIATE, GRACEFUL)
DRAINS = ("delayed-drain", "drain", "graceful-drain")
NO, REFUSE, REPORT = "no", "refuse", "report"
VERIFY = (NO, REFUSE, REPORT)


@dataclass(frozen=True)
class DeployRequest:
    """A deployment as it was asked for."""

    build: str
    """What names the program: `file.py:function`, or the name of a function the running process has."""
    change: bool = False
    """Of new meaning."""
    how: str = HYBRID
    """The strategy of a migration, the method of a change."""
    history_us: int | None = None
    """How much of the journal the new version reads first; None: all of it, or nothing for a change."""
    verify: str = NO
    segments: int = 5
    """How many segments with rows are compared."""
    timeout_us: int = 120_000_000
    """The new version is rolled back when it gets no further for so long."""
    grace_us: int = 600_000_000
    """How long the old version stays after the switch, to go back to."""
    allow_schema_change: bool = False

    def __post_init__(self) -> None:
        known = METHODS if self.change else STRATEGIES
        if self.change and self.how in DRAINS:
            raise MidstreamError(
                f"method '{self.how}' needs to know which results depend on older rows, and what your own program does "
                f"with rows is out of sight; it can be {' or '.join(METHODS)}"
            )
        if self.how not in known:
            what = "method" if self.change else "strategy"
            raise MidstreamError(f"{what} is '{self.how}'; for a program of your own it can be {', '.join(known)}")
        if self.verify not in VERIFY:
            raise MidstreamError(f"verify is '{self.verify}'; it can be {', '.join(VERIFY)}")
        if self.verify == REFUSE and self.change:
            raise MidstreamError("a change has another meaning, so its output differs: verify it with 'report', or not")
        if self.verify != NO and self.how in (MOVING_STATE, *METHODS) and not (self.change and self.history_us):
            raise MidstreamError(
                f"there is nothing to compare: by {self.how} the two versions do not answer side by side"
            )
        if self.how == GRACEFUL and self.history_us is not None:
            raise MidstreamError("graceful-immediate starts with the rows from the position on: it takes no history")
        for name in ("segments", "timeout_us"):
            if getattr(self, name) < 1:
                raise MidstreamError(f"{name.removesuffix('_us')} must be more than 0")
        for name in ("history_us", "grace_us"):
            if (getattr(self, name) or 0) < 0:
                raise MidstreamError(f"{name.removesuffix('_us')} must not be negative")

    @property
    def replays(self) -> bool:
        """Return whether the new version first reads what is in the journal."""
        return self.history_us is not None if self.change else self.how != PARALLEL_TRACK

    @property
    def label(self) -> str:
        """Say in some words what was asked."""
        history = "" if self.history_us is None else f", history {format_duration(self.history_us).lower()}"
        return f"{'change' if self.change else 'migration'} by {self.how}{history}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> "DeployRequest":
        """Read plain values."""
        known = {field.name for field in fields(DeployRequest)}
        return DeployRequest(**{key: value for key, value in plain.items() if key in known})


def deploy_request(build: str, change: bool, how: str | None, options: Mapping[str, Any]) -> DeployRequest:
    """Make a request of what a user says: durations as text, `verify` as True, False or "report"."""
    asked = {key: value for key, value in options.items() if value is not None}
    verify = asked.pop("verify", False)
    plain: dict[str, Any] = {"verify": {True: REFUSE, False: NO}.get(verify, verify)}
    for name in ("history", "timeout", "grace"):
        if name in asked:
            plain[f"{name}_us"] = parse_duration(asked.pop(name))
    for name in ("segments", "allow_schema_change"):
        if name in asked:
            plain[name] = asked.pop(name)
    if asked:
        raise MidstreamError(f"a deployment has no option '{min(asked)}'")
    return DeployRequest(build, change, how or (IMMEDIATE if change else HYBRID), **plain)

"""Gate log: one document that says which version answers which segments, and where a deployment stands.

    gate.json   replaced whole at every step; what it says is what has happened

State: the document as it was last written.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from midstream.engine.world import World
from midstream.live.adopted.request import DeployRequest
from midstream.model.failpoint import reach
from midstream.model.format import check_format, whole

FORMAT = 1
"""The form of the gate's document."""
PREPARED, CATCHING_UP, COMPARING, SWITCHED = "prepared", "catching up", "comparing", "switched"
DONE, ROLLED_BACK, REFUSED = "done", "rolled back", "refused"
BEFORE_SWITCH = (PREPARED, CATCHING_UP, COMPARING)
OPEN = (*BEFORE_SWITCH, SWITCHED)
"""States of a deployment that is not over; `switched` is over for whoever waits, but the old version still lives."""
KEPT_TURNS = 100
"""Turns that are remembered."""


@dataclass(frozen=True)
class VersionEntry:
    """A version that is to run."""

    number: int
    build: str
    """What names its program."""
    first: int | None = None
    """The first segment it reads; None: nobody has said yet."""


@dataclass(frozen=True)
class Deployment:
    """A deployment: what was asked, and how far it has come."""

    identity: str
    request: DeployRequest
    from_version: int
    to_version: int
    state: str
    seen: int = 0
    """The last segment there was when the new version began to read."""
    position: int | None = None
    """The last segment that the old version has answered."""
    settled: int = 0
    """From the segment after this one on the new version answers as if it had always run."""
    compare_after: int = 0
    """Segments after this one are compared."""
    compared: int = 0
    """The last segment that was compared."""
    with_rows: int = 0
    """How many of them had rows."""
    differing: int = 0
    difference: str | None = None
    """The first difference that was found."""
    reason: str | None = None
    asked_s: float = 0.0
    until_s: float | None = None
    """Until when the old version stays."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> "Deployment":
        """Read plain values."""
        return Deployment(**{**plain, "request": DeployRequest.of(plain["request"])})


@dataclass(frozen=True)
class GateState:
    """Everything the gate knows."""

    published: int
    """The last segment whose answer is in the sink."""
    turns: tuple[tuple[int, int], ...]
    """Which version answers, and from which segment on."""
    versions: tuple[VersionEntry, ...]
    made: int
    """How many versions there have been."""
    obeyed: str = ""
    """The last control row that was read."""
    deployment: Deployment | None = None
    rows_out: int = 0

    @property
    def active(self) -> int:
        """Return the version that answers the newest segments."""
        return self.turns[-1][0]

    def version_at(self, segment: int) -> int:
        """Return the version that answers a segment."""
        return next(version for version, start in reversed(self.turns) if segment >= start)

    def with_turn(self, version: int, start: int) -> "GateState":
        """Let another version answer from a segment on."""
        return replace(self, turns=(*self.turns, (version, start))[-KEPT_TURNS:])

    def entry(self, number: int) -> VersionEntry:
        """Return a version that is to run."""
        return next(version for version in self.versions if version.number == number)

    def with_entry(self, entry: VersionEntry) -> "GateState":
        """Return it with a version, in place of the one of its number."""
        others = [v for v in self.versions if v.number != entry.number]
        return replace(self, versions=tuple(sorted([*others, entry], key=lambda v: v.number)))

    def without(self, number: int) -> "GateState":
        """Return it without a version."""
        return replace(self, versions=tuple(v for v in self.versions if v.number != number))


class GateLog:
    """The document of a gate."""

    def __init__(self, folder: Path, world: World) -> None:
        self._file = folder / "gate.json"
        self._world = world

    def read(self) -> GateState | None:
        """Return what was last written, or None."""
        found = self._world.read_json(self._file)
        if found is None:
            return None
        check_format(f"{self._file}", found.pop("format", None), FORMAT)
        with whole(self._file):
            deployment = found.pop("deployment")
            return GateState(
                turns=tuple((int(v), int(s)) for v, s in found.pop("turns")),
                versions=tuple(VersionEntry(**v) for v in found.pop("versions")),
                deployment=None if deployment is None else Deployment.of(deployment),
                **found,
            )

    def write(self, state: GateState) -> None:
        """Replace the document."""
        document = {"format": FORMAT, **asdict(state)}
        self._world.put_json(self._file, document, point=lambda: reach("gate pending"))
        reach("gate noted")

"""State of a bucket: what it remembers of its query besides rows, as plain values with a format number.

    bucket state: lives of the versions, what is to come ──▶ version state: chunks of rows, rows that wait, what runs

A chunk is what one micro-batch added to one alias's window; it goes when no result can hold one of its rows any more.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.change.control import ControlManager
from midstream.change.plain import control_of_plain, control_to_plain
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.bucket.store import Store
from midstream.engine.run.contract import StageState
from midstream.migrate.request import MigrationRequest
from midstream.model.format import check_format
from midstream.model.time import NEVER

FORMAT = 3
"""The form in which buckets write down what they remember. Since 3, rows of windows over results may be folded."""
OLDEST_FORMAT = 2
"""What this release still reads."""
Due = ChangeRequest | ControlRequest | MigrationRequest
"""Something that is to happen at a position."""
_KINDS: dict[str, type[Due]] = {"change": ChangeRequest, "control": ControlRequest, "migrate": MigrationRequest}


@dataclass
class Chunk:
    """What is known of a chunk without reading it."""

    number: int
    rows: int
    latest_us: int


@dataclass
class VersionState:
    """What a bucket remembers of one version of its query."""

    batches: int = 0
    """Micro-batches this bucket has seen: the same in all buckets."""
    token: str = ""
    """Names this state; operators' arrays kept elsewhere carry the same token."""
    released_us: int = NEVER
    """Rows below this time have been through the operators."""
    chunks: dict[int, list[Chunk]] = field(default_factory=dict)
    """Per alias: the rows in its window."""
    waiting: dict[int, int] = field(default_factory=dict)
    """Per alias: how many rows wait for their time."""
    held: list[int] = field(default_factory=list)
    """Chunks of output that is held back."""
    stages: dict[int, StageState] = field(default_factory=dict)
    """What the windows over the results hold."""
    run: dict[str, Any] = field(default_factory=dict)
    """What the run itself remembers: its plan, migrations under way, the next hop."""

    @staticmethod
    def of(plain: dict[str, Any]) -> "VersionState":
        """Read a state from plain values."""
        state = VersionState(**plain)
        state.chunks = {int(a): [Chunk(**c) for c in chunks] for a, chunks in plain["chunks"].items()}
        state.waiting = {int(a): count for a, count in plain["waiting"].items()}
        state.stages = {int(k): StageState(**s) for k, s in plain["stages"].items()}
        return state


@dataclass
class BucketState:
    """What a bucket remembers of its query: the lives of its versions, what is to come, the state of each version."""

    control: ControlManager
    versions: dict[int, VersionState] = field(default_factory=dict)
    due: list[Due] = field(default_factory=list)
    """What is to happen and whose position has not been reached, in order."""
    next_version: int = 2
    batches: int = 0
    """Micro-batches this bucket has seen."""
    high: dict[int, int] = field(default_factory=dict)
    """Largest time seen per stream position."""
    controls: list[str] = field(default_factory=list)
    """Control rows that have been read, by id."""
    counted_us: int = NEVER
    """Rows before this time have been counted as input."""

    @staticmethod
    def new(decides: bool) -> "BucketState":
        """Return the state of a bucket that has seen nothing; `decides` when it is the only one."""
        return BucketState(ControlManager(decides=decides))

    @staticmethod
    def read(store: Store, decides: bool) -> "BucketState":
        """Return what a bucket remembers."""
        written = store.read_head()
        if written is None:
            return BucketState.new(decides)
        plain = json.loads(written)
        check_format("this state", plain.get("format"), FORMAT, OLDEST_FORMAT)
        return BucketState(
            control_of_plain(plain["control"]),
            {int(v): VersionState.of(state) for v, state in plain["versions"].items()},
            [_KINDS[kind](**request) for kind, request in plain["due"]],
            plain["next_version"],
            plain["batches"],
            {int(p): high for p, high in plain["high"].items()},
            plain["controls"],
            plain["counted_us"],
        )

    def write(self, store: Store) -> None:
        """Write everything down."""
        plain = {
            "format": FORMAT,
            "control": control_to_plain(self.control),
            "versions": {v: asdict(state) for v, state in self.versions.items()},
            "due": [[kind_of(due), asdict(due)] for due in self.due],
            "next_version": self.next_version,
            "batches": self.batches,
            "high": self.high,
            "controls": self.controls,
            "counted_us": self.counted_us,
        }
        store.write_head(json.dumps(plain))


def kind_of(due: Due) -> str:
    """Return what sort of thing is to happen, in a word."""
    return next(name for name, kind in _KINDS.items() if type(due) is kind)

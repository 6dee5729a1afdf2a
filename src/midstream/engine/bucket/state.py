"""State of a bucket: what it remembers of its query besides rows, as plain values with a format number.

    bucket state: lives of the versions, what is to come ──▶ version state: chunks of rows, rows that wait, what runs

A chunk (`chunks.py`) is what one micro-batch, or a few, added to one alias's window; it goes when no result can hold
one of its rows any more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from midstream.change.control import ControlManager
from midstream.change.plain import control_of_plain, control_to_plain
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.bucket.chunks import Chunk, HeldChunk, WaitingChunk
from midstream.engine.bucket.progress import Progress
from midstream.engine.bucket.store import Store
from midstream.engine.run.contract import StageChunk, StageState
from midstream.migrate.request import MigrationRequest
from midstream.model.format import check_format, document, whole
from midstream.model.time import FOREVER, NEVER

FORMAT = 4
"""The form in which buckets write down what they remember.

Since 3, rows of windows over results may be folded; since 4, chunks are lists with their sizes, rows that wait lie in
chunks, and it is known when streams last had rows.
"""
OLDEST_FORMAT = 2
"""What this release still reads."""
MOST_CONTROLS = 256
"""Control rows that a bucket remembers to have read."""
Due = ChangeRequest | ControlRequest | MigrationRequest
"""Something that is to happen at a position."""
_KINDS: dict[str, type[Due]] = {"change": ChangeRequest, "control": ControlRequest, "migrate": MigrationRequest}


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
    waiting: dict[int, list[WaitingChunk]] = field(default_factory=dict)
    """Per alias: the rows that wait for their time; those before `released_us` wait no more."""
    held: list[HeldChunk] = field(default_factory=list)
    """Chunks of output that is held back."""
    stages: dict[int, StageState] = field(default_factory=dict)
    """What the windows over the results hold."""
    run: dict[str, Any] = field(default_factory=dict)
    """What the run itself remembers: its plan, migrations under way, the next hop."""
    left_us: int = NEVER
    """When the last of its results left."""
    own: int = 0
    """Tables that the run keeps itself."""

    def to_plain(self) -> dict[str, Any]:
        """Return the state as values that JSON can hold. They are shared: this is done in every micro-batch."""
        return {**vars(self), "stages": {number: vars(stage) for number, stage in self.stages.items()}}

    @staticmethod
    def of(plain: dict[str, Any]) -> "VersionState":
        """Read a state from plain values."""
        state = VersionState(**plain)
        state.chunks = {int(a): [_chunk(c) for c in chunks] for a, chunks in plain["chunks"].items()}
        state.held = [HeldChunk(*held) if isinstance(held, list) else HeldChunk(held) for held in plain["held"]]
        state.waiting = {int(a): _waiting(held) for a, held in plain["waiting"].items() if held}
        state.stages = {int(k): StageState(**s) for k, s in plain["stages"].items()}
        for stage in state.stages.values():
            stage.chunks = [StageChunk(*chunk) for chunk in stage.chunks]
        return state


def _chunk(plain: list[int] | dict[str, int]) -> Chunk:
    """Read a chunk; before format 4 it has names and no size."""
    return Chunk(**plain) if isinstance(plain, dict) else Chunk(*plain)


def _waiting(held: int | list[list[int]]) -> list[WaitingChunk]:
    """Read the chunks of rows that wait; before format 4 they were one, of which only the number of rows was known."""
    return [WaitingChunk(0, held, FOREVER)] if isinstance(held, int) else [WaitingChunk(*chunk) for chunk in held]


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
    progress: Progress = field(default_factory=Progress)
    """How far the streams have come."""
    controls: list[str] = field(default_factory=list)
    """The last control rows that have been read, by id."""
    counted_us: int = NEVER
    """Rows before this time have been counted as input."""
    reached_us: int = NEVER
    """How far the versions that live have got: the same in all buckets, be they drained here."""

    def read_controls(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Note that control rows have been read. One comes again only soon after: the log reads each file once."""
        self.controls = [*self.controls, *(row["id"] for row in rows)][-MOST_CONTROLS:]

    @staticmethod
    def new(decides: bool) -> "BucketState":
        """Return the state of a bucket that has seen nothing; `decides` when it is the only one."""
        return BucketState(ControlManager(decides=decides))

    @staticmethod
    def read(store: Store, decides: bool, label: int = 0) -> "BucketState":
        """Return what a bucket remembers."""
        written, name = store.read_state(), f"the state of bucket {label}"
        if written is None:
            return BucketState.new(decides)
        plain = document(name, written.encode())
        check_format(name, plain.get("format"), FORMAT, OLDEST_FORMAT)
        with whole(name):
            return BucketState(
                control_of_plain(plain["control"]),
                {int(v): VersionState.of(state) for v, state in plain["versions"].items()},
                [_KINDS[kind](**request) for kind, request in plain["due"]],
                plain["next_version"],
                plain["batches"],
                Progress.of(plain["progress"]) if "progress" in plain else Progress.seen(_by_position(plain["high"])),
                plain["controls"],
                plain["counted_us"],
                plain.get("reached_us", NEVER),
            )

    def write(self, store: Store) -> None:
        """Write everything down."""
        plain = {
            "format": FORMAT,
            "control": control_to_plain(self.control),
            "versions": {v: state.to_plain() for v, state in self.versions.items()},
            "due": [[kind_of(due), asdict(due)] for due in self.due],
            "next_version": self.next_version,
            "batches": self.batches,
            "progress": self.progress.to_plain(),
            "controls": self.controls,
            "counted_us": self.counted_us,
            "reached_us": self.reached_us,
        }
        store.write_state(json.dumps(plain))


def _by_position(plain: dict[str, int]) -> dict[int, int]:
    return {int(position): us for position, us in plain.items()}


def kind_of(due: Due) -> str:
    """Return what sort of thing is to happen, in a word."""
    return next(name for name, kind in _KINDS.items() if type(due) is kind)

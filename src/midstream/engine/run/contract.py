"""Version run: what answers one version of a query in one bucket, whatever kind of query it is.

take rows in ──▶ advance the clock ──▶ collect what leaves
migrate: switch plan at a position · succeed: answer in place of another run
drain: watch for the end of what is old · trace: say what results depend on
export, remember ──▶ (a crash, another worker) ──▶ adopt, or rebuild from the window rows
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from midstream.engine.planning.statistics import BucketStatistics
from midstream.engine.results.output import Leaving
from midstream.engine.rows.mail import Message
from midstream.engine.rows.rows import Rows
from midstream.migrate.record import MigrationRecord
from midstream.migrate.request import MigrationRequest
from midstream.model.effort import Effort
from midstream.model.time import FOREVER
from midstream.operators.contract.execution import StateSize
from midstream.plan.plan import Plan
from midstream.sites.declaration import Declared
from midstream.sites.statistics import StreamStatistics


class StageChunk(NamedTuple):
    """What is known of rows in a window over results without reading them: `end` is the number after the last one."""

    number: int
    end: int
    nbytes: int = 0


@dataclass
class StageState:
    """What is known of a stage: its chunks, and a few counters."""

    chunks: list[StageChunk] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    first: int = 0
    """Rows numbered below are not needed any more."""
    end: int = 0
    """The number after the last row kept."""


@dataclass(frozen=True)
class StageRows:
    """Rows that a window over results wants kept: in place of all others, or beside those kept before."""

    rows: pa.Table | None
    state: StageState
    instead: bool


@dataclass(frozen=True)
class Expiry:
    """Which window rows are needed no more: those that no window holds at `now_us`.

    Rows of counted windows are pushed out by rows before `before_us`. Where windows are not looked at before
    `next_us`, rows from `before_us` on are needed only if a window can hold them then.
    """

    now_us: int | None
    before_us: int
    next_us: int | None = None


@dataclass(frozen=True)
class Framework:
    """How joins are executed: as a tree, by an eddy, or where streams arrive."""

    name: str = "tree"
    routing: str = "selectivity"
    sites: Declared | None = None
    """Of a join over sites: what is declared of them."""
    streams: Mapping[str, StreamStatistics] | None = None
    """Of a join over sites: what is known of the streams before their first rows; None: nothing."""


Planner = Callable[[Plan, MigrationRequest], Plan]
"""Makes the plan a migration asks for, from the one that runs."""
StageTables = Iterable[tuple[int, pa.Table, dict[str, int]]]
"""Per stage: its number, the rows it keeps, its counters."""


@dataclass(frozen=True)
class RunSpec:
    """How the runs of all versions work."""

    ordered: bool = False
    """Results say where they stand among those of other buckets."""
    framework: Framework = field(default_factory=Framework)
    looks: int = FOREVER
    """Hops between two looks at what the windows hold."""
    planner: Planner | None = None
    """Makes the plans of migrations whose plan is chosen by cost; None: made where buckets meet, and sent."""
    optimizes: bool = False
    """Somebody wants to know what the windows of sliding joins hold."""
    asked: bool = False
    """They are looked at when somebody asks; else by themselves, every so often."""
    place: int = 0
    """Which of the buckets it is, in their order: the address of its mail."""
    buckets: int = 1


@dataclass(frozen=True)
class Kept:
    """What is kept of a run, from which it can be built again; of a new one, nothing."""

    remembered: dict[str, Any] = field(default_factory=dict)
    """What `VersionRun.remember` said."""
    rows: dict[str, Rows] = field(default_factory=dict)
    """The rows in the windows, by alias."""
    stages: StageTables = ()
    released_us: int = 0
    """Rows below this time have been through the operators."""
    tables: Sequence[pa.RecordBatch] = ()
    """What `VersionRun.take_tables` returned, of a run that keeps its rows itself; read as they are asked for."""
    exported: Any | None = None
    """What `VersionRun.export` returned, of a run that keeps its rows itself, where it is at hand."""


class VersionRun(ABC):
    """One version at work in one bucket.

    Invariant: every result is in `leaving` once, in order, unless it is held back on purpose. State: that of its
    operators, which can be rebuilt from the rows in the windows, and what `remember` says.
    """

    version: int
    leaving: list[Leaving]
    hops: list[tuple[int, int, int]]
    """Hops answered in this micro-batch: their time, the oldest row in the windows and a fingerprint of their rows."""
    hops_passed: int = 0
    """Hops there were in this micro-batch, also those passed over because nothing could be there."""
    next_us: int | None = None
    """The next hop, where there are hops."""
    row: str = ""
    """The control row that has the plan that runs; empty: it came otherwise."""
    drains_with_others: bool = False
    """Results are of all buckets together, so that a drain is over when it is over in all of them."""
    drains_later: bool = False
    """A drain may be asked for that began in an earlier micro-batch: what has ended since is to be remembered."""
    chosen_by_cost: ClassVar[bool] = False
    """Plans of migrations are chosen from what is known of the rows, once for all buckets."""
    keeps_rows: ClassVar[bool] = False
    """Rows that were released are its own to keep, in tables; it is built again from them in every micro-batch."""
    sends_mail: ClassVar[bool] = False
    """Runs of a version in different buckets send messages to each other; their host keeps a mailbox."""
    planned_elsewhere: bool = False
    """Plans of migrations are made where buckets meet, and come in control rows."""
    held_elsewhere: Callable[[], list[Leaving]]
    """Returns, once, the output held back that somebody else keeps."""

    @classmethod
    @abstractmethod
    def adopt(cls, version: int, spec: RunSpec, exported: Any, remembered: dict[str, Any]) -> "VersionRun":
        """Go on with operators as they were exported."""

    @classmethod
    def fits(cls, spec: RunSpec, exported: Any) -> bool:
        """Tell whether operators as they were exported do all that is asked for now; else they are rebuilt."""
        return True

    @classmethod
    @abstractmethod
    def rebuild(cls, version: int, plan: Plan, spec: RunSpec, kept: Kept) -> "VersionRun":
        """Return a run whose states come from the rows in the windows, as they were up to a time."""

    @classmethod
    @abstractmethod
    def migrated(cls, running: Plan, request: MigrationRequest) -> Plan:
        """Return the plan a migration asks for, from the one that runs; refuse one that cannot be."""

    @abstractmethod
    def target(self, request: MigrationRequest, written: Any | None = None) -> Plan:
        """Return the plan a migration asks for, from the one that runs; `written` where it was made elsewhere."""

    @property
    @abstractmethod
    def migrating(self) -> bool:
        """Return whether a migration is under way in here, or waits."""

    @abstractmethod
    def holds_before(self, position_us: int) -> bool:
        """Tell whether a row from before a position still matters to what is to come.

        What counts from the start does not count here: `succeed` hands it over.
        """

    def begin_beside(self, running: "VersionRun", first_us: int) -> None:  # noqa: B027 - most begin with their first row
        """Begin, empty, to take in the rows from a time on that another run of the version has had, or will have."""

    @abstractmethod
    def succeed(self, before: "VersionRun", row: str = "") -> None:
        """Answer from here on in place of a run of the version, having had all rows that still matter to it.

        What has left in this micro-batch, and what is counted from the start, is taken over.
        """

    @classmethod  # noqa: B027 - most have none
    def load_kernels(cls, plan: Plan) -> None:
        """Load what migrations of a plan will need, before one is asked for."""

    def begin_batch(self) -> None:
        """Start counting for a micro-batch."""
        self.leaving, self.hops, self.hops_passed = [], [], 0

    def begin_at(self, time_us: int) -> None:  # noqa: B027 - most begin with their first row
        """Know the time of the first row there is, in whatever bucket."""

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """Return the plan that runs, or is being migrated to."""

    @property
    @abstractmethod
    def phase(self) -> str:
        """Return what has been going on in this micro-batch, in a word or two."""

    @property
    def phase_now(self) -> str:
        """Return what is going on now."""
        return self.phase

    def receive(self, mail: Sequence[Message]) -> None:  # noqa: B027 - most get none
        """Take what was sent to this bucket in the micro-batch before; called once in each, before its rows come."""

    def take_mail(self) -> list[Message]:
        """Return, once, what is to be sent to other buckets.

        It must follow from state, rows and mail alone: a micro-batch that is run again sends the same. Where nothing
        more happens nothing more is sent, or micro-batches would never end.
        """
        return []

    @abstractmethod
    def take(self, rows: dict[str, Rows], upto_us: int, clock_us: int) -> None:
        """Take in the rows below a time, all there are; time itself has come to `clock_us`."""

    @abstractmethod
    def trace(self, on: bool) -> None:
        """Let results say from now on what brought them and what they depend on; or not."""

    @property
    @abstractmethod
    def drain_us(self) -> int | None:
        """Return the position before which nothing begins any more, and whose older rows are watched for, or None."""

    @abstractmethod
    def drain(self, position_us: int, goes_on: bool = False) -> None:
        """Watch from now on for the end of what began before a position, which may have been passed a little.

        Nothing needs to begin any more, unless it `goes_on`.
        """

    @abstractmethod
    def drained(self) -> tuple[int, int] | None:
        """Return from which time on no result holds a row from before that position, and when that was known.

        None: a result still may.
        """

    @property
    @abstractmethod
    def not_drained_us(self) -> int:
        """Return up to which time a result may hold such a row for sure: the drain is over there or later."""

    @property
    @abstractmethod
    def oldest_us(self) -> int:
        """Return the time of the oldest row that a result to come may hold, of those taken in."""

    def same_as(self, other: "VersionRun") -> bool:
        """Return whether a run of the same query that began elsewhere, and has drained, gives the same from here on."""
        return True

    @abstractmethod
    def migrate(self, request: MigrationRequest, plan: Any | None = None, row: str = "") -> None:
        """Note a migration, which takes effect at its position.

        `plan` is its plan as plain values, where it was made elsewhere, and `row` the control row that has it.
        """

    @abstractmethod
    def records(self) -> list[MigrationRecord]:
        """Return the records of migrations under way, or ended in this micro-batch."""

    def release_held(self, at_us: int) -> None:  # noqa: B027 - most hold nothing back
        """Let output that is held back leave at a time."""

    def merge_output(self) -> None:  # noqa: B027 - most hold nothing back
        """Hold nothing back from now on: results are merged with those of another version, in max order."""

    def take_over(self, before: "VersionRun") -> None:
        """Go on from a run of the same version that was stopped and starts anew: what has left, what is to come."""
        self.leaving, self.hops = before.leaving, before.hops

    def work(self) -> None:  # noqa: B027 - most have nothing to do
        """Do what can be done between micro-batches."""

    def finish(self) -> None:  # noqa: B027 - most have nothing to finish
        """Say of migrations that are not over that they never will be: nothing more comes."""

    @property
    @abstractmethod
    def predicate_evaluations(self) -> int:
        """Return how many pairs, tuples and values the operators have tested so far."""

    @property
    def effort(self) -> Effort:
        """Return what the operators have done so far; what is not counted is 0."""
        return Effort(self.predicate_evaluations)

    @property
    def flips(self) -> int:
        """Return how often values came into differences or left them before their time."""
        return 0

    def live_entries(self) -> int:
        """Return how many entries the states hold that can still matter; where nobody counts them, all."""
        return self.size().tuples

    @abstractmethod
    def size(self) -> StateSize:
        """Return what the states hold now."""

    @abstractmethod
    def expiry(self, released_us: int) -> Expiry | None:
        """Return which window rows are needed no more; None: all are."""

    @abstractmethod
    def export(self) -> Any:
        """Return the operators with their states, to go on with elsewhere."""

    @abstractmethod
    def remember(self) -> dict[str, Any]:
        """Return as plain values what a restart has to know besides rows."""

    def take_tables(self) -> list[pa.RecordBatch]:
        """Return all rows that a run keeps which does so itself."""
        return []

    def report(self) -> dict[str, Any]:
        """Return what else there is to say of a micro-batch, as plain values."""
        return {}

    def stage_rows(self) -> list[StageRows]:
        """Return what windows over results want kept."""
        return []

    def take_held(self) -> list[Leaving]:
        """Return output of this micro-batch that is held back, to be kept elsewhere."""
        return []

    def look(self) -> BucketStatistics | None:
        """Look at what the windows hold and the operators have emitted; None: there is nothing to see."""
        return None

    def statistics(self, asked: bool = False) -> dict[str, Any] | None:
        """Return what the windows hold and the operators have emitted, as plain values; None: nobody looks.

        `asked`: now, and not when it is time to.
        """
        return None

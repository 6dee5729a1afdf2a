"""One bucket of a hopping query in one micro-batch: rows into the windows, answers out at the hops time has reached.

packed rows ──▶ late? ──▶ wait ──▶ released in order ──▶ hop course ──▶ the answer at each hop
                                        └──▶ durable window rows: those in the windows at the last hop, and later ones

All buckets go over the same hops: what they learn of time, and of migrations, is the same in all of them.
"""

import json
import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstream.engine.numbering import AliasRows
from midstream.local.hop_statistics import look_at
from midstream.migrate.record import REFUSED, MigrationRecord
from midstream.migrate.request import MOVING_STATE, MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.model.time import FOREVER, NEVER
from midstream.operators.snapshot import put_together, take_apart
from midstream.plan.json import own_aggregates, read_plan
from midstream.plan.plan import Plan
from midstream.spark.blobs import Rows, in_order, to_blob
from midstream.spark.control import DRAIN, MIGRATE
from midstream.spark.durable import DurableBucket, Store
from midstream.spark.hop_course import DueMigration, HopCourse, HopHead, rebuilt
from midstream.spark.intake import Intake, Packed
from midstream.spark.mapped import MappedState
from midstream.spark.version_bucket import EVENT, LATE, RESULT


@dataclass(frozen=True)
class HopBucketSpec:
    """What all buckets of a hopping query share."""

    plan: Plan
    lateness_us: dict[int, int]
    """Allowed lateness per stream position."""
    mapped_folder: str
    recorded: bool
    labels: tuple[int, ...]
    """What all buckets are called."""
    schedule: tuple[DueMigration, ...] = ()
    """What is to happen in a rehearsal, in order of time."""
    last_us: dict[int, int] = field(default_factory=dict)
    """In a rehearsal: per stream position the time of its last row."""
    looks: int = 4
    """How many hops there are between two looks at what the windows hold."""


class HopBucket:
    """A bucket of a hopping query, for the length of one micro-batch."""

    def __init__(self, spec: HopBucketSpec, label: int, store: Store) -> None:
        self.spec = spec
        self.label = label
        self._store = store
        held = store.read_head()
        self.head: HopHead = HopHead(coming=list(spec.schedule)) if held is None else pickle.loads(held)
        self.durable = DurableBucket(store, self.head)
        self.intake = Intake(spec.plan, self.durable, spec.lateness_us, spec.recorded)
        self._rows_in = 0

    def on_batch(self, packed: Packed) -> Iterator[tuple[int, int, bytes]]:
        """Process one micro-batch and yield lines of output: kind, rows, blob."""
        started = time.perf_counter()
        controls = [c for c in packed.controls if c["id"] not in self.head.controls]
        refused = self._ask(controls)
        with MappedState(Path(self.spec.mapped_folder) / str(self.label)) as mapped:
            self._take_in(packed)
            course, anew = self._attach(mapped)
            before = (course.execution.tested, course.execution.flips)
            self._run(course, drain=any(c["do"] == DRAIN for c in controls))
            self.head.controls += [c["id"] for c in controls]
            seen = self._seen(course)
            shared = self._close(course, mapped)
        yield from ((RESULT, answer.num_rows, to_blob(answer)) for answer in course.leaving)
        late = {k: rows for k, rows in self.intake.late.items() if self.intake.counted(k)}
        yield from ((LATE, len(rows), to_blob(self.intake.named(k, rows))) for k, rows in late.items())
        event = {
            **self._told(course, before), "late": packed.untimed + sum(len(rows) for rows in late.values()),
            "seen": seen, "rebuilt": anew, "shared": shared, "controls": controls,
            "wall_ms": (time.perf_counter() - started) * 1000,
            "migrations": [*refused, *self._queued(controls), *(r.to_dict() for r in course.records)],
        }  # fmt: skip
        yield EVENT, 0, json.dumps(event).encode()

    def _queued(self, controls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the records of migrations that were asked for just now and wait for a hop."""
        new = {c["id"] for c in controls}
        waiting = [d.request for d in self.head.coming if d.row in new]
        return [MigrationRecord(r.identity, r.plan, MOVING_STATE, r.options, r.at_us).to_dict() for r in waiting]

    def _told(self, course: HopCourse, before: tuple[int, int]) -> dict[str, Any]:
        """Return what there is to tell of rows, hops and states in this micro-batch."""
        head, execution = self.head, course.execution
        return {
            "bucket": self.label, "version": head.version, "released_us": head.released_us,
            "rows_in": self._rows_in, "rows_out": sum(a.num_rows for a in course.leaving),
            "waiting": sum(head.pending.values()), "state_tuples": execution.tuples, "state_bytes": execution.nbytes,
            "predicate_evaluations": execution.tested - before[0], "flips": execution.flips - before[1],
            "plan": str(execution.plan), "join": "auto", "phase": "steady", "runs": head.row,
            "due": len(head.coming), "hops": course.hops, "passed": course.passed, "next_us": head.next_us,
        }  # fmt: skip

    def _seen(self, course: HopCourse) -> dict[str, Any] | None:
        """Return what the windows hold, every few hops: in the same micro-batch in all buckets."""
        head = self.head
        head.unseen += course.passed
        if head.unseen < self.spec.looks:
            return None
        head.unseen = 0
        return look_at(course.execution).to_dict()

    def _take_in(self, packed: Packed) -> None:
        """Take in rows, and find the time of the first row of the query: in any bucket, of those that are not late.

        It is settled once a row is released: those that come later are behind it.
        """
        head, intake = self.head, self.intake
        late_before_us = {s.position: intake.late_before_us(s.position) for s in intake.sources}
        intake.take_in(packed)
        if head.next_us is not None:
            return
        if len(self.spec.labels) == 1:
            found = [int(rows.times[0]) for rows in intake.arrived.values() if len(rows)]
        else:
            found = [max(t, late_before_us[p]) for p, t in packed.low.items() if p in late_before_us]
        known = [] if head.first_us is None else [head.first_us]
        head.first_us = min([*found, *known], default=None)

    def _ask(self, controls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Note the plans that control rows have, from the next hop on; return the records of those refused.

        A row without a plan is for the driver, who makes one.
        """
        head, refused = self.head, []
        for control in controls:
            if control["do"] != MIGRATE or "plan" not in control:
                continue
            identity = control.get("of", control["id"])
            try:
                asked = MigrationRequest(**{**control["migration"], "identity": identity})
                plan = read_plan(control["plan"], own_aggregates(self.spec.plan.query.root))
                head.coming.append(DueMigration(asked, plan, control["id"]).by(max(head.released_us, -FOREVER)))
                head.coming.sort(key=lambda due: due.at_us)
            except (MidstreamError, TypeError) as error:
                record = MigrationRecord(identity, str(control["migration"].get("plan")), MOVING_STATE)
                record.state, record.reason = REFUSED, str(error)
                refused.append(record.to_dict())
        return refused

    @property
    def _plan(self) -> Plan:
        return self.spec.plan if self.head.runs is None else self.head.runs

    def _attach(self, mapped: MappedState) -> tuple[HopCourse, bool]:
        """Return the execution: mapped from this host's memory, or rebuilt from the window rows."""
        head = self.head
        taken = mapped.take(head.token) if head.token else None
        if taken is not None:
            return HopCourse(put_together(*taken), head), False
        held = {rank: self.durable.window_rows(rank) for rank in range(len(self.intake.sources))}
        rows = self._by_alias({rank: in_order(parts) for rank, parts in held.items() if parts})
        return HopCourse(rebuilt(self._plan, head.last_us, rows), head), bool(head.token)

    def _by_alias(self, rows: dict[int, Rows]) -> dict[str, AliasRows]:
        intake = self.intake
        return {intake.sources[rank].alias: mine.alias_rows(intake.names[rank]) for rank, mine in rows.items()}

    def _run(self, course: HopCourse, drain: bool) -> None:
        """Answer the hops that time has reached: no row before them can come, and one at them or later has."""
        safe_us = self.intake.safe_us(drain)
        known = self.spec.last_us or self.head.high
        released = self.intake.release(safe_us)
        self._rows_in = sum(len(rows) for rank, rows in released.items() if self.intake.counted(rank))
        course.run(self._by_alias(released), safe_us, min(safe_us, max(known.values(), default=NEVER)))

    def _close(self, course: HopCourse, mapped: MappedState) -> bool:
        """Keep what must last; return whether the states are shared with other workers of this host."""
        head = self.head
        self.intake.keep()
        if head.last_us is not None:
            self.intake.let_go(head.last_us, head.last_us)
        head.rows_in += self._rows_in
        self.durable.commit()
        self._store.write_head(pickle.dumps(head))
        return mapped.publish(head.token, *take_apart(course.execution))

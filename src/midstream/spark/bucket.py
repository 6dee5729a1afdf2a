"""One bucket in one micro-batch: its versions, run as their lives say, up to the same time.

    packed rows, controls ──▶ what is due, at its position ──▶ each version that lives ──▶ results of each version
                                                                                      └──▶ drains that are over

Results of versions that run together are merged where those of all buckets meet.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.change.lifecycle import Element
from midstream.change.repository import check_control, columns_of
from midstream.change.request import DELAYED_DRAIN, ChangeRequest, ControlRequest
from midstream.change.schema import schema_change
from midstream.migrate.request import MigrationRequest
from midstream.model.batch import Lineage, Results
from midstream.model.errors import MidstreamError
from midstream.model.time import NEVER
from midstream.plan.plan import Plan
from midstream.spark.blobs import to_blob
from midstream.spark.control import CHANGE, CONTROL, ELEMENT
from midstream.spark.course import OLDEST, PRINT
from midstream.spark.durable import Book, Due, DurableBucket, Head, Store
from midstream.spark.intake import Packed
from midstream.spark.mapped import MappedState
from midstream.spark.repository import load_version
from midstream.spark.version_bucket import EVENT, LATE, RESULT, BucketSpec, VersionBucket


class Bucket:
    """A bucket of a running query, for the length of one micro-batch."""

    def __init__(self, spec: BucketSpec, label: int, store: Store) -> None:
        self.spec = spec
        self.label = label
        self._store = store
        alone = len(spec.labels) <= 1
        self.book = Book.read(store, alone)
        self.control = self.book.control
        self._stack = ExitStack()
        self._packed = Packed()
        self._open: dict[int, VersionBucket] = {}
        self._ran: list[VersionBucket] = []
        """The versions that have run in this micro-batch, oldest first; also those that are over."""
        self._over: dict[int, int] = {}
        """Versions whose drain was over in this micro-batch, and since when."""
        self._begun: list[dict[str, Any]] = []
        """Changes and elements that took effect in this micro-batch."""

    def on_batch(self, packed: Packed) -> Iterator[tuple[int, int, bytes]]:
        """Process one micro-batch and yield lines of output: kind, rows, blob."""
        started = time.perf_counter()
        book = self.book
        controls = [c for c in packed.controls if c["id"] not in book.controls]
        for position, high in packed.high.items():
            if high != NEVER:
                book.high[position] = max(high, book.high.get(position, high))
        if not book.batches:
            book.due = [r for r in self.spec.schedule if not isinstance(r, MigrationRequest)]
        drain = any(c["do"] == "drain" for c in controls)
        last = self.spec.batches is not None and book.batches + 1 >= self.spec.batches
        with ExitStack() as stack:
            self._stack, self._packed = stack, packed
            self._read(controls)
            # For the whole micro-batch: what has left by then and what leaves after a change meet.
            self._traced = not self.control.quiet or bool(book.due)
            for number, life in self.control.lives.items():
                if life.alive or self.control.audits(number) or number in self._waiting():
                    self._enter(number)
            refused = [r for b in list(self._open.values())[-1:] for r in b.ask(controls)]
            phase = self.control.phase
            self._run(drain)
            closed = [bucket.close(drain, last) for bucket in self._open.values()]
            shared = all(closed)
            book.controls += [c["id"] for c in controls]
            for number in [n for n in book.heads if n not in self._open]:
                self._forget(number)
                shutil.rmtree(self._mapped_folder(number), ignore_errors=True)
            book.write(self._store)
        yield from self._lines(started, controls, refused, phase, shared)

    def _lines(
        self, started: float, controls: list[dict[str, Any]], refused: list[dict[str, Any]], phase: str, shared: bool
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield what came out: results, late rows, and what happened."""
        tables = [t for b in self._ran for t in b.course.leaving]
        rows_out = sum(t.num_rows for t in tables)
        yield from ((RESULT, table.num_rows, to_blob(table)) for table in tables)
        first = self._ran[0] if self._ran else None
        late = 0
        if first is not None:
            kept = {k: rows for k, rows in first.intake.late.items() if first.counts(k)}
            late = self._packed.untimed + sum(len(rows) for rows in kept.values())
            yield from ((LATE, len(rows), to_blob(first.intake.named(k, rows))) for k, rows in kept.items())
        newest = self._ran[-1] if self._ran else None
        tells = [b.told() for b in self._ran]
        course = None if newest is None else newest.course
        event = {
            "bucket": self.label, "version": self.book.batches, "rows_out": rows_out, "late": late,
            "rows_in": sum(b.rows_in for b in self._ran),
            "released_us": max((b.durable.head.released_us for b in self._ran), default=NEVER),
            **{k: sum(t[k] for t in tells) for k in ("predicate_evaluations", "state_tuples", "state_bytes")},
            "waiting": max((b.told()["waiting"] for b in self._open.values()), default=0),
            "rebuilt": any(b.rebuilt for b in self._ran), "shared": shared,
            "wall_ms": (time.perf_counter() - started) * 1000, "controls": controls,
            "plan": "" if newest is None else str(newest.migrator.plan),
            "join": "auto" if newest is None else newest.migrator.plan.method,
            "phase": phase if phase != "steady" else self.control.phase if self.control.phase != "steady"
            else "steady" if course is None else course.phase,
            "migrations": [*refused, *([] if course is None else course.news())],
            "begun": self._begun, "due": len(self.book.due), "over": {str(v): at_us for v, at_us in self._over.items()},
        }  # fmt: skip
        yield EVENT, 0, json.dumps(event).encode()

    def _read(self, controls: list[dict[str, Any]]) -> None:
        """Note what control rows ask for: changes take effect behind every row that has been read anywhere."""
        book = self.book
        at_us = max(book.high.values(), default=NEVER) + 1
        for control in controls:
            due: Due | None = None
            if control["do"] == CHANGE:
                change = ChangeRequest(**control["change"])
                due = replace(change, at_us=at_us, identity=control["id"], version=control["version"])
            elif control["do"] == CONTROL:
                due = ControlRequest(control["control"], at_us, control["id"])
            elif control["do"] == ELEMENT:
                # It was decided where the output of all buckets meets.
                self.control.element(Element(control["kind"], control["version"], control["at_us"]))
            if due is not None:
                book.due.append(due)

    def _waiting(self) -> list[int]:
        """Return versions that keep their rows until they may start."""
        return [c.new for c in self.control.open_changes if c.waits_for_drain]

    def _plan(self, number: int) -> Plan:
        if number == 1:
            return self.spec.plan
        if self.spec.repository is None:
            return self.spec.versions[number - 2]
        return load_version(Path(self.spec.repository), number).plan

    def _mapped_folder(self, number: int) -> Path:
        return Path(self.spec.mapped_folder) / (str(self.label) if number == 1 else f"{self.label}-{number}")

    def _enter(self, number: int) -> VersionBucket:
        """Take a version's state up for this micro-batch."""
        book, plan = self.book, self._plan(number)
        life = self.control.lives[number]
        new = number not in book.heads
        if new:
            book.heads[number] = Head(version=book.batches)
            if life.start_us is not None:
                book.heads[number].released_us = life.start_us
        if new or not book.batches:
            book.heads[number].due = self._migrations(number)
        spec = replace(self.spec, plan=plan)
        if number > 1:
            spec = replace(spec, lateness_us=self._lateness(plan))
        mapped = self._stack.enter_context(MappedState(self._mapped_folder(number)))
        bucket = VersionBucket(spec, self.label, self._store, book.heads[number], number, mapped, self._traced)
        bucket.open(self._packed, None if life.start_us == NEVER else life.start_us)
        # Only now: rows of this micro-batch are late by what earlier ones have shown.
        book.heads[number].high = dict(book.high)
        self._open[number] = bucket
        self._ran.append(bucket)
        return bucket

    def _migrations(self, number: int) -> list[MigrationRequest]:
        """Return the migrations of a rehearsal that come while a version is the newest."""
        out, newest = [], 1
        for request in self.spec.schedule:
            newest += isinstance(request, ChangeRequest)
            if isinstance(request, MigrationRequest) and newest == number:
                out.append(request)
        return out

    def _lateness(self, plan: Plan) -> dict[int, int]:
        return {s.position: self.spec.lateness_us.get(s.position, 0) for s in plan.query.sources}

    def _run(self, drain: bool) -> None:
        """Run all versions up to where no row can come any more, stopping where something is due."""
        while True:
            safe_us = self._safe_us(drain)
            reached_us = min([safe_us, *([max(self.spec.last_us.values())] if self.spec.last_us else [])])
            due = [d for d in self.book.due if (NEVER if d.at_us is None else d.at_us) <= reached_us]
            at_us = due[0].at_us if due else None
            self._advance(safe_us if at_us is None else at_us)
            if not due:
                return
            self.book.due.remove(due[0])
            self._begin(due[0])

    def _safe_us(self, drain: bool) -> int:
        """Return up to where all rows have come, for the versions that run."""
        running = [b for n, b in self._open.items() if self.control.lives[n].alive]
        if running:
            return min(b.intake.safe_us(drain) for b in running)
        return min(self.book.high.values(), default=NEVER)

    def _advance(self, upto_us: int) -> None:
        """Run every version that lives up to a time; see what first results and ended drains bring."""
        done: set[int] = set()
        self._watch()
        self._start_waiting()
        while todo := [n for n in sorted(self._open) if n not in done and self._runs(n)]:
            number = todo[0]
            done.add(number)
            bucket = self._open[number]
            before = len(bucket.course.leaving)
            over_us = self._advance_one(bucket, max(upto_us, bucket.durable.head.released_us))
            self.book.counted_us = max(self.book.counted_us, upto_us)
            if over_us is not None:
                self._over[number] = over_us
            # Results matter here where first results are decided here.
            fresh = bucket.course.leaving[before:] if self._expected() else []
            self.control.see(number, [results_of(t) for t in fresh], over_us)
            self._start_waiting()
        self.control.follow()
        self._watch()
        self._leave()

    def _runs(self, number: int) -> bool:
        """Tell whether rows go through a version: it lives, or what it loses is counted."""
        return self.control.lives[number].alive or self.control.audits(number)

    def _expected(self) -> bool:
        return self.control.decides and any(c.waits_for_result for c in self.control.open_changes)

    def _advance_one(self, bucket: VersionBucket, upto_us: int) -> int | None:
        """Run one version up to a time; return since when its drain is over."""
        exact = any(c.waits_for_drain for c in self.control.open_changes)
        if exact and bucket.migrator.pipeline.counts_rows:
            for time_us in bucket.intake.instants(upto_us):
                bucket.advance(time_us + 1, time_us, self.book.counted_us)
                if (over_us := bucket.drained_us()) is not None:
                    bucket.advance(upto_us, self._clock_us(upto_us), self.book.counted_us)
                    return over_us
        bucket.advance(upto_us, self._clock_us(upto_us), self.book.counted_us)
        return bucket.drained_us()

    def _clock_us(self, upto_us: int) -> int:
        """Return up to where time has come, when no row below `upto_us` can come: no further than the last row."""
        known = self.spec.last_us if self.spec.last_us else self.book.high
        return min([upto_us, *([max(known.values())] if known else [])])

    def _watch(self) -> None:
        """Let versions that drain, or whose losses are counted, look out for the end of what is old."""
        for number, bucket in self._open.items():
            watched_us = self.control.watched_us(number)
            if watched_us is not None:
                bucket.watch(watched_us)

    def _start_waiting(self) -> None:
        """Let versions that had to wait for a drain begin with the rows from their start on."""
        for number, bucket in self._open.items():
            life, head = self.control.lives[number], bucket.durable.head
            if life.alive and life.start_us is not None and head.released_us < life.start_us:
                head.released_us = life.start_us
                bucket.intake.start_at(life.start_us)

    def _leave(self) -> None:
        """Let go of versions that are over."""
        for number in [n for n in self._open if not self._runs(n) and n not in self._waiting()]:
            life = self.control.lives[number]
            if life.stop_us is None or self._open[number].durable.head.released_us >= life.stop_us:
                del self._open[number]

    def _begin(self, due: Due) -> None:
        """Let a change or a control element take effect at its position."""
        at_us = due.at_us if due.at_us is not None else NEVER
        told: dict[str, Any] = {"at_us": at_us, "id": due.identity}
        for bucket in self._open.values():
            # What a migration holds back does not outlast the version as it was.
            bucket.course.let_held_go(at_us)
        if isinstance(due, ControlRequest):
            try:
                check_control(due, [self._plan(life.version) for life in self.control.alive])
                self.control.control(due.element, at_us)
            except MidstreamError as error:
                told["refused"] = str(error)
            self._begun.append({**told, "control": due.control})
            for life in self.control.alive:
                if life.start_us == at_us and life.version in self._open:
                    self._restart(life.version)
                elif life.start_us == at_us:
                    self._forget(life.version)
        else:
            number = self.book.next_version if due.version is None else due.version
            self.book.next_version = max(self.book.next_version, number + 1)
            audit = (self.spec.recorded if due.audit is None else due.audit) and due.method != DELAYED_DRAIN
            audit = audit and not any(self._plan(v.version).query.signed for v in self.control.alive)
            before = max((life.version for life in self.control.alive), default=number - 1)
            columns = schema_change(*(columns_of(self._plan(n)) for n in (before, number)))
            self.control.change(due, number, at_us, audit)
            self._begun.append(
                {**told, "change": due.to_dict(), "version": number, "audit": audit, "schema_change": columns}
            )
        for life in self.control.alive:
            if life.version not in self._open:
                self._enter(life.version)
        for number in self._waiting():
            if number not in self._open:
                self._enter(number)
                self._open[number].intake.start_at(at_us)
        self._leave()

    def _forget(self, number: int) -> None:
        """Forget what is written down of a version."""
        if number in self.book.heads:
            DurableBucket(self._store, self.book.heads.pop(number), number).forget()

    def _restart(self, number: int) -> None:
        """Forget what a version holds: it starts anew."""
        before = self._open.pop(number)
        self._forget(number)
        fresh = self._enter(number)
        self._ran.remove(fresh)
        self._ran[self._ran.index(before)] = fresh
        fresh.go_on_from(before)
        fresh.intake.start_at(self.control.lives[number].start_us or NEVER)


def results_of(table: pa.Table) -> Results:
    """Return results as they were before they were told."""
    names = [n for n in table.column_names if n.startswith("_order")][2:]
    order = None
    if names:
        order = np.column_stack([table.column(n).to_numpy() for n in names]).astype(np.int64)
    lineage = None
    if OLDEST in table.column_names:
        lineage = Lineage(table.column(OLDEST).to_numpy(), table.column(PRINT).to_numpy())
    kept = table.drop_columns(
        [n for n in table.column_names if n.startswith("_order") or n in (OLDEST, PRINT, "_version")]
    )
    batches = kept.combine_chunks().to_batches()
    return Results(batches[0] if batches else pa.RecordBatch.from_pylist([], kept.schema), order, lineage)


__all__ = ["EVENT", "LATE", "RESULT", "Bucket", "BucketSpec", "Packed"]

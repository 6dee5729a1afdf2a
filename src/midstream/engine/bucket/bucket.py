"""One bucket of a running query: its versions, run as their lives say, up to the same time.

    packed rows, controls ──▶ what is due, at its position ──▶ each version that lives ──▶ results of each version
                                                                                      └──▶ drains that are over

Results of versions that run together are merged where those of all buckets meet. A bucket may stay in memory from one
micro-batch to the next, or be put together anew from its store for each.
"""

import time
from typing import Any

from midstream.change.forget import forget_settled
from midstream.engine.bucket.begin import Beginnings, changes
from midstream.engine.bucket.drains import Drains
from midstream.engine.bucket.reach import Reach
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.state import BucketState, Due
from midstream.engine.bucket.store import Store
from midstream.engine.bucket.version import OperatorMemory, VersionInBucket
from midstream.engine.bucket.versions import BucketVersions
from midstream.engine.control.controls import DRAIN
from midstream.engine.results.output import BucketOutput
from midstream.engine.rows.mail import size_of
from midstream.engine.rows.packed import Packed
from midstream.model.errors import MidstreamError
from midstream.model.time import NEVER


class Bucket:
    """A bucket of a running query."""

    def __init__(
        self, spec: BucketSpec, label: int, store: Store | None = None, memory: OperatorMemory | None = None
    ) -> None:
        self.spec = spec
        self.label = label
        self._store = store
        self.state = BucketState.new(spec.alone) if store is None else BucketState.read(store, spec.alone, label)
        self.control = self.state.control
        self._versions = BucketVersions(spec, label, self.state, store, memory)
        self._beginnings = Beginnings(self._versions)
        self._drains = Drains(self._versions)
        self._reach = Reach(self._versions)
        self._clock_us: int | None = None
        self._paused = False
        """Something is due, and buckets have to meet before it takes effect."""
        self._meets_for: str | None = None
        """What it is, where a control row will say that they have met."""

    def resume(self) -> None:
        """Take up the versions that run, as the store has them, before the next micro-batch comes."""
        self._versions.enter_wanted()

    def wanted(self) -> list[int]:
        """Return the versions that take rows: those that live, are audited or wait, and references (negative)."""
        return self._versions.wanted()

    @property
    def newest(self) -> VersionInBucket | None:
        """Return the newest version that lives."""
        return self._versions.newest

    def to_come(self) -> list[Due]:
        """Return what is to happen and whose position has not been reached."""
        return self.state.due if self.state.batches else list(self.spec.schedule)

    def on_batch(self, packed: Packed) -> BucketOutput:
        """Process one micro-batch."""
        started = time.perf_counter()
        state, versions, beginnings = self.state, self._versions, self._beginnings
        controls = []
        for row in packed.controls:
            if row["id"] in state.controls:
                continue
            if (why := beginnings.stray(row)) is not None:
                packed.strays.append(f"{row['id']}: {why}")
            else:
                controls.append(row)
        if self._paused:
            versions.carry_over(packed)
        before = versions.before if self._paused else dict(state.progress.high)
        state.progress.see(packed, self.spec.timings)
        self._clock_us = packed.clock_us
        self._drains.begin_batch()
        beginnings.begin_batch(controls)
        versions.begin_batch(packed, before)
        versions.enter_wanted()
        versions.receive(packed.mail)
        self._check_packed(packed)
        beginnings.ask(controls)
        number = state.batches if packed.batch is None else packed.batch
        drain = any(c["do"] == DRAIN and self.spec.runs.meant(c, number) for c in controls)
        # For the whole micro-batch: what has left by then and what leaves after a change meet.
        safe_us = self._reach.safe_us(drain)
        versions.trace(not self.control.quiet or beginnings.changes_by(self._reached_us(safe_us)))
        phase = self.control.phase
        self._run(safe_us, drain, packed.begins)
        versions.wait_for_due()
        self._drains.forget_passed()
        self._drains.stop_following()
        newest = versions.newest
        statistics = None if newest is None else newest.run.statistics()
        shared = versions.close(drain)
        for version in versions.ran:
            version.note_left()
        state.read_controls(controls)
        forget_settled(self.control, {*versions.open, *versions.waiting()})
        state.batches += 1
        if self._store is not None:
            state.write(self._store)
        mail = versions.take_mail()
        leaving = [item for version in versions.ran if version.speaks for item in version.run.leaving]
        late = [part for version in versions.ran[:1] for part in version.late_rows()]
        far = [part for version in versions.ran[:1] for part in version.far_rows()]
        report = {
            **self._report(phase),
            "late": packed.untimed + sum(part.num_rows for part in late),
            "ahead": sum(part.num_rows for part in far),
            "rows_out": sum(len(item.results) for item in leaving if item.version > 0),
            "left": {str(v.number): [v.left_before_us, v.state.left_us] for v in versions.ran if v.speaks},
            "messages": len(mail), "mail_bytes": size_of(mail),
            "unshared": "" if shared else versions.memory_trouble,
            "controls": controls, "drains": drain, "strays": packed.strays, "statistics": statistics,
            **_runs(newest), "run": {} if newest is None else newest.run.report(),
            "wall_ms": (time.perf_counter() - started) * 1000,
        }  # fmt: skip
        return BucketOutput(self.label, leaving, late + far, report, mail)

    def _check_packed(self, packed: Packed) -> None:
        """Refuse a micro-batch that brings no rows for the version that runs: whoever packed it did not know of it."""
        newest = self._versions.newest
        if newest is not None and packed.versions is not None and newest.number not in packed.versions:
            raise MidstreamError(f"the rows of version {newest.number} were not packed; start the query again")

    def _report(self, phase: str) -> dict[str, Any]:
        """Return counts, phase, and what began or ended in this micro-batch, as plain values."""
        ran = self._versions.ran
        run = ran[-1].run if ran else None
        sizes = [v.size() for v in ran]
        records = [*self._beginnings.refused, *(record for v in ran[:-1] if v.number > 0 for record in v.superseded())]
        records += ran[-1].records() if ran else []
        steady = "steady" if run is None else ran[-1].phase
        hops: dict[str, list[tuple[int, int, int]]] = {}
        for version in ran:  # one that was over and was started anew is there twice
            hops.setdefault(str(version.number), []).extend(version.run.hops)
        return {
            "bucket": self.label, "batches": self.state.batches,
            "rows_in": sum(v.rows_in for v in ran if v.number > 0),
            "released_us": max((v.state.released_us for v in ran), default=NEVER),
            "predicate_evaluations": sum(v.effort.evaluations for v in ran),
            "entries_kept": sum(v.effort.entries for v in ran), "probes": sum(v.effort.probes for v in ran),
            "flips": sum(v.flips for v in ran),
            "state_tuples": sum(s.tuples for s in sizes), "state_bytes": sum(s.nbytes for s in sizes),
            "waiting": max((v.intake.waiting for v in self._versions.open.values()), default=0),
            "held_by": self._versions.holder(), "silent": self._versions.silent(),
            "seen": self._versions.seen(),
            "rebuilt": any(v.rebuilt for v in ran),
            "phase": next((p for p in (phase, self.control.phase) if p != "steady"), steady),
            "migrations": [r.to_dict() for r in records],
            "begun": self._beginnings.begun, "due": self._beginnings.changes_to_come,
            "drained": self._drains.over, "oldest": self._drains.oldest(),
            "paused": self._paused, "meets_for": self._meets_for, "clock_us": self._time_us(),
            "runs": sorted(self._versions.open),
            "alive": [life.version for life in self.control.alive],
            "known": sorted(self.control.lives),
            "hops": hops,
            "hops_passed": 0 if run is None else run.hops_passed,
            "next_us": {str(number): version.run.next_us for number, version in self._versions.open.items()},
        }  # fmt: skip

    def _reached_us(self, safe_us: int) -> int:
        """Return up to where things that are due happen, when all rows up to a time have come."""
        return safe_us if self._clock_us is None else min(safe_us, self._clock_us)

    def _time_us(self) -> int:
        """Return how far time itself has come: no further than the last row."""
        return self.state.progress.latest_us if self._clock_us is None else self._clock_us

    def _run(self, safe_us: int, drain: bool, begins: int | None) -> None:
        """Run all versions up to where no row can come any more, stopping where something is due.

        `begins`: how many changes and control elements may take effect before all buckets have to meet; None: any.
        """
        self._paused, self._meets_for = False, None
        while (due := self._beginnings.next_due(self._reached_us(safe_us))) is not None:
            self._advance(safe_us if due.at_us is None else due.at_us, self._time_us(), drain)
            safe_us = self._reach.safe_us(drain)
            if due is not self._beginnings.next_due(self._reached_us(safe_us)):
                continue  # a version that has started waits for its own streams
            if begins is not None and changes(due):
                self._paused = begins <= 0
                begins -= 1
            elif begins is None and self._beginnings.must_meet(due):
                self._meets_for = due.identity
                return
            if self._paused:
                return
            self._beginnings.begin(due)
            safe_us = self._reach.safe_us(drain)
        self._advance(safe_us, self._settled_us(safe_us), drain)

    def _settled_us(self, safe_us: int) -> int:
        """Return how far time has come for good, when all rows before a time have come.

        One at that very time may be the first result that is waited for: then nothing else is to have left there.
        """
        waits = self._clock_us is None and any(change.waits_for_result for change in self.control.changes)
        return min(self._time_us(), max(safe_us - 1, NEVER)) if waits else self._time_us()

    def _advance(self, upto_us: int, clock_us: int, drain: bool) -> None:
        """Run every version that runs up to a time; see what first results and ended drains bring.

        One goes no further than its own rows have come: it may start only now, or run only to be counted.
        """
        versions, reach, drains, done = self._versions, self._reach, self._drains, set[int]()
        versions.watch()
        versions.start_waiting()
        while todo := [n for n in sorted(versions.open) if n not in done and versions.runs(n)]:
            for number in todo:
                self._advance_one(versions.open[number], min(upto_us, reach.of(number, drain)), clock_us)
            done |= set(todo)
            drains.follow()
            # Drains that first results have begun may be over already.
            drains.follow()
            versions.start_waiting()
        drains.follow()
        reach.note(upto_us)
        versions.leave_ended()

    def _advance_one(self, version: VersionInBucket, upto_us: int, clock_us: int) -> None:
        """Run one version up to a time; time itself has come to `clock_us`."""
        counted_us, reached_us = self.state.counted_us, upto_us
        before = len(version.run.leaving)
        if upto_us < version.state.released_us:
            # All rows are there, but time itself has not come further.
            clock_us, reached_us = min(clock_us, upto_us), version.state.released_us
        version.advance(reached_us, clock_us, counted_us)
        if version.number > 0:
            self.state.counted_us = max(counted_us, upto_us)
            self._drains.see(version, version.run.leaving[before:])


def _runs(version: VersionInBucket | None) -> dict[str, Any]:
    """Return which version and plan run after the micro-batch; another one may have ended in it."""
    if version is None:
        return {"version": 0, "plan": "", "join": "auto", "row": ""}
    run = version.run
    return {"version": version.number, "plan": str(run.plan), "join": run.plan.method, "row": run.row}

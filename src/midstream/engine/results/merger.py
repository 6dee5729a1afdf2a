"""Result merger: where the output of all buckets and versions meets, micro-batch by micro-batch.

    outputs of all buckets ──▶ each version in order ──▶ control manager ──▶ what leaves, in order or hop by hop

Its state is small, but for output that is held back; it can be written down as plain values and tables, so that a
micro-batch that comes again after a crash meets the state it met before.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.change.control import ControlManager
from midstream.change.gatekeeper import Gatekeeper
from midstream.change.lifecycle import DRAINED, Element
from midstream.change.merger import versioned
from midstream.change.plain import control_of_plain, control_to_plain
from midstream.change.request import ABORT, ChangeRequest, ControlRequest
from midstream.change.trigger import last_left_us
from midstream.change.under_way import Change
from midstream.engine.results.lineage import traced, valued
from midstream.engine.results.order import ByVersion, by_version, cut, in_one_order
from midstream.engine.results.output import BucketOutput, Leaving, hop_results, of_table, to_table
from midstream.engine.results.schema import output_schema
from midstream.model.batch import Results
from midstream.model.errors import PlanError
from midstream.model.format import check_format
from midstream.model.time import FOREVER, NEVER
from midstream.operators.hopping.emission import merged
from midstream.plan.plan import Plan

FORMAT = 2
"""The form in which a merger is written down."""
Drained = dict[int, dict[int, dict[int, tuple[int, int]]]]
"""Per version (negative: of its reference), bucket and position: since when nothing older is left, known from when."""
Hops = dict[int, dict[int, tuple[int, int]]]
"""Per version and hop: the oldest row in the windows, and a fingerprint of the rows in them."""


@dataclass(frozen=True)
class Departure:
    """What leaves together, in order; of queries that hop, the answer at a hop, which may be empty."""

    rows: pa.RecordBatch
    hop_us: int | None = None

    @property
    def complete(self) -> bool:
        """Return whether it is a whole answer, which takes the place of the one before."""
        return self.hop_us is not None and "_sign" not in self.rows.schema.names


@dataclass
class ResultMerger:
    """The versions of a query as seen from where their output meets."""

    labels: tuple[int, ...]
    plan_of: Callable[[int], Plan]
    control: ControlManager = field(default_factory=ControlManager)
    drained: Drained = field(default_factory=dict)
    """What buckets have reported of drains that are over."""
    due: int = 0
    """Changes that were read and whose position has not been reached: it may be in the next micro-batch."""
    behind: bool = False
    """Buckets do not know everything: they may give results of versions that are over."""
    delay_us: int = 0
    """The longest that results of the last micro-batch were held back, in event time."""
    _started: set[int] = field(default_factory=set)
    """The versions that live in all buckets."""
    _reached_us: int = NEVER
    """How far the micro-batch before has come, as far as it is remembered."""
    _new: bool = True
    """No micro-batch has come since it was made, or read."""

    @property
    def quiet(self) -> bool:
        """Return whether results of one version simply leave."""
        return self.control.quiet and not self.due and not self.behind

    @property
    def meets(self) -> bool:
        """Return whether results must come here before they leave: versions change, or answers are of all buckets."""
        return not self.quiet or any(self._hops(life.version) for life in self.control.alive)

    @property
    def changed(self) -> bool:
        """Return whether there is more to remember than that one version runs."""
        return bool(self.control.changes) or len(self.control.lives) > 1 or not self.control.quiet

    @property
    def version(self) -> int:
        """Return the newest version that runs, or would start again."""
        return self.control.newest

    def over(self) -> list[int]:
        """Return versions that will never run again, unless they are started anew."""
        open_to = {c.new for c in self.control.open_changes}
        lives = self.control.lives
        idle = [v for v in lives if not lives[v].alive and not self.control.audits(v)]
        return [v for v in idle if v not in open_to and v not in (self.version, self.control.latest)]

    def on_batch(self, outputs: Sequence[BucketOutput], everything: bool = False) -> list[Departure]:
        """Take what all buckets emit in a micro-batch; return what leaves, in order. `everything` at the end."""
        self.delay_us = 0
        if not outputs:
            return []
        reports = [output.report for output in outputs]
        self._check_hops(reports)
        leaving = [item for output in outputs for item in output.leaving]
        hops = _hops(reports)
        begun = reports[0]["begun"]
        self.due = reports[0]["due"]
        self._note(reports)
        self._see_left_before(reports)
        for item in leaving:
            if item.held_until_us is not None:
                self._see_delay(item.results.rows, item.held_until_us)
        if self.control.quiet and not begun:
            self._see_behind(reports)
            self._see_left(reports)
            return self._straight(leaving, hops)
        now_us = max(report["released_us"] for report in reports)
        rest = {v: self._merged(v, items, hops.get(v, {})) for v, items in by_version(leaving).items()}
        held = any(report["migrations"] for report in reports)
        self._started = set.intersection(*(set(report["alive"]) for report in reports))
        out: list[pa.RecordBatch] = []
        for item in begun:
            before, rest = cut(rest, item["at_us"])
            out += self._round(before, item["at_us"], held, item["at_us"])
            self._begin(item)
            # What another element lets out leaves before anything that comes.
            out += self._round({}, item["at_us"], held, item["at_us"])
        out += self._round(rest, now_us, held, everything=everything)
        self._see_old_hops(hops)
        self._forget(reports)
        for life in self.control.lives.values():
            # Buckets go on together: no further than the streams of a version have come that runs in one of them.
            self.control.decided += [] if self._hops(life.version) else life.announce_drained()
        over = set(self.over())
        self.drained = {v: reported for v, reported in self.drained.items() if v not in over}
        self._see_behind(reports)
        self._reached_us = now_us
        return self._departures(out, hops)

    def _note(self, reports: Sequence[dict[str, Any]]) -> None:
        """Note how far time has come, and which drains are over in which buckets."""
        for report in reports:
            self.control.clock_us = max(self.control.clock_us, report["clock_us"])
            for version, position_us, over_us, known_us in report["drained"]:
                self.drained.setdefault(version, {}).setdefault(report["bucket"], {})[position_us] = (over_us, known_us)

    def _see_behind(self, reports: Sequence[dict[str, Any]]) -> None:
        """See whether buckets run other versions than live: they learn later what all of them caused."""
        alive = [life.version for life in self.control.alive]
        self.behind = any(report["runs"] != alive for report in reports)

    def _see_old_hops(self, hops: Hops) -> None:
        """Let changes know of hops whose windows held a row from before a drain: it was not over there."""
        for change in self.control.open_changes:
            for version in change.old:
                drain_us = self.control.lives[version].drain_us
                old = [hop for hop, (oldest_us, _) in hops.get(version, {}).items() if oldest_us < (drain_us or NEVER)]
                if old:
                    change.account.not_over(max(old))
                if old and change.reference is not None:
                    change.reference.not_before_us = max(change.reference.not_before_us, *old)

    def _forget(self, reports: Sequence[dict[str, Any]]) -> None:
        """Drop fingerprints of rows that the version which could repeat them holds no more."""
        for change in self.control.changes:
            # A bucket that says nothing of it has nothing that could repeat them.
            change.account.forget(min(report["oldest"].get(str(change.new), FOREVER) for report in reports))

    def _see_left(self, reports: Sequence[dict[str, Any]]) -> None:
        """Note when results of the one version that runs left, though they did not come here."""
        (life,) = self.control.alive
        left_us = max(report["left"].get(str(life.version), (NEVER, NEVER))[1] for report in reports)
        last_us = NEVER if self.control.last_left is None else self.control.last_left[0]
        if left_us > last_us and not self._hops(life.version):
            self.control.last_left = (left_us, time.perf_counter())

    def _see_left_before(self, reports: Sequence[dict[str, Any]]) -> None:
        """Learn after a restart when the last results left; of hops, what buckets had, be it nothing together.

        While versions change it is remembered: what buckets had may be held back here.
        """
        if self._new and self.control.quiet:
            (life,) = self.control.alive
            left_us = max(report["left"].get(str(life.version), (NEVER, NEVER))[0] for report in reports)
            known = self.control.last_left
            if left_us > NEVER and (known is None or (left_us > known[0] and not self._hops(life.version))):
                self.control.last_left = (left_us, time.perf_counter())
        self._new = False

    def _straight(self, leaving: list[Leaving], hops: Hops) -> list[Departure]:
        """Return the results of the one version that runs.

        While a change waits for its position results come here already, though buckets have nothing yet to put in
        order: they leave as they would straight from the workers.
        """
        (version,) = (life.version for life in self.control.alive)
        # Buckets may not know yet that another version is over.
        leaving = [item for item in leaving if item.version == version]
        out = []
        left_us = NEVER if self.control.last_left is None else self.control.last_left[0]
        ordered = all(item.hop_us is not None or item.place() is not None for item in leaving)
        merged = self._merged(version, leaving, {}) if ordered else [item.results for item in leaving]
        for results in merged:
            if not len(results):
                continue  # what came in one bucket went in another
            left_us = max(left_us, last_left_us(results))
            out.append(versioned(results.rows, version))
        if out:
            self.control.last_left = (left_us, time.perf_counter())
        return self._departures(out, hops)

    def _merged(self, version: int, items: list[Leaving], hops: dict[int, tuple[int, int]]) -> list[Results]:
        """Return the results of all buckets of one version in one order."""
        answers: dict[int, list[pa.RecordBatch]] = {}
        others: list[Leaving] = []
        for item in items:
            if item.hop_us is None:
                others.append(item)
            else:
                answers.setdefault(item.hop_us, []).append(item.results.rows)
        # A bucket emits in order.
        alone = len(self.labels) == 1
        out = [item.results for item in others] if alone else in_one_order(others) if others else []
        columns = len(self.plan_of(abs(version)).query.root.columns)
        for hop_us, parts in sorted(answers.items()):
            first = 0
            # Long texts come in pieces, and those of a bucket are in order.
            for rows in parts if alone else merged(parts, columns):
                results = hop_results(rows, hop_us, first) if hop_us in hops else Results(rows)
                out.append(traced(results, columns, *hops[hop_us]) if hop_us in hops else results)
                first += rows.num_rows
        return out

    def _begin(self, item: dict[str, Any]) -> None:
        """Let a change or a control element take effect as it did in the buckets."""
        if "refused" in item:
            if ControlRequest(item["control"]).element == ABORT:
                # Buckets learn later that a drain is over, and so is the change.
                try:
                    self.control.abortable()
                except PlanError as error:
                    item["refused"] = str(error)
            # The change it was meant for says why.
            for record in self.control.records()[-1:]:
                record.reason = item["refused"]
        elif "control" in item:
            # Buckets that stop know less of results held back here; what they could do, nobody refuses.
            with contextlib.suppress(PlanError):
                self.control.control(ControlRequest(item["control"]).element, item["at_us"])
                self._forget_drains(item["at_us"])
        else:
            request = ChangeRequest(**item["change"])
            change = self.control.change(request, item["version"], item["at_us"], item["audit"])
            change.record.schema_change = item["schema_change"]
            change.account.ends_late = any(map(self._hops, change.old))
            change.account.valued = change.account.ends_late or self._hops(change.new)

    def _forget_drains(self, at_us: int) -> None:
        """Forget what was reported of drains of versions that start anew at a position."""
        for life in self.control.alive:
            if life.start_us == at_us:
                for label, reported in self.drained.get(life.version, {}).items():
                    self.drained[life.version][label] = {p: over for p, over in reported.items() if p > at_us}

    def _round(
        self, given: ByVersion, upto_us: int, held: bool, known_us: int = FOREVER, everything: bool = False
    ) -> list[pa.RecordBatch]:
        """Let what versions give up to a time meet; drains known to be over later than `known_us` are not over."""
        control = self.control
        self._see_references(given, held, everything, known_us)
        for version, results in given.items():
            if version > 0:
                control.see(version, self._comparable(version, results))
        for version, position_us in self._watched():
            over = self._drained_us(version, position_us)
            if over is not None and self._watches(version):
                self._announce_drained(version, position_us, over)
                control.see_drained(version, position_us, *over)
        out = []
        for emission in control.settle(upto_us, known_us, everything):
            out += emission.batches
            for batch in emission.batches if emission.held else ():
                self._see_delay(batch, upto_us)
        return out

    def _see_delay(self, rows: pa.RecordBatch, left_us: int) -> None:
        """Note how long results were held back that leave at a time; FOREVER: with the last of them."""
        if rows.num_rows:
            times = rows.column("_time").to_numpy()
            left_us = left_us if left_us < FOREVER else int(times.max())
            self.delay_us = max(self.delay_us, left_us - int(times.min()))

    def _hops(self, version: int) -> bool:
        return self.plan_of(version).query.joint

    def _comparable(self, version: int, results: list[Results]) -> list[Results]:
        """Return results that can be compared with answers at hops, where another version gives some."""
        if self._hops(version) or not any(map(self._hops, self.control.lives)):
            return results
        columns = len(self.plan_of(version).query.schema)
        return [Results(r.rows, r.order, valued(r, columns)) for r in results]

    def _watches(self, version: int) -> bool:
        """Return whether the end of a drain matters: the version lives here, or what it loses is counted."""
        life = self.control.lives.get(version)
        return life is not None and (life.alive or self.control.audits(version))

    def _watched(self) -> list[tuple[int, int]]:
        """Return the versions that buckets watch, and the positions whose older rows they watch for."""
        found = {(v, at_us) for v, buckets in self.drained.items() for over in buckets.values() for at_us in over}
        return sorted(pair for pair in found if pair[0] > 0)

    def _drained_us(self, version: int, position_us: int) -> tuple[int, int] | None:
        """Return since when nothing from before a position is left in any bucket, and from when on that was known."""
        found = []
        for label in self.labels:
            reported = self.drained.get(version, {}).get(label, {})
            # A bucket that has learned late of a drain may have watched for a later position.
            at_us = min((at_us for at_us in reported if at_us >= position_us), default=None)
            if at_us is None:
                return None
            found.append(reported[at_us])
        return max(over for over, _ in found), max(known for _, known in found)

    def _see_references(self, given: ByVersion, held: bool, everything: bool, known_us: int) -> None:
        for change in self.control.changes:
            if change.reference is not None and change.wants_reference:
                started_us = change.record.started_us
                open_us = NEVER if held else FOREVER if everything else self._open_us(change)
                expected, found = (self._comparable(change.new, given.get(v, [])) for v in (-change.new, change.new))
                self.control.see_reference(change, expected, found, open_us)
                over = None if started_us is None else self._drained_us(-change.new, started_us)
                if over is not None and started_us is not None and over[1] <= known_us:
                    self._announce_drained(-change.new, started_us, over)
                    change.end_reference()

    def _open_us(self, change: Change) -> int:
        """Return from where on the new version of a delayed drain may still give what its reference has given.

        Buckets may learn of its start in a later micro-batch, and give what it gives from there on. It may start before
        now, where it is known later that a drain was over.
        """
        late = any(self._hops(v) for v in change.old)
        if change.new in self._started or not (late or len(self.labels) > 1):
            return FOREVER
        if change.record.started_us is not None:
            return change.record.started_us
        return change.reference.not_before_us if late and change.reference is not None else self._reached_us

    def _announce_drained(self, version: int, position_us: int, over: tuple[int, int]) -> None:
        """Let buckets learn, once, that a version is drained whose answers are of all of them."""
        known = self.control.drained.get((version, position_us))
        if self._hops(abs(version)) and known is None:
            self.control.see_drained(version, position_us, *over)
            self.control.decided.append(Element(DRAINED, version, over[0]))

    def _departures(self, batches: Sequence[pa.RecordBatch], hops: Hops) -> list[Departure]:
        """Return batches as they leave, those of a query that hops hop by hop, also where the answer is empty."""
        out: list[Departure] = []
        for batch in batches:
            place = batch.schema.get_field_index("_hop")
            if place < 0 or not batch.num_rows:
                out.append(Departure(batch))
                continue
            times = batch.column(place).to_numpy()
            cuts = [0, len(times)]
            if times[0] != times[-1]:
                cuts = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), len(times)]
            out += [Departure(batch.slice(a, b - a), int(times[a])) for a, b in pairwise(cuts)]
        for version, answered in hops.items():
            missing = set(answered) - {departure.hop_us for departure in out}
            if not missing or version < 0 or self.control.merger.held.get(version):
                continue
            missing = {hop_us for hop_us in missing if self._answers(version, hop_us, answered[hop_us][0])}
            empty = pa.RecordBatch.from_pylist([], output_schema(self.plan_of(version)))
            for hop_us in sorted(missing):
                at = next((k for k, d in enumerate(out) if d.hop_us is not None and d.hop_us > hop_us), len(out))
                out.insert(at, Departure(empty, hop_us))
        return out

    def _answers(self, version: int, hop_us: int, oldest_us: int) -> bool:
        """Return whether the answer at a hop leaves, be it empty: the version may have been stopped, or drain."""
        place = np.array([[hop_us, -1, -1, -1]], np.int64)
        keep = Gatekeeper(self.control.lives[version]).lets_out(place, np.array([oldest_us], np.int64), 1)
        return keep is None or bool(keep[0])

    def decided(self) -> list[dict[str, Any]]:
        """Return, once, the elements that results of all buckets together have caused, as control rows.

        A bucket that is alone has caused them itself.
        """
        found, self.control.decided = self.control.decided, []
        return [{"kind": e.kind, "version": e.version, "at_us": e.at_us} for e in found if len(self.labels) > 1]

    def _check_hops(self, reports: Sequence[dict[str, Any]]) -> None:
        """A hop leaves when all buckets have answered it, which they do in the same micro-batch."""
        found: dict[str, int | None] = {}
        for version, next_us in (item for report in reports for item in report["next_us"].items()):
            assert found.setdefault(version, next_us) == next_us, f"buckets are at different hops of version {version}"

    def to_plain(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """Return the state as plain values, and tables of the output that is held back."""
        held = {
            f"{version}-{place}": to_table(results)
            for version, parts in self.control.merger.held.items()
            for place, results in enumerate(parts)
        }
        drained = [
            [version, bucket, position_us, *over]
            for version, buckets in self.drained.items()
            for bucket, reported in buckets.items()
            for position_us, over in reported.items()
        ]
        plain = {"format": FORMAT, "control": control_to_plain(self.control), "drained": drained, "due": self.due}
        plain["behind"] = self.behind
        return plain, held

    def load(self, plain: dict[str, Any], held: dict[str, pa.Table]) -> None:
        """Be as `to_plain` has written it."""
        check_format("what a change has come to", plain.get("format"), FORMAT)
        self.control = control_of_plain(plain["control"])
        for version, bucket, position_us, over_us, known_us in plain["drained"]:
            self.drained.setdefault(version, {}).setdefault(bucket, {})[position_us] = (over_us, known_us)
        self.due, self.behind = plain["due"], plain["behind"]
        for name, table in sorted(held.items(), key=lambda item: [int(part) for part in item[0].split("-")]):
            self.control.merger.held.setdefault(int(name.partition("-")[0]), []).append(of_table(table))


def _hops(reports: Sequence[dict[str, Any]]) -> Hops:
    """Return, per version, the hops answered with the oldest row in the windows of all buckets and a fingerprint."""
    out: Hops = {}
    for report in reports:
        for version, hops in report["hops"].items():
            mine = out.setdefault(int(version), {})
            for hop_us, oldest_us, print_ in hops:
                before = mine.get(hop_us, (FOREVER, 0))
                mine[hop_us] = (min(before[0], oldest_us), before[1] + print_)
    return out

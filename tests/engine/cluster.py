"""A cluster without Spark: buckets on stores of their own, shared memory, and a driver where their output meets.

Every micro-batch may fail and be run again: an attempt that is never committed, shared memory that is lost, a driver
that dies before its state is written.
"""

import copy
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from engine.memory_store import MemoryStore

from midstream.engine.bucket.bucket import Bucket
from midstream.engine.bucket.spec import BucketSpec
from midstream.engine.bucket.state import Due
from midstream.engine.control.versions import KnownVersions
from midstream.engine.planning.plans import migrated
from midstream.engine.results.merger import Departure, ResultMerger
from midstream.engine.results.output import BucketOutput
from midstream.engine.rows.mail import Message, mail_for
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.routing import buckets_of
from midstream.engine.rows.rows import Rows
from midstream.engine.run.contract import Framework, RunSpec
from midstream.engine.snapshot.form import put_together, take_apart
from midstream.live.lines import of_lines, to_lines
from midstream.live.mapped import MappedMemory
from midstream.model.timing import Timing
from midstream.plan.json import own_aggregates
from midstream.plan.plan import Plan


class Line:
    """A line as Spark hands it to the driver."""

    def __init__(self, bucket: int, kind: int, blob: bytes) -> None:
        self.bucket, self.kind, self.blob = bucket, kind, blob


class CheckedMemory(MappedMemory):
    """Shared memory that sees to it that whatever is put there comes back as it was."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder)
        self._own = own_aggregates(plan.query.root)

    def publish(self, version: int, token: str, exported: Any) -> bool:
        description, arrays = take_apart(exported)
        again = take_apart(put_together(description, [a.copy() for a in arrays], self._own))
        assert again[0] == description
        assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays, again[1], strict=True))
        return super().publish(version, token, exported)


class Cluster:
    """Buckets with their stores, and a driver."""

    def __init__(
        self,
        plans: Sequence[Plan],
        folder: Path,
        labels: tuple[int, ...] = (0,),
        rnd: random.Random | None = None,
        crashes: float = 0.0,
        schedule: Sequence[Due] = (),
        lateness_us: int = 0,
        framework: str = "tree",
        **run: Any,
    ) -> None:
        self.versions = KnownVersions(tuple(plans))
        self.folder, self.labels, self.crashes = folder, labels, crashes
        self.rnd = rnd or random.Random(1)
        positions = {s.position for plan in plans for s in plan.query.sources}
        how = RunSpec(True, Framework(framework), **{"planner": migrated, **run})
        self.spec = BucketSpec(
            self.versions.plan_of,
            dict.fromkeys(positions, Timing(lateness_us)),
            True,
            labels,
            how,
            tuple(schedule),
            audit=True,
        )
        self.stores = {label: MemoryStore() for label in labels}
        self.driver = self._written(ResultMerger(labels, self.versions.plan_of))
        self.departures: list[Departure] = []
        self.reports: list[list[dict[str, Any]]] = []
        self.late = 0
        self.mail: list[Message] = []
        """What buckets have sent in the last micro-batch."""

    @property
    def plan(self) -> Plan:
        return self.versions.plan_of(1)

    def live(self) -> "Cluster":
        """Be as a live query is: offsets are given as rows come, plans are made by the driver."""
        run = replace(self.spec.run, planner=None)
        self.spec = replace(self.spec, recorded=False, run=run)
        return self

    def _written(self, merger: ResultMerger) -> tuple[str, dict[str, pa.Table]]:
        plain, held = merger.to_plain()
        return json.dumps(plain), held

    def merger(self) -> ResultMerger:
        """Return the driver's merger as its state was last written."""
        merger = ResultMerger(self.labels, self.versions.plan_of)
        merger.load(json.loads(self.driver[0]), self.driver[1])
        return merger

    def attempt(self, label: int, store: MemoryStore, packed: Packed) -> BucketOutput:
        """Run a micro-batch of one bucket, as a worker does; what it emits goes over the wire."""
        with CheckedMemory(self.folder / str(label), self.plan) as memory:
            output = Bucket(self.spec, label, store, memory).on_batch(copy.deepcopy(packed))
        (read,) = of_lines([Line(label, kind, blob) for kind, _, blob in to_lines(output)])
        return read

    def lose_memory(self) -> None:
        for file in self.folder.glob("*/*/*"):
            file.unlink()

    def batch(self, packed_of: Callable[[int], Packed], last: bool = False, drain: bool = False) -> list[Departure]:
        """Run a micro-batch: `packed_of` returns what the bucket at a place gets; `drain`: it emits everything."""
        outputs = []
        for place, label in enumerate(self.labels):
            packed = packed_of(place)
            packed.last = last
            packed.mail = mail_for(place, self.mail)
            tried = None
            if self.rnd.random() < self.crashes:  # an attempt that works and is never committed
                tried = self.attempt(label, copy.deepcopy(self.stores[label]), packed)
            if self.rnd.random() < self.crashes:
                self.lose_memory()
            outputs.append(self.attempt(label, self.stores[label], packed))
            assert tried is None or given_by(tried) == given_by(outputs[-1]), "attempts give different results"
            assert tried is None or tried.mail == outputs[-1].mail, "attempts send different mail"
        if self.rnd.random() < self.crashes:  # the driver dies before its state is written
            self.merger().on_batch(copy.deepcopy(outputs), everything=last or drain)
        merger = self.merger()
        if not merger.meets and not outputs[0].report["begun"]:  # workers write what they give, unseen
            left = {item.version for output in outputs for item in output.leaving if len(item.results)}
            assert left <= {merger.version}, "a version that is over has given results"
        departures = merger.on_batch(outputs, everything=last or drain)
        self.decided = merger.decided()
        self.driver = self._written(merger)
        self.departures += departures
        self.mail = [message for output in outputs for message in output.mail]
        self.reports.append([output.report for output in outputs])
        self.late += sum(table.num_rows for output in outputs for table in output.late)
        return departures

    def place(self, packed: Packed, place: int, number: int, rank: int, rows: Rows, all_columns: Any = None) -> None:
        """Add rows of an alias of a version to what the bucket at a place gets, in one or two parts."""
        plan = self.versions.plan_of(number)
        alias = plan.query.sources[rank].alias
        if len(self.labels) > 1:
            if plan.partitioning.one_bucket:
                places = np.zeros(len(rows), np.int64)
            else:
                columns = rows.columns if all_columns is None else all_columns
                found = buckets_of(plan.partitioning, alias, len(self.labels), rows.times, columns)
                places = np.full(len(rows), place) if found is None else found
            rows = rows.where(places == place)
        if len(rows):
            cut = self.rnd.randint(0, len(rows))
            parts = [rows.between(0, cut), rows.between(cut, len(rows))]
            packed.rows[number, rank] = [(k, part) for k, part in enumerate(parts) if len(part)]

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return everything that left, with the given columns."""
        tables = [pa.Table.from_batches([d.rows]).select(schema.names) for d in self.departures if d.rows.num_rows]
        return pa.concat_tables([schema.empty_table(), *tables])

    def held(self, rank: int) -> int:
        """Return how many window rows of an alias are kept."""
        stores = self.stores.values()
        return sum(t.num_rows for s in stores for k, t in s.tables.items() if (k.kind, k.place) == ("window", rank))

    @property
    def rebuilt(self) -> int:
        return sum(r["rebuilt"] for reports in self.reports for r in reports)

    def total(self, name: str) -> int:
        return sum(reports[0][name] for reports in self.reports)


def given_by(output: BucketOutput) -> list[tuple[int, str]]:
    """Return the results of a bucket in a micro-batch, version by version, in order; NaN is like NaN."""
    rows = [(i.version, repr(row)) for i in output.leaving for row in i.results.rows.to_pylist()]
    return sorted(rows, key=lambda row: row[0])

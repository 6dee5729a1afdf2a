"""A cluster that runs a script: recorded streams, the plans of all versions, and what is to happen to them."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from engine.cluster import Cluster

from midstream.engine.bucket.state import Due
from midstream.engine.control.controls import ELEMENT, MET
from midstream.engine.results.merger import ResultMerger
from midstream.engine.rows.packed import Packed
from midstream.engine.rows.rows import Rows
from midstream.plan.plan import Plan


class ScriptCluster(Cluster):
    """A cluster that reads recorded streams in micro-batches of a width, to their end."""

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        plans: Sequence[Plan],
        schedule: Sequence[Due],
        batch_us: int,
        folder: Path,
        labels: tuple[int, ...],
        rnd: random.Random,
        crashes: float,
    ) -> None:
        super().__init__(plans, folder, labels, rnd, crashes, schedule)
        self.tables, self.batch_us = tables, batch_us
        self.times = {name: np.asarray(table.column("ts").to_numpy()) for name, table in tables.items()}
        self.positions = {name: k for k, name in enumerate(tables)}
        read = {s.stream.name for plan in plans for s in plan.query.sources}
        self.read = [name for name in tables if name in read]
        self.controls: list[dict[str, Any]] = []
        self.late_by = 0
        """After how many further micro-batches buckets learn what was decided."""
        self._sent: list[tuple[int, dict[str, Any]]] = []

    @property
    def out(self) -> list[tuple[Any, ...]]:
        """Return the rows that left, in order."""
        return [tuple(row.values()) for d in self.departures for row in d.rows.to_pylist()]

    def run(self) -> ResultMerger:
        """Read everything; return the driver's merger as it is then."""
        times = np.concatenate([self.times[name] for name in self.read])
        ends = sorted({(t // self.batch_us + 1) * self.batch_us for t in times.tolist()})
        for number, end in enumerate(ends):
            self.step(ends[number - 1] if number else -(2**62), end, False)
        while self.controls or self._sent:  # what was decided last reaches the buckets though no row comes
            self.step(ends[-1], ends[-1], False)
        self.step(ends[-1], ends[-1], True)
        return self.merger()

    def step(self, first: int, end: int, last: bool) -> None:
        """Run a micro-batch with the rows from one time to another."""
        self.batch(lambda place: self.packed(place, first, end), last)
        number = len(self.reports)
        rows = [{"do": ELEMENT, **element} for element in self.decided]
        rows += [{"do": MET, "of": of} for of in {r["meets_for"] for r in self.reports[-1]} if of is not None]
        self._sent += [(number + self.late_by, {"id": f"{number}-{k}", **row}) for k, row in enumerate(rows)]
        self.controls = [row for due, row in self._sent if due <= number]
        self._sent = [(due, row) for due, row in self._sent if due > number]

    def packed(self, place: int, first: int, end: int) -> Packed:
        """Return what the bucket at a place gets of the rows from one time to another."""
        packed = Packed(high={self.positions[name]: end for name in self.read}, controls=list(self.controls))
        packed.clock_us = max((int(t) for n in self.read for t in self.times[n][self.times[n] < end]), default=-(2**63))
        inside = {name: (self.times[name] >= first) & (self.times[name] < end) for name in self.read}
        packed.low = {self.positions[n]: int(self.times[n][mask].min()) for n, mask in inside.items() if mask.any()}
        over = set(self.merger().over())  # as on Spark, where nobody packs rows for them any more
        for number, plan in enumerate(self.versions.plans, 1):
            for rank, source in enumerate(plan.query.sources):
                name = source.stream.name
                mine = inside[name] & (number not in over)
                table = self.tables[name].filter(pa.array(mine))
                columns = {n: table.column(n).combine_chunks() for n in table.column_names}
                used = {n: columns[n] for n in plan.query.columns_of(source.alias)}
                rows = Rows(self.times[name][mine], np.flatnonzero(mine), used)
                self.place(packed, place, number, rank, rows, columns)
        return packed

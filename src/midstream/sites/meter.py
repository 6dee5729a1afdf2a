"""The meter of a node: what its stream is like, measured while it runs, over the last interval of event time.

new rows, those of them that can match ──▶ rate, bytes of a row, rows in the window, how often two rows match
"""

from typing import Any

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix
from midstream.model.time import FOREVER, NEVER
from midstream.plan.window import RangeWindow
from midstream.sites.packet import bytes_of
from midstream.sites.partials import Part, Partials
from midstream.sites.query import JoinedQuery
from midstream.sites.statistics import StreamStatistics
from midstream.sites.window import NodeWindow

INTERVAL_US = 200_000
"""How much event time is measured over, unless said otherwise: the interval of the paper's experiments."""
SAMPLE = 1000
"""Rows that say how often two rows match."""
SHORT = 10
"""A window of so many intervals soon holds what the rate brings, and is taken to; a longer one is counted."""
FEW_PAIRS = 5000
"""Pairs of rows that teach as much as was believed at first."""
PLACE_BYTES = 16
"""Time and offset, which every row has with it."""


class Meter:
    """Measures one stream. The same rows give the same statistics, however they are batched, at the same times."""

    def __init__(self, query: JoinedQuery, alias: str, first: StreamStatistics, interval_us: int = INTERVAL_US) -> None:
        self.query, self.alias, self.interval_us = query, alias, interval_us
        self.known = self._first = first
        self._measured_us = self._began_us = NEVER
        self._times = np.empty(0, np.int64)
        """Of the rows of the last interval that can match."""
        self._sample: Matrix = np.empty((0, 1 + query.codes), np.int64)
        self._arrived = self._passed = self._bytes = 0

    def on_rows(self, part: Part, heads: Partials, window: NodeWindow, upto_us: int) -> StreamStatistics | None:
        """Take the next rows of the stream, and those of them that can match; return what was measured, if anything.

        An interval is measured when all its rows have come; of several that end together, the last.
        """
        sizes = sum(bytes_of(part.columns[name]) for name in part.columns)
        self._arrived, self._passed, self._bytes = (
            self._arrived + len(part),
            self._passed + len(heads),
            self._bytes + sizes,
        )
        self._times = np.concatenate([self._times, heads.head.times])
        self._sample = np.concatenate([self._sample, heads.codes])[-SAMPLE:]
        if self._began_us == NEVER and len(part):
            self._began_us = int(part.times[0])
        if upto_us == FOREVER or self._began_us == NEVER:
            return None
        end_us = upto_us // self.interval_us * self.interval_us
        if end_us <= self._measured_us:
            return None
        first = self._measured_us == NEVER
        self._measured_us = end_us
        low, high = np.searchsorted(self._times, [end_us - self.interval_us, end_us])
        self._times = self._times[high:]
        if first:
            return None  # the stream may have begun within it
        self.known = self._measured(int(high - low), window, end_us)
        self._arrived = self._passed = self._bytes = 0
        return self.known

    def _measured(self, rows: int, window: NodeWindow, end_us: int) -> StreamStatistics:
        known = self.known
        rate = rows * 1e6 / self.interval_us
        size = self._bytes / self._arrived + PLACE_BYTES if self._arrived else known.size
        passing = self._passed / self._arrived if self._arrived else 1.0
        kept = self.query.source(self.alias).window
        held = window.scan.store.times.view()
        if isinstance(kept, RangeWindow) and kept.width_us <= SHORT * self.interval_us:
            return StreamStatistics(rate, size, rate * kept.width_us / 1e6, self._factors(), known.pairs)
        if isinstance(kept, RangeWindow):
            start, stop = np.searchsorted(held, [end_us - kept.width_us, end_us])
            # A window that is not full yet is taken as if it were.
            count = float(stop - start) * kept.width_us / max(1, min(kept.width_us, end_us - self._began_us))
        else:
            count = float(len(window.live(window.covered_us)))
        return StreamStatistics(rate, size, count * passing, self._factors(), known.pairs)

    def _factors(self) -> dict[str, float]:
        """Return how large a part of the pairs of rows has the same value of each join attribute."""
        pairs, found = len(self._sample) * (len(self._sample) - 1), {}
        for attribute, believed in self._first.factors.items():
            _, times = np.unique(self._sample[:, int(attribute)], return_counts=True)
            matching = float((times * (times - 1)).sum())
            found[attribute] = (matching + believed * FEW_PAIRS) / (pairs + FEW_PAIRS)
        return found

    def export(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        """Return what it remembers as plain values and a table."""
        plain = {
            "measured": self._measured_us, "began": self._began_us, "times": self._times.tolist(),
            "counts": [self._arrived, self._passed, self._bytes],
        }  # fmt: skip
        columns = [pa.array(np.ascontiguousarray(c)) for c in self._sample.T]
        return plain, pa.RecordBatch.from_arrays(columns, names=[f"c{k}" for k in range(len(columns))])

    def load(self, plain: dict[str, Any], table: pa.RecordBatch, known: StreamStatistics) -> None:
        """Remember what `export` has returned."""
        self._measured_us, self._began_us, self.known = plain["measured"], plain["began"], known
        self._times = np.array(plain["times"], np.int64)
        self._arrived, self._passed, self._bytes = plain["counts"]
        self._sample = np.column_stack([c.to_numpy() for c in table.columns]).astype(np.int64)

"""The node of the query site, N_0: results of all flows meet, and leave in max order.

    results by head stream, each stretch saying how far it goes ──▶ wait for all streams ──▶ in order ──▶ select list

State: results that wait, and how far each stream's have come.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Matrix
from midstream.model.batch import TRIGGER, Results
from midstream.model.time import NEVER
from midstream.operators.expression.evaluate import evaluate_all
from midstream.plan.expr import Column
from midstream.sites.packet import ABOUT_PLANS, PARTIALS, Packet
from midstream.sites.partials import Partials, one_after_the_other
from midstream.sites.plan import QUERY_NODE
from midstream.sites.planner import Planner
from midstream.sites.query import JoinedQuery


class QueryNode:
    """Where results meet. Invariant: every result before `released_us` has left, and no other."""

    name = QUERY_NODE

    def __init__(self, query: JoinedQuery, planner: Planner | None = None) -> None:
        self.query = query
        self.planner = planner
        """Where this is the central node: who makes plans."""
        self.released_us = NEVER
        self._reached = dict.fromkeys(query.aliases, NEVER)
        """By head: all results before this time are here."""
        self._ahead: dict[str, dict[int, int]] = {alias: {} for alias in query.aliases}
        """By head: stretches that came before others that lie before them, from when to when."""
        self._waiting: list[Partials] = []

    def on_message(self, message: Packet) -> list[Packet]:
        """Take a stretch of results, or a report."""
        if message.kind in ABOUT_PLANS:
            assert self.planner is not None, "reports go to the central node"
            return self.planner.on_packet(message)
        assert message.kind == PARTIALS, "the query site is sent results"
        path = tuple(message.plain["path"])
        head, ahead = path[0], self._ahead[path[0]]
        ahead[message.plain["low"]] = message.plain["high"]
        while self._reached[head] in ahead:
            self._reached[head] = ahead.pop(self._reached[head])
        if message.table is not None:
            self._waiting.append(Partials.of_batch(message.table, path, 1 + self.query.codes))
        return []

    @property
    def complete_us(self) -> int:
        """Return the time before which all results are here."""
        return min(self._reached.values())

    def release(self) -> Results | None:
        """Return the results that no other can come before, in max order; None: there are none."""
        upto_us = self.complete_us
        ready = [p.span(NEVER, upto_us) for p in self._waiting]
        self._waiting = [later for p in self._waiting if len(later := p.between(_before(p, upto_us), len(p)))]
        self.released_us = max(self.released_us, upto_us)
        ready = [p for p in ready if len(p)]
        return in_max_order(self.query, ready) if ready else None

    def export(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        """Return what it holds as plain values and tables."""
        tables = [p.to_batch((), {a: self.query.carried(a, self.query.aliases) for a in p.path}) for p in self._waiting]
        plain: dict[str, Any] = {
            "released": self.released_us,
            "reached": self._reached,
            "ahead": {head: list(ahead.items()) for head, ahead in self._ahead.items()},
            "paths": [list(p.path) for p in self._waiting],
        }
        if self.planner is not None:
            plain["planner"], more = self.planner.export()
            tables += more
        return plain, tables

    def load(self, plain: dict[str, Any], tables: list[pa.RecordBatch]) -> None:
        """Hold what `export` has returned; the planner has its machine already."""
        self.released_us, self._reached = plain["released"], dict(plain["reached"])
        self._ahead = {head: dict(map(tuple, ahead)) for head, ahead in plain["ahead"].items()}
        width = 1 + self.query.codes
        named = zip(plain["paths"], tables, strict=False)
        self._waiting = [Partials.of_batch(table, tuple(path), width) for path, table in named]
        if self.planner is not None:
            self.planner.load(plain["planner"], tables[len(plain["paths"]) :])


def _before(partials: Partials, time_us: int) -> int:
    """Return how many partial results have a head before a time."""
    return int(np.searchsorted(partials.head.times, time_us))


def in_max_order(query: JoinedQuery, given: list[Partials]) -> Results:
    """Return results by their latest rows, then by their other rows in FROM order, with what is selected of them."""
    parts = {alias: one_after_the_other([p.parts[alias] for p in given]) for alias in query.aliases}
    order = np.empty((sum(map(len, given)), TRIGGER + 2 * len(query.aliases)), np.int64)
    at = 0
    for partials in given:
        mine = order[at : at + len(partials)]
        position, rank = query.place(partials.path[0])
        mine[:, 0], mine[:, 1], mine[:, 2], mine[:, 3] = partials.head.times, position, partials.head.offsets, rank
        at += len(partials)
    for k, alias in enumerate(query.aliases):
        order[:, TRIGGER + 2 * k], order[:, TRIGGER + 1 + 2 * k] = parts[alias].times, parts[alias].offsets
    places = np.lexsort(order.T[::-1])
    parts = {alias: part.take(places) for alias, part in parts.items()}

    def column(c: Column) -> pa.Array:
        return parts[c.alias].columns[c.name]

    arrays = evaluate_all([e for _, e in query.outputs], len(places), column)
    ordered: Matrix = order[places]
    arrays.append(pa.array(np.ascontiguousarray(ordered[:, 0])))
    return Results(pa.RecordBatch.from_arrays(arrays, names=[*(n for n, _ in query.outputs), "_time"]), ordered)

"""Measure operators of hopping queries on this machine: what each mode takes per hop, on generated rows."""

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from midstream.lang.sql import parse_query
from midstream.model.statistics import Size, Statistics
from midstream.model.stream import StreamSchema
from midstream.operators.hopping.build_execution import HopExecution
from midstream.operators.hopping.difference import CountValues
from midstream.operators.hopping.group import GroupBy
from midstream.operators.hopping.node import Node
from midstream.optimize.hopping.choose import same_modes
from midstream.optimize.hopping.cost import Constants, Cost, cost, operator_name
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.algebra import Rel, inputs
from midstream.plan.modes import CICO, CIDO, DICO, DIDO, MODES
from midstream.plan.plan import Plan
from midstream.plan.query import Query

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
STREAMS = tuple(StreamSchema(name, SCHEMA, "ts") for name in "abc")
WINDOW_US = 1_000_000
"""Every window is as long as this; how many rows are in it is up to the rate."""
LEAST_HOPS = 6
QUERIES = {
    "join": "SELECT a.k, a.v, b.v AS w FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k",
    "difference": "SELECT d.k FROM (SELECT k, v FROM a [RANGE 1 SECOND] EXCEPT SELECT k, v FROM b [RANGE 1 SECOND]) d",
    "difference of bags": (
        "SELECT d.k FROM (SELECT k, v FROM a [RANGE 1 SECOND] EXCEPT ALL SELECT k, v FROM b [RANGE 1 SECOND]) d"
    ),
    "anti-join": (
        "SELECT a.k, a.v FROM a [RANGE 1 SECOND] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 1 SECOND] WHERE b.k = a.k)"
    ),
    "distinct": "SELECT d.k FROM (SELECT DISTINCT k, v FROM a [RANGE 1 SECOND]) d",
    "union": "SELECT d.k FROM (SELECT k, v FROM a [RANGE 1 SECOND] UNION ALL SELECT k, v FROM b [RANGE 1 SECOND]) d",
    "select": "SELECT k, v FROM a [RANGE 1 SECOND] WHERE v > 10",
    "group": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a [RANGE 1 SECOND] GROUP BY k",
    "group anew": "SELECT k, COUNT(*) AS n, MAX(v) AS s FROM a [RANGE 1 SECOND] GROUP BY k",
}
"""A query around each operator that is measured."""
ABOVE = {DIDO: DIDO, CIDO: DIDO, DICO: CICO, CICO: CICO}
"""A mode for the operators above one in a given mode."""
BELOW = {DIDO: DIDO, DICO: DIDO, CICO: CICO, CIDO: CICO}
"""A mode for the operators below one in a given mode."""


@dataclass(frozen=True)
class Case:
    """An operator at one ratio of hop to window, with so many rows in each window and so many different keys."""

    name: str
    ratio: float
    rows: int
    keys: int

    @property
    def hop_us(self) -> int:
        """Return the hop."""
        return round(self.ratio * WINDOW_US)

    @property
    def statistics(self) -> Statistics:
        """Return what is known of the rows."""
        names = ("a", "b", "k", "v")
        found = Statistics()
        for alias in names[:2]:
            found.rows_per_s[alias] = float(self.rows)
            found.distinct[alias, "k"], found.distinct[alias, "v"] = float(self.keys), 100.0
        return found


@dataclass
class Seen:
    """What one mode of a case took, in nanoseconds per hop, and what the model says of it with given constants."""

    case: Case
    mode: str
    ns: float
    rel: Rel = field(repr=False)
    size: Size = field(repr=False)
    """What the operator gives."""
    tested: float = 0.0
    """Tuples, pairs and values that all operators of the plan have looked at per hop."""

    def expected(self, constants: Constants) -> Cost:
        """Return what the model expects of an operator that gives what this one did."""
        sizes = Sizes(self.case.statistics, self.case.hop_us)
        sizes.know(self.rel, self.size)
        return cost(self.rel, self.mode, "window", sizes, constants)


def query_of(case: Case, mode: str) -> Query:
    """Return the query around the operator that is measured, emitting what the mode gives."""
    emit = "DELTA" if mode[2] == "D" else "COMPLETE"
    return parse_query(f"{QUERIES[case.name]} HOP BY {case.hop_us} MICROSECONDS EMIT {emit}", STREAMS)


def rows_of(case: Case, hops: int, seed: int) -> dict[str, pa.Table]:
    """Generate rows for a window and some hops: keys and values uniform, one row after the other."""
    made = {}
    count = round(case.rows * (1 + hops * case.ratio)) + 1
    for place, name in enumerate("ab"):
        rng = np.random.default_rng([seed, place])
        times = np.sort(rng.integers(0, round(WINDOW_US * (1 + hops * case.ratio)), count))
        made[name] = pa.table({"ts": times, "k": rng.integers(0, case.keys, count), "v": rng.integers(0, 100, count)})
    return made


def measured_plan(case: Case, mode: str) -> tuple[Plan, tuple[int, ...]]:
    """Return a plan with the measured operator in a mode, and where it is: the topmost one that is measured."""
    query = query_of(case, mode)
    asked = Plan(query, query.root, _uniform(query))
    paths = [path for path, _ in asked.of_paths()]
    target = min((p for p in paths if operator_name(_at(query.root, p)) == case.name), key=len)
    modes = []
    for path in paths:
        if path == target:
            modes.append(mode)
        else:
            modes.append((BELOW if path[: len(target)] == target else ABOVE)[mode])
    return Plan(query, query.root, tuple(modes)), target


def _uniform(query: Query) -> tuple[str, ...]:
    return same_modes(query.root, "delta", query.emit)


def _at(rel: Rel, path: Sequence[int]) -> Rel:
    for place in path:
        rel = inputs(rel)[place]
    return rel


def measure(case: Case, seed: int = 1, modes: Sequence[str] = MODES, turns: int = 2) -> list[Seen]:
    """Run a case in several modes side by side, hop by hop; return what the operator and its reading took.

    Every turn does the same work. Of each hop the least time counts, what disturbs it being elsewhere; of the hops the
    mean, since some tidy up for others: there are as many as it takes to renew the window.
    """
    hops = max(LEAST_HOPS, math.ceil(1 / case.ratio) + 1)
    tables = rows_of(case, hops, seed)
    plans = {mode: measured_plan(case, mode) for mode in modes}
    times: dict[str, npt.NDArray[np.float64]] = {mode: np.full(hops, np.inf) for mode in modes}
    for _ in range(turns):
        running = {mode: HopExecution(plan) for mode, (plan, _) in plans.items()}
        filled, tested = _run(case, tables, running, plans, times)
    at = {mode: running[mode].tree.nodes[path] for mode, (_, path) in plans.items()}
    size = _size(at, filled, hops)
    looked = {mode: (running[mode].tested - tested[mode]) / hops for mode in modes}
    return [
        Seen(case, m, float(times[m].mean()) * 1e9, running[m].tree.rels[plans[m][1]], size, looked[m]) for m in modes
    ]


def _run(
    case: Case,
    tables: dict[str, pa.Table],
    running: dict[str, HopExecution],
    plans: dict[str, tuple[Plan, tuple[int, ...]]],
    times: dict[str, npt.NDArray[np.float64]],
) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Let executions answer hop by hop, note the least times; return what came, went and was looked at to begin with.

    That is until windows were full.
    """
    filled, tested = {}, {}
    gc.collect()
    hops = len(next(iter(times.values())))
    edges = [0, *(WINDOW_US + round(k * case.hop_us) for k in range(hops + 1))]
    for number, (start, end) in enumerate(pairwise(edges)):
        for mode, execution in running.items():
            before = _spent(execution, plans[mode][1])
            for source in execution.plan.query.sources:
                table = tables[source.stream.name]
                stamps = table.column("ts").to_numpy()
                low, high = np.searchsorted(stamps, [start, end])
                part = table.slice(low, high - low)
                columns = {n: part.column(n).combine_chunks() for n in ("ts", "k", "v")}
                execution.add(source.alias, columns, stamps[low:high], np.arange(low, high), end)
            execution.close(end)
            node = execution.tree.nodes[plans[mode][1]]
            if not number:
                filled[mode] = node.account.came, node.account.went
                tested[mode] = execution.tested
            else:  # the first one fills the windows
                taken = _spent(execution, plans[mode][1]) - before
                times[mode][number - 1] = min(times[mode][number - 1], taken)
    return filled, tested


def _size(nodes: dict[str, Node], filled: dict[str, tuple[int, int]], hops: int) -> Size:
    """Return what an operator gives: its size from a node that gives it whole, what comes and goes from another."""
    whole = next((float(n.account.complete) for m, n in nodes.items() if m[2] == "C"), 0.0)
    came, went = next(
        ((n.account.came - filled[m][0], n.account.went - filled[m][1]) for m, n in nodes.items() if m[2] == "D"),
        (0, 0),
    )
    positive, negative = came / hops, went / hops
    # In the long run as many end by their time as come and are not taken back.
    ends = 0.0 if isinstance(next(iter(nodes.values())).core, CountValues | GroupBy) else positive - negative
    return Size(whole, positive, negative, max(ends, 0.0))


def _spent(execution: HopExecution, path: tuple[int, ...]) -> float:
    """Return the time an operator and its reading of windows have taken."""
    node = execution.tree.nodes[path]
    leaves = [leaf for leaf in execution.tree.leaves.values() if leaf in _below(node)]
    return node.account.spent_s + sum(leaf.account.spent_s for leaf in leaves)


def _below(node: object) -> list[object]:
    found: list[object] = []
    for below in getattr(node, "below", ()) if isinstance(getattr(node, "below", None), tuple) else ():
        found += [below, getattr(below, "below", None)]
    return found

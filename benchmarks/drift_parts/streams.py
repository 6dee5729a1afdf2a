"""Drifting streams: joined on one key, with rates and keys that change from phase to phase."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.lang.sql import parse_query
from midstream.model.statistics import Statistics, Values
from midstream.model.stream import StreamSchema
from midstream.optimize.join_cost import JoinCost
from midstream.optimize.order_joins import cheapest_tree
from midstream.plan.nodes import MethodChoice
from midstream.plan.predicates import classify
from midstream.plan.tree import Tree, tree_text

SECOND_US = 1_000_000
FANS = (1 / 8, 0.5, 1.0, 2.0, 3.0, 3.0)
"""Rows with one key in the windows of streams that drift."""
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])


@dataclass(frozen=True)
class Phase:
    """Some event time in which nothing changes."""

    seconds: float
    rates: tuple[float, ...]
    """Rows per second of each stream."""
    keys: tuple[int, ...]
    """Each stream's keys are uniform from so many, the smaller sets within the larger ones."""


@dataclass(frozen=True)
class Drift:
    """Streams a, b, ... phase after phase, and the join of all of them on their key."""

    phases: tuple[Phase, ...]
    window_s: float
    join: str = "auto"
    name: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> str:
        """Return the streams."""
        return "abcdefghij"[: len(self.phases[0].rates)]

    @property
    def edges_us(self) -> list[int]:
        """Return where phases begin, and where the last one ends."""
        return [round(s * SECOND_US) for s in accumulate((p.seconds for p in self.phases), initial=0.0)]

    @property
    def sql(self) -> str:
        """Return the query."""
        window = f"[RANGE {round(self.window_s * SECOND_US)} MICROSECONDS]"
        keys = " AND ".join(f"{a}.k = {b}.k" for a, b in pairwise(self.names))
        return f"SELECT {', '.join(f'{x}.v AS {x}' for x in self.names)} FROM {', '.join(f'{x} {window}' for x in self.names)} WHERE {keys}"  # noqa: E501

    def tables(self, seed: int) -> dict[str, pa.Table]:
        """Generate all rows of every stream."""
        made = {}
        for place, name in enumerate(self.names):
            rng = np.random.default_rng([seed, place])
            times, keys = [], []
            for phase, (start, end) in zip(self.phases, pairwise(self.edges_us), strict=True):
                count = round(phase.rates[place] * phase.seconds)
                times.append(np.sort(rng.integers(start, end, count)))
                keys.append(rng.integers(0, phase.keys[place], count))
            ts, k = np.concatenate(times), np.concatenate(keys)
            made[name] = pa.table({"ts": ts, "k": k, "v": rng.integers(0, 1_000_000, len(ts))})
        return made

    @cached_property
    def _query(self) -> Any:
        return parse_query(self.sql, [StreamSchema(name, SCHEMA, "ts") for name in self.names])

    def cost(self, phase: Phase) -> JoinCost:
        """Return what joins cost in a phase, as who knows the drift knows it."""
        stats = Statistics(rows_seen=10**6)
        for name, rate, keys in zip(self.names, phase.rates, phase.keys, strict=True):
            stats.rows_per_s[name], stats.window_rows[name] = rate, rate * self.window_s
            stats.values[0, name] = Values(float(keys))
        method = cast(MethodChoice, self.join)
        return JoinCost(self._query.aliases, classify(self._query), stats, method)

    def best(self, phase: Phase) -> str:
        """Return the cheapest join order of a phase."""
        return tree_text(cheapest_tree(self.cost(phase)))

    def expected(self, tree: Tree) -> float:
        """Return what a join order is expected to cost over all phases."""
        return sum(p.seconds * self.cost(p).of(tree).total for p in self.phases)


def engine_of(tables: dict[str, pa.Table]) -> ms.Engine:
    """Return an engine that knows some streams."""
    engine = ms.Engine()
    for name, rows in tables.items():
        engine.stream(name, rows, time="ts")
    return engine


def rotating(seconds: float, phase_s: float, low: float, window_s: float) -> Drift:
    """Return six streams through which a list of selectivities rotates, one place a phase, and rates that change.

    Every other stream comes four times as often, the others in the next phase. The next rare stream is rare a window
    before the last one ends to be: were none of them, there would be nothing but results for that time, whoever joins.
    """
    streams, whole, phases = len(FANS), max(1, round(seconds / phase_s)), []
    for p in range(whole):
        rates = tuple(4 * low if (k + p) % 2 else low for k in range(streams))
        now, then = ([FANS[(k - q) % streams] for k in range(streams)] for q in (p, p + 1))
        both = [min(a, b) if b == FANS[0] else a for a, b in zip(now, then, strict=True)]
        for fans, length in ((now, seconds / whole - window_s), (both, window_s)):
            keys = tuple(max(2, round(r * window_s / fan)) for r, fan in zip(rates, fans, strict=True))
            phases.append(Phase(length, rates, keys))
    return Drift(tuple(phases), window_s, "nested-loop", parameters={"low_rate": low, "fans": FANS})


def around_a_tie(seconds: float, rate: float, window_s: float, streams: int = 4, seed: int = 1) -> Drift:
    """Return streams that are alike but for chance: every 5 seconds all rates and keys are drawn anew, near a mean."""
    rng = np.random.default_rng(seed)
    whole, keys = max(2, round(seconds / 5)), max(4, round(rate * window_s / 1.2))

    def near(mean: float) -> float:
        return float(mean * rng.uniform(0.85, 1.15))

    phases = tuple(
        Phase(
            seconds / whole,
            tuple(near(rate) for _ in range(streams)),
            tuple(max(2, round(near(keys))) for _ in range(streams)),
        )
        for _ in range(whole)
    )
    return Drift(phases, window_s, parameters={"rate": rate, "keys": keys, "streams": streams})


def drawn(count: int, seed: int, phase_s: float) -> Iterator[Drift]:
    """Draw drifts: three to six streams, two to five phases, in which some rates and keys change, by little or much."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        streams, phases = int(rng.integers(3, 7)), []
        window_s = float(rng.choice([1.0, 2.0, 4.0]))
        base = float({3: 600, 4: 400, 5: 250, 6: 200}[streams])
        rates = base * rng.choice([0.5, 1.0, 2.0], streams)
        fan = rng.choice([0.1, 0.6, 1.2, 2.0], streams)
        for _ in range(int(rng.integers(2, 6))):
            changed = rng.random(streams) < rng.choice([0.2, 0.5, 1.0])
            rates = np.where(changed, base * rng.choice([0.5, 1.0, 2.0], streams), rates)
            fan = np.where(changed, rng.choice([0.02, 0.1, 0.6, 1.2, 2.0], streams), fan)
            keys = np.maximum(2, np.round(rates * window_s / fan)).astype(int)
            phases.append(
                Phase(phase_s * float(rng.choice([0.5, 1.0, 2.0])), tuple(map(float, rates)), tuple(map(int, keys)))
            )
        yield Drift(tuple(phases), window_s, name=f"drift {number + 1}")


def between(tables: dict[str, pa.Table], start_us: int, end_us: int) -> dict[str, pa.Table]:
    """Return the rows of some event time."""
    cut = {}
    for name, rows in tables.items():
        low, high = np.searchsorted(rows.column("ts").to_numpy(), [start_us, end_us])
        cut[name] = rows.slice(low, high - low)
    return cut


def every_tree(names: Sequence[str]) -> Iterator[str]:
    """Yield every join tree of some streams; which input is left does not matter.

    >>> sorted(every_tree("abc"))
    ['((a b) c)', '((a c) b)', '(a (b c))']
    """
    if len(names) == 1:
        yield names[0]
    first, others = names[0], names[1:]
    for bits in range((1 << len(others)) - 1):
        left = [first, *(n for k, n in enumerate(others) if bits >> k & 1)]
        right = [n for n in others if n not in left]
        for a in every_tree(left):
            yield from (f"({a} {b})" for b in every_tree(right))

"""Chain: many streams joined on one key over windows of rows; a plan is a left-deep order of joins.

Keys are even: every window holds every key once, because each stream repeats an order of its own. So there is one
result per row, however many joins there are; with independent keys the results of twenty joins vanish or explode.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from midstream.model.effort import Effort
from midstream.studies.frame.follow import Followed

ROUND_US = 1_000
"""Event time in which every stream has one row."""
BEST, WORST = "best case", "worst case"
JISC, PT, MS, CACQ, STAIRS, PLAIN = "JISC", "PT", "MS", "CACQ", "STAIRs", "hash joins"
STRATEGY = {
    JISC: "just-in-time", PT: "parallel-track", MS: "moving-state", CACQ: "moving-state", STAIRS: "moving-state",
}  # fmt: skip
FRAMEWORK = {CACQ: "cacq", STAIRS: "stairs"}


@dataclass(frozen=True)
class Chain:
    """Streams and a query over them."""

    joins: int
    window_rows: int
    join: str = "hash"
    seed: int = 3

    @property
    def names(self) -> list[str]:
        """Return the streams, the lowest of the old plan first."""
        return [f"s{place}" for place in range(self.joins + 1)]

    @property
    def window_us(self) -> int:
        """Return the event time in which every window is turned over once."""
        return self.window_rows * ROUND_US

    @property
    def sql(self) -> str:
        """Return the query."""
        sources = ", ".join(f"{x} [ROWS {self.window_rows}]" for x in self.names)
        keys = " AND ".join(f"{x}.k = {y}.k" for x, y in pairwise(self.names))
        return f"SELECT s0.k AS k FROM {sources} WHERE {keys}"

    @property
    def old_plan(self) -> str:
        """Return the order of the streams as they are named."""
        return left_deep(self.names)

    def new_plan(self, case: str) -> str:
        """Return the plan to go to: in the best case one state is new, in the worst all of more than one stream are."""
        names = self.names
        if case == WORST:
            return left_deep(names[::-1])
        return left_deep([*names[:-3], names[-2], names[-3], names[-1]])

    def tables(self, rounds: int) -> dict[str, pa.Table]:
        """Return the recorded streams, with so many rows each."""
        rng = np.random.default_rng(self.seed)
        numbers = np.arange(rounds)
        made = {}
        for place, name in enumerate(self.names):
            keys = np.resize(rng.permutation(self.window_rows), rounds).astype(np.int64)
            times = numbers * ROUND_US + place * ROUND_US // len(self.names)
            made[name] = pa.table({"ts": times, "k": keys})
        return made

    def run(self, way: str, rounds: int, width_rounds: int) -> Followed:
        """Return a run of one of the contenders in micro-batches of so many rounds."""
        framework = FRAMEWORK.get(way, "tree")
        return Followed(self.sql, self.tables(rounds), self.old_plan, self.join, width_rounds * ROUND_US, framework)


def left_deep(names: list[str]) -> str:
    """Write a left-deep tree.

    >>> left_deep(["a", "b", "c"])
    '((a b) c)'
    """
    tree = names[0]
    for name in names[1:]:
        tree = f"({tree} {name})"
    return tree


def cost_of(way: str, effort: Effort, demoted: int = 0) -> int:
    """Return what hash joins and eddies cost: each probe, each candidate, each entry put into a state or demoted.

    Every partial result passes through the eddy before it probes, where there is one.
    """
    passes = effort.probes if way in FRAMEWORK else 0
    return effort.evaluations + effort.entries + effort.probes + passes + demoted

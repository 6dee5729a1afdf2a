"""Clique: streams joined on one attribute with each other; the stream whose values are rare changes at a moment.

Values are dealt evenly: of so many rows of a stream one after the other each has another value. So what a row finds
does not depend on luck, and sizes are those of the paper's selectivities.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SECOND_US = 1_000_000
MINUTE_S = 60
COMMON, RARE = 20, 400
"""Two rows match with a selectivity of 1/20 = 0.05, with one of the rare stream of 1/400 = 0.0025."""
THINNED = 10
"""The first and the last stream must agree in a value from so many as well. In all plans they meet in the topmost join,
so there are that many times fewer results, and no fewer entries or evaluations."""
WARM_UP_WINDOWS = 2
"""The paper has five; what is held at the change is of the last one alone."""

OLD = {
    4: "(((a b) c) d)",
    5: "((((a b) c) d) e)",
    6: "(((((a b) c) d) e) f)",
    7: "((((((a b) c) d) e) f) g)",
}
RIGHT_DEEP = {
    4: "(a (b (c d)))",
    5: "(a (b (c (d e))))",
    6: "(a (b (c (d (e f)))))",
    7: "(a (b (c (d (e (f g))))))",
}
BUSHY = {
    4: "((a b) (c d))",
    5: "(a ((b c) (d e)))",
    6: "(a (b ((c d) (e f))))",
    7: "(a (b (c ((d e) (f g)))))",
}
SHARED = {
    4: "((a b) (c d))",
    5: "(((a b) c) (d e))",
    6: "((((a b) c) d) (e f))",
    7: "(((((a b) c) d) e) (f g))",
}
"""Table 4, and the bushy plans of section 5.2 that share all but the last joins with the old ones."""
PLANS = {"right-deep": RIGHT_DEEP, "bushy": BUSHY, "shared": SHARED}


@dataclass(frozen=True)
class Clique:
    """Streams and a query over them, at a part of the paper's size.

    At half the size windows are half as long and there are half as many values: a row finds as many partners as at full
    size, and all that is counted per second is half as much. So is the speed of the processor.
    """

    streams: int = 6
    minutes: float = 3.0
    rate: float = 1.0
    """Rows per second of each stream."""
    size: float = 1.0
    seed: int = 1
    median: bool = False
    """A median of the results of the last ten seconds stands above the joins."""

    @property
    def window_s(self) -> int:
        """Return the length of windows."""
        return round(self.minutes * MINUTE_S * self.size)

    @property
    def names(self) -> str:
        """Return the streams."""
        return "abcdefg"[: self.streams]

    @property
    def change_s(self) -> int:
        """Return when the last stream becomes rare instead of the first."""
        return WARM_UP_WINDOWS * self.window_s

    @property
    def after_s(self) -> int:
        """Return how long it is followed from then on."""
        return round(1.2 * self.window_s) + (12 if self.median else 0)

    @property
    def sql(self) -> str:
        """Return the query."""
        sources = ", ".join(f"{x} [RANGE {self.window_s} SECONDS]" for x in self.names)
        pairs = " AND ".join(f"{x}.k = {y}.k" for x, y in combinations(self.names, 2))
        sql = f"SELECT a.k AS k FROM {sources} WHERE {pairs} AND a.u = {self.names[-1]}.u"
        return f"SELECT MEDIAN(k) AS k FROM ({sql}) [RANGE 10 SECONDS SLIDE 1 SECOND]" if self.median else sql

    def tables(self) -> dict[str, pa.Table]:
        """Return the recorded streams."""
        rng = np.random.default_rng(self.seed)
        count = int((self.change_s + self.after_s) * self.rate)
        common = max(2, round(COMMON * self.size))
        rare = common * (RARE // COMMON)
        made = {}
        for name in self.names:
            times = ((np.arange(count) + rng.random(count)) / self.rate * SECOND_US).astype(np.int64)
            first, last = name == self.names[0], name == self.names[-1]
            is_rare = (first & (times < self.change_s * SECOND_US)) | (last & (times >= self.change_s * SECOND_US))
            values = np.where(is_rare, dealt(rng, rare, count), dealt(rng, common, count))
            made[name] = pa.table({"ts": times, "k": values, "u": dealt(rng, THINNED, count)})
        return made


def dealt(rng: np.random.Generator, values: int, count: int) -> npt.NDArray[np.int64]:
    """Return so many values, each of them once before any comes again.

    >>> sorted(dealt(np.random.default_rng(0), 3, 6)[:3].tolist())
    [0, 1, 2]
    """
    decks = [rng.permutation(values) for _ in range(-(-count // values))]
    return np.concatenate(decks)[:count].astype(np.int64)

"""Statistics of a sliding query's rows, from what its windows hold.

    row stores of a bucket, their newest rows ──▶ rates, sketches of keys, conditions on some pairs ──▶ a look
    looks of all buckets ──▶ statistics of the whole query

A look is plain values, so that buckets elsewhere can report theirs. It follows from rows and event time alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from midstream.kernels.sketch import in_sketch, sketch
from midstream.model.statistics import Sampled, Statistics, Values
from midstream.operators.expression.evaluate import truth
from midstream.operators.source.scan import Scan
from midstream.operators.source.sources import Sources
from midstream.plan.expr import Expr, aliases
from midstream.plan.plan import Plan

NEWEST = 16_384
"""Rows of a window that are looked at, the newest of them."""
FEWEST = 256
"""Rows that are looked at, where there are as many, however old they are."""
SLOTS = 2048
"""Room of a sketch; it keeps at most half as many values."""
ROWS_OF_COMMON, COMMON = 1024, 6
"""Rows that common values are looked for in, and how often one of those comes there."""
PAIRED = 48
"""Rows of each side that a condition between two streams is tried on."""
COMPARE: dict[str, Callable[..., Any]] = {
    "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True)
class KeySketch:
    """Values of a key in one bucket: a sketch of them, and common ones among a few rows."""

    rows: int
    """Rows looked at, those without a value included."""
    level: int
    codes: list[int]
    counts: list[int]
    common: list[tuple[int, int]] = field(default_factory=list)
    """Values that come often among `rows_of_common` rows, and how often."""
    rows_of_common: int = 0


@dataclass(frozen=True)
class WindowLook:
    """What one bucket sees of a window: rows in it that passed the filters, and how many of them come in a second."""

    rows: int
    rows_per_s: float
    keys: dict[str, KeySketch] = field(default_factory=dict)
    """By number of the equality class."""


@dataclass(frozen=True)
class JoinsLook:
    """What one bucket sees of the windows of a sliding query."""

    windows: dict[str, WindowLook] = field(default_factory=dict)
    pairs: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By condition: pairs that passed, and that were tried."""
    at_us: int = 0
    """The event time it was made at."""

    def to_dict(self) -> dict[str, Any]:
        """Return the look as plain values."""
        windows = {
            alias: {"rows": w.rows, "rows_per_s": w.rows_per_s, "keys": {g: dict(vars(k)) for g, k in w.keys.items()}}
            for alias, w in self.windows.items()
        }
        return {"windows": windows, "pairs": self.pairs, "at_us": self.at_us}

    @staticmethod
    def of(plain: dict[str, Any]) -> "JoinsLook":
        """Return a look from plain values."""
        windows = {
            alias: WindowLook(w["rows"], w["rows_per_s"], {g: KeySketch(**k) for g, k in w["keys"].items()})
            for alias, w in plain["windows"].items()
        }
        pairs = {text: (passed, tried) for text, (passed, tried) in plain["pairs"].items()}
        return JoinsLook(windows, pairs, plain["at_us"])


def look_at_joins(plan: Plan, sources: Sources, now_us: int, seq: int, recent_us: int) -> JoinsLook:
    """Look at what the windows of a bucket hold at a time, after sequence number `seq`: at what came of late."""
    held = {alias: scan.rows_in_window(now_us, seq) for alias, scan in sources.scans.items()}
    newest: dict[str, npt.NDArray[np.int64]] = {}
    windows = {}
    for alias, scan in sources.scans.items():
        rows, times = held[alias], scan.store.times.view()
        late = len(rows) - int(np.searchsorted(times[rows], now_us - recent_us))
        newest[alias] = rows[len(rows) - min(max(late, FEWEST), NEWEST, len(rows)) :]
        keys = {}
        for group, cls in enumerate(plan.predicates.classes):
            member = cls.member_of(frozenset([alias]))
            if member is not None and len(newest[alias]):
                keys[str(group)] = _sketch_of(scan, scan.spec.kept.index((member, cls.type)), newest[alias])
        windows[alias] = WindowLook(len(rows), _rate(times, rows, late, now_us, recent_us), keys)
    return JoinsLook(windows, _pairs(plan, sources, newest), now_us)


def _rate(times: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], late: int, now_us: int, recent_us: int) -> float:
    """Return how many rows come in a second: of late, or since the first one there is."""
    if late < len(rows):
        return late * 1e6 / recent_us
    return late * 1e6 / max(now_us - int(times[rows[0]]), 1) if late else 0.0


def _sketch_of(scan: Scan, place: int, rows: npt.NDArray[np.int64]) -> KeySketch:
    """Sketch a code of some rows of a window."""
    column = scan.store.codes[place]
    first, last = int(rows[0]), int(rows[-1]) + 1
    whole = last - first == len(rows)
    picked: Any = slice(first, last) if whole else rows
    codes = np.ascontiguousarray(column.values.view()[picked])
    valid = np.empty(0, np.bool_) if column.valid is None else np.ascontiguousarray(column.valid[picked])
    found, counts = np.empty(SLOTS, np.int64), np.empty(SLOTS, np.int64)
    level, _ = sketch(codes, valid, 1, 0, found, counts)
    taken = np.flatnonzero(counts)
    kept = found[taken].tolist(), counts[taken].tolist()
    if not level:
        return KeySketch(len(codes), 0, *kept)
    step = max(len(codes) // ROWS_OF_COMMON, 1)
    found, counts = np.empty(4 * ROWS_OF_COMMON, np.int64), np.empty(4 * ROWS_OF_COMMON, np.int64)
    _, seen = sketch(codes[: step * ROWS_OF_COMMON], valid, step, 0, found, counts)
    often = np.flatnonzero(counts >= COMMON)
    common = list(zip(found[often].tolist(), counts[often].tolist(), strict=True))
    return KeySketch(len(codes), level, *kept, common, seen)


def _pairs(plan: Plan, sources: Sources, rows: dict[str, npt.NDArray[np.int64]]) -> dict[str, tuple[int, int]]:
    """Try the conditions between two streams on pairs of some of their rows."""
    few = {alias: _spaced(mine) for alias, mine in rows.items()}
    found = {}
    for c in plan.predicates.comparisons:
        sides = []
        for side in (c.left, c.right):
            scan = sources.scans[min(aliases(side))]
            column, at = scan.store.codes[scan.spec.kept.index((side, c.type))], few[scan.spec.alias]
            at = at if column.valid is None else at[column.valid[at]]
            sides.append(column.values.view()[at])
        left, right = sides
        passed = COMPARE[c.op](left[:, None], right[None, :])
        found[str(c)] = (int(np.count_nonzero(passed)), len(left) * len(right))
    for condition in plan.predicates.residuals:
        if len(aliases(condition)) == 2:
            found[str(condition)] = _tried(condition, sources, few)
    return found


def _tried(condition: Expr, sources: Sources, few: dict[str, npt.NDArray[np.int64]]) -> tuple[int, int]:
    a, b = sorted(aliases(condition))
    left, right = few[a], few[b]
    places = {a: np.repeat(left, len(right)), b: np.tile(right, len(left))}
    if not len(places[a]):
        return 0, 0
    stores = {alias: sources.scans[alias].store for alias in (a, b)}
    passed = truth(
        condition,
        len(places[a]),
        lambda c: stores[c.alias].take(c.name, places[c.alias] + stores[c.alias].base),
    )
    return int(np.count_nonzero(passed)), len(passed)


def _spaced(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    count = len(rows)
    return rows[np.linspace(0, count - 1, min(count, PAIRED)).astype(np.int64)] if count else rows


def statistics_of_joins(plan: Plan, looks: Sequence[JoinsLook]) -> Statistics:
    """Return the statistics of a query from a look at each of its buckets."""
    found = Statistics(rows_seen=min((sum(x.windows[a].rows for x in looks) for a in plan.query.aliases), default=0))
    classes: dict[int, dict[str, list[KeySketch]]] = {}
    for alias in plan.query.aliases:
        # Every bucket has all rows of a stream that is sent to each of them.
        mine = [look.windows[alias] for look in looks][: 1 if alias in plan.partitioning.broadcast else None]
        found.window_rows[alias] = float(sum(w.rows for w in mine))
        found.rows_per_s[alias] = sum(w.rows_per_s for w in mine)
        for group in range(len(plan.predicates.classes)):
            keys = [w.keys[str(group)] for w in mine if str(group) in w.keys]
            if keys:
                classes.setdefault(group, {})[alias] = keys
    for group, sides in classes.items():
        level = max(key.level for keys in sides.values() for key in keys)
        for alias, keys in sides.items():
            found.values[group, alias] = _values(keys, level)
    for text in {text for look in looks for text in look.pairs}:
        passed, tried = (sum(look.pairs[text][k] for look in looks if text in look.pairs) for k in (0, 1))
        if tried:
            found.selectivity[text] = max(passed, 0.5) / tried
    return found


def _values(keys: Sequence[KeySketch], level: int) -> Values:
    """Return the values of a key over all buckets, its sketches brought to one level."""
    rows = sum(key.rows for key in keys)
    codes = np.concatenate([np.array(key.codes, np.int64) for key in keys])
    counts = np.concatenate([np.array(key.counts, np.int64) for key in keys])
    if any(key.level < level for key in keys):
        chosen = in_sketch(codes, level)
        codes, counts = codes[chosen], counts[chosen]
    codes, at = np.unique(codes, return_inverse=True)
    parts = np.bincount(at, counts, len(codes)) / max(rows, 1)
    often = sorted({value for key in keys for value, _ in key.common})
    common = {}
    for value in often:
        # A bucket of a key's own has all rows of a value; one that does not show it has few of them.
        seen = sum(n * key.rows / key.rows_of_common for key in keys for v, n in key.common if v == value)
        common[value] = seen / rows
    distinct = max(float(len(codes)) * 2**level, len(common), 1.0)
    others = max(1.0 - sum(common.values()), 0.0)
    return Values(distinct, common, others, Sampled(codes, parts, 2.0**-level))

"""How a query's work is split over buckets so that each result appears in exactly one of them.

HOP BY a time          -> hashed by columns that go through all joins, comparisons and groups, else one bucket
HOP BY n ROWS          -> one bucket
an equality class      -> its streams are hashed by it, all others go to every bucket
no equality            -> the first stream is dealt out by the content of its rows, all others go to every bucket
a global ROWS window   -> one bucket
a difference           -> one bucket
windows over results   -> hashed by a column that every window and every GROUP BY keeps apart, else one bucket
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.plan.carry import columns_to_hash
from midstream.plan.expr import Column, Expr, aliases
from midstream.plan.parts import Stage
from midstream.plan.predicates import EqualityClass, classify
from midstream.plan.query import CHANGES, COMPLETE, DELTA, RESULTS, Emit, Query
from midstream.plan.window import RangeInstances, RowsInstances, RowsWindow


@dataclass(frozen=True)
class Partitioning:
    """Which aliases are hashed by what, dealt by row, or broadcast.

    Invariant: with more than one bucket, every result's rows meet in exactly one bucket.
    """

    hashed: tuple[tuple[str, Expr], ...]
    type: pa.DataType | None
    by_row: str | None
    broadcast: tuple[str, ...]
    one_bucket: str | None
    """Why the query needs a single bucket, or None."""
    at: tuple[tuple[str, str], ...] = ()
    """The site at which each alias arrives; every site is a bucket."""
    results_at: str = ""
    """The site that results go to."""

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the sites in the order of their buckets."""
        return tuple(dict.fromkeys([*(site for _, site in self.at), self.results_at])) if self.at else ()

    @property
    def buckets(self) -> int | None:
        """Return how many buckets there must be; None: any number will do."""
        return len(self.sites) or (1 if self.one_bucket else None)

    def bucket_of(self, alias: str) -> int:
        """Return the bucket of the site at which an alias arrives."""
        return self.sites.index(dict(self.at)[alias])

    def __str__(self) -> str:
        if self.one_bucket:
            return f"one bucket: {self.one_bucket}"
        if self.at:
            arrive = ", ".join(f"{alias} at {site}" for alias, site in self.at)
            return f"a bucket for each site: {arrive}; results go to {self.results_at}"
        parts = []
        if self.hashed:
            parts.append("hash " + " = ".join(str(e) for _, e in self.hashed))
        if self.by_row:
            parts.append(f"deal out {self.by_row} by row")
        if self.broadcast:
            parts.append(f"send {', '.join(self.broadcast)} to every bucket")
        return "; ".join(parts)


def partition(query: Query) -> Partitioning:
    """Choose the partitioning of a query: the equality class that covers most streams, or rows of the first."""
    return _PARTITIONED[query.emit](query)


def over_sites(query: Query, sites: tuple[str, ...]) -> Partitioning:
    """Return the partitioning of a query whose streams are joined where they arrive; see `Plan.sites`."""
    at = tuple(zip(query.aliases, sites, strict=False))
    return Partitioning((), None, None, (), None, at, sites[-1])


def _of_rows(query: Query) -> Partitioning:
    for source in reversed(query.sources):
        if isinstance(source.window, RowsWindow) and not source.window.partition_by:
            return _one_bucket(f"the window {source.window} of {source.alias} counts rows of the whole stream")
    classes = [c for c in classify(query).classes if _keeps_partitions(query, c)]
    if any(isinstance(s.window, RowsWindow) for s in query.sources) and not classes:
        return _one_bucket("no join key keeps the partitions of its ROWS windows together")
    stages = query.parts.stages
    if stages:
        return _below_stages(query, stages, classes)
    if classes:
        return _hashed(query, max(classes, key=lambda c: len(c.aliases)))
    return Partitioning((), None, query.aliases[0], query.aliases[1:], None)


def _of_changes(query: Query) -> Partitioning:
    return _one_bucket("the changes of a difference leave in the order of events")


def _of_hops(query: Query) -> Partitioning:
    if query.counts:
        return _one_bucket(query.counts)
    hashed = columns_to_hash(query.root)
    if not hashed:
        return _one_bucket("no column goes through all joins, comparisons and groups that tuples could be hashed by")
    return Partitioning(hashed, hashed[0][1].type, None, (), None)


_PARTITIONED: dict[Emit, Callable[[Query], Partitioning]] = {
    RESULTS: _of_rows,
    CHANGES: _of_changes,
    COMPLETE: _of_hops,
    DELTA: _of_hops,
}


def _one_bucket(reason: str) -> Partitioning:
    return Partitioning((), None, None, (), reason)


def _hashed(query: Query, cls: EqualityClass) -> Partitioning:
    hashed = tuple((a, m) for a in query.aliases if (m := cls.member_of(frozenset((a,)))) is not None)
    rest = tuple(a for a in query.aliases if a not in dict(hashed))
    return Partitioning(hashed, cls.type, None, rest, None)


def _below_stages(query: Query, stages: Sequence[Stage], classes: Sequence[EqualityClass]) -> Partitioning:
    """Hash by a column of the results that all stages keep apart, if the rows of the streams can be sent by it."""
    names = _splitting_columns(stages)
    if isinstance(names, str):
        return _one_bucket(names)
    timed = next((s.window for s in stages[:-1] if isinstance(s.window, RangeInstances)), None)
    if timed is not None:
        return _one_bucket(f"the groups of {timed} leave at the same time, and a window over them sees them in order")
    computed = {o.name: o.expr for o in query.parts.first.outputs}
    exprs = [computed[name] for name in names if aliases(computed[name])]
    if len(query.sources) == 1 and exprs:
        return Partitioning(((query.aliases[0], exprs[0]),), exprs[0].type, None, (), None)
    fitting = [c for c in classes if any(e in c.members for e in exprs)]
    if fitting:
        found = _hashed(query, max(fitting, key=lambda c: len(c.aliases)))
        if not found.broadcast:
            return found
        everywhere = ", ".join(found.broadcast)
        return _one_bucket(f"a row of {everywhere} brings results in every bucket, and a window sees them in order")
    return _one_bucket(f"what the window {stages[0].window} keeps apart, {', '.join(names)}, is no join key")


def _splitting_columns(stages: Sequence[Stage]) -> list[str] | str:
    """Return the columns below the stages by any of which all of their work can be split, or why there is none."""
    names = [c.name for c in stages[0].kept_apart if _goes_through(c.name, stages)]
    if names:
        return names
    alone = next((s for s in stages if not s.kept_apart), None)
    if alone is None:
        return "no column goes through all windows as a key that each of them keeps apart"
    if isinstance(alone.window, RowsInstances):
        return f"the window {alone.window} of {alone.alias or 'the join'} counts all rows together"
    if isinstance(alone.window, RangeInstances):
        return f"the aggregates of the window {alone.window} of {alone.alias or 'the join'} are not grouped by a column"
    return f"the window {alone.window} of {alone.alias or 'the join'} opens and closes on any row"


def _goes_through(name: str, stages: Sequence[Stage]) -> bool:
    """Tell whether every stage keeps the values of a column apart and hands them to the next one as a key."""
    carriers = {name}
    for stage in stages:
        if not carriers & {c.name for c in stage.kept_apart}:
            return False
        keys = [(o.name, stage.key_of(o.expr)) for o in stage.outputs]
        carriers = {output for output, key in keys if isinstance(key, Column) and key.name in carriers}
    return True


def _keeps_partitions(query: Query, cls: EqualityClass) -> bool:
    """Tell whether hashing by the class sends every partition of every ROWS window whole to each place it goes."""
    for source in query.sources:
        member = cls.member_of(frozenset((source.alias,)))
        if not isinstance(source.window, RowsWindow) or member is None:
            continue
        if not isinstance(member, Column) or member not in source.window.partition_by:
            return False
    return True

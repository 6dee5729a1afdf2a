"""What plans over sites are chosen by: rates, tuple sizes, windows and selectivities of streams, and of their flows.

rows, values (model/statistics.py) ──▶ StreamStatistics of each stream ──▶ FlowStatistics along a probe sequence
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from midstream.model.statistics import Statistics, Values
from midstream.optimize.guesses import COMPARED, DISTINCT, ROWS_PER_S
from midstream.optimize.matches import Matches
from midstream.plan.predicates import Predicates
from midstream.plan.query import Query


@dataclass(frozen=True)
class StreamStatistics:
    """What the node of a stream knows of it, as it was reported last."""

    rate: float
    """Rows in a second (r)."""
    size: float
    """Bytes of a row (t)."""
    window: float
    """Rows in the window (w)."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """The part of the rows with the same value of a join attribute (f), by attribute: most joins have one."""
    pairs: Mapping[str, float] = field(default_factory=dict)
    """The part of pairs that pass other conditions, by the other stream, which is declared after this one."""


@dataclass(frozen=True)
class FlowStatistics:
    """What is known of a flow where the next join is decided on: the metadata that nodes keep for each sequence."""

    streams: tuple[str, ...]
    """The streams in it, in the order they were joined in; the first is the head."""
    node: str
    """Where it is produced."""
    rate: float
    size: float
    factors: Mapping[str, float]
    pairs: Mapping[str, float]
    """The part that passes the conditions with a stream that is not in it yet, as far as its own streams know them."""


@dataclass(frozen=True)
class JoinGraph:
    """The streams of a join in declaration order, and which of them a condition relates."""

    aliases: tuple[str, ...]
    related: frozenset[frozenset[str]]

    def joins(self, alias: str, others: Iterable[str]) -> bool:
        """Tell whether a condition relates a stream to one of others."""
        return any(frozenset((alias, other)) in self.related for other in others)


def complete_graph(aliases: Iterable[str]) -> JoinGraph:
    """Return the graph in which every two streams are related, as by one join attribute of all."""
    names = tuple(aliases)
    return JoinGraph(names, frozenset(frozenset(pair) for pair in combinations(names, 2)))


def head_flow(alias: str, stream: StreamStatistics) -> FlowStatistics:
    """Return the flow that a sequence begins with: the stream itself."""
    return FlowStatistics((alias,), alias, stream.rate, stream.size, stream.factors, stream.pairs)


def selectivity(flow: FlowStatistics, alias: str, stream: StreamStatistics) -> float:
    """Return the part of all pairs, of a row of the flow and one of the stream, that match.

    Of each join attribute that both have it is the smaller factor. Other conditions are in its place, pair by pair.
    """
    part = flow.pairs.get(alias, 1.0)
    for other in flow.streams:
        part *= stream.pairs.get(other, 1.0)
    for attribute, factor in stream.factors.items():
        if attribute in flow.factors:
            part *= min(flow.factors[attribute], factor)
    return part


def joined_flow(flow: FlowStatistics, alias: str, stream: StreamStatistics, node: str) -> FlowStatistics:
    """Return what is known of a flow after its join with a stream, which takes place at a node."""
    factors = dict(flow.factors)
    for attribute, factor in stream.factors.items():
        factors[attribute] = max(factors.get(attribute, factor), factor)
    pairs = dict(flow.pairs)
    for other, part in stream.pairs.items():
        pairs[other] = pairs.get(other, 1.0) * part
    rate = flow.rate * selectivity(flow, alias, stream) * stream.window
    return FlowStatistics((*flow.streams, alias), node, rate, flow.size + stream.size, factors, pairs)


def graph_of(query: Query, predicates: Predicates) -> JoinGraph:
    """Return which streams of a query its conditions relate."""
    read = [c.aliases for c in predicates.classes] + list(predicates.conditions.values())
    return JoinGraph(query.aliases, frozenset(frozenset(p) for names in read for p in combinations(names, 2)))


def stream_statistics(
    query: Query, predicates: Predicates, known: Statistics, sizes: Mapping[str, float]
) -> dict[str, StreamStatistics]:
    """Return what is known of each stream of a query, as plans over sites want it; `sizes` are bytes of a row.

    Filters are taken off where a stream arrives, so rates and windows are of rows that pass them. A condition of three
    streams and more counts for the first two of them.
    """
    found = {}
    for k, alias in enumerate(query.aliases):
        passing, after = known.passing.get(alias, 1.0), query.aliases[k + 1 :]
        pairs: dict[str, float] = {}
        for text, read in predicates.conditions.items():
            ordered = [a for a in query.aliases if a in read]
            if ordered[0] == alias and ordered[1] in after:
                pairs[ordered[1]] = pairs.get(ordered[1], 1.0) * known.selectivity.get(text, COMPARED)
        found[alias] = StreamStatistics(
            known.rows_per_s.get(alias, ROWS_PER_S) * passing,
            sizes[alias],
            known.window_rows.get(alias, ROWS_PER_S) * passing,
            {
                str(group): factor_of(known.values.get((group, alias), Values(DISTINCT)))
                for group, cls in enumerate(predicates.classes)
                if alias in cls.aliases
            },
            pairs,
        )
    return found


def factor_of(values: Values) -> float:
    """Return how large a part of the rows has the same value: how often two rows of the stream match.

    >>> factor_of(Values(100)), round(factor_of(Values(3, {1: 0.8}, 0.2)), 9)
    (0.01, 0.66)
    """
    return Matches({0: values, 1: values}).part((0, 1))

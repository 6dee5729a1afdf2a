"""Explain a join over sites: where each join takes place and costs what, and what each node does for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from midstream.local.sources import RecordedStream
from midstream.local.statistics import gather
from midstream.model.statistics import Statistics
from midstream.operators.build import SITES, check_framework
from midstream.plan.plan import Plan
from midstream.sites.cost import CostModel, costed, plan_cost, sequence_cost
from midstream.sites.declaration import Declared
from midstream.sites.greedy import greedy_plan
from midstream.sites.operator_set import OperatorSet, operator_sets
from midstream.sites.optimum import MOST_STREAMS, optimal_plan
from midstream.sites.plan import QUERY_NODE, ProbeSequence, SitesPlan
from midstream.sites.statistics import StreamStatistics, graph_of, stream_statistics
from midstream.sites.traffic import Shipped, traffic

SAMPLED = 10_000
"""Rows of each stream whose bytes are counted."""
ROW_BYTES = 16
"""Of every row: its time and its place in the stream."""


@dataclass(frozen=True)
class SitesExplained:
    """A plan over sites with what it was chosen by."""

    model: CostModel
    streams: Mapping[str, StreamStatistics]
    plan: SitesPlan

    @property
    def network(self) -> Declared:
        """Return the sites and their links."""
        return self.model.network

    @property
    def sets(self) -> dict[str, OperatorSet]:
        """Return the operator set of each node."""
        return operator_sets(self.plan)

    @property
    def shipped(self) -> list[Shipped]:
        """Return what is expected to be shipped between sites."""
        return traffic(self.model, self.plan, self.streams)

    def __str__(self) -> str:
        return "\n".join([*self._sites(), *self._sequences(), *self._sets(), *self._distance()])

    def _sites(self) -> list[str]:
        network = self.network
        lines = [f"Sites: update {network.update}, threshold {network.threshold:g}"]
        for alias, known in self.streams.items():
            lines.append(
                f"  N_{alias} at {network.site_of(alias)}: {known.rate:,.1f} rows/s of {known.size:,.0f} bytes, "
                f"{known.window:,.1f} in the window"
            )
        return [*lines, f"  N_{QUERY_NODE} at {network.query_site}: takes the results"]

    def _sequences(self) -> list[str]:
        total = plan_cost(self.model, self.plan, self.streams)
        lines = [f"Probe sequences: {_ms(total)} per second"]
        for sequence in self.plan.sequences:
            lines.append(f"  {sequence}: {_ms(sequence_cost(self.model, sequence, self.streams))}")
            for step, flow, cost in costed(self.model, sequence, self.streams):
                coming = f"S_{step.stream} comes there" if step.placement == 0 else f"{step.flow} goes there"
                lines.append(
                    f"    join({step.flow}, S_{step.stream}) at N_{step.node}: {_ms(cost)}, "
                    f"{flow.rate:,.1f} rows/s probe {self.streams[step.stream].window:,.1f}; {coming}"
                )
        return lines

    def _sets(self) -> list[str]:
        return ["Operator sets", *(f"  {operators}" for operators in self.sets.values())]

    def _distance(self) -> list[str]:
        """Say how far the greedy plan is from the cheapest of all."""
        best = optimal_plan(self.model, self.streams)
        if best is None:
            return [f"The cheapest plan of all is not looked for: there are more than {MOST_STREAMS} streams"]
        lines = []
        for mine, other in zip(self.plan.sequences, best.sequences, strict=True):
            cost, least = (sequence_cost(self.model, s, self.streams) for s in (mine, other))
            if cost > least * (1 + 1e-9):
                lines.append(f"  {_cheaper(other)}: {_ms(least)}, which is {1 - least / cost:.1%} less")
        if not lines:
            return ["No plan is cheaper: all orders and placements were looked at"]
        cost, least = plan_cost(self.model, self.plan, self.streams), plan_cost(self.model, best, self.streams)
        said = f"The cheapest plan of all costs {_ms(least)} per second; this one costs {cost / least - 1:.1%} more"
        return [said, *lines]


def _cheaper(sequence: ProbeSequence) -> str:
    return f"cheaper {sequence}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"


def check_over_sites(plan: Plan) -> None:
    """Refuse a query that cannot be joined over sites."""
    check_framework(plan, SITES)


def explain_sites(plan: Plan, declared: Declared, streams: Sequence[RecordedStream]) -> SitesExplained:
    """Return the plan over sites of a query's recorded streams, by their first rows."""
    query, predicates = plan.query, plan.predicates
    known = gather(query, streams) or Statistics()
    recorded = {s.schema.name: s for s in streams}
    sizes = {s.alias: _row_bytes(recorded[s.stream.name], query.columns_of(s.alias)) for s in query.sources}
    model = CostModel(graph_of(query, predicates), declared)
    found = stream_statistics(query, predicates, known, sizes)
    return SitesExplained(model, found, greedy_plan(model, found))


def _row_bytes(stream: RecordedStream, columns: Sequence[str]) -> float:
    """Return how many bytes a row has that is shipped, with the columns a query reads."""
    rows = stream.first(columns, SAMPLED)
    held = float(sum(array.nbytes for array in rows.columns.values()))
    return ROW_BYTES + held / max(len(rows), 1)

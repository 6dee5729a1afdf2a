"""Start: the nodes of a query with their first plan, site by site, and the same nodes again from what was exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from midstream.sites.centralized import centralized_nodes, restored_centralized
from midstream.sites.cost import CostModel
from midstream.sites.declaration import Declared
from midstream.sites.distributed import distributed_nodes, restored_distributed
from midstream.sites.greedy import greedy_plan
from midstream.sites.meter import INTERVAL_US, Meter
from midstream.sites.node import Node
from midstream.sites.node_state import Exported, export_node, restore_node
from midstream.sites.operator_set import operator_sets
from midstream.sites.plan import QUERY_NODE, SitesPlan
from midstream.sites.planner import Modifying, Planner
from midstream.sites.query import JoinedQuery
from midstream.sites.results import QueryNode
from midstream.sites.site import Site
from midstream.sites.statistics import StreamStatistics, graph_of
from midstream.sites.window import NodeWindow


@dataclass(frozen=True)
class Setup:
    """All that sites must agree on before they begin."""

    query: JoinedQuery
    declared: Declared
    streams: Mapping[str, StreamStatistics]
    """What is known of the streams at the start: the first plan is made of it."""
    interval_us: int = INTERVAL_US
    """Over how much event time streams are measured."""
    plan: SitesPlan | None = None
    """The plan to begin with and to stay with, where plans are not modified; None: the greedy one."""

    @property
    def model(self) -> CostModel:
        """Return the costs plans are made by."""
        plan = self.query.plan
        return CostModel(graph_of(plan.query, plan.predicates), self.declared)

    @property
    def first_plan(self) -> SitesPlan:
        """Return the plan to begin with."""
        return self.plan or greedy_plan(self.model, self.streams)

    @property
    def names(self) -> list[str]:
        """Return the sites."""
        return list(dict.fromkeys((*self.declared.sites.values(), self.declared.query_site)))

    def machines(self) -> Mapping[str, Modifying]:
        """Return for each node the machine that modifies plans; none where plans stay."""
        threshold = self.declared.threshold
        if self.declared.update == "centralized":
            return centralized_nodes(self.model, self.streams, threshold)
        return {} if self.declared.update == "off" else distributed_nodes(self.model, self.streams, threshold)

    def planner(self, name: str, machine: Modifying) -> Planner:
        """Return the planner of a node, with its machine."""
        stream = self.streams.get(name)
        return Planner(name, machine, None if stream is None else Meter(self.query, name, stream, self.interval_us))


def begin_site(setup: Setup, name: str) -> Site:
    """Return a site before its first row."""
    sets, machines = operator_sets(setup.first_plan), setup.machines()
    planners = {node: setup.planner(node, machine) for node, machine in machines.items()}
    at = [alias for alias in setup.query.aliases if setup.declared.sites[alias] == name]
    nodes: list[Node | QueryNode] = [Node(setup.query, alias, sets[alias], planners.get(alias)) for alias in at]
    if setup.declared.query_site == name:
        nodes.append(QueryNode(setup.query, planners.get(QUERY_NODE)))
    return Site(name, nodes)


def export_site(site: Site) -> Exported:
    """Return the nodes of a site as plain values (JSON) and tables."""
    plain: dict[str, Any] = {}
    tables: list[pa.RecordBatch] = []
    for name, node in site.nodes.items():
        said, mine = node.export() if isinstance(node, QueryNode) else export_node(node)
        plain[name] = [said, len(mine)]
        tables += mine
    return plain, tables


def restore_site(
    setup: Setup,
    name: str,
    plain: Mapping[str, Any],
    tables: Sequence[pa.RecordBatch],
    windows: Mapping[str, Mapping[str, NodeWindow]] | None = None,
) -> Site:
    """Return a site as it was when it was exported; its `windows`, by node, may be at hand as they were."""
    left = tables
    nodes: list[Node | QueryNode] = []
    for node_name, (said, count) in plain.items():
        mine, left = left[:count], left[count:]
        planner = _planner(setup, node_name, said)
        if node_name == QUERY_NODE:
            node = QueryNode(setup.query, planner)
            node.load(said, list(mine))
            nodes.append(node)
        else:
            nodes.append(
                restore_node(
                    setup.query, node_name, said, mine, planner, None if windows is None else windows[node_name]
                )
            )
    return Site(name, nodes)


def _planner(setup: Setup, name: str, said: Mapping[str, Any]) -> Planner | None:
    """Return the planner of a node that was exported, with its machine as it was."""
    if "planner" not in said:
        return None
    restored = restored_centralized if setup.declared.update == "centralized" else restored_distributed
    machine: Modifying = restored(name, setup.model, setup.declared.threshold, said["planner"]["machine"])
    return setup.planner(name, machine)

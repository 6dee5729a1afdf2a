"""Site state: the nodes of a site when a query begins, and as plain values and tables that outlast a micro-batch."""

import base64
from typing import Any

import pyarrow as pa

from midstream.sites.declaration import Declared
from midstream.sites.epochs import Epochs
from midstream.sites.node import Node, Piece
from midstream.sites.operator_set import operator_sets
from midstream.sites.packet import Packet
from midstream.sites.partials import Part, Partials
from midstream.sites.plan import QUERY_NODE, Flow, ProbeSequence, SitesPlan
from midstream.sites.query import JoinedQuery
from midstream.sites.results import QueryNode
from midstream.sites.site import Site
from midstream.sites.two_phase import TwoPhase
from midstream.sites.window import NodeWindow


def first_plan(query: JoinedQuery) -> SitesPlan:
    """Return the plan a query begins with: nothing is known of its streams."""
    aliases = query.aliases
    return SitesPlan(
        tuple(ProbeSequence(a, tuple(b for b in aliases if b != a), (1,) * (len(aliases) - 1)) for a in aliases)
    )


def begin_site(query: JoinedQuery, declared: Declared, name: str) -> Site:
    """Return a site before its first row."""
    sets = operator_sets(first_plan(query))
    nodes: list[Node | QueryNode] = [Node(query, a, sets[a]) for a in query.aliases if declared.sites[a] == name]
    return Site(name, nodes + ([QueryNode(query)] if declared.query_site == name else []))


def export_site(site: Site) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Return the nodes of a site as plain values and tables."""
    plain: dict[str, Any] = {}
    tables: list[pa.RecordBatch] = []
    for name, node in site.nodes.items():
        said, mine = node.to_plain() if isinstance(node, QueryNode) else export_node(node)
        plain[name] = [said, len(mine)]
        tables += mine
    return plain, tables


def restore_site(
    query: JoinedQuery, declared: Declared, name: str, plain: dict[str, Any], tables: list[pa.RecordBatch]
) -> Site:
    """Return a site as `export_site` has said."""
    left = list(tables)
    site = begin_site(query, declared, name)
    for node_name, (said, count) in plain.items():
        mine, left = left[:count], left[count:]
        if node_name == QUERY_NODE:
            node = QueryNode(query)
            node.load(said, mine)
            site.nodes[node_name] = node
        else:
            site.nodes[node_name] = restore_node(query, node_name, said, mine)
    return site


def export_node(node: Node) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    """Return a node as plain values and tables: the rows of its windows and what waits, and nothing derived."""
    tables: list[pa.RecordBatch] = []

    def keep(table: pa.RecordBatch) -> int:
        tables.append(table)
        return len(tables) - 1

    def piece(p: Piece) -> list[Any]:
        partials = p.partials
        columns = {alias: list(part.columns) for alias, part in partials.parts.items()}
        table = partials.to_batch(range(1 + node.query.codes), columns)
        return [p.low_us, p.high_us, list(partials.path), keep(table)]

    def window(w: NodeWindow) -> list[Any]:
        return [w.covered_us, w.complete_us, w._floor_us, keep(w.live(w._floor_us).to_batch())]

    return {
        "epochs": node.epochs.to_json(),
        "windows": {alias: window(w) for alias, w in node.windows.items()},
        "waiting": [[f.head, f.last, [piece(p) for p in pieces]] for f, pieces in node.waiting.items()],
        "arrived": [[keep(part.to_batch()), upto_us] for part, upto_us in node.arrived],
        "seen": node.seen_us,
        "prepared": [[number, nodes] for number, nodes in node.prepared.items()],
        "migration": None if node.migration is None else node.migration.to_json(),
        "queued": [m.to_json() for m in node.queued],
        "finished": [list(f) for f in node.finished],
        "early": [base64.b64encode(p.encode()).decode() for p in node.early],
        "pairs": node.pairs_tested,
    }, tables


def restore_node(query: JoinedQuery, name: str, plain: dict[str, Any], tables: list[pa.RecordBatch]) -> Node:
    """Return a node as `export_node` has said."""
    epochs = Epochs.read(plain["epochs"])
    node = Node(query, name, epochs.latest.operators)
    node.epochs = epochs
    node.windows = {}
    for alias, (covered_us, complete_us, floor_us, table) in plain["windows"].items():
        node.windows[alias] = window = NodeWindow(query, alias)
        window._floor_us = floor_us
        window.add(Part.of_batch(tables[table]), covered_us)
        window.complete_us = complete_us
    width = 1 + query.codes
    for head, last, pieces in plain["waiting"]:
        node.waiting[Flow(head, last)] = [
            Piece(low_us, high_us, Partials.of_batch(tables[table], tuple(path), width))
            for low_us, high_us, path, table in pieces
        ]
    node.arrived = [(Part.of_batch(tables[table]), upto_us) for table, upto_us in plain["arrived"]]
    node.seen_us, node.pairs_tested = plain["seen"], plain["pairs"]
    node.prepared = {number: list(nodes) for number, nodes in plain["prepared"]}
    node.migration = None if plain["migration"] is None else TwoPhase.read(plain["migration"])
    node.queued = [TwoPhase.read(m) for m in plain["queued"]]
    node.finished = [(number, position_us) for number, position_us in plain["finished"]]
    node.early = [Packet.decode(base64.b64decode(p)) for p in plain["early"]]
    return node

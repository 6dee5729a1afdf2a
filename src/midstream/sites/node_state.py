"""A node as plain values and tables: what outlasts whoever runs it.

    node ──▶ JSON: epochs, how far everything is, who is ready │ tables: rows of windows, what waits ──▶ the same node

SteMs and counted windows are built again from the rows of the windows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from midstream.sites.epochs import Epochs
from midstream.sites.node import Node, Piece
from midstream.sites.packet import Packet
from midstream.sites.partials import Part, Partials
from midstream.sites.plan import Flow
from midstream.sites.planner import Planner
from midstream.sites.query import JoinedQuery
from midstream.sites.two_phase import TwoPhase
from midstream.sites.window import NodeWindow

Exported = tuple[dict[str, Any], list[pa.RecordBatch]]


def export_node(node: Node) -> Exported:
    """Return a node as plain values and tables."""
    tables: list[pa.RecordBatch] = []
    windows = []
    for alias, window in node.windows.items():
        windows.append([alias, window.complete_us, window.covered_us, window.floor_us])
        tables.append(window.live(window.floor_us).to_batch())
    waiting = []
    for flow, pieces in node.waiting.items():
        for piece in pieces:
            partials = piece.partials
            waiting.append([flow.head, flow.last, piece.low_us, piece.high_us, list(partials.path)])
            columns = {alias: part.columns for alias, part in partials.parts.items()}
            tables.append(partials.to_batch(range(partials.codes.shape[1]), columns))
    tables += [part.to_batch() for part, _ in node.arrived]
    plain: dict[str, Any] = {
        "epochs": node.epochs.to_json(),
        "windows": windows,
        "waiting": waiting,
        "arrived": [upto_us for _, upto_us in node.arrived],
        "seen": node.seen_us,
        "prepared": [[number, nodes] for number, nodes in node.prepared.items()],
        "migration": None if node.migration is None else node.migration.to_json(),
        "queued": [migration.to_json() for migration in node.queued],
        "early": [[m.kind, m.sender, m.to, m.plain] for m in node.early],
        "finished": node.finished,
        "pairs_tested": node.pairs_tested,
    }
    if node.planner is not None:
        plain["planner"], more = node.planner.export()
        tables += more
    return plain, tables


def restore_node(
    query: JoinedQuery,
    name: str,
    plain: dict[str, Any],
    tables: Sequence[pa.RecordBatch],
    planner: Planner | None,
    windows: Mapping[str, NodeWindow] | None = None,
) -> Node:
    """Return a node as it was when it was exported; its planner has its machine already.

    Where its `windows` are at hand as they were, their tables are not read.
    """
    left = iter(tables if windows is None else tables[len(plain["windows"]) :])
    epochs = Epochs.read(plain["epochs"])
    node = Node(query, name, epochs.latest.operators, planner)
    node.epochs = epochs
    if windows is None:
        windows = {alias: _window(query, alias, marks, left) for alias, *marks in plain["windows"]}
    node.windows = dict(windows)
    width = 1 + query.codes
    for head, last, low_us, high_us, path in plain["waiting"]:
        partials = Partials.of_batch(next(left), tuple(path), width)
        node.waiting.setdefault(Flow(head, last), []).append(Piece(low_us, high_us, partials))
    node.arrived = [(Part.of_batch(next(left)), upto_us) for upto_us in plain["arrived"]]
    node.seen_us, node.pairs_tested = plain["seen"], plain["pairs_tested"]
    node.prepared = {number: list(nodes) for number, nodes in plain["prepared"]}
    node.migration = None if plain["migration"] is None else TwoPhase.read(plain["migration"])
    node.queued = [TwoPhase.read(written) for written in plain["queued"]]
    node.early = [Packet(*said) for said in plain["early"]]
    node.finished = [(number, position_us) for number, position_us in plain["finished"]]
    if planner is not None:
        planner.load(plain["planner"], list(left))
    return node


def _window(query: JoinedQuery, alias: str, marks: list[int], tables: Iterator[pa.RecordBatch]) -> NodeWindow:
    complete_us, covered_us, floor_us = marks
    window = NodeWindow(query, alias, complete_us)
    window.add(Part.of_batch(next(tables)), covered_us)
    window.expire(floor_us)
    window.complete_us = complete_us
    return window

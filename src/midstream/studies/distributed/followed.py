"""Followed: streams at sites run on a simulated network, and what that cost, message by message.

rows ──▶ sites, links of 5 ms and 1,024 kbit/s ──▶ results
              └──▶ every frame and probe counted, by intervals and phases of the rates
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from midstream.model.time import FOREVER
from midstream.sites.cost import PROBE_S, UPDATE_S
from midstream.sites.courier import BULK, Frame
from midstream.sites.declaration import Update
from midstream.sites.node import Node
from midstream.sites.packet import GLOBAL_READY, LOCAL_READY, MODIFICATION, PARTIALS, ROWS, WINDOW_COPY, WINDOW_REQUEST
from midstream.sites.plan import SitesPlan
from midstream.sites.simulation import Simulation
from midstream.studies.distributed.streams import BIN_US, SiteStreams, phase_of

MIGRATION = (WINDOW_REQUEST, WINDOW_COPY, LOCAL_READY, GLOBAL_READY)


@dataclass
class Measured:
    """What one run has cost, by bins of time."""

    end_us: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Per part of the cost: its seconds in each bin."""
    messages: list[Counter[str]] = field(default_factory=list)
    """Per phase of the rates: messages by kind."""
    overhead_s: list[dict[str, float]] = field(default_factory=list)
    """Per phase: what sending them took, by kind."""
    modifications: list[int] = field(default_factory=list)
    bytes_by_link: dict[str, int] = field(default_factory=dict)
    bytes_by_kind: dict[str, int] = field(default_factory=dict)
    rows_out: int = 0
    wall_s: float = 0.0

    @property
    def cost(self) -> list[float]:
        """Return seconds of work and sending per second, bin by bin."""
        whole = np.sum([np.array(v) for v in self.seconds.values()], axis=0) / (BIN_US / 1e6)
        return [round(float(x), 4) for x in whole]


def run_streams(study: SiteStreams, update: Update, plan: SitesPlan | None = None) -> Measured:
    """Run the streams of a study; `plan` instead of the greedy one, to stay with."""
    started = time.perf_counter()
    bins, phases = study.end_us // BIN_US, phase_of(study.end_us) + 1
    found = Measured(study.end_us)
    sent, flows = np.zeros(bins), [set[tuple[str, ...]]() for _ in range(bins)]
    found.messages = [Counter[str]() for _ in range(phases)]
    found.overhead_s = [dict.fromkeys((MODIFICATION, *MIGRATION), 0.0) for _ in range(phases)]

    def on_frame(now_us: int, frame: Frame) -> None:
        if frame.packet is None:
            return
        packet, size = frame.packet, frame.nbytes / study.link.bytes_per_s
        at = min(now_us // BIN_US, bins - 1)
        sent[at] += size if packet.kind in BULK else 0.0
        if packet.kind in (ROWS, PARTIALS):
            flows[at].add((packet.sender, packet.to, *packet.plain.get("path", ())))
        phase = min(phase_of(now_us), phases - 1)
        found.messages[phase][packet.kind] += 1
        if packet.kind in found.overhead_s[phase]:
            found.overhead_s[phase][packet.kind] += size + study.link.latency_us / 1e6

    def on_results(results: Any) -> None:
        found.rows_out += len(results)

    simulation = Simulation(study.setup(update, plan), on_results=on_results, on_frame=on_frame)
    parts = dict(study.rows())
    nodes = [n for p in simulation.places.values() for n in p.site.nodes.values() if isinstance(n, Node)]
    tested, kept = np.zeros(bins), np.zeros(bins)
    for number, start in enumerate(range(0, study.end_us, study.batch_us)):
        end = start + study.batch_us
        before = sum(n.pairs_tested for n in nodes), sum(w.added for n in nodes for w in n.windows.values())
        for name in study.names:
            simulation.bring(name, parts[name][number], end, end)
        simulation.run_until(end + study.batch_us - 1)
        tested[start // BIN_US] += sum(n.pairs_tested for n in nodes) - before[0]
        kept[start // BIN_US] += max(0, sum(w.added for n in nodes for w in n.windows.values()) - before[1])
    simulation.run_until()
    for name in study.names:
        nothing = parts[name][0].between(0, 0)
        simulation.bring(name, nothing, FOREVER, simulation.now_us)
    simulation.run_until()
    latency = np.array([len(f) * study.link.latency_us / 1e6 for f in flows]) * BIN_US / 1e6
    found.seconds = {
        "sending": [*map(float, sent + latency)],
        "probing": [*map(float, tested * PROBE_S)],
        "keeping": [*map(float, kept * UPDATE_S)],
    }
    counts = simulation.counts
    found.bytes_by_link = {f"{a} -> {b}": n for (a, b), n in counts.sent_bytes.items()}
    found.bytes_by_kind = dict(counts.kind_bytes)
    found.modifications = [0] * phases
    for m in simulation.modifications.all.values():
        found.modifications[min(phase_of(m.began_us), phases - 1)] += 1
    found.wall_s = time.perf_counter() - started
    return found

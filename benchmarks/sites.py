"""Joins over sites: what plans that follow the rates of streams cost and ship, beside plans that stay (Fig. 4, 5).

    python -m midstream bench sites --json build/sites.json

Everything is simulated: virtual time, links of 5 ms and 1,024 kbit/s, nothing lost. Costs are those of the unit-time
model with what was really sent, probed and kept.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import midstream as ms
from midstream.model.time import FOREVER
from midstream.sites.cost import PROBE_S, UPDATE_S
from midstream.sites.courier import BULK, Frame
from midstream.sites.declaration import DEFAULT_LINK, Declared, Link, Update
from midstream.sites.node import Node
from midstream.sites.packet import GLOBAL_READY, LOCAL_READY, MODIFICATION, PARTIALS, ROWS, WINDOW_COPY, WINDOW_REQUEST
from midstream.sites.partials import Part
from midstream.sites.plan import ProbeSequence, SitesPlan
from midstream.sites.query import JoinedQuery
from midstream.sites.simulation import Simulation
from midstream.sites.start import Setup
from midstream.sites.statistics import StreamStatistics

MS = 1000
COUNTS = (4, 8)
FAST_LINK = Link(5 * MS, 10e6)
"""Of the drifting study: every stream fits, so that nothing is held up and bytes can be compared."""
BATCH_US = 50 * MS
TUPLE_BYTES = 150
WINDOW_US = 500 * MS
BIN_US = 200 * MS
PHASE_US = 2000 * MS
TABLE_3 = {4: {"rises": (4, 10, 24), "falls": (4, 3, 24)}, 8: {"rises": (8, 19, 112), "falls": (8, 3, 112)}}
"""The paper's centralized modification messages, migration messages less those of synchronization, synchronization."""
MIGRATION = (WINDOW_REQUEST, WINDOW_COPY, LOCAL_READY, GLOBAL_READY)
Rates = Callable[[int, int], float]
"""Rows per second of a stream at a time."""


@dataclass
class Study:
    """Streams, one per site, that join on one attribute."""

    count: int
    factor: float
    rates: Rates
    end_us: int
    seed: int
    batch_us: int = BATCH_US
    link: Link = DEFAULT_LINK

    def __post_init__(self) -> None:
        names = [f"s{k}" for k in range(self.count)]
        engine = ms.Engine()
        schema = {"ts": pa.array([], pa.int64()), "k": pa.array([], pa.int64()), "p": pa.array([], pa.string())}
        for name in names:
            engine.stream(name, pa.table(schema), time="ts")
        sources = ", ".join(f"{n} [RANGE {WINDOW_US} MICROSECONDS] {n}" for n in names)
        same = " AND ".join(f"s0.k = {n}.k" for n in names[1:])
        wanted = ", ".join(f"{n}.p AS p{k}" for k, n in enumerate(names))
        self.query = JoinedQuery(engine.query(f"SELECT {wanted} FROM {sources} WHERE {same}").plan)
        self.names = names

    def statistics(self) -> dict[str, StreamStatistics]:
        """Return what is known at the start: exactly what the streams are like then."""
        found = {}
        for k, name in enumerate(self.names):
            rate = self.rates(k, 0)
            found[name] = StreamStatistics(rate, TUPLE_BYTES + 16, rate * WINDOW_US / 1e6, {"0": self.factor})
        return found

    def setup(self, update: Update, plan: SitesPlan | None = None) -> Setup:
        """Return the sites: one per stream, results at the first."""
        sites = {name: f"site{k}" for k, name in enumerate(self.names)}
        declared = Declared(sites, "site0", update, 0.3, {}, self.link)
        return Setup(self.query, declared, self.statistics(), BIN_US, plan)

    def rows(self) -> Iterator[tuple[str, list[Part]]]:
        """Yield each stream with its rows, batch by batch: evenly spread, values drawn evenly."""
        for k, name in enumerate(self.names):
            rng = np.random.default_rng([self.seed, k])
            parts, at, number = list[Part](), 0.0, 0
            for start in range(0, self.end_us, self.batch_us):
                times = list[int]()
                while at < start + self.batch_us:
                    times.append(int(at))
                    at += 1e6 / self.rates(k, int(at))
                keys = rng.integers(0, round(1 / self.factor), len(times))
                payload = pa.array(
                    [f"{n:0{TUPLE_BYTES - 12}d}" for n in range(number, number + len(times))], pa.string()
                )
                offsets = np.arange(number, number + len(times), dtype=np.int64)
                number += len(times)
                parts.append(Part(np.array(times, np.int64), offsets, {"k": pa.array(keys), "p": payload}))
            yield name, parts


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


def run_study(study: Study, update: Update, plan: SitesPlan | None = None) -> Measured:
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


FIRST_CHANGE_US = 1600 * MS
"""At the end of an interval that is measured over; the paper has 1,500 ms."""


def phase_of(time_us: int) -> int:
    """Return how often the rate has changed before a time."""
    return max(0, (time_us - FIRST_CHANGE_US) // PHASE_US + 1)


def one_stream_changes(k: int, time_us: int) -> float:
    """Return the rates of Fig. 4: one stream goes from 50 to 200 and back, the others have 100."""
    if k != 1:
        return 100.0
    return 200.0 if phase_of(time_us) % 2 else 50.0


HEAVY, LIGHT, TURN_US, TURNS = 3000.0, 25.0, 10_000 * MS, 8


def drifting(k: int, time_us: int) -> float:
    """Return the rates of the drifting study: one stream after the other has most of the rows."""
    return HEAVY if time_us // TURN_US % 8 == k else LIGHT


def all_at_one(names: list[str], centre: str) -> SitesPlan:
    """Return the plan that ships every stream to one site and joins there."""
    sequences = []
    for head in names:
        others = [n for n in names if n not in (head, centre)]
        if head == centre:
            sequences.append(ProbeSequence(head, tuple(others), (0,) * len(others)))
        else:
            sequences.append(ProbeSequence(head, (centre, *others), (1, *(0,) * len(others))))
    return SitesPlan(tuple(sequences))


def changes_of_one_stream(count: int, end_us: int, seed: int) -> dict[str, Any]:
    """Run the set-up of Fig. 4 with so many nodes, by each update."""
    study = Study(count, 0.01, one_stream_changes, end_us, seed)
    updates: tuple[Update, ...] = ("off", "centralized", "distributed")
    runs = {u: run_study(study, u) for u in updates}
    assert len({r.rows_out for r in runs.values()}) == 1, "results do not depend on plans"
    phases = len(runs["off"].messages)
    bins = np.arange(end_us // BIN_US) * BIN_US
    by_phase = {
        u: [_mean(np.array(r.cost)[[phase_of(int(b)) == p for b in bins]]) for p in range(phases)]
        for u, r in runs.items()
    }
    overhead = {u: [_overhead(runs[u].overhead_s[p]) for p in range(1, phases)] for u in updates[1:]}
    return {
        "cost": {u: r.cost for u, r in runs.items()},
        "cost_by_phase": by_phase,
        "mean_cost": {u: _mean(np.array(r.cost)) for u, r in runs.items()},
        "rate_by_phase": [one_stream_changes(1, FIRST_CHANGE_US + (p - 1) * PHASE_US) for p in range(phases)],
        "modifications_by_phase": {u: runs[u].modifications for u in updates[1:]},
        "messages_by_phase": {u: [dict(c) for c in runs[u].messages] for u in updates[1:]},
        "overhead_s": overhead,
        "overhead_ratio": [
            round(d / c, 2) if c else None
            for d, c in zip(overhead["distributed"], overhead["centralized"], strict=True)
        ],
        "paper": {"overhead_ratio": [1.4, 2.5] if count == 4 else [2.1, 2.7], "table_3_centralized": TABLE_3[count]},
        "synchronization_when_all_migrate": 2 * count * (count - 1),
        "rows_out": runs["off"].rows_out,
    }


def _mean(values: Any) -> float:
    return round(float(values.mean()), 4) if len(values) else 0.0


def _overhead(seconds: dict[str, float]) -> float:
    return round(sum(seconds.values()), 4)


def drifting_sites(seed: int) -> dict[str, Any]:
    """Compare bytes shipped by plans that follow the rates with shipping every stream to one site, whichever it is."""
    study = Study(8, 0.02, drifting, TURNS * TURN_US, seed, 200 * MS, FAST_LINK)
    adaptive = run_study(study, "centralized")
    whole = sum(adaptive.bytes_by_link.values())
    centres = {n: run_study(study, "off", all_at_one(study.names, n)) for n in (study.names[0], study.names[-1])}
    fewest = min(sum(m.bytes_by_link.values()) for m in centres.values())
    assert all(m.rows_out == adaptive.rows_out for m in centres.values()), "results do not depend on plans"
    return {
        "adaptive_bytes": whole,
        "one_site_bytes": {n: sum(m.bytes_by_link.values()) for n, m in centres.items()},
        "times_fewer": round(fewest / whole, 2),
        "modifications": sum(adaptive.modifications),
        "rows_out": adaptive.rows_out,
        "bytes_by_kind": adaptive.bytes_by_kind,
        "bytes_by_link": adaptive.bytes_by_link,
    }


def run(seconds: float | None, seed: int, progress: Callable[[int, int], None]) -> dict[str, Any]:
    """Run all studies; `seconds` is how much event time that of Fig. 4 has."""
    end_us = int((seconds or 9.6) * 1e6) // BIN_US * BIN_US
    started, rows = time.perf_counter(), 0
    out: dict[str, Any] = {}
    for done, count in enumerate(COUNTS):
        out[f"{count} nodes"] = changes_of_one_stream(count, end_us, seed)
        rows += 3 * count * end_us // 10_000
        progress(done + 1, len(COUNTS) + 1)
    out["drifting"] = drifting_sites(seed)
    progress(len(COUNTS) + 1, len(COUNTS) + 1)
    wall_s = time.perf_counter() - started
    return {
        "rows_per_s": rows / wall_s,
        "peak_bytes": 0,
        "wall_s": wall_s,
        "parameters": {"seconds": end_us / 1e6, "seed": seed},
        **out,
    }

"""Joins over sites: what plans that follow the rates of streams cost and ship, beside plans that stay (Fig. 4, 5).

    midstream bench sites --json build/sites.json

Everything is simulated: virtual time, links of 5 ms and 1,024 kbit/s, nothing lost. Costs are those of the unit-time
model with what was really sent, probed and kept. `midstream reproduce distributed` judges what the paper says of it.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from midstream.sites.declaration import Link, Update
from midstream.sites.plan import ProbeSequence, SitesPlan
from midstream.studies.distributed.followed import run_streams
from midstream.studies.distributed.streams import (
    BIN_US,
    FIRST_CHANGE_US,
    MS,
    PHASE_US,
    SiteStreams,
    one_stream_changes,
    phase_of,
)

COUNTS = (4, 8)
FAST_LINK = Link(5 * MS, 10e6)
"""Of the drifting study: every stream fits, so that nothing is held up and bytes can be compared."""
TABLE_3 = {4: {"rises": (4, 10, 24), "falls": (4, 3, 24)}, 8: {"rises": (8, 19, 112), "falls": (8, 3, 112)}}
"""The paper's centralized modification messages, migration messages less those of synchronization, synchronization."""

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
    study = SiteStreams(count, 0.01, one_stream_changes, end_us, seed)
    updates: tuple[Update, ...] = ("off", "centralized", "distributed")
    runs = {u: run_streams(study, u) for u in updates}
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
    study = SiteStreams(8, 0.02, drifting, TURNS * TURN_US, seed, 200 * MS, FAST_LINK)
    adaptive = run_streams(study, "centralized")
    whole = sum(adaptive.bytes_by_link.values())
    centres = {n: run_streams(study, "off", all_at_one(study.names, n)) for n in (study.names[0], study.names[-1])}
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

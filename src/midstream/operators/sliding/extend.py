"""Extend: a round of partial results meets the rows of a SteM.

batch ──▶ probe ──▶ candidates ──▶ checks ──▶ out
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.stem import NEXT, PROBE_CURSOR_SIZE, PROBE_LANE, PROBE_WALK, PROBES_TESTED, probe
from midstream.operators.sliding.stem import Bits, Stem


@dataclass
class Round:
    """Partial results on their way: the batch that visits, and the next batch as far as it is written."""

    batch: Matrix
    out: Matrix
    now_us: int
    seq: int
    room: Callable[[int, int], Matrix]
    """Makes a matrix of so many columns out of so many words, in place of one that is full."""
    written: int = 0


def extend(
    stem: Stem,
    active: Bits,
    starts: Vector,
    stops: Vector,
    marks: Vector,
    flow: Round,
    keep: Callable[[Matrix, int, int], int],
) -> int:
    """Extend some lanes of a round (`starts` to `stops`) by the rows of a SteM; return how many pairs were tested.

    `marks` says where what each lane became ends, before `keep` moves the candidates from one place to another that
    pass to the front.
    """
    state, visit, evictions = stem.state, stem.visit(active), stem.sources.evictions
    cursor = np.zeros(PROBE_CURSOR_SIZE, np.int64)
    cursor[PROBE_WALK] = NEXT
    while True:
        stop = probe(
            cursor, flow.batch, starts, stops, visit.key, state.entries, state.count,
            visit.index.words, visit.index.heads, visit.index.link, state.in_order,
            state.slots, evictions.table, evictions.bases, flow.now_us, flow.seq,
            visit.ops, visit.mine, visit.theirs, visit.taken, visit.placed, flow.out, flow.written, marks,
        )  # fmt: skip
        flow.written = keep(flow.out, flow.written, stop)
        if cursor[PROBE_LANE] == len(starts):
            return int(cursor[PROBES_TESTED])
        if 2 * flow.written > len(flow.out):
            held = flow.out[: flow.written]
            flow.out = flow.room(flow.out.shape[1], 2 * flow.out.size)
            flow.out[: flow.written] = held

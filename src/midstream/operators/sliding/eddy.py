"""Eddy: route arriving rows through the SteMs of all other aliases until they are results or drop out (CACQ).

    rows taken in ──▶ insert into the SteMs
                  └─▶ lanes ──▶ a policy picks the next SteM ──▶ visit ──▶ lanes ... ──▶ results in order of latest row

State: the SteMs, and what the policy has learned. There are no intermediate results: a plan is a route, and changing
it is free.
"""

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any

import numpy as np

from midstream.kernels.arrays import Floats, Matrix, Vector
from midstream.kernels.entries import LATEST, ROWS
from midstream.kernels.stem import fan_out
from midstream.model.errors import PlanError
from midstream.operators.contract.execution import Execution, PlanSwitch, Progress, StateSize, Switched
from midstream.operators.sliding.check import Residual, check_of
from midstream.operators.sliding.extend import Round, extend
from midstream.operators.sliding.state_size import size_of
from midstream.operators.sliding.stem import Bits, Stem
from midstream.operators.source.scan import Leaf
from midstream.operators.source.sources import Renumbering, Sources, Taken

DECAY = 0.9
"""What a visit leaves of what earlier ones have taught."""
STEPS = 4
"""Steps per doubling in which expected outputs are told apart; less is noise."""
FEW_ROWS = 256
"""Rows that teach as much about one lead as all leads' together."""
PIECE_ROWS = 1 << 12
"""Rows that are always few enough to be inserted at once, however little the SteMs hold."""
FIRST_ROWS = 1 << 10
"""Room for partial results before it has to grow."""
KEPT_WORDS = 1 << 21
"""The largest buffer kept from one slice to the next."""


class PolicyName(StrEnum):
    """The ways to pick the next SteM."""

    PLAN = "plan"
    SELECTIVITY = "selectivity"
    TICKET = "ticket"


@dataclass(frozen=True)
class Passage:
    """How the lanes of a visit fared: parts of the batch that came, and where in `out` what left of each one ends."""

    leads: list[int]
    batch: Matrix
    starts: Vector
    stops: Vector
    out: Matrix
    first: int
    marks: Vector

    def by_result(self) -> tuple[int, int]:
        """Return how many partial results came, and how many left."""
        return int(self.stops.sum() - self.starts.sum()), int(self.marks[-1]) - self.first

    def by_row(self) -> tuple[Floats, Floats]:
        """Return per lane how many arriving rows came, and how many times more partial results of each left, summed.

        A row counts once, so that the few with very many partial results do not speak for all.
        """
        came, left = np.empty(len(self.leads)), np.empty(len(self.leads))
        fan_out(self.batch, self.starts, self.stops, self.out, self.first, self.marks, came, left)
        return came, left


class Policy:
    """Picks the next SteM of a lane: the first of the plan. Results never depend on the choice."""

    def __init__(self, order: list[int]) -> None:
        self.order = order
        """The plan: places of the aliases, the one to visit first in front."""

    def prepare(self) -> None:
        """Get ready for the lanes of a slice."""

    def choose(self, lead: int, options: Bits) -> int:
        """Return one of the options as the next SteM of the lane that rows of `lead` are in."""
        return next(s for s in self.order if options >> s & 1)

    def learn(self, stem: int, passage: Passage) -> None:
        """Note what has come to a SteM, and what has left it."""


class SelectivityPolicy(Policy):
    """Goes where the fewest results are expected, from what has left each SteM for each that came, per lead.

    Nearly equal expectations leave the choice to the plan, so that lanes stay together.
    """

    def __init__(self, order: list[int]) -> None:
        super().__init__(order)
        self.came = np.zeros((len(order), len(order)))
        """Per lead and SteM, the past less and less."""
        self.left = np.zeros((len(order), len(order)))
        self._preferred: list[list[int]] = []

    def prepare(self) -> None:
        """Sort the SteMs for each lead; one that was never visited comes first."""
        # What few rows have taught is mixed with what the rows of all leads have.
        overall = self.left.sum(axis=0) / np.maximum(self.came.sum(axis=0), 1e-9)
        ratio = (self.left + FEW_ROWS * overall) / (self.came + FEW_ROWS)
        steps = np.round(STEPS * np.log2(np.maximum(ratio, 1e-9)))
        plan = np.array(self.order)
        self._preferred = plan[np.argsort(steps[:, plan], axis=1, kind="stable")].tolist()

    def choose(self, lead: int, options: Bits) -> int:
        """Return the option with the lowest expected output."""
        return next(s for s in self._preferred[lead] if options >> s & 1)

    def learn(self, stem: int, passage: Passage) -> None:
        """Count what came and left."""
        leads, (came, left) = passage.leads, passage.by_row()
        self.came[leads, stem] = self.came[leads, stem] * DECAY + came
        self.left[leads, stem] = self.left[leads, stem] * DECAY + left


class TicketPolicy(Policy):
    """Holds a lottery: a SteM gets a ticket for each partial result it consumes and loses one for each it returns.

    The draws are the same in every run.
    """

    def __init__(self, order: list[int]) -> None:
        super().__init__(order)
        self.tickets = [0.0] * len(order)
        self._generator = np.random.default_rng(0)

    def choose(self, lead: int, options: Bits) -> int:
        """Draw one of the options; each has at least one ticket."""
        entered = [s for s in self.order if options >> s & 1]
        ends = list(accumulate(1.0 + max(0.0, self.tickets[s]) for s in entered))
        return entered[bisect(ends, self._generator.random() * ends[-1], hi=len(ends) - 1)]

    def learn(self, stem: int, passage: Passage) -> None:
        """Hand out tickets and take them back, the past less and less."""
        came, left = passage.by_result()
        self.tickets[stem] = self.tickets[stem] * DECAY + (came - left)


POLICIES: dict[PolicyName, type[Policy]] = {
    PolicyName.PLAN: Policy,
    PolicyName.SELECTIVITY: SelectivityPolicy,
    PolicyName.TICKET: TicketPolicy,
}


@dataclass
class Lane:
    """Partial results that one alias leads and that have the same aliases done: a part of the batch of a round."""

    lead: int
    done: Bits
    near: Bits
    """Aliases that a condition ties to one that is done."""
    path: tuple[int, ...]
    """The places of the aliases done, in the order of the row numbers."""
    start: int
    stop: int


class Eddy(Execution):
    """The SteMs of a query and the routing between them.

    Invariant: the SteMs hold all rows in their windows; nothing is in flight between two calls.
    """

    def __init__(
        self, stems: list[Stem], codes: int, sources: Sources, order: Iterable[str], policy: PolicyName
    ) -> None:
        self.components = tuple(sources.scans)
        self.stems = stems
        """One per alias, in FROM order; none when there is nothing to join."""
        self.codes = codes
        """How many codes partial results carry besides the key."""
        self.sources = sources
        self.policy = POLICIES[policy](self._places(order))
        self.reroutes = 0
        """How often the plan has changed."""
        self._all: Bits = (1 << len(self.components)) - 1
        self._near = [s.spec.neighbours for s in stems]
        self._buffers: list[Vector] = _no_buffers()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_buffers": _no_buffers()}

    def _places(self, order: Iterable[str]) -> list[int]:
        named = list(order)
        if sorted(named) != sorted(self.components):
            raise PlanError(
                f"a route names each alias of the query once ({', '.join(self.components)}), not: {', '.join(named)}"
            )
        return [self.components.index(a) for a in named]

    def switch_plan(self, switch: PlanSwitch) -> Switched:
        """Route by another order of the aliases: the SteMs hold rows of sources alone, so nothing is missing."""
        self.reroute(switch.order)
        return Switched(self, Progress(states_matched=len(self.stems)))

    def reroute(self, order: Iterable[str]) -> None:
        """Change the plan to another order of the aliases."""
        self.policy.order = self._places(order)
        self.reroutes += 1

    def size(self) -> StateSize:
        """Return what the SteMs hold."""
        return size_of(self.stems)

    def renumber(self, change: Renumbering) -> None:
        """Follow a row store that has numbered its rows anew."""
        for stem in self.stems:
            stem.renumber(change)

    def on_rows(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Insert rows, route them, and return the results they complete."""
        if not self.stems:
            return rows[self.components[0]].batch(Leaf(self.components[0], (), ()))
        found = [self._route(*piece) for piece in self._pieces(rows, now_us, seq)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _pieces(self, rows: Taken, now_us: int, seq: int) -> Iterator[tuple[Taken, int, int]]:
        """Cut rows so that few of a chain's entries are later than the row that walks it."""
        total = sum(len(r.rows) for r in rows.values())
        while total > (size := max(PIECE_ROWS, sum(s.state.count for s in self.stems))):
            seqs = np.sort(np.concatenate([r.rows.seqs for r in rows.values()]))
            cut, end = int(seqs[size]), int(seqs[-1]) + 1
            yield {a: r.between(seq + 1, cut) for a, r in rows.items()}, now_us, seq
            rows = {a: r.between(cut, end) for a, r in rows.items()}
            now_us, seq = min(int(r.rows.times[0]) for r in rows.values() if len(r.rows)), cut - 1
            total -= size
        yield rows, now_us, seq

    def _route(self, rows: Taken, now_us: int, seq: int) -> Matrix:
        """Insert the rows of a piece and take each lane from SteM to SteM."""
        batches = [rows[s.spec.alias].batch(s.spec.leaf) for s in self.stems]
        for stem, batch in zip(self.stems, batches, strict=True):
            if len(batch):
                stem.insert(batch, now_us, seq)
        self.policy.prepare()
        batch, lanes = self._enter(batches)
        for _ in self.stems[1:]:
            if not lanes:
                break
            batch, lanes = self._round(batch, lanes, now_us, seq)
        results = self._leave(batch, lanes)
        self._buffers = [b if b.size <= KEPT_WORDS else b[:0].copy() for b in self._buffers]
        return results

    def _enter(self, batches: list[Matrix]) -> tuple[Matrix, list[Lane]]:
        """Make a lane of the rows of each alias."""
        first = ROWS + self.codes
        count = sum(map(len, batches))
        batch = self._matrix(count, first + 1)
        lanes, start = [], 0
        for stem, mine in zip(self.stems, batches, strict=True):
            if not len(mine):
                continue
            spec, stop = stem.spec, start + len(mine)
            batch[start:stop, :ROWS], batch[start:stop, first] = mine[:, :ROWS], mine[:, ROWS]
            for code in spec.codes:
                batch[start:stop, code.carried] = mine[:, code.held]
            lanes.append(Lane(spec.place, spec.bit, self._near[spec.place], (spec.place,), start, stop))
            start = stop
        return batch[:count], lanes

    def _round(self, batch: Matrix, lanes: list[Lane], now_us: int, seq: int) -> tuple[Matrix, list[Lane]]:
        """Let every lane visit a SteM; those that meet the same one in the same way go together."""
        together: dict[tuple[int, Bits, int], list[Lane]] = {}
        for lane in lanes:
            left = self._all & ~lane.done
            place = self.policy.choose(lane.lead, left & lane.near or left)
            spec = self.stems[place].spec
            alone = lane.lead if spec.verifications or spec.residuals else -1
            together.setdefault((place, spec.active(lane.done), alone), []).append(lane)
        width = batch.shape[1] + 1
        flow = Round(batch, self._matrix(len(batch), width), now_us, seq, self._grown)
        for (place, active, _), group in together.items():
            self._visit(self.stems[place], active, group, flow)
        return flow.out[: flow.written], [lane for lane in lanes if lane.stop > lane.start]

    def _visit(self, stem: Stem, active: Bits, group: list[Lane], flow: Round) -> None:
        """Extend the partial results of some lanes by the rows of a SteM."""
        spec, checks = stem.spec, self._checks(stem, group[0])
        starts, stops = np.array([lane.start for lane in group]), np.array([lane.stop for lane in group])
        marks = np.empty(len(group), np.int64)
        first = flow.written
        tested = extend(stem, active, starts, stops, marks, flow, lambda out, a, b: self._keep(out, a, b, checks))
        if checks:
            marks[0] = flow.written
        self.sources.predicate_evaluations += tested
        self.sources.probes += int((stops - starts).sum())
        leads = [lane.lead for lane in group]
        self.policy.learn(spec.place, Passage(leads, flow.batch, starts, stops, flow.out, first, marks))
        for lane, end in zip(group, marks.tolist(), strict=True):
            lane.start, lane.stop, first = first, end, end
            lane.done |= spec.bit
            lane.near |= self._near[spec.place]
            lane.path += (spec.place,)

    def _checks(self, stem: Stem, lane: Lane) -> list[Residual]:
        """Return what is left to verify of a lane's results at a SteM; such a lane goes there alone."""
        wanted = stem.spec.checks(lane.path, lane.done)
        if not wanted:
            return []
        components = (*(self.components[p] for p in lane.path), stem.spec.alias)
        return [check_of(e, components, self.sources.scans) for e in wanted]

    def _keep(self, out: Matrix, start: int, stop: int, checks: list[Residual]) -> int:
        """Move the candidates from `start` to `stop` that pass every check to the front; return where they end."""
        candidates = out[start:stop]
        for check in checks:
            if len(candidates):
                # Checks look for row numbers where they are when no codes are carried.
                candidates = candidates[check(candidates[:, self.codes :])]
        out[start : start + len(candidates)] = candidates
        return start + len(candidates)

    def _leave(self, batch: Matrix, lanes: list[Lane]) -> Matrix:
        """Return what has been everywhere, row numbers in FROM order, in order of the latest row."""
        results = np.empty((sum(lane.stop - lane.start for lane in lanes), ROWS + len(self.components)), np.int64)
        if not len(results):
            return results
        results[:, :ROWS] = batch[:, :ROWS]
        for lane in lanes:
            columns = ROWS + self.codes + np.argsort(lane.path)
            results[lane.start : lane.stop, ROWS:] = batch[lane.start : lane.stop, columns]
        return results[np.argsort(results[:, LATEST], kind="stable")]

    def _matrix(self, rows: int, width: int) -> Matrix:
        """Return an uninitialized matrix in one of two buffers: a round's batch and the next one's alternate."""
        rows = max(FIRST_ROWS, rows)
        which = width % 2
        if self._buffers[which].size < rows * width:
            self._buffers[which] = np.empty(rows * width, np.int64)
        buffer = self._buffers[which]
        rows = buffer.size // width
        return buffer[: rows * width].reshape(rows, width)

    def _grown(self, width: int, words: int) -> Matrix:
        """Return a matrix with more room in place of a buffer that is full."""
        self._buffers[width % 2] = np.empty(words, np.int64)
        return self._matrix(words // width, width)


def _no_buffers() -> list[Vector]:
    return [np.empty(0, np.int64), np.empty(0, np.int64)]

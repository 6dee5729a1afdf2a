"""The execution of a hopping query: windows, nodes and emission, from hop to hop; and going on with another plan.

    rows ──▶ codes ──▶ windows ──▶ nodes, inputs first ──▶ emission ──▶ the answer at the hop

Between two hops the plan may be replaced: operators over the same relation are taken over with what they hold, the
others are given what they would hold had they run, computed from the rows in the windows.
"""

import copy
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from midstream.kernels.arrays import Vector
from midstream.model.batch import mixed
from midstream.operators.contract.execution import Progress, StateSize
from midstream.operators.hopping.build import Tree, build, open_windows, origins, window_columns
from midstream.operators.hopping.coding import Coding, check_codes, is_numbered
from midstream.operators.hopping.emission import Emission, Stamp
from midstream.operators.hopping.node import RECENT, Input, Leaf, Node, OperatorStatistics, Shaped
from midstream.operators.hopping.rows import ByRow
from midstream.operators.hopping.tuples import FOREVER, Chosen, Tuples, together
from midstream.operators.hopping.window import HopWindow
from midstream.operators.source.memory import keep_freed_memory
from midstream.plan.modes import TUPLE
from midstream.plan.plan import Plan
from midstream.plan.query import DELTA

SLACK = 100_000
"""Strings and decimals that may be numbered beyond twice those that were there last."""


class HopExecution:
    """A plan of a hopping query at work. State: the rows in the windows, and what the nodes hold."""

    def __init__(self, plan: Plan) -> None:
        keep_freed_memory()
        self.plan = plan
        self.coding = Coding()
        self.windows = open_windows(plan)
        self._origins, self._fields = origins(plan), window_columns(plan)
        self.tree: Tree = build(plan, self.windows, self.coding)
        self.emission = Emission(plan.query.root.columns, self.coding)
        self.last_us: int | None = None
        """The last hop that was answered."""
        self._renew_at = SLACK
        """How many values may be numbered before those that are gone are forgotten."""
        self._given: list[Tuples] = []
        """What the root has given since the last hop."""
        self.waiting_us = FOREVER
        """The time of the first row in a window that no operator has worked on."""
        self.spent_s = 0.0
        """Time spent in operators."""
        self._tested = self._flips = 0
        self._arrivals: deque[tuple[int, dict[str, int]]] = deque(maxlen=RECENT + 1)
        """At the last hops: how many rows of the query's windows had come so far."""

    def count_arrivals(self, hop_us: int) -> None:
        """Note how many rows have come before a hop."""
        self._arrivals.append((hop_us, {s.alias: self.windows[s.alias].came for s in self.plan.query.sources}))

    def rows_per_s(self) -> dict[str, float]:
        """Return how many rows of each window have come lately, in a second of event time."""
        if not self._arrivals:
            return {}
        (first_us, before), (last_us, now) = self._arrivals[0], self._arrivals[-1]
        if first_us == last_us:  # the first hop: what has come, has come for it
            first_us, before = self.plan.query.hop_before_us(last_us), dict.fromkeys(now, 0)
        if first_us == last_us:
            return {}
        return {alias: (now[alias] - before[alias]) * 1e6 / (last_us - first_us) for alias in now}

    def lately(self) -> list[OperatorStatistics | None]:
        """Return what each operator has lately given, in the order of the plan."""
        nodes = [self.tree.nodes[path] for path, _ in self.plan.of_paths()]
        return [node.account.lately(node.mode) for node in nodes]

    def _windows_for(self, plan: Plan) -> dict[str, HopWindow]:
        """Return the windows of another plan: those of the query, and copies of them for what it reads twice."""
        found = {}
        for alias, scan in origins(plan).items():
            asked = scan.source.alias
            kept = alias in self.windows and self._origins[alias] == scan
            found[alias] = self.windows[alias] if kept else copy.deepcopy(self.windows[asked])
        return found

    @property
    def eager(self) -> bool:
        """Tell whether some operator works on rows as they come."""
        return TUPLE in self.plan.working

    def add(self, alias: str, columns: dict[str, pa.Array], times: Vector, offsets: Vector, next_us: int) -> None:
        """Take in rows of an alias of the query, in order of time, as far as the next hop or a later one needs them."""
        for name, fields in self._fields.items():
            if self._origins[name].source.alias != alias:
                continue
            given = [columns[c.name] for c in (*fields.given, *fields.counted)]
            for column, values in zip((*fields.given, *fields.counted), given, strict=True):
                check_codes(values, f"{alias}.{column.name}")
            first_us = self.windows[name].add(times, offsets, partial(self._codes_of, given), next_us)
            self.waiting_us = min(self.waiting_us, first_us)
        if not self.eager:
            self._renew()

    def _codes_of(self, columns: Sequence[pa.Array], place: int, chosen: Chosen) -> Vector:
        """Return the codes of some values of a column."""
        values = columns[place]
        return self.coding.encode(values[chosen] if isinstance(chosen, slice) else values.take(pa.array(chosen)))

    def lineage(self) -> tuple[int, int]:
        """Return the time of the oldest row in the windows, and a fingerprint of all rows in them; FOREVER: none is."""
        oldest_us, prints = FOREVER, 0
        for source in self.plan.query.sources:
            times, offsets = self.windows[source.alias].stamps()
            if len(times):
                oldest_us = min(oldest_us, int(times.min()))
                prints += int(mixed(offsets, source.position).sum(dtype=np.uint64))
        return oldest_us, prints % 2**64

    def load(self, hop_us: int) -> None:
        """Be as after a hop, from the rows that were added."""
        self.last_us = hop_us
        self.waiting_us = FOREVER
        for window in self.windows.values():
            window.close(hop_us)
        self.count_arrivals(hop_us)
        # Operators that have seen nothing are not to be taken over.
        self.tree.rels.clear()
        self.switch_plan(self.plan)

    def work(self, hop_us: int) -> None:
        """Let operators that work by tuple work on what has come, for the hop to come."""
        started = time.perf_counter()
        given = self.tree.root.step(hop_us, False)
        self.waiting_us = FOREVER
        if given.signs is not None:
            self._given.append(given)
        self.spent_s += time.perf_counter() - started

    def answer(self, hop_us: int, stamp: Stamp | None = None) -> list[pa.RecordBatch]:
        """Close a hop: return the answer, or its change, in one batch or, of long texts, in several."""
        out = self._answer(hop_us, stamp or Stamp(hop_us, hop_us))
        self.count_arrivals(hop_us)
        self._renew()
        return out

    def close(self, hop_us: int) -> Tuples:
        """Close a hop; return what the root gives, as it is."""
        given = self.tree.root.step(hop_us, True)
        self.waiting_us = FOREVER
        for window in self.windows.values():
            window.close(hop_us)
        self.last_us = hop_us
        return given

    def _renew(self) -> None:
        """Number strings and decimals anew if they are many, those in the windows alone.

        Operators are given the state they had at the last hop; so they must not have worked since.
        """
        if self.coding.held <= self._renew_at:
            return
        old, self.coding = self.coding, Coding()
        for alias, fields in self._fields.items():
            types = [c.type for c in (*fields.given, *fields.counted)]
            self.windows[alias].recode([partial(_recoded, old, self.coding, t) for t in types])
        self.tree.rels.clear()
        self.switch_plan(self.plan)
        self._renew_at = 2 * self.coding.held + SLACK

    def _answer(self, hop_us: int, stamp: Stamp) -> list[pa.RecordBatch]:
        started = time.perf_counter()
        given = self.close(hop_us)
        if self.plan.query.emit != DELTA:
            self.spent_s += time.perf_counter() - started
            return self.emission.leaving(stamp, given.rows)
        if given.signs is not None:
            rows, signs = self.emission.change_by(hop_us, together([*self._given, given]))
            self._given = []
        else:
            rows, signs = self.emission.change_to(given)
        self.spent_s += time.perf_counter() - started
        return self.emission.leaving(stamp, rows, signs)

    @property
    def idle(self) -> bool:
        """Tell whether no window holds a row."""
        return not any(w.tuples for w in self.windows.values())

    def size(self) -> StateSize:
        """Return what windows and operators hold."""
        held: list[Node | Emission | HopWindow] = [*self.tree.nodes.values(), self.emission, *self.windows.values()]
        return StateSize(sum(h.tuples for h in held), sum(h.nbytes for h in held) + self.coding.nbytes)

    @property
    def tested(self) -> int:
        """Return how many tuples, pairs and values operators have looked at."""
        return self._tested + sum(n.core.tested for n in self.tree.nodes.values())

    @property
    def flips(self) -> int:
        """Return how often a value came into a difference or left it before its time."""
        return self._flips + sum(n.flips for n in self.tree.nodes.values())

    def switch_plan(self, plan: Plan) -> Progress:
        """Go on with another plan, right after a hop that was answered, or before the first.

        Operators over the same relation that read deltas before and after are matched: taken over as they were. The
        states of others are computed from the windows, at once.
        """
        before = self.tree
        self._tested, self._flips = self.tested, self.flips
        windows = self._windows_for(plan)
        self.plan, self.windows = plan, windows
        self._origins, self._fields = origins(plan), window_columns(plan)
        self.tree = build(plan, windows, self.coding)
        held = {old_rel: before.nodes[path] for path, old_rel in before.rels.items() if before.nodes[path].reads_delta}
        relations = _Relations(self.last_us or 0) if self.last_us is not None else None
        matched = computed = 0
        for path, node in self.tree.nodes.items():
            taken = held.get(self.tree.rels[path]) if node.reads_delta else None
            same = taken is not None and _interchangeable(taken, node)
            if taken is not None and same:
                node.core = taken.core
                node.account.kept = taken.account.kept
                if hasattr(node.core, "by_tuple"):
                    node.core.by_tuple = node.by_tuple
                self._tested -= node.core.tested
                self._flips -= node.flips
            matched += same
            computed += not same and (node.reads_delta or node.mode == "CIDO")
            if relations is not None:
                relations.load(node, same)
        self.emission = Emission(plan.query.root.columns, self.coding)
        if relations is not None and plan.query.emit == DELTA:
            self.emission.load(self.last_us or 0, relations.of(self.tree.root), self.tree.root.reads_delta)
        return Progress(
            states_matched=matched,
            states_incomplete=computed,
            states_completed=computed,
            entries_completed=relations.tuples if relations else 0,
        )


def _recoded(old: Coding, new: Coding, t: pa.DataType, codes: Vector) -> Vector:
    return new.encode(old.decode(codes, t, large=True)) if is_numbered(t) else codes


def _interchangeable(a: Node, b: Node) -> bool:
    """Tell whether an operator over the same relation can take another's place with what it holds."""
    return a.layout == b.layout and type(a.core) is type(b.core) and _shapes(a) == _shapes(b)


def _shapes(node: Node) -> list[tuple[object, ...]]:
    """Return the columns a node reads, input by input."""
    found: list[tuple[object, ...]] = []
    for below in node.below:
        inner = below.below if isinstance(below, Shaped) else below
        layout = inner.layout if isinstance(inner, Node | Leaf) else None
        found.append((below.width, layout))
    return found


class _Relations:
    """The complete relations of a tree at a hop, each computed once, from the rows in the windows."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._found: dict[int, Tuples] = {}
        self.tuples = 0

    def of(self, given: Input) -> Tuples:
        """Return the complete relation of a node."""
        if id(given) not in self._found:
            self._found[id(given)] = self._compute(given)
        return self._found[id(given)]

    def _compute(self, given: Input) -> Tuples:
        if isinstance(given, Leaf):
            return given.window.at_last_hop()
        if isinstance(given, Shaped):
            return given.project.complete(self._now_us, self.of(given.below))
        assert isinstance(given, Node), "inputs are windows, shaped inputs and nodes"
        with _uncounted(given):
            out: Tuples = given.core.complete(self._now_us, *self._inputs(given))
        return out

    def _inputs(self, node: Node) -> list[Any]:
        return [self._pieces(b) if node.gathers else self.of(b) for b in node.below]

    def _pieces(self, given: Input) -> Iterator[Tuples]:
        """Yield a relation in pieces, if it can be computed so and is not known yet."""
        if isinstance(given, Shaped):
            yield from (given.project.complete(self._now_us, piece) for piece in self._pieces(given.below))
        elif id(given) in self._found or not isinstance(given, Node) or not hasattr(given.core, "in_pieces"):
            yield self.of(given)
        else:
            inputs: Iterable[Any] = [[(self._pieces if given.gathers else self.of)(b) for b in given.below]]
            if isinstance(given.core, ByRow):
                inputs = ([piece] for below in given.below for piece in self._pieces(below))
            for some in inputs:
                with _uncounted(given):
                    yield from given.core.in_pieces(self._now_us, *some)

    def load(self, node: Node, keep_core: bool) -> None:
        """Give a node the state it would have."""
        if node.reads_delta or node.compare is not None:
            inputs = self._inputs(node) if node.reads_delta and not keep_core else []
            output = self.of(node) if node.cache is not None or node.compare is not None else None
            inputs = [self._counted(i) if node.gathers else next(self._counted([i])) for i in inputs]
            self.tuples += len(output) if output is not None else 0
            node.load(self._now_us, inputs, output, keep_core)

    def _counted(self, pieces: Iterable[Tuples]) -> Iterator[Tuples]:
        for piece in pieces:
            self.tuples += len(piece)
            yield piece


@contextmanager
def _uncounted(node: Node) -> Iterator[None]:
    """Let a node compute its relation without counting what it looks at."""
    tested, flips = node.core.tested, node.flips
    yield
    node.core.tested = tested
    assert node.flips == flips, "complete relations do not flip"

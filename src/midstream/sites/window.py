"""The window of a stream that a node keeps, be it its own or one that is shipped to it.

    rows of the stream, in order ──▶ row store ──▶ SteM ◀── partial results probe
                                        └──▶ copies for other nodes, exports

State: the rows that a head to come may still find, their SteM, and how far the stream has come here. Rows are kept as
they arrived, the filters dropping entries only: so any window can be copied, and built again from its rows.

Numbers. Entries of a SteM are compared by sequence numbers. Here every row of the stream has twice its place among
those of the stream, and a row that heads partial results has the odd number between the rows before it and those after
it. So streams need not wait for each other to be numbered together, and heads may come in any order.
"""

from copy import copy

import numpy as np

from midstream.kernels.arrays import Matrix, Vector
from midstream.kernels.entries import DEADLINE as _DEADLINE
from midstream.kernels.entries import KEY, LATEST, ROWS, TIME
from midstream.model.batch import Arrival
from midstream.model.time import FOREVER_US, NEVER
from midstream.operators.expression.evaluate import truth_of_all
from midstream.operators.sliding.check import check_of
from midstream.operators.sliding.extend import Round, extend
from midstream.operators.sliding.stem import Stem, StemSpec
from midstream.operators.source.row_store import Holder, RowStore
from midstream.operators.source.scan import Scan, ScanSpec, TakenRows
from midstream.operators.source.sources import Renumbering, Sources
from midstream.operators.source.tape import Tape
from midstream.operators.source.window import EvictionTable
from midstream.plan.window import RangeWindow
from midstream.sites.partials import Part, Partials
from midstream.sites.query import JoinedQuery

DEADLINE = _DEADLINE
PIECE_ROWS = 1 << 10
"""Room for what partial results become before it has to grow."""


class NodeWindow:
    """The window of one stream at one node.

    Invariant: for every head from `complete_us` on and before `covered_us` all rows it can meet are here.
    """

    def __init__(self, query: JoinedQuery, alias: str, from_us: int = NEVER) -> None:
        self.query = query
        self.alias = alias
        self.spec: StemSpec = query.stems[alias]
        self.covered_us = from_us
        """All rows of the stream before this time have come."""
        self.complete_us = from_us
        source = query.source(alias)
        counted = not isinstance(source.window, RangeWindow)
        table = EvictionTable(1 if counted else 0)
        line = 0 if counted else -1
        columns = query.types[alias]
        scan = Scan(ScanSpec(alias, source.position, source.window, (), columns, (), line, True), table)
        self.sources = Sources({alias: scan}, table, {})
        self.stem = Stem(self.spec, self.sources)
        self._times, self._offsets = Tape(np.int64), Tape(np.int64)
        """Of every row that came and is not before all heads to come."""
        self.added = 0
        """Rows that were put in."""
        self.floor_us = NEVER
        """No head to come is before this time."""

    def detached(self) -> "NodeWindow":
        """Return the window without the query, to be kept where only states are; it shares them."""
        window = copy(self)
        del window.query, window.spec
        return window

    def attach(self, query: JoinedQuery) -> None:
        """Know the query again."""
        self.query, self.spec = query, query.stems[self.alias]

    @property
    def scan(self) -> Scan:
        """Return what keeps the rows."""
        return self.sources.scans[self.alias]

    @property
    def rows(self) -> int:
        """Return how many rows are kept."""
        return len(self.scan.store)

    @property
    def nbytes(self) -> int:
        """Return the memory held."""
        return self.sources.nbytes + self.stem.state.nbytes + self.stem.index_bytes

    def add(self, part: Part, upto_us: int) -> None:
        """Take in the next rows of the stream, which are all before a time."""
        self.added += len(part)
        if len(part):
            first = self._times.base + len(self._times)
            self._times.append(part.times)
            self._offsets.append(part.offsets)
            numbers = 2 * np.arange(first, first + len(part), dtype=np.int64)
            arrival = Arrival(part.times, part.offsets, numbers, part.columns)
            entries = entries_of(self.query, self.spec, self.scan.on_rows(arrival))
            if len(entries):
                self.stem.insert(entries, self.floor_us, self._number_before(self.floor_us))
        self.covered_us = max(self.covered_us, upto_us)

    def _number_before(self, time_us: int) -> int:
        """Return the number of a head that comes before all rows from a time on."""
        return 2 * (self._times.base + int(np.searchsorted(self._times.view(), time_us))) - 1

    def expire(self, floor_us: int) -> None:
        """Forget the rows that no head from a time on can meet."""
        if floor_us <= self.floor_us:
            return
        self.floor_us = floor_us
        self.complete_us = max(self.complete_us, floor_us)
        base = self.scan.store.base
        places = self.scan.expire(floor_us, self._number_before(floor_us))
        if places is not None:
            self.stem.renumber(Renumbering(self.alias, places, base))
        gone = int(np.searchsorted(self._times.view(), floor_us))
        self._times.drop_front(gone)
        self._offsets.drop_front(gone)

    def live(self, at_us: int, since_us: int = NEVER) -> Part:
        """Return the rows, from a time on, that heads from `at_us` on can meet."""
        scan, store = self.scan, self.scan.store
        times = store.times.view()
        wanted = times >= since_us
        if isinstance(scan.spec.window, RangeWindow):
            # Times are far from the ends of what 64 bits hold, unless they stand for never.
            wanted &= times >= (at_us if at_us == NEVER else at_us - scan.spec.window.width_us)
        else:
            start = store.base - int(self.sources.evictions.bases[0])
            ends = self.sources.evictions.view(0)[start : start + len(times)]
            wanted &= ends > self._number_before(at_us)
        places = np.flatnonzero(wanted)
        assert store.offsets is not None
        columns = {name: store.take(name, places + store.base) for name in store.columns}
        return Part(times[places].copy(), store.offsets.view()[places].copy(), columns)

    def heads_numbered(self, head: str, part: Part) -> Vector:
        """Return a number for each head that is after those of the rows before it and before those of the others."""
        times, heads = self._times.view(), part.times
        mine, other = self.query.place(self.alias), self.query.place(head)
        if mine[0] < other[0]:
            counts = np.searchsorted(times, heads, side="right")
        elif mine[0] > other[0]:
            counts = np.searchsorted(times, heads, side="left")
        else:
            # Rows of one stream under two names: the earlier offset goes first, then the earlier name.
            offsets = np.concatenate([self._offsets.view(), part.offsets])
            is_head = np.repeat([False, True], [len(times), len(heads)])
            order = np.lexsort((is_head == (mine[1] < other[1]), offsets, np.concatenate([times, heads])))
            counts = np.empty(len(order), np.int64)
            counts[order] = np.cumsum(~is_head[order])
            counts = counts[len(times) :]
        return np.asarray(2 * (self._times.base + counts) - 1, np.int64)

    def probe(self, partials: Partials) -> tuple[Partials, int]:
        """Extend partial results by the rows they match here; return them, and how many pairs were tested."""
        query, width = self.query, len(partials.path)
        codes = query.codes
        batch = np.empty((len(partials), ROWS + codes + width), np.int64)
        batch[:, KEY], batch[:, ROWS : ROWS + codes] = partials.codes[:, 0], partials.codes[:, 1:]
        batch[:, LATEST] = self.heads_numbered(partials.path[0], partials.head)
        batch[:, DEADLINE], batch[:, TIME] = FOREVER_US, partials.head.times
        batch[:, ROWS + codes :] = np.arange(len(partials))[:, None]
        path = tuple(query.rank(a) for a in partials.path)
        done = sum(1 << p for p in path)
        checks = self.spec.checks(path, done)
        holders = {a: visiting(query, a, p) for a, p in partials.parts.items()} if checks else {}
        stores: dict[str, Holder] = {**holders, self.alias: self.scan}
        components = (*partials.path, self.alias)
        verified = [check_of(c, components, stores) for c in checks]

        def keep(out: Matrix, start: int, stop: int) -> int:
            candidates = out[start:stop]
            for check in verified:
                if len(candidates):
                    candidates = candidates[check(candidates[:, codes:])]
            out[start : start + len(candidates)] = candidates
            return start + len(candidates)

        flow = Round(
            batch,
            np.empty((max(PIECE_ROWS, len(batch)), batch.shape[1] + 1), np.int64),
            NEVER,
            -1,
            lambda columns, words: np.empty((words // columns, columns), np.int64),
        )
        lane = np.zeros(1, np.int64), np.array([len(batch)], np.int64), np.zeros(1, np.int64)
        tested = extend(self.stem, self.spec.active(done), *lane, flow, keep)
        return self._extended(partials, flow.out[: flow.written]), tested

    def _extended(self, partials: Partials, out: Matrix) -> Partials:
        """Return what partial results became: what they carried, and the rows found here."""
        codes, store = self.query.codes, self.scan.store
        which, rows = out[:, ROWS + codes], out[:, -1]
        assert store.offsets is not None
        at = rows - store.base
        columns = {name: store.take(name, rows) for name in self.query.carried(self.alias)}
        found = Part(store.times.view()[at], store.offsets.view()[at], columns)
        parts = {alias: part.take(which) for alias, part in partials.parts.items()}
        coded = np.column_stack([out[:, KEY], out[:, ROWS : ROWS + codes]])
        return Partials((*partials.path, self.alias), coded, {**parts, self.alias: found})


class Visiting:
    """Rows that partial results carry, in a store as checks read it."""

    def __init__(self, store: RowStore) -> None:
        self.store = store


def visiting(query: JoinedQuery, alias: str, part: Part) -> Visiting:
    """Return the rows of an alias in partial results, numbered as these are."""
    store = RowStore({name: query.types[alias][name] for name in part.columns}, 0, True)
    store.append(part.times, part.offsets, part.columns, [])
    return Visiting(store)


def entries_of(query: JoinedQuery, spec: StemSpec, taken: TakenRows) -> Matrix:
    """Return rows as entries of a SteM, without those that the filters drop or that can match nothing."""
    entries = taken.batch(spec.leaf)
    filters = query.filters[spec.alias]
    if not filters or not len(entries):
        return entries
    passed = truth_of_all(filters, len(taken.rows), lambda column: taken.rows.columns[column.name])
    return entries[passed[entries[:, ROWS] - taken.first]]


def _useful(query: JoinedQuery, alias: str, part: Part) -> Matrix:
    """Return as entries the rows of a stream that can be part of a result; row numbers are their places."""
    numbers = np.arange(len(part), dtype=np.int64)
    taken = TakenRows(Arrival(part.times, part.offsets, numbers, part.columns), 0, query.source(alias).window)
    return entries_of(query, query.stems[alias], taken)


def shipped(query: JoinedQuery, alias: str, part: Part) -> Part:
    """Return the rows that other nodes need: in a counted window, rows that the filters drop count as well."""
    if not len(part) or not isinstance(query.source(alias).window, RangeWindow):
        return part
    useful = _useful(query, alias, part)
    return part if len(useful) == len(part) else part.take(useful[:, ROWS])


def heads_of(query: JoinedQuery, alias: str, part: Part) -> Partials:
    """Return new rows of a stream as partial results of one row, without those that can be part of no result."""
    if query.never or not len(part):
        return Partials.none((alias,), 1 + query.codes)
    entries = _useful(query, alias, part)
    codes = np.zeros((len(entries), 1 + query.codes), np.int64)
    for code in query.stems[alias].codes:
        codes[:, 0 if code.carried == KEY else 1 + code.carried - ROWS] = entries[:, code.held]
    kept = part if len(entries) == len(part) else part.take(entries[:, ROWS])
    return Partials((alias,), codes, {alias: kept.only(query.carried(alias))})

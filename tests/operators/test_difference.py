"""The difference chain against recomputing the answer from scratch at every event."""

import pickle
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from midstream.kernels.difference import OUT_ALIAS, OUT_EXPIRY, OUT_ROW, OUT_SEQ, OUT_SIGN, OUT_TIME
from midstream.model.errors import PlanError, StateError
from midstream.operators.difference.chain import CodedRows, DifferenceChain
from midstream.plan.expr import Column
from midstream.plan.window import RangeWindow, RowsWindow, Window
from seeds import seeds

Change = tuple[int, int, int, int, str, int]
"""Time, sign, the outer row's seq, whether by expiry, alias and seq of the row that came or expired."""


@dataclass(frozen=True)
class Row:
    """A row under one alias; unwanted rows have no value and still take a place in a counted window."""

    alias: str
    seq: int
    time: int
    value: int | None
    part: int


@dataclass
class Case:
    windows: dict[str, Window]
    rows: list[Row]
    order: tuple[str, ...]


def draw_case(rnd: random.Random, aliases: str, most_rows: int = 60) -> Case:
    windows: dict[str, Window] = {alias: draw_window(rnd) for alias in rnd.sample(aliases, len(aliases))}
    values, gaps = rnd.choice([1, 2, 3, 5, 12]), rnd.choice([(0,), (0, 1), (0, 0, 1, 2), (0, 1, 3, 9)])
    heavy = rnd.choice([aliases, aliases, aliases + "a" * 4])
    rows: list[Row] = []
    time = rnd.choice([0, -20, 1_000_000])
    shared = rnd.random() < 0.2
    while len(rows) < most_rows:
        time += rnd.choice(gaps)
        value = None if rnd.random() < 0.05 else rnd.randrange(values)
        part = rnd.randrange(3)
        # A self-difference: the same row under every alias, each with a number of its own.
        for alias in aliases if shared else rnd.choice(heavy):
            rows.append(Row(alias, 2 * len(rows) + rnd.randrange(2), time, value, part))
    return Case(windows, rows, draw_order(rnd, aliases))


def draw_window(rnd: random.Random) -> Window:
    kind = rnd.randrange(3)
    if kind == 0:
        return RangeWindow(rnd.choice([0, 1, 2, 5, 20]))
    return RowsWindow(rnd.choice([1, 2, 3, 7]), (Column("x", "part", pa.int64()),) if kind == 1 else ())


def draw_order(rnd: random.Random, aliases: str) -> tuple[str, ...]:
    return aliases[0], *rnd.sample(aliases[1:], len(aliases) - 1)


def in_window(case: Case, alias: str, events: list[tuple[int, int, int, Row]]) -> list[Row]:
    """Return the rows with a value in a window after these events, oldest first, by the definition of the window."""
    window = case.windows[alias]
    came = [row for _, arrival, _, row in events if arrival and row.alias == alias]
    if isinstance(window, RowsWindow):
        parts = {row.part for row in came} if window.partition_by else {None}
        queues = [[r for r in came if part is None or r.part == part] for part in parts]
        inside = sorted((r for queue in queues for r in queue[-window.count :]), key=lambda r: r.seq)
    else:
        gone = {row.seq for _, arrival, _, row in events if not arrival}
        inside = [row for row in came if row.seq not in gone]
    return [row for row in inside if row.value is not None]


def recompute(case: Case, levels: Callable[[int, dict[str, list[Row]]], None] | None = None) -> list[Change]:
    """Return all changes: at every event, the answer from scratch against the answer before."""
    events = [(row.time, 1, row.seq, row) for row in case.rows]
    for row in case.rows:
        window = case.windows[row.alias]
        if isinstance(window, RangeWindow) and row.value is not None:
            events.append((row.time + window.width_us + 1, 0, row.seq, row))
    events = sorted(e for e in events if e[0] <= case.rows[-1].time)
    outer, others = case.order[0], case.order[1:]
    answer: set[int | None] = set()
    before: list[Row] = []
    out: list[Change] = []
    for n, (time, arrival, seq, row) in enumerate(events):
        windows = {alias: in_window(case, alias, events[: n + 1]) for alias in case.windows}
        now = {r.value for r in windows[outer]} - {r.value for alias in others for r in windows[alias]}
        for sign, changed in ((-1, answer - now), (1, now - answer)):
            for value in changed:
                holders = [r for r in windows[outer] if r.value == value] or [r for r in before if r.value == value]
                out.append((time, sign, holders[-1].seq, 1 - arrival, row.alias, seq))
        answer, before = now, windows[outer]
        if arrival and levels is not None:
            levels(seq, windows)
    return out


@dataclass
class Feeder:
    """What is around a chain in an engine: row numbers, and which row each one pushes out of a counted window."""

    case: Case
    chain: DifferenceChain
    stores: dict[str, list[Row]] = field(default_factory=dict)
    queues: dict[tuple[str, int], deque[Row]] = field(default_factory=dict)

    def feed(self, rows: list[Row]) -> list[Change]:
        """Hand rows to the chain as one batch and return its changes with sequence numbers for row numbers."""
        parts: dict[str, list[tuple[int, int, int, int, int, int]]] = {}
        for row in rows:
            store = self.stores.setdefault(row.alias, [])
            pushed = self.push(row)
            number = -1
            if row.value is not None:
                number = len(store)
                store.append(row)
            place = store.index(pushed) if pushed is not None and pushed.value is not None else -1
            words = coded(row.value or 0)
            parts.setdefault(row.alias, []).append((row.time, row.seq, number, place, *words))
        batches = {alias: coded_rows(np.array(part, np.int64)) for alias, part in parts.items()}
        changes = self.chain.on_rows(batches)
        outer = self.stores.get(self.case.order[0], [])
        return [
            (
                c[OUT_TIME],
                c[OUT_SIGN],
                outer[c[OUT_ROW]].seq,
                c[OUT_EXPIRY],
                self.chain.aliases[c[OUT_ALIAS]],
                c[OUT_SEQ],
            )
            for c in changes.tolist()
        ]

    def push(self, row: Row) -> Row | None:
        window = self.case.windows[row.alias]
        if isinstance(window, RangeWindow):
            return None
        queue = self.queues.setdefault((row.alias, row.part if window.partition_by else 0), deque())
        queue.append(row)
        return queue.popleft() if len(queue) > window.count else None

    def renumber(self, rnd: random.Random) -> None:
        """Let go of rows that have left a counted window, and number the others anew."""
        for alias, store in self.stores.items():
            if isinstance(self.case.windows[alias], RowsWindow) and rnd.random() < 0.5:
                inside = [r for (a, _), queue in self.queues.items() if a == alias for r in queue]
                kept = [row for row in store if row in inside]
                places = [kept.index(row) if row in kept else -1 for row in store]
                self.chain.renumber(alias, np.array(places, np.int64), 0)
                self.stores[alias] = kept


def coded(value: int) -> tuple[int, int]:
    """Code a value so that neither word alone tells it."""
    return value // 2, -(value % 2) - 7


def coded_rows(part: npt.NDArray[np.int64]) -> CodedRows:
    return CodedRows(part[:, 0], part[:, 1], part[:, 2], part[:, 4:6], part[:, 3])


def cut(rnd: random.Random, rows: list[Row], most: int) -> Iterator[list[Row]]:
    at = 0
    while at < len(rows):
        size = rnd.randint(1, most)
        yield rows[at : at + size]
        at += size


def true_sizes(order: tuple[str, ...], windows: dict[str, list[Row]]) -> list[int]:
    """Return how many values belong into each level of an order."""
    left = {row.value for row in windows[order[0]]}
    sizes = []
    for alias in order[1:]:
        left -= {row.value for row in windows[alias]}
        sizes.append(len(left))
    return sizes


@pytest.fixture
def cramped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no room to spare, so that few rows are enough to have everything moved."""
    monkeypatch.setattr("midstream.operators.difference.chain.SMALLEST", 1)
    monkeypatch.setattr("midstream.operators.difference.chain.ROOM", 1.1)


@pytest.mark.usefixtures("cramped")
@pytest.mark.parametrize("seed", seeds(0, 300, quick=20))
def test_changes_equal_recomputing_whatever_the_batches_and_orders(seed: int) -> None:
    rnd = random.Random(seed)
    case = draw_case(rnd, "abcde"[: rnd.randint(2, 5)])
    windows_at: dict[int, dict[str, list[Row]]] = {}
    expected = recompute(case, windows_at.__setitem__)
    for most, migrations, disturbed in ((len(case.rows), 0, False), (rnd.choice([1, 3, 15]), rnd.randint(0, 5), True)):
        feeder = Feeder(case, DifferenceChain(case.windows, case.order))
        batches = list(cut(rnd, case.rows, most))
        moments = [rnd.randrange(len(batches)) for _ in range(migrations)]
        got: list[Change] = []
        for k, batch in enumerate(batches):
            for _ in range(moments.count(k)):
                feeder.chain.migrate(draw_order(rnd, "".join(sorted(case.windows))))
            got += feeder.feed(batch)
            if disturbed and rnd.random() < 0.2:
                feeder.chain = pickle.loads(pickle.dumps(feeder.chain))
            if disturbed and rnd.random() < 0.2:
                feeder.renumber(rnd)
            check_levels(feeder.chain, windows_at[batch[-1].seq])
        assert got == expected


def check_levels(chain: DifferenceChain, windows: dict[str, list[Row]]) -> None:
    """Compare the states of complete levels with what belongs there; incomplete ones have no more than that."""
    for level, true in zip(chain.levels, true_sizes(chain.order, windows), strict=True):
        assert chain.sizes[level] <= true
        assert level in chain.pending or chain.sizes[level] == true
    assert chain.levels[-1] not in chain.pending
    outer = {row.value for row in windows[chain.order[0]]}
    assert all(0 < n <= len(outer) for n in chain.pending.values())
    assert chain.state_tuples == sum(map(len, windows.values())) + sum(chain.sizes.values())


@pytest.mark.parametrize("seed", seeds(0, 20, quick=3))
def test_more_migrations_than_a_value_has_bits(seed: int) -> None:
    rnd = random.Random(seed)
    case = draw_case(rnd, "abcde", most_rows=80)
    feeder = Feeder(case, DifferenceChain(case.windows, case.order))
    got: list[Change] = []
    for row in case.rows:
        feeder.chain.migrate(draw_order(rnd, "abcde"))
        got += feeder.feed([row])
    assert got == recompute(case)


def feeder_of(windows: dict[str, Window], first: str = "") -> Feeder:
    """Start a chain over windows in the order they are given, and hand it rows."""
    feeder = Feeder(Case(windows, [], tuple(windows)), DifferenceChain(windows, tuple(windows)))
    feeder.feed(rows_of(first))
    return feeder


def rows_of(text: str, seq: int = 0) -> list[Row]:
    """Read rows written as `alias value @ time`, for example `a1@0 b2@5`."""
    rows = []
    for n, word in enumerate(text.split()):
        value, time = word[1:].split("@")
        rows.append(Row(word[0], seq + n, int(time), int(value), 0))
    return rows


def signs(changes: list[Change]) -> list[tuple[int, int, int]]:
    """Keep time, sign and the outer row's seq."""
    return [change[:3] for change in changes]


def test_a_window_of_one_row_replaces_a_value_in_one_event() -> None:
    feeder = feeder_of({"a": RowsWindow(1), "b": RangeWindow(10)})
    got = feeder.feed(rows_of("a1@0 a1@1 a2@2 b2@3 a2@14"))
    assert got == [
        (0, 1, 0, 0, "a", 0),
        (2, -1, 1, 0, "a", 2),  # one event takes 1 out before it brings 2 in
        (2, 1, 2, 0, "a", 2),
        (3, -1, 2, 0, "b", 3),
        (14, 1, 2, 1, "b", 3),  # the row of b has expired just before the next one arrives
    ]


def test_a_stream_less_itself_flickers() -> None:
    feeder = feeder_of({"a": RangeWindow(5), "b": RangeWindow(5)})
    assert signs(feeder.feed(rows_of("a1@0 b1@0 a2@20 b2@20"))) == [(0, 1, 0), (0, -1, 0), (20, 1, 2), (20, -1, 2)]


def test_a_stream_less_its_own_recent_past() -> None:
    feeder = feeder_of({"a": RangeWindow(9), "b": RangeWindow(2)})
    got = signs(feeder.feed(rows_of("a1@0 b1@0 a2@4 b2@4 a3@30 b3@30")))
    assert got[:5] == [(0, 1, 0), (0, -1, 0), (3, 1, 0), (4, 1, 2), (4, -1, 2)]
    assert got[5:] == [(7, 1, 2), (10, -1, 0), (14, -1, 2), (30, 1, 4), (30, -1, 4)]


FOUR: dict[str, Window] = {alias: RangeWindow(100) for alias in "abcd"}


def test_a_new_level_is_incomplete_and_passes_probes_on_to_the_top() -> None:
    feeder = feeder_of(FOUR, "a1@0 a2@0 a3@0 a4@0 b4@0")
    chain = feeder.chain
    assert chain.sizes == {("a", "b"): 3, ("a", "b", "c"): 3, ("a", "b", "c", "d"): 3}

    found = chain.migrate(("a", "d", "b", "c"))
    assert found.matched == (("a", "d", "b", "c"),)
    assert found.incomplete == (("a", "d"), ("a", "d", "b"))
    assert chain.pending == {("a", "d"): 4, ("a", "d", "b"): 4}
    assert chain.sizes == {("a", "d"): 0, ("a", "d", "b"): 0, ("a", "d", "b", "c"): 3}

    # A row of d probes (a d) and (a d b), which do not know, then the top, which does.
    probed = chain.predicate_evaluations
    assert signs(feeder.feed(rows_of("d1@1", 10))) == [(1, -1, 0)]
    assert chain.predicate_evaluations - probed == 3
    assert chain.pending == {("a", "d"): 3, ("a", "d", "b"): 3}

    # A row of b does not come by (a d): (a d b) does not know, the top does. Its value is settled above.
    probed = chain.predicate_evaluations
    assert signs(feeder.feed(rows_of("b2@2", 20))) == [(2, -1, 1)]
    assert chain.predicate_evaluations - probed == 2
    assert chain.pending == {("a", "d"): 3, ("a", "d", "b"): 2}

    # Of a value that was attempted the levels know: the second probe ends where the first one began.
    probed = chain.predicate_evaluations
    assert feeder.feed(rows_of("b1@3", 30)) == []
    assert chain.predicate_evaluations - probed == 1

    # Rows of the outer probe d, then b, and fill in both levels.
    assert feeder.feed(rows_of("a2@4 a3@4", 40)) == []
    assert chain.pending == {("a", "d"): 1, ("a", "d", "b"): 1}
    assert chain.sizes == {("a", "d"): 2, ("a", "d", "b"): 1, ("a", "d", "b", "c"): 1}

    # A value that b has held all along is not in b's level, which now knows; d's level learns by a row of its own.
    assert feeder.feed(rows_of("b4@5", 50)) == []
    assert chain.pending == {("a", "d"): 1}
    probed = chain.predicate_evaluations
    assert feeder.feed(rows_of("d4@6", 60)) == []
    assert (chain.predicate_evaluations - probed, chain.pending) == (2, {})

    # Complete levels answer at once, even of values never seen.
    probed = chain.predicate_evaluations
    assert feeder.feed(rows_of("d9@7 b9@7 c9@7", 70)) == []
    assert chain.predicate_evaluations - probed == 3


def test_a_level_is_complete_once_nothing_old_remains() -> None:
    feeder = feeder_of(FOUR, "a1@0 a2@0 a3@50 b3@50")
    feeder.chain.migrate(("a", "d", "c", "b"))
    assert feeder.feed(rows_of("a7@60", 10)) == [(60, 1, 10, 0, "a", 10)]
    assert set(feeder.chain.pending.values()) == {3}
    assert signs(feeder.feed(rows_of("c8@101", 20))) == [(101, -1, 0), (101, -1, 1)]
    assert set(feeder.chain.pending.values()) == {1}
    feeder.feed(rows_of("c8@151", 30))
    assert feeder.chain.pending == {}


def test_an_expiring_row_has_the_levels_below_completed() -> None:
    feeder = feeder_of({**FOUR, "b": RangeWindow(10)}, "a1@0 b1@0 a2@0 b2@0 d2@0")
    feeder.chain.migrate(("a", "c", "d", "b"))
    assert signs(feeder.feed(rows_of("c8@11", 10))) == [(11, 1, 0)]
    assert feeder.chain.pending == {}
    assert feeder.chain.sizes == {("a", "c"): 2, ("a", "c", "d"): 1, ("a", "c", "d", "b"): 1}


def test_an_overlapped_transition_keeps_what_is_incomplete_so() -> None:
    feeder = feeder_of(FOUR, "a1@0 a2@0")
    chain = feeder.chain
    chain.migrate(("a", "d", "b", "c"))
    feeder.feed(rows_of("d1@1", 10))
    found = chain.migrate(("a", "b", "d", "c"))
    assert found.matched == (("a", "b", "d"), ("a", "b", "d", "c"))
    assert found.incomplete == (("a", "b"), ("a", "b", "d"))
    assert chain.pending == {("a", "b"): 2, ("a", "b", "d"): 1}
    # Back where it began, the states are the old ones no more.
    found = chain.migrate(("a", "b", "c", "d"))
    assert found.matched == (("a", "b"), ("a", "b", "c", "d"))
    assert found.incomplete == (("a", "b"), ("a", "b", "c"))


def test_with_an_empty_outer_all_levels_are_complete() -> None:
    feeder = feeder_of(FOUR, "b1@0 c2@0")
    assert feeder.chain.migrate(("a", "d", "c", "b")).incomplete == ()


def test_dead_values_are_dropped() -> None:
    chain = DifferenceChain({"a": RangeWindow(500), "b": RowsWindow(300)}, ("a", "b"))
    held, changed = [], 0
    for step in range(200):
        n = np.arange(100 * step, 100 * step + 100)
        codes = np.column_stack([n, n * 7])
        a = CodedRows(n, 2 * n, n, codes)
        b = CodedRows(n, 2 * n + 1, n, codes + 1, np.where(n < 300, -1, n - 300))
        changed += len(chain.on_rows({"a": a, "b": b}))
        held.append(chain.nbytes)
    assert changed == 20_000 + 20_000 - 501
    assert chain.state_tuples == 501 + 300 + 501
    assert max(held) <= 1.5 * max(held[:20])


def test_the_window_and_the_order_must_fit() -> None:
    with pytest.raises(PlanError, match="'b' needs a window"):
        DifferenceChain({"a": RangeWindow(1), "b": None}, ("a", "b"))
    with pytest.raises(PlanError, match=r"\(a c\) is no order of a difference of a, b"):
        DifferenceChain({"a": RangeWindow(1), "b": RangeWindow(1)}, ("a", "c"))
    feeder = feeder_of(FOUR, "a1@0")
    for order in (("b", "a", "c", "d"), ("a", "b", "c"), ("a", "b", "c", "c"), ()):
        with pytest.raises(PlanError, match="is no other order of the difference"):
            feeder.chain.migrate(order)
    assert feeder.chain.order == ("a", "b", "c", "d")


def test_rows_must_say_what_they_push_out_and_that_must_be_there() -> None:
    chain = DifferenceChain({"a": RowsWindow(2), "b": RangeWindow(1)}, ("a", "b"))
    one, codes = np.array([1]), np.array([[1, 1]])
    with pytest.raises(StateError, match="rows of 'a' do not say which rows they push out"):
        chain.on_rows({"a": CodedRows(one, one, one, codes)})
    # Row 2 leaves from between rows 1 and 3, and cannot do so twice.
    for number, pushed in ((1, -1), (2, -1), (3, 2)):
        chain.on_rows({"a": CodedRows(one, one * number, one * number, codes, one * pushed)})
    for pushed in (2, 9):
        with pytest.raises(StateError, match=f"row {pushed} cannot leave the window of 'a'"):
            pickle.loads(pickle.dumps(chain)).on_rows({"a": CodedRows(one, one * 4, one * 4, codes, one * pushed)})

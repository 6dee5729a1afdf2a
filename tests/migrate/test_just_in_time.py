"""Completing on demand costs what is asked for: at the switch, in every micro-batch, and in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from migrate.test_papers import SECOND, case_of, migrate, running

from benchmarks.direct import DirectRun
from midstream.engine.rows.rows import Rows
from midstream.kernels import complete, key_index
from midstream.migrate.just_in_time import JustInTime
from midstream.operators.sliding import backlog
from midstream.operators.sliding import key_index as indexes
from midstream.operators.sliding.feed import Feed
from midstream.operators.sliding.key_run import KeyRun
from midstream.operators.source import sources
from oracle.generate import Case
from oracle.test_moved_states import rows_between
from seeds import few_quick


@contextmanager
def entries_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the entries that are looked at one by one, to see whether they live, to index them or to lay them out."""
    seen: list[int] = []

    def live_before(entries: object, count: int, *others: object) -> object:
        seen.append(count)
        return complete.live_before(entries, count, *others)  # type: ignore[arg-type]

    with monkeypatch.context() as patched, laid_out_or_indexed(monkeypatch) as others:
        patched.setattr(sources, "live_before", live_before)
        yield seen
        seen += others


@contextmanager
def laid_out_or_indexed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the entries that are indexed or laid out anew."""
    seen: list[int] = []
    arrange = Feed.arrange

    def chain_entries(words: object, heads: object, side: int, entries: np.ndarray, start: int, *others: int) -> int:
        seen.append(len(entries) - start)
        return key_index.chain_entries(words, heads, side, entries, start, *others)  # type: ignore[arg-type]

    def arranged(self: Feed, entries: np.ndarray, components: tuple[str, ...]) -> np.ndarray:
        seen.append(len(entries))
        return arrange(self, entries, components)

    with monkeypatch.context() as patched:
        patched.setattr(indexes, "chain_entries", chain_entries)
        patched.setattr(Feed, "arrange", arranged)
        yield seen


def wide_case(rows: int, condition: str, keys: int = 1 << 40) -> Case:
    """Return a join of four streams whose windows hold all rows, by another condition than the first column."""
    case = case_of("abcd")
    rng = np.random.default_rng(5)
    for name in case.streams:
        columns = {c: rng.integers(0, keys, rows) for c in "kj"}
        case.streams[name] = pa.table({"ts": np.arange(rows) * (4 * SECOND // rows), **columns})
        case.windows[name] = ("range", 60 * SECOND, [])
    pairs = [condition.format(a=a, b=b) for a, b in ("ab", "bc", "cd")]
    case.conditions = [f"{pair} {MORE.get((condition, n), '')}" for n, pair in enumerate(pairs)]
    return case


CONDITIONS = {
    "one key": "{a}.k = {b}.k",
    "composite": "{a}.k = {b}.k AND {a}.j = {b}.j",
    "two": "{a}.k = {b}.j",
    "both": "({a}.k = {b}.k)",
}
MORE = {(CONDITIONS["both"], 1): "AND b.j = c.j"}
TARGET = "(((d c) b) a)"


OTHER_TARGETS = ("(((b a) d) c)", "(d ((b a) c))", "((a b) (c d))")
SWITCHES = [
    *few_quick((c, TARGET) for c in CONDITIONS),
    *(pytest.param(c, t, marks=pytest.mark.slow) for c in CONDITIONS for t in OTHER_TARGETS
      if (c, t) != ("two", "(((b a) d) c)")),
]  # fmt: skip


@pytest.mark.parametrize("rows", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("condition", "target"), SWITCHES)
def test_the_switch_costs_the_same_however_wide_the_windows_are(
    condition: str, target: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = []
    for count in (2_000, rows):
        keys = int(count**0.5) if condition == "composite" else count
        runtime = running(wide_case(count, CONDITIONS[condition], keys), 4 * SECOND - 100_000, "(((a b) c) d)")
        with entries_seen(monkeypatch) as seen:
            migrate(runtime, target, "just-in-time", 4 * SECOND - 100_000)
        cost.append(sum(seen))
    assert cost[1] <= max(2 * cost[0], 1 << 14), "no more than a block of each state is looked at"


def batches_after_the_switch(case: Case, runtime: DirectRun, count: int) -> list[dict[str, Rows]]:
    """Switch to another plan just in time; return the micro-batches after it, about 100 rows of each stream in each."""
    migrate(runtime, TARGET, "just-in-time", 3 * SECOND)
    return rows_between(case, runtime, [3 * SECOND + n * 4_000 for n in range(count + 1)])[1:]


@pytest.mark.parametrize("condition", few_quick(["composite", "two", "both"]))
def test_no_micro_batch_after_the_switch_lays_out_or_indexes_a_whole_state(
    condition: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = wide_case(100_000, CONDITIONS[condition])
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    passes = []
    plain = KeyRun.__init__

    def made(self: KeyRun, keys: np.ndarray, wanted: np.ndarray) -> None:
        passes.append(len(keys))
        plain(self, keys, wanted)

    monkeypatch.setattr(KeyRun, "__init__", made)
    for rows in batches_after_the_switch(case, runtime, 60):
        with laid_out_or_indexed(monkeypatch) as seen:
            for _ in runtime.on_rows(rows):
                pass
        assert sum(seen) < 6 * 2 * (backlog.PART + 400), "of each state as much as is asked for and a part"
    assert sum(passes) <= 6 * 75_000, "each state is passed over at most once for each key it is asked by"
    states = [s for join in runtime.pipelines[0].execution.joins() for s in join.states]  # type: ignore[attr-defined]
    assert not any(state.backlog for state in states), "in the end all of it is as if it had always been"


def test_what_expires_before_it_is_asked_for_is_never_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = wide_case(100_000, CONDITIONS["two"])
    for name in case.windows:
        case.windows[name] = ("range", SECOND // 2, [])
    monkeypatch.setattr(backlog, "PART", 500)
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    with laid_out_or_indexed(monkeypatch) as seen:
        migrate(runtime, TARGET, "just-in-time", 3 * SECOND)
        for rows in rows_between(case, runtime, [3 * SECOND + n * 50_000 for n in range(20)])[1:]:
            for _ in runtime.on_rows(rows):
                pass
    assert sum(seen) < 2 * 12_500, "most rows of both states have left before they are laid out, or indexed"


def test_a_backlog_is_part_of_the_state() -> None:
    case = wide_case(100_000, CONDITIONS["two"])
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    before = runtime.size()
    for rows in batches_after_the_switch(case, runtime, 3):
        for _ in runtime.on_rows(rows):
            pass
        execution = runtime.pipelines[0].execution
        assert isinstance(execution, JustInTime)
        states = [s for join in execution.joins() for s in join.states]
        left = [entries for state in states for entries in state.backlog]
        assert sum(len(entries) for entries in left) > 100_000
        assert runtime.size().tuples >= before.tuples
        held = sum(s.entries.nbytes for s in states) + sum(entries.entries.nbytes for entries in left)
        assert execution.size().nbytes > held


@pytest.mark.parametrize("condition", few_quick(CONDITIONS))
def test_a_micro_batch_looks_at_what_it_asks_for(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = wide_case(100_000, CONDITIONS[condition])
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    seen_each = []
    for rows in batches_after_the_switch(case, runtime, 70):
        with entries_seen(monkeypatch) as seen:
            for _ in runtime.on_rows(rows):
                pass
        seen_each.append(sum(seen))
    assert isinstance(runtime.pipelines[0].execution, JustInTime)
    assert max(seen_each[-10:]) < 20 * 400, "what is looked at is as much as the rows that came, not as the windows"


def attempted(runtime: DirectRun) -> int:
    execution = runtime.pipelines[0].execution
    assert isinstance(execution, JustInTime)
    return max(len(gap.attempted) for gap in execution.completion.gaps.values())


def test_keys_that_come_and_go_are_not_remembered() -> None:
    """Windows that never expire: one old key that is never asked for keeps the migration going."""
    case = case_of("abc")
    rows = 60_000
    for name in case.streams:
        keys = np.arange(rows)
        keys[:200] = np.arange(200) - 1_000
        case.streams[name] = pa.table({"ts": np.arange(rows) * 100, "k": keys})
        case.windows[name] = ("rows", 1, ["k"])
    runtime = running(case, 200 * 100, "((a b) c)")
    migrate(runtime, "(a (b c))", "just-in-time", 200 * 100)
    for batch in rows_between(case, runtime, [*range(200 * 100, 6 * SECOND, SECOND // 4)])[1:]:
        for _ in runtime.on_rows(batch):
            pass
    assert attempted(runtime) <= 400


def test_keys_that_were_attempted_are_part_of_the_state() -> None:
    case = wide_case(4_000, CONDITIONS["one key"], keys=3_000)
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    migrate(runtime, TARGET, "just-in-time", 3 * SECOND)
    for batch in rows_between(case, runtime, [3 * SECOND, 3 * SECOND + 200_000])[1:]:
        for _ in runtime.on_rows(batch):
            pass
    execution = runtime.pipelines[0].execution
    assert isinstance(execution, JustInTime)
    assert attempted(runtime) > 0
    held = sum(gap.attempted.nbytes for gap in execution.completion.gaps.values())
    plain = sum(s.nbytes for join in execution.joins() for s in join.states)
    plain += sum(join.index_bytes for join in execution.joins())
    assert execution.size().nbytes >= plain + held


def test_old_keys_that_have_left_their_windows_are_forgotten() -> None:
    case = wide_case(40_000, CONDITIONS["one key"], keys=20_000)
    for name in case.windows:
        case.windows[name] = ("rows", 1, ["k"])
    runtime = running(case, 2 * SECOND, "(((a b) c) d)")
    migrate(runtime, TARGET, "just-in-time", 2 * SECOND)
    most = 0
    for batch in rows_between(case, runtime, [*range(2 * SECOND, 4 * SECOND, 50_000)])[1:]:
        for _ in runtime.on_rows(batch):
            pass
        if not isinstance(runtime.pipelines[0].execution, JustInTime):
            break
        most = max(most, attempted(runtime))
    assert most < 9_000, "of about 12,600 old keys those that were asked for and came again are forgotten"

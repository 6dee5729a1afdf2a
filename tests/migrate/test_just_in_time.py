"""Completing on demand costs what is asked for: at the switch, in every micro-batch, and in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from migrate.test_papers import SECOND, case_of, migrate, running

from benchmarks.direct import DirectRun
from midstream.kernels import complete, key_index
from midstream.migrate.just_in_time import JustInTime
from midstream.operators.sliding import key_index as indexes
from midstream.operators.source import sources
from oracle.generate import Case
from oracle.test_moved_states import rows_between


@contextmanager
def entries_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the entries that kernels look at one by one, to see whether they live or to index them."""
    seen: list[int] = []

    def live_before(entries: object, count: int, *others: object) -> object:
        seen.append(count)
        return complete.live_before(entries, count, *others)  # type: ignore[arg-type]

    def chain_entries(words: object, heads: object, side: int, entries: np.ndarray, start: int, *others: int) -> int:
        seen.append(len(entries) - start)
        return key_index.chain_entries(words, heads, side, entries, start, *others)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(sources, "live_before", live_before)
        patched.setattr(indexes, "chain_entries", chain_entries)
        yield seen


def wide_case(rows: int, condition: str, keys: int = 1 << 40) -> Case:
    """Return a join of four streams whose windows hold all rows, by another condition than the first column."""
    case = case_of("abcd")
    rng = np.random.default_rng(5)
    for name in case.streams:
        columns = {c: rng.integers(0, keys, rows) for c in "kj"}
        case.streams[name] = pa.table({"ts": np.arange(rows) * (4 * SECOND // rows), **columns})
        case.windows[name] = ("range", 60 * SECOND, [])
    case.conditions = [condition.format(a=a, b=b) for a, b in ("ab", "bc", "cd")]
    return case


CONDITIONS = {"one key": "{a}.k = {b}.k", "composite": "{a}.k = {b}.k AND {a}.j = {b}.j", "two": "{a}.k = {b}.j"}
TARGET = "(((d c) b) a)"


@pytest.mark.parametrize("target", [TARGET, "(((b a) d) c)", "(d ((b a) c))"])
@pytest.mark.parametrize("condition", ["one key", "composite"])
def test_the_switch_costs_the_same_however_wide_the_windows_are(
    condition: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = []
    for rows in (2_000, 200_000):
        keys = rows if condition == "one key" else int(rows**0.5)
        runtime = running(wide_case(rows, CONDITIONS[condition], keys), 4 * SECOND - 100_000, "(((a b) c) d)")
        with entries_seen(monkeypatch) as seen:
            migrate(runtime, target, "just-in-time", 4 * SECOND - 100_000)
        cost.append(sum(seen))
    assert cost[1] <= max(2 * cost[0], 1 << 17), "no more than a block of each state is looked at"


@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_a_micro_batch_looks_at_what_it_asks_for(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = wide_case(100_000, CONDITIONS[condition])
    runtime = running(case, 3 * SECOND, "(((a b) c) d)")
    migrate(runtime, TARGET, "just-in-time", 3 * SECOND)
    bounds = [3 * SECOND + n * 4_000 for n in range(40)]
    seen_each = []
    for rows in rows_between(case, runtime, bounds)[1:]:
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

"""What the two papers draw: decomposition, characteristics tables, complete and incomplete states, counters."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import midstream as ms
from benchmarks.direct import DirectRun
from midstream.migrate.decompose import decompose
from midstream.migrate.hybrid import Hybrid
from midstream.migrate.just_in_time import JustInTime
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import PlanError
from midstream.operators.build import build_sources, build_tree
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.tree import parse_tree
from oracle.generate import Case
from oracle.test_moved_states import rows_between

SECOND = 1_000_000


def case_of(names: str, keys: int = 5, rows: int = 40, window: str = "range", seed: int = 1) -> Case:
    """Return a one-key join of some streams, one row of each per 100 ms."""
    rng = np.random.default_rng(seed)
    size = 3 * SECOND if window == "range" else 30
    streams = {n: pa.table({"ts": np.arange(rows) * 100_000, "k": rng.integers(0, keys, rows)}) for n in names}
    conditions = [f"{a}.k = {b}.k" for a, b in itertools.pairwise(names)]
    tree = names[0]
    for name in names[1:]:
        tree = f"({tree} {name})"
    sources = [(n, n) for n in names]
    return Case(streams, sources, {n: (window, size, []) for n in names}, conditions, [("k", "a.k")], tree)


def plan_of(case: Case, tree: str | None = None, join: str = "auto") -> Plan:
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    return engine.query(case.sql, plan=tree or case.tree, join=join).plan


def parts(*names: str) -> set[frozenset[str]]:
    return {frozenset(n) for n in names}


def tasks_of(old: str, new: str, names: str, share: bool = True) -> list[tuple[str, list[str], int, int]]:
    case = case_of(names)
    plan = plan_of(case, old)
    sources = build_sources(plan, False)
    other = ordered_plan(plan.query, parse_tree(new, plan.query.aliases))
    found = decompose(build_tree(plan, sources), build_tree(other, sources), share)
    return [("".join(sorted(t.parts)), ["".join(sorted(s)) for s in t.sources], len(t.old), len(t.new)) for t in found]


def test_what_both_plans_join_becomes_a_source() -> None:
    assert tasks_of("(((a b) c) d)", "((a b) (c d))", "abcd") == [
        ("ab", ["a", "b"], 1, 1),
        ("abcd", ["ab", "c", "d"], 2, 2),
    ]
    assert tasks_of("(((a b) c) d)", "((a (b c)) d)", "abcd") == [
        ("abc", ["a", "b", "c"], 2, 2),
        ("abcd", ["abc", "d"], 1, 1),
    ]


def test_without_sharing_there_is_one_task() -> None:
    assert tasks_of("(((a b) c) d)", "((a b) (c d))", "abcd", share=False) == [("abcd", ["a", "b", "c", "d"], 3, 3)]


def running(case: Case, until_us: int, tree: str, join: str = "auto") -> DirectRun:
    """Return a runtime that has taken in the rows before a time."""
    runtime = DirectRun(plan_of(case, tree, join))
    for rows in rows_between(case, runtime, [until_us]):
        for _ in runtime.on_rows(rows):
            pass
    return runtime


def migrate(runtime: DirectRun, plan: str, strategy: str | None, now_us: int, **options: object) -> None:
    for _ in runtime.migrate(MigrationRequest.of(plan, strategy, options), now_us):
        pass


def test_without_background_computation_the_old_rows_of_one_input_stay_with_the_old_plan() -> None:
    runtime = running(case_of("abcd"), 3 * SECOND, "(((a b) c) d)")
    migrate(runtime, "(a (b (c d)))", "hybrid", 3 * SECOND)
    hybrid = runtime.pipelines[0].execution
    assert isinstance(hybrid, Hybrid)
    (task,) = hybrid.tasks
    assert [region.aliases for region in task.table.lines()] == [frozenset("d")]
    assert {a for a in "abcd" if task.table.disconnected(frozenset(a))} == {"d"}
    assert set(hybrid.matching.missing) == parts("d", "cd", "bcd")


@pytest.mark.parametrize("join", ["auto", "nested-loop"])
def test_a_right_deep_plan_disconnects_what_it_joins_first(join: str) -> None:
    runtime = running(case_of("abcd"), 3 * SECOND, "(((a b) c) d)", join)
    migrate(runtime, "(a (b (c d)))", "hybrid", 3 * SECOND, background=True, budget=1)
    hybrid = runtime.pipelines[0].execution
    assert isinstance(hybrid, Hybrid)
    (task,) = hybrid.tasks
    assert set(task.table.regions) == parts("cd")
    gone = {a for a in "abcd" if task.table.disconnected(frozenset(a))}
    assert gone == {"c", "d"}
    assert hybrid.matching.matched == 4
    assert set(hybrid.matching.missing) == parts("cd", "bcd")


def test_a_bushy_plan_disconnects_nothing() -> None:
    runtime = running(case_of("abcd"), 3 * SECOND, "(((d b) a) c)")
    migrate(runtime, "((a b) (c d))", "hybrid", 3 * SECOND, background=True, budget=1)
    hybrid = runtime.pipelines[0].execution
    assert isinstance(hybrid, Hybrid)
    (task,) = hybrid.tasks
    assert set(task.table.regions) == parts("ab", "cd")
    assert not any(task.table.disconnected(frozenset(a)) for a in "abcd")


def test_nested_loop_joins_share_the_states_of_sources() -> None:
    runtime = running(case_of("abcd"), 3 * SECOND, "(((a b) c) d)", "nested-loop")
    before = runtime.size().tuples
    migrate(runtime, "(a (b (c d)))", "hybrid", 3 * SECOND, background=True, budget=1)
    assert runtime.size().tuples <= before
    states = [s for join in runtime.pipelines[0].execution.joins() for s in join.states]
    assert len({id(s) for s in states if len(s.components) == 1}) == 4


def test_each_state_computed_in_the_background_takes_work_off_the_old_plan() -> None:
    case = case_of("abcd", rows=80)
    runtime = running(case, 4 * SECOND, "(((a b) c) d)", "nested-loop")
    migrate(runtime, "(a (b (c d)))", "hybrid", 4 * SECOND, background=True, budget=200)
    seen = []
    for rows in rows_between(case, runtime, [t * 100_000 for t in range(40, 90)])[1:]:
        for _ in runtime.on_rows(rows):
            pass
        execution = runtime.pipelines[0].execution
        if isinstance(execution, Hybrid):
            seen.append(tuple("".join(sorted(p)) for p in execution.tasks[0].table.regions))
    order = list(dict.fromkeys(seen))
    assert order[0] == ("cd",)
    assert ("bcd",) in order
    (record,) = runtime.records()
    assert record.state == "finished"
    assert record.states_completed == 2
    assert record.duration_us is not None
    assert record.duration_us < 3 * SECOND, "it ended before the old rows had expired"


FIGURE_3 = {
    "(((r s) t) u)": [],
    "(((u t) s) r)": ["ut", "uts"],
    "(((s r) u) t)": ["sru"],
    "(((s t) r) u)": ["st"],
}


@pytest.mark.parametrize(("new", "incomplete"), list(FIGURE_3.items())[1:])
def test_states_are_incomplete_when_the_old_plan_does_not_have_them(new: str, incomplete: list[str]) -> None:
    case = case_of("rstu")
    case.outputs = [("k", "r.k")]
    runtime = running(case, 3 * SECOND, "(((r s) t) u)")
    migrate(runtime, new, "just-in-time", 3 * SECOND)
    lazy = runtime.pipelines[0].execution
    assert isinstance(lazy, JustInTime)
    assert set(lazy.completion.gaps) == parts(*incomplete)


def test_a_state_stays_incomplete_through_another_transition() -> None:
    """Figure 4: (st) is incomplete in the second plan, and must not count as complete in the third."""
    case = case_of("rstu", keys=20)
    case.outputs = [("k", "r.k")]
    runtime = running(case, 3 * SECOND, "(((r s) t) u)")
    migrate(runtime, "(((s t) r) u)", "just-in-time", 3 * SECOND)
    migrate(runtime, "(((s t) u) r)", "just-in-time", 3 * SECOND)
    lazy = runtime.pipelines[0].execution
    assert isinstance(lazy, JustInTime)
    assert set(lazy.completion.gaps) == parts("st", "stu")
    assert [r.state for r in runtime.records()] == ["superseded", "running"]


def test_the_first_row_after_a_position_is_not_lost_when_the_next_plan_asks_by_another_key() -> None:
    """(a b) is completed by the key of c, then of d: what it holds since the first position goes on."""
    columns = {"a": ["k", "x"], "b": ["k", "y"], "c": ["x"], "d": ["y"]}
    rows = {
        "a": [(0, 1, 7)],
        "b": [(SECOND // 2, 2, 8), (SECOND, 1, 9)],  # the second one is the first row after the first position
        "c": [(3 * SECOND, 7)],
        "d": [(4 * SECOND, 9)],
    }
    engine = ms.Engine()
    for name, lines in rows.items():
        values = [pa.array(column) for column in zip(*lines, strict=True)]
        engine.stream(name, pa.table(values, names=["ts", *columns[name]]), time="ts")
    windows = ", ".join(f"{n} [RANGE 10 SECONDS]" for n in rows)
    query = engine.query(f"SELECT a.k FROM {windows} WHERE a.k = b.k AND a.x = c.x AND b.y = d.y", plan="(((a c) b) d)")
    run = query.start(paused=True).advance(SECOND)
    run.migrate("(((a b) c) d)", "just-in-time")
    run.advance(2 * SECOND)
    run.migrate("(((a b) d) c)", "just-in-time")
    run.finish()
    assert run.migrations()[0]["state"] == "superseded"
    assert run.table().column("_time").to_pylist() == [4 * SECOND]
    assert run.table() == query.start().table()


def test_counters_of_the_three_cases() -> None:
    case = case_of("rstu", keys=9, rows=30)
    case.outputs = [("k", "r.k")]
    keys = {n: set(case.streams[n].column("k").to_pylist()) for n in "rstu"}
    runtime = running(case, 3 * SECOND, "(((r s) t) u)")
    migrate(runtime, "(((u t) s) r)", "just-in-time", 3 * SECOND)
    gaps = runtime.pipelines[0].execution.completion.gaps  # type: ignore[attr-defined]
    # Case 1: both inputs complete, the smaller number of keys. Case 2: only the source is complete.
    assert gaps[frozenset("ut")].remaining == min(len(keys["u"]), len(keys["t"]))
    assert gaps[frozenset("uts")].remaining == len(keys["s"])
    # Case 3: neither input is complete. Keys cannot be counted until one is.
    runtime = running(case_of("abcde", keys=9, rows=30), 3 * SECOND, "((((a b) c) d) e)")
    migrate(runtime, "(((a c) (b d)) e)", "just-in-time", 3 * SECOND)
    gaps = runtime.pipelines[0].execution.completion.gaps  # type: ignore[attr-defined]
    assert set(gaps) == parts("ac", "bd")  # (a b c d) is in both plans
    runtime = running(case_of("abcde", keys=9, rows=30), 3 * SECOND, "((((a b) e) c) d)")
    migrate(runtime, "(((a c) (b d)) e)", "just-in-time", 3 * SECOND)
    gaps = runtime.pipelines[0].execution.completion.gaps  # type: ignore[attr-defined]
    assert set(gaps) == parts("ac", "bd", "abcd")
    assert gaps[frozenset("abcd")].remaining is None


def test_a_key_is_completed_once() -> None:
    case = case_of("abc", keys=4, rows=80)
    runtime = running(case, 4 * SECOND, "((a b) c)")
    migrate(runtime, "(a (b c))", "just-in-time", 4 * SECOND)
    for rows in rows_between(case, runtime, [4 * SECOND, 7 * SECOND])[1:]:
        for _ in runtime.on_rows(rows):
            pass
    (record,) = runtime.records()
    assert record.keys_attempted <= 4
    assert record.states_completed == 1


def test_going_to_the_running_plan_is_a_no_op() -> None:
    runtime = running(case_of("abc"), 3 * SECOND, "((a b) c)")
    execution = runtime.pipelines[0].execution
    migrate(runtime, "((a b) c)", "hybrid", 3 * SECOND)
    assert runtime.records()[0].state == "no-op"
    assert runtime.pipelines[0].execution is execution


def test_a_migration_waits_for_a_hybrid_one() -> None:
    case = case_of("abc", rows=80)
    runtime = running(case, 3 * SECOND, "((a b) c)")
    migrate(runtime, "(a (b c))", "hybrid", 3 * SECOND)
    migrate(runtime, "((a c) b)", "just-in-time", 3 * SECOND)
    assert [r.state for r in runtime.records()] == ["running", "queued"]
    for rows in rows_between(case, runtime, [t * 500_000 for t in range(6, 17)])[1:]:
        for _ in runtime.on_rows(rows):
            pass
    first, second = runtime.records()
    assert first.state == "finished"
    assert second.state == "finished"
    assert second.position_us is not None
    assert first.ended_us is not None
    assert second.position_us >= first.ended_us
    assert str(runtime.plan) == "((a c) b)"


REFUSED = [
    ("(a b)", "hybrid", {}, "leaves out 'c'"),
    ("((a b) (c c))", "hybrid", {}, "names 'c' twice"),
    ("((a b) x)", "hybrid", {}, "no alias of the query"),
    ("((a b", "hybrid", {}, "plan"),
    ("(a (b c))", "sideways", {}, "strategy is 'sideways'"),
    ("(a (b c))", "just-in-time", {"background": True}, "is for hybrid, not for just-in-time"),
    ("(a (b c))", "hybrid", {"speed": 9}, "no option 'speed'"),
    ("(a (b c))", "hybrid", {"budget": 0}, "budget must be a whole number"),
    ("(a (b c))", "hybrid", {"join": "quick"}, "join is 'quick'"),
]


@pytest.mark.parametrize(("plan", "strategy", "options", "sentence"), REFUSED)
def test_what_cannot_be_honoured_is_refused(
    plan: str, strategy: str, options: dict[str, object], sentence: str
) -> None:
    case = case_of("abc")
    engine = ms.Engine()
    for name, table in case.streams.items():
        engine.stream(name, table, time="ts")
    query = engine.query(case.sql, plan="((a b) c)")
    run = query.start(paused=True).advance(2 * SECOND)
    with pytest.raises(PlanError, match=sentence):
        run.migrate(plan, strategy, **options)
    run.finish()
    assert run.migrations() == []
    assert run.table() == query.start().table()


def test_parallel_track_does_not_hold_back_for_ever() -> None:
    case = case_of("abc")
    case.windows["b"] = ("rows", 3, ["k"])
    runtime = DirectRun(plan_of(case, "((a b) c)"))
    with pytest.raises(PlanError, match="for ever"):
        MigrationRequest.of("(a (b c))", "parallel-track").checked(runtime.plan)
    MigrationRequest.of("(a (b c))", "parallel-track", {"output": "merged"}).checked(runtime.plan)


@pytest.mark.parametrize(("strategy", "promoted"), [("moving-state", True), ("just-in-time", False)])
def test_stairs_promote_eagerly_or_on_demand(strategy: str, promoted: bool) -> None:
    case = case_of("abcd", rows=60)
    runtime = DirectRun(plan_of(case, "(((a b) c) d)"), framework="stairs")
    for rows in rows_between(case, runtime, [4 * SECOND]):
        for _ in runtime.on_rows(rows):
            pass
    held = [s.count for step in runtime.pipelines[0].execution.steps for s in step.join.states]  # type: ignore[attr-defined]
    assert sum(held) > 4 * 31
    migrate(runtime, "(a (b (c d)))", strategy, 4 * SECOND)
    (record,) = runtime.records()
    assert record.entries_demoted > 0, "(a b) and (a b c) are let go"
    assert (record.entries_completed > 0) is promoted
    assert runtime.pipelines[0].execution.joins()


@pytest.mark.parametrize(("region", "left"), [("pairs", {5, 9, 13}), ("rows", {3, 5, 7, 9, 11, 13, 15})])
def test_table_1_case_by_case(region: str, left: set[int]) -> None:
    """Which of the 15 cases of old and new rows the old plan answers; each result leaves once."""
    streams = {n: pa.table({"ts": [1 + k, SECOND + 1 + k], "k": [7, 7], "new": [0, 1]}) for k, n in enumerate("abcd")}
    case = case_of("abcd")
    columns = [(n, f"{n}.new") for n in "abcd"]
    case = Case(streams, case.sources, case.windows, case.conditions, columns, case.tree)
    runtime = DirectRun(plan_of(case, "(((a b) c) d)", "nested-loop"))
    found: list[int] = []
    from_new: list[int] = []

    def number(flags: list[int]) -> int:
        return 1 + sum(bit << (3 - k) for k, bit in enumerate(flags))

    for place, rows in enumerate(rows_between(case, runtime, [SECOND, 2 * SECOND])):
        if place == 1:
            migrate(runtime, "(a (b (c d)))", "hybrid", SECOND, region=region)
            hybrid = runtime.pipelines[0].execution
            assert isinstance(hybrid, Hybrid)
            top = hybrid.tasks[0].task.new[-1].join
            on_batches = top.on_batches

            def watched(*args, top=top, on_batches=on_batches, **given):  # type: ignore[no-untyped-def]
                results = on_batches(*args, **given)
                at = [top.spec.components.index(n) for n in "abcd"]
                from_new.extend(number([int(row[4 + k] > 0) for k in at]) for row in results)
                return results

            top.on_batches = watched  # type: ignore[method-assign]
        for results in runtime.on_rows(rows):
            found.extend(
                number([results.rows.column(n)[k].as_py() for n in "abcd"]) for k in range(results.rows.num_rows)
            )
    assert sorted(found) == list(range(1, 17))
    assert sorted(from_new) == sorted(set(range(2, 17)) - left)


@pytest.mark.parametrize(("capacity", "early"), [(1, False), (10_000_000, True)])
def test_background_computation_has_what_rows_leave_of_the_capacity(capacity: int, early: bool) -> None:
    case = case_of("abcd", rows=80)
    runtime = running(case, 4 * SECOND, "(((a b) c) d)", "nested-loop")
    migrate(runtime, "(a (b (c d)))", "hybrid", 4 * SECOND, background=True, capacity=capacity)
    for rows in rows_between(case, runtime, [t * 100_000 for t in range(40, 90)])[1:]:
        for _ in runtime.on_rows(rows):
            pass
    (record,) = runtime.records()
    assert record.state == "finished"
    assert record.duration_us is not None
    assert (record.duration_us < SECOND) == early
    assert (record.entries_completed > 0) == early


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"capacity": 0}, "capacity must be a whole number of evaluations from 1 on, not 0"),
        ({"capacity": 5}, "capacity is for background computation"),
        ({"background": True, "region": "rows"}, "background computation fills pairs of old rows"),
        ({"region": "cases"}, "region is 'cases'; it can be auto, pairs, rows"),
    ],
)
def test_options_of_hybrid_that_make_no_sense_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        MigrationRequest.of("(a b)", "hybrid", options)

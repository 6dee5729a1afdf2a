"""What is said of a change beforehand: figure 10 in general, more where the windows allow, and never too much.

Whatever is called guaranteed is held against the oracle of changes, which knows nothing of guarantees.
"""

import random
from dataclasses import dataclass
from itertools import combinations, product

import pyarrow as pa
import pytest

import midstream as ms
from midstream.app.engine import Run
from midstream.change.forecast import forecast_change
from midstream.change.guarantees import FIG_10, LABELS, LIVENESS, SAFETY, Guarantees, guarantees
from midstream.change.reach import reach_of
from midstream.change.recommend import WORDS, recommend
from midstream.change.request import DELAYED_DRAIN, GRACEFUL_DRAIN, GRACEFUL_IMMEDIATE, IMMEDIATE
from midstream.change.schema import schema_change
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.model.errors import PlanError
from midstream.model.statistics import Statistics
from midstream.model.stream import StreamSchema
from midstream.plan.plan import Plan
from oracle.change_counts import measure
from oracle.change_run import Change, Oracle
from oracle.changes import (
    METHODS,
    Aggregates,
    Condition,
    Filter,
    InstanceWindow,
    Join,
    PredicateSlide,
    Query,
    RangeSlide,
    Row,
    RowsSlide,
    Source,
)
from seeds import few_quick, seeds

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
CATALOG = [StreamSchema(name, COLUMNS, "ts") for name in ("s", "r")]


def plan(sql: str) -> Plan:
    return make_plan(parse_query(sql, CATALOG))


def rows_sum(count: int, slide: int = 1, more: str = "", source: str = "s") -> str:
    return f"SELECT SUM(v) AS total FROM {source} [ROWS {count} SLIDE {slide}{more}]"


def range_sum(width: int, slide: int) -> str:
    return f"SELECT SUM(v) AS total FROM s [RANGE {width} SECONDS SLIDE {slide} SECONDS]"


PREDICATE = "SELECT SUM(v) AS total FROM s [START WHEN v > 5 END WHEN v < 2]"
FILTER = "SELECT v AS total FROM s WHERE v > 3"
JOIN = "SELECT s.v AS total FROM s [RANGE 10 SECONDS], r [RANGE 30 SECONDS] WHERE s.k = r.k"


def told(old: str, new: str) -> dict[str, Guarantees]:
    return guarantees(plan(old), plan(new))


def holding(told: dict[str, Guarantees], names: tuple[str, ...]) -> dict[str, dict[str, bool]]:
    return {label: {n: told[label].cells[n].holds for n in names} for label in LABELS}


# Spans ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "us", "rows", "left"),
    [
        (FILTER, 0, 0, []),
        ("SELECT v FROM s [ROWS 7]", 0, 0, []),
        (rows_sum(50), 0, 50, [49]),
        (rows_sum(1), 0, 1, [0]),
        (rows_sum(1, 3, " PARTITION BY k"), 0, 0, []),
        (range_sum(10, 5), 10_000_000, 0, []),
        (JOIN, 30_000_000, 0, []),
        ("SELECT s.v FROM s [ROWS 5], r [RANGE 2 SECONDS] WHERE s.k = r.k", 2_000_000, 5, [5]),
        (f"SELECT SUM(total) AS t FROM ({rows_sum(3, 2)}) [ROWS 4 SLIDE 1]", 0, 3 + 3 * 2, [8]),
        (f"SELECT SUM(total) AS t FROM ({range_sum(10, 5)}) [ROWS 4 SLIDE 1]", 25_000_000, 0, []),
        (f"SELECT SUM(total) AS t FROM ({rows_sum(3, 2)}) [RANGE 4 SECONDS SLIDE 1 SECOND]", 4_000_000, 3, [2]),
    ],
)  # fmt: skip
def test_how_far_a_result_reaches(sql: str, us: int, rows: int, left: list[int]) -> None:
    span = reach_of(plan(sql)).span
    assert (span.us, span.rows, [c.left for c in span.counted], span.unknown) == (us, rows, left, None)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        (PREDICATE, "may never come"),
        (rows_sum(3, 1, " PARTITION BY k"), "may be never"),
        ("SELECT s.v FROM s [ROWS 5 PARTITION BY k], r [RANGE 2 SECONDS] WHERE s.k = r.k", "may be never"),
        (rows_sum(3, 1, "", "(SELECT v FROM s WHERE v > 7)"), "rows of s where (s.v > 7) may never come"),
        (f"SELECT SUM(total) AS t FROM ({rows_sum(3)} HAVING SUM(v) > 7) [ROWS 2 SLIDE 1]", "may never come"),
        (f"SELECT SUM(total) AS t FROM ({range_sum(1, 9)}) [ROWS 2 SLIDE 1]", "may never come"),
        (f"SELECT COUNT(*) AS n FROM ({JOIN}) [ROWS 2 SLIDE 1]", "results of the join may never come"),
    ],
)
def test_drains_that_may_never_end(sql: str, why: str) -> None:
    assert why in str(reach_of(plan(sql)).span.endless)
    got = told(sql, FILTER.replace(" WHERE v > 3", ""))
    for label in ("delayed-drain", "drain/query", "drain/stream", "graceful-drain"):
        assert not got[label].termination.holds, label
        assert why in got[label].termination.why
    assert not got["delayed-drain"].progress.holds
    assert got["immediate"].termination.holds
    assert got["graceful-immediate"].termination.holds  # the new query answers every row
    assert any("held back for ever" in note for note in got["drain/query"].notes)


# Figure 10, and more -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two queries; whether the old one drains, and whether the new one answers, in the rows that come."""

    old: str
    new: str
    ends: bool = True
    answers: bool = True


NEVER_OPENS = "SELECT SUM(v) AS total FROM s [ROWS 2 SLIDE 1] WHERE v > 99 GROUP BY k"
PAIRS = [
    Pair(rows_sum(20), rows_sum(5)),
    Pair(rows_sum(5), rows_sum(20)),
    Pair(rows_sum(8), rows_sum(8)),
    Pair(rows_sum(8, 8), rows_sum(3, 2)),
    Pair(rows_sum(4), rows_sum(2, 2)),
    Pair(rows_sum(8, 8), "SELECT SUM(v) AS total FROM s [RANGE 20 MICROSECONDS SLIDE 1 MICROSECOND]"),
    # An old row of a key that never comes again; a window that never ends; and one that never answers.
    Pair(rows_sum(3, 3, " PARTITION BY k"), rows_sum(4), ends=False),
    Pair("SELECT SUM(v) AS total FROM s [START WHEN v > 7 END WHEN v > 98]", rows_sum(4), ends=False),
    Pair(rows_sum(8), NEVER_OPENS, answers=False),
]
"""Pairs of queries that between them break whatever a method does not guarantee, and must break nothing else."""
POSITION = 45
FIRST_ROWS = {
    "s": {"ts": list(range(120)), "k": [7, *(n % 2 for n in range(119))], "v": [n % 9 for n in range(120)]},
}


def run_by(rows: dict[str, dict[str, list[int]]], old: str, *changes: tuple[int, str, str]) -> dict[str, bool]:
    """Change one query into others in the engine, each at a position by a method; return what the last change held."""
    engine = ms.Engine()
    for name, columns in rows.items():
        engine.stream(name, pa.table(columns), time="ts")
    run = engine.query(old).start(paused=True, batch=13)
    assert isinstance(run, Run)
    for position, new, label in changes:
        method, _, order = label.partition("/")
        run.advance(position).change(new, method, order or None, audit=True)
    record = run.finish().changes()[-1]
    held = {name: record[what] == 0 for name, what in MEASURES.items()}
    # Termination is of the old versions: they give nothing any more, and run no more.
    lives = run._running.host.control.lives
    over = record["state"] == "finished" and all(lives[n].state == "stopped" for n in range(1, len(changes) + 1))
    return {**held, "progress": record["started_us"] is not None, "termination": over}


def alive(label: str, pair: Pair) -> dict[str, bool]:
    """Return what of liveness there must be in a run of a pair, and what there cannot be."""
    drains = label not in (IMMEDIATE, GRACEFUL_IMMEDIATE)
    graceful = label in (GRACEFUL_IMMEDIATE, GRACEFUL_DRAIN)
    ends = (pair.ends or not drains) and (pair.answers or not graceful)
    return {"progress": pair.ends or label != DELAYED_DRAIN, "termination": ends}


def check_figure_10(label: str) -> None:
    """Compare a line of the paper's table with runs: what it guarantees holds in all, the rest fails in some.

    A drain over windows that end has to end, whatever the table says of others.
    """
    runs = []
    for pair in PAIRS:
        held = run_by(FIRST_ROWS, pair.old, (POSITION, pair.new, label))
        assert {name: held[name] for name in LIVENESS} == alive(label, pair), pair
        runs.append(held)
    assert {name: all(held[name] for held in runs) for name in (*SAFETY, *LIVENESS)} == FIG_10[label]


def check_overlaps(label: str) -> None:
    """Compare the table with changes that meet one under way by every method: the latest word counts."""
    runs = []
    for first, pair in product(LABELS, (p for p in PAIRS if p.ends and p.answers)):
        held = run_by(FIRST_ROWS, pair.old, (POSITION, rows_sum(7), first), (POSITION + 3, pair.new, label))
        assert all(held[name] for name in LIVENESS), (first, pair)
        runs.append(held)
    assert {name: all(held[name] for held in runs) for name in SAFETY} == {n: FIG_10[label][n] for n in SAFETY}


@pytest.mark.parametrize("label", few_quick(LABELS, 2))
def test_figure_10_is_what_happens(label: str) -> None:
    check_figure_10(label)


@pytest.mark.parametrize("label", LABELS)
def test_figure_10_is_what_happens_to_changes_that_meet(label: str) -> None:
    check_overlaps(label)


def check_ends(seed: int) -> int:
    """Compare termination and progress, where they are said of two queries, with a run; return how often they are.

    The first key of a stream never comes again.
    """
    rnd = random.Random(500_000 + seed)
    old, new = draw_query(rnd), draw_query(rnd)
    rows = {
        name: {"ts": list(range(k, 240, 2)), "k": [7, *(n % 2 for n in range(119))], "v": [n % 10 for n in range(120)]}
        for k, name in enumerate(("s", "r"))
    }
    got, sure = guarantees(plan(old.sql), plan(new.sql)), 0
    for label in LABELS:
        held = run_by(rows, old.sql, (rnd.randint(20, 60), new.sql, label))
        cells = got[label].cells
        sure += cells["termination"].holds and not cells["termination"].general
        for name in LIVENESS:
            assert held[name] or not cells[name].holds, (seed, label, str(cells[name]), old.sql, new.sql)
    return sure


@pytest.mark.parametrize("part", seeds(0, 8, quick=0))
def test_what_is_said_to_end_ends(part: int) -> None:
    """Runs have rows enough to show it."""
    assert sum(check_ends(seed) for seed in range(part * 30, part * 30 + 30)) > 25  # cells that say more than figure 10


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.ends], ids=lambda pair: pair.old)
def test_what_does_not_end_is_not_said_to_end(pair: Pair) -> None:
    got = told(pair.old, pair.new)
    for label in LABELS:
        held = run_by(FIRST_ROWS, pair.old, (POSITION, pair.new, label))
        assert held["termination"] == (label in (IMMEDIATE, GRACEFUL_IMMEDIATE)), label
        for name in LIVENESS:
            assert held[name] or not got[label].cells[name].holds, (label, name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PREDICATE, PREDICATE),
        (JOIN, JOIN),
        (rows_sum(50, 1, " PARTITION BY k"), rows_sum(50, 1, " PARTITION BY k")),
        (JOIN, JOIN.replace("30", "90")),
    ],
)
def test_without_knowledge_of_windows_it_is_figure_10(old: str, new: str) -> None:
    assert holding(told(old, new), SAFETY) == {k: {n: v[n] for n in SAFETY} for k, v in FIG_10.items()}


@pytest.mark.parametrize(("old", "new"), [(rows_sum(50), rows_sum(10)), (range_sum(10, 5), rows_sum(10)),
                                          (JOIN, rows_sum(10))])  # fmt: skip
def test_windows_of_time_and_rows_end(old: str, new: str) -> None:
    got = holding(told(old, new), LIVENESS)
    assert all(all(cells.values()) for cells in got.values())


@pytest.mark.parametrize("new", [FILTER, PREDICATE, JOIN, rows_sum(9, 1, " PARTITION BY k"), range_sum(1, 9),
                                 f"{rows_sum(9)} HAVING SUM(v) > 3",
                                 "SELECT k, SUM(v) AS t FROM s [ROWS 9 SLIDE 1] WHERE v > 3 GROUP BY k"])  # fmt: skip
def test_a_graceful_change_ends_only_if_the_new_query_answers(new: str) -> None:
    got = told(rows_sum(50), new)
    for label in ("graceful-immediate", "graceful-drain"):
        assert not got[label].termination.holds
        assert "waits for the new query" in got[label].termination.why
    assert got["drain/stream"].termination.holds


def test_a_where_without_groups_silences_nothing() -> None:
    assert told(rows_sum(50), f"{rows_sum(9)} WHERE v > 3")["graceful-immediate"].termination.holds


def test_the_ld_rule() -> None:
    """The new query takes as many rows as the old one or more: a drain has it all."""
    for size in (50, 51, 100):
        got = told(rows_sum(50), rows_sum(size))
        assert got["drain/query"].perfect
        assert got["drain/stream"].perfect
        assert str(got["drain/query"].stream_order).startswith("guaranteed here (")
        assert got["graceful-immediate"].loss.holds
        assert not got["immediate"].loss.holds
    got = told(rows_sum(50), rows_sum(49))
    assert not got["drain/query"].stream_order.holds
    assert not got["drain/stream"].query_order.holds
    assert not got["graceful-immediate"].loss.holds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (range_sum(10, 5), range_sum(60, 5)),  # its first windows are cut off at the position: they end early
        (range_sum(10, 10), range_sum(60, 5)),
        (JOIN, JOIN.replace("30", "90")),  # two new rows may match at once
        (rows_sum(50), rows_sum(90, source="r")),  # of another stream
        (rows_sum(50, source="(SELECT v FROM s WHERE v > 7)"), rows_sum(90)),  # 50 of those may take longer than 90
        (rows_sum(50), "SELECT SUM(v) AS total FROM (SELECT k, SUM(v) AS v FROM s [ROWS 10 SLIDE 9] GROUP BY k) "
                       "[ROWS 9 SLIDE 1]"),  # groups: nine rows at once
    ],
)  # fmt: skip
def test_where_the_ld_rule_is_not_sure(old: str, new: str) -> None:
    assert not told(old, new)["drain/query"].stream_order.holds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (range_sum(10, 10), range_sum(20, 20)),
        (range_sum(10, 10), range_sum(10, 10)),
        (rows_sum(50), rows_sum(50, 1, " PARTITION BY k")),
        (rows_sum(50), rows_sum(60, source="(SELECT v FROM s WHERE v > 7)")),
        (rows_sum(50, source="(SELECT v FROM s WHERE v > 7)"), rows_sum(60, source="(SELECT v FROM s WHERE v > 7)")),
        (rows_sum(50), f"SELECT SUM(total) AS t FROM ({rows_sum(10, 9)}) [ROWS 6 SLIDE 1]"),
    ],
)
def test_where_the_ld_rule_is_sure(old: str, new: str) -> None:
    assert told(old, new)["drain/query"].stream_order.holds


def test_what_comes_with_the_first_answer_is_dropped() -> None:
    """Windows that end together: in order, but graceful-immediate stops the old query before that time."""
    assert not told(range_sum(10, 10), range_sum(20, 20))["graceful-immediate"].loss.holds


@pytest.mark.parametrize(
    "old", [FILTER, rows_sum(1), "SELECT s.v AS total FROM s [RANGE 0 SECONDS], r [RANGE 0 SECONDS]"]
)
def test_nothing_is_lost_where_nothing_is_under_way(old: str) -> None:
    got = holding(told(old, rows_sum(10)), (*SAFETY, *LIVENESS))
    assert all(all(cells.values()) for cells in got.values())


def test_duplicates() -> None:
    """Only sizes that differ rule them out; figure 15 has them where both are 50."""
    assert not told(rows_sum(50), rows_sum(50))["graceful-drain"].duplicates.holds
    assert told(rows_sum(50), rows_sum(49))["graceful-drain"].duplicates.holds
    assert told(rows_sum(50), rows_sum(50, source="r"))["graceful-drain"].duplicates.holds
    assert not told(rows_sum(50), f"{rows_sum(49)} WHERE v > 3")["graceful-drain"].duplicates.holds
    assert not told(range_sum(10, 5), range_sum(20, 5))["graceful-drain"].duplicates.holds


def test_figure_10_promises_too_much_where_results_leave_late() -> None:
    """A window of time answers later than one of rows, maybe from the same rows."""
    cell = told(rows_sum(3, 3), range_sum(10, 10))["graceful-immediate"].duplicates
    assert (cell.holds, cell.general) == (False, True)
    assert str(cell).startswith("not guaranteed here (")


def test_tumbling_windows_have_a_good_position() -> None:
    assert "a multiple of 10 seconds" in told(range_sum(10, 10), FILTER)["immediate"].notes[0]
    assert "a multiple of 7 rows" in told(rows_sum(7, 7), FILTER)["delayed-drain"].notes[0]
    assert not told(range_sum(10, 5), FILTER)["immediate"].notes


def test_a_difference_goes_at_once_or_not_at_all() -> None:
    difference = "SELECT v AS total FROM s [ROWS 3] EXCEPT SELECT v FROM r [ROWS 3]"
    for old, new in ((difference, rows_sum(3)), (rows_sum(3), difference)):
        got = told(old, new)
        assert [label for label in LABELS if not got[label].refused] == ["immediate"]
        assert recommend({"loss", "query-order"}, got).method == "immediate"


# Against the oracle --------------------------------------------------------------------------------------------------

MEASURES = {
    "loss": "loss",
    "query_order": "query_disorder",
    "stream_order": "stream_disorder",
    "duplicates": "duplicates",
}


def draw_window(rnd: random.Random) -> InstanceWindow:
    if rnd.random() < 0.6:
        return RowsSlide(rnd.randint(1, 6), rnd.randint(1, 4), rnd.choice([None, None, "k"]))
    if rnd.random() < 0.7:
        return RangeSlide(rnd.choice([1, 2, 4, 5]), rnd.choice([1, 2, 4]))
    return PredicateSlide(Condition("v", ">", 3), Condition("v", "<", 6))


def draw_query(rnd: random.Random) -> Query:
    kind = rnd.random()
    where = (Condition("v", ">", 4),) * (rnd.random() < 0.2)
    if kind < 0.1:
        return Filter("s", "", where, (("a", "v"),))
    if kind < 0.2:
        sources = [Source(a, s, *rnd.choice([(0,), (3,), (None, 2)])) for a, s in (("a", "s"), ("b", "r"))]
        return Join(tuple(sources), (("a.k", "=", "b.k"),), (), (("a", "a.v"),))
    if kind < 0.4:
        inner = Aggregates("s", draw_window(rnd), (("x", "SUM", "v"),), where)
        return Aggregates(inner, RowsSlide(rnd.randint(1, 3), rnd.randint(1, 3)), (("a", "SUM", "x"),))
    group_by = rnd.choice([None, None, None, "k"])
    outputs = (("a", "", "k"),) if group_by else (("a", "SUM", "v"),)
    return Aggregates("s", draw_window(rnd), outputs, where, group_by)


def draw_rows(rnd: random.Random) -> dict[str, list[Row]]:
    """Draw two streams; no two rows of one have the same time, see the reason graceful-immediate gives."""
    out = {}
    for number, name in enumerate(("s", "r")):
        times = sorted(rnd.sample(range(rnd.choice([30, 90])), 25))
        out[name] = [Row(t, number, n, {"k": rnd.randrange(2), "v": rnd.randrange(10)}) for n, t in enumerate(times)]
    return out


@pytest.mark.parametrize("part", seeds(0, 4))
def test_what_is_guaranteed_happens(part: int) -> None:
    sure = 0
    for seed in range(part * 100, part * 100 + 100):
        rnd = random.Random(seed)
        rows, old, new = draw_rows(rnd), draw_query(rnd), draw_query(rnd)
        position = rnd.randint(0, rows["s"][-1].time)
        got = guarantees(plan(old.sql), plan(new.sql))
        for method in METHODS:
            oracle = Oracle(rows, old, [Change(position, new, method)])
            counted = measure(oracle, oracle.given_out())
            for name, what in MEASURES.items():
                cell = got[method].cells[name]
                sure += cell.holds and not cell.general
                if cell.holds:
                    assert getattr(counted, what) == 0, (seed, method, str(cell), old.sql, new.sql, position)
    assert sure > 50  # cells that say more than figure 10


# Recommendations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matters", "expected"),
    [
        ({"resources"}, "immediate"),
        ({"loss", "query-order"}, "drain/query"),
        ({"loss", "stream-order"}, "drain/stream"),
        ({"response", "duplicates"}, "graceful-immediate"),
        ({"response", "loss"}, "graceful-drain"),
        (set(), "drain/stream"),
        ({"loss"}, "drain/stream"),
        ({"query-order"}, "drain/query"),
        ({"response", "query-order"}, "graceful-immediate"),
        ({"resources", "duplicates", "query-order"}, "immediate"),
    ],
)
def test_table_2(matters: set[str], expected: str) -> None:
    best = recommend(matters)
    assert best.label == expected
    assert "no method" not in best.why
    method, order, why = best
    assert (method if order is None else f"{method}/{order}", bool(why)) == (expected, True)


def test_what_cannot_be_had_together_is_said_by_rule() -> None:
    best = recommend({"loss", "order"})
    assert best.label in ("drain/query", "drain/stream")
    assert "LDD rule" in best.why
    assert best.why.endswith("gives up stream-order")
    assert "beside the new one" in recommend({"loss", "resources"}).why
    assert "both run" in recommend({"response", "resources"}).why


def test_every_recommendation_gives_what_it_says() -> None:
    """Of all that can matter, in any combination: a method that gives everything is found if there is one."""
    cells = {"loss": "loss", "query-order": "query_order", "stream-order": "stream_order", "duplicates": "duplicates"}
    only = {"response": {"graceful-immediate", "graceful-drain"}, "resources": {"immediate", "delayed-drain"}}
    for size in range(len(WORDS) + 1):
        for matters in combinations(WORDS, size):
            fit = {
                label
                for label in LABELS
                if all(label in only[w] if w in only else FIG_10[label][cells[w]] for w in matters)
            }
            best = recommend(matters)
            assert best.label in (fit or LABELS)
            assert ("no method" in best.why) == (not fit)


def test_the_queries_at_hand_allow_more() -> None:
    larger = told(rows_sum(50), rows_sum(60))
    assert recommend((), larger).label == "drain/query"
    assert recommend({"loss", "order"}, larger).label == "drain/query"
    assert "no method" not in recommend({"loss", "order"}, larger).why
    assert recommend({"response", "loss"}, larger).label == "graceful-immediate"
    assert recommend({"loss", "resources"}, told(FILTER, rows_sum(5))).label == "immediate"
    # Not the rule that would apply in general: here immediate loses nothing, but the old query stops at once.
    assert "both run" in recommend({"loss", "resources", "response"}, told(FILTER, rows_sum(5))).why


def test_words_that_mean_nothing_are_refused() -> None:
    with pytest.raises(PlanError, match=r"^'speed' is nothing that can matter to a change; it can be loss, response"):
        recommend({"speed"})


# How long ------------------------------------------------------------------------------------------------------------


def test_how_long_it_takes() -> None:
    stats = Statistics(rows_per_s={"s": 10.0})
    got = forecast_change(plan(rows_sum(50)), plan(rows_sum(10)), stats, stats)
    gone = {label: round(t.old_gone_s or 0, 3) for label, t in got.timings.items()}
    assert gone == {"immediate": 0, "delayed-drain": 4.9, "drain/query": 4.9, "drain/stream": 4.9,
                    "graceful-immediate": 1.0, "graceful-drain": 5.9}  # fmt: skip
    answers = {label: round(t.first_answer_s or 0, 3) for label, t in got.timings.items()}
    assert answers == {"immediate": 1.0, "delayed-drain": 5.9, "drain/query": 4.9, "drain/stream": 1.0,
                       "graceful-immediate": 1.0, "graceful-drain": 1.0}  # fmt: skip
    # Windows that close with rows 10 to 49 after the position.
    assert round(got.timings["drain/query"].held_back or 0) == 40
    assert got.timings["immediate"].pause_s == pytest.approx(1.0)


def test_how_long_in_event_time_and_unknown() -> None:
    stats = Statistics(rows_per_s={"s": 10.0, "r": 1.0})
    got = forecast_change(plan(JOIN), plan(PREDICATE), stats, stats)
    assert got.timings["drain/stream"].old_gone_s == 30.0
    assert got.timings["drain/stream"].first_answer_s is None
    back = forecast_change(plan(PREDICATE), plan(range_sum(10, 2)), stats, stats)
    assert back.timings["drain/query"].old_gone_s is None
    assert back.timings["drain/query"].first_answer_s is None
    assert back.timings["drain/stream"].first_answer_s == pytest.approx(2.1)


def test_a_forecast_can_be_read() -> None:
    stats = Statistics(rows_per_s={"s": 10.0})
    text = str(forecast_change(plan(rows_sum(50)), plan(rows_sum(60)), stats, stats))
    assert "drain/query:\n  loss: guaranteed\n" in text
    assert text.endswith("recommended: drain/query, since everything is guaranteed for these queries")


def test_the_output_schema() -> None:
    before = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert schema_change(before, pa.schema([("b", pa.string()), ("a", pa.int64())])) == [
        "columns come in another order: b, a"
    ]
    assert schema_change(before, pa.schema([("a", pa.string())])) == [
        "column 'a' was BIGINT and becomes VARCHAR",
        "column 'b' (VARCHAR) is removed",
    ]


# Hops ----------------------------------------------------------------------------------------------------------------

HOPS = "SELECT s.v AS total FROM s [RANGE 10 SECONDS], r [ROWS 30] WHERE s.k = r.k HOP BY 5 SECONDS"
DELTAS = "SELECT COUNT(*) AS total FROM s [RANGE 3 SECONDS] HOP BY 2 SECONDS EMIT DELTA"


def test_the_span_of_a_hop_is_that_of_its_windows() -> None:
    assert str(reach_of(make_plan(parse_query(HOPS, CATALOG))).span) == "10 seconds and 30 rows of r"
    found = reach_of(make_plan(parse_query(DELTAS, CATALOG))).span
    assert (found.us, found.drain, found.at_once) == (3_000_000, "3 seconds", False)
    keyed = make_plan(parse_query("SELECT k FROM s [ROWS 2 PARTITION BY k] HOP BY 1 SECOND", CATALOG))
    assert "which may be never" in (reach_of(keyed).span.endless or "")


@pytest.mark.parametrize(("old", "new"), [(HOPS, DELTAS), (DELTAS, JOIN), (JOIN, HOPS), (rows_sum(3), DELTAS)])
def test_with_hops_no_more_is_promised_than_in_general(old: str, new: str) -> None:
    plans = [make_plan(parse_query(sql, CATALOG)) for sql in (old, new)]
    for label, found in guarantees(*plans).items():
        assert not found.refused
        for name in SAFETY:
            assert not found.cells[name].holds or FIG_10[label][name], (label, name)


def test_a_hopping_query_answers_at_the_next_hop() -> None:
    old, new = (make_plan(parse_query(sql, CATALOG)) for sql in (HOPS, DELTAS))
    known = Statistics(rows_per_s={"s": 10.0, "r": 2.0})
    timing = forecast_change(old, new, known, known).timings["drain/stream"]
    assert (timing.old_gone_s, timing.first_answer_s) == (15.0, 2.0)

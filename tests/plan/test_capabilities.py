"""Every limit of the table is met by a query, which is refused with the sentence of the table."""

import re
from collections.abc import Callable

import pytest
from lang.streams import CATALOG

from midstream.change.repository import check_change, check_control
from midstream.change.request import ChangeRequest, ControlRequest
from midstream.engine.planning.adapt import adaptation_of
from midstream.engine.planning.plans import check_hop_request, migrated, plan_hopping
from midstream.lang.sql import parse_query
from midstream.local.replay import make_plan
from midstream.migrate.request import MigrationRequest
from midstream.model.errors import MidstreamError
from midstream.operators.build import check_framework
from midstream.plan.capabilities import LIMITS
from midstream.plan.plan import Plan

A, B, C = (f"SELECT k FROM {name} [ROWS 1]" for name in ("stock", "prices", "orders"))

QUERIES = {
    "operator": (f"{A} UNION {B}", f"{A} INTERSECT {B}", "SELECT DISTINCT k FROM stock [ROWS 1]"),
    "EXCEPT ALL": (f"{A} EXCEPT ALL {B}",),
    "nested EXCEPT": (f"{A} EXCEPT ({B} EXCEPT {C})",),
    "EXCEPT over a join": (f"{A} EXCEPT SELECT x.k FROM stock [ROWS 1] x, orders [ROWS 1] y",),
    "aggregates in a difference": (f"{A} EXCEPT SELECT COUNT(*) FROM stock [ROWS 1]",),
    "long difference": (" EXCEPT ".join([A] * 63),),
    "window over a set operation": (f"SELECT COUNT(*) FROM ({A} EXCEPT {B}) [ROWS 3 SLIDE 1]",),
    "join over a subquery": (f"SELECT 1 AS one FROM ({A}) a, prices [ROWS 1] b",),
    "anti join": (
        "SELECT a.k FROM stock [ROWS 1] a ANTI JOIN prices [ROWS 1] b ON a.k = b.k",
        f"{A} WHERE NOT EXISTS ({B})",
    ),
    "subquery as a condition": (f"{A} WHERE k = ({B})", f"{A} WHERE k = ({B}) HOP BY 1 SECOND"),
    "window that slides": ("SELECT COUNT(*) FROM stock [ROWS 1 SLIDE 1] HOP BY 1 SECOND",),
    "window over a subquery": (f"SELECT COUNT(*) FROM ({A}) [ROWS 1 SLIDE 1] HOP BY 1 SECOND",),
    "INTERSECT ALL": (f"{A} INTERSECT ALL {B} HOP BY 1 SECOND",),
    "stream without a window": ("SELECT k FROM stock HOP BY 1 SECOND",),
    "window of no length": ("SELECT k FROM stock [RANGE 0 SECONDS] HOP BY 1 SECOND",),
    "EXISTS": (f"{A} WHERE EXISTS ({B}) HOP BY 1 SECOND",),
    "IN with a subquery": (f"{A} WHERE k IN ({B}) HOP BY 1 SECOND", f"{A} WHERE k IN ({B})"),
    "NOT IN with a subquery": (f"{A} WHERE k NOT IN ({B}) HOP BY 1 SECOND", f"{A} WHERE k NOT IN ({B})"),
}
SLIDING = "stock [ROWS 3 SLIDE 3]"
QUERIES |= {
    "window that slides in a join": (
        f"SELECT a.k FROM {SLIDING} a, prices [ROWS 3] b",
        "SELECT COUNT(*) FROM stock [START WHEN k = 1 END WHEN k = 2] a, prices [ROWS 3] b",
    ),
    "window that slides without an aggregate": (f"SELECT k FROM {SLIDING}",),
}
PLANS = {"join order of a difference": ("(prices stock)", "auto"), "join method of a difference": (None, "hash")}
JOINED = (
    "SELECT a.k FROM stock [{}] a, prices [RANGE 1 SECOND] b, orders [RANGE 1 SECOND] c WHERE a.k = b.k AND b.k = c.k"
)
HOPPING, COUNTED = f"{A} HOP BY 1 SECOND", f"{A} HOP BY 9 ROWS"
OVER_JOIN = f"SELECT COUNT(*) FROM ({JOINED.format('RANGE 1 SECOND')}) [ROWS 3 SLIDE 1]"
ASKED: dict[str, tuple[str, Callable[[Plan], object]]] = {
    "framework of a difference": (f"{A} EXCEPT {B}", lambda plan: check_framework(plan, "cacq")),
    "framework of hops": (HOPPING, lambda plan: check_framework(plan, "cacq")),
    "windows over results at sites": (OVER_JOIN, lambda plan: check_framework(plan, "sites")),
    "one stream at sites": (A, lambda plan: check_framework(plan, "sites")),
    "strategy of a difference": (
        f"{A} EXCEPT {B} EXCEPT {C}",
        lambda plan: migrate(plan, "hybrid", "((stock orders) prices)"),
    ),
    "parallel track over keyed rows": (
        JOINED.format("ROWS 3 PARTITION BY k"),
        lambda plan: migrate(plan, "parallel-track", "(a (b c))"),
    ),
    "parallel track below windows": (OVER_JOIN, lambda plan: migrate(plan, "parallel-track", "(a (b c))")),
    "adaptation": (A, lambda plan: adaptation_of("modes", plan)),
    "join method of hops": (HOPPING, lambda plan: make_plan(plan.query, None, "hash")),
    "migration of hops": (HOPPING, lambda plan: check_hop_request(MigrationRequest("same", "hybrid"))),
    "other hop by rows": (COUNTED, lambda plan: migrated(plan, MigrationRequest("same hop=7s"))),
    "tuples between hops of rows": (COUNTED, lambda plan: plan_hopping(plan.query, "working=tuple")),
    "change of hops of rows": (COUNTED, lambda plan: check_change(plan, plan, ChangeRequest(""))),
    "general migration of hops of rows": (
        COUNTED,
        lambda plan: migrated(plan, MigrationRequest("same", "general-hybrid")),
    ),
    "general migration to another hop": (
        HOPPING,
        lambda plan: migrated(plan, MigrationRequest("same hop=7s", "general-hybrid")),
    ),
}
"""What cannot be asked of a query that can be answered."""
CHANGES = ("change of a difference", "drain of a difference")


def pattern(limit: str) -> str:
    return "^" + re.sub(r"\\{\w+\\}", ".+", re.escape(LIMITS[limit].sentence))


@pytest.mark.parametrize(("limit", "text"), [(limit, text) for limit, texts in QUERIES.items() for text in texts])
def test_a_query_that_cannot_be_answered_is_refused_by_name(limit: str, text: str) -> None:
    with pytest.raises(MidstreamError, match=pattern(limit)):
        parse_query(text, CATALOG)


@pytest.mark.parametrize("limit", PLANS)
def test_a_plan_that_a_difference_cannot_have_is_refused_by_name(limit: str) -> None:
    with pytest.raises(MidstreamError, match=pattern(limit)):
        make_plan(parse_query(f"{A} EXCEPT {B}", CATALOG), *PLANS[limit])


def migrate(plan: Plan, strategy: str, target: str) -> MigrationRequest:
    return MigrationRequest(target, strategy).checked(plan)


@pytest.mark.parametrize("limit", ASKED)
def test_what_a_query_cannot_be_asked_is_refused_by_name(limit: str) -> None:
    text, ask = ASKED[limit]
    plan = make_plan(parse_query(text, CATALOG))
    assert LIMITS[limit].hops == plan.query.joint
    with pytest.raises(MidstreamError, match=pattern(limit)):
        ask(plan)


def test_a_change_that_a_difference_cannot_do_is_refused_by_name() -> None:
    plans = [make_plan(parse_query(text, CATALOG)) for text in (A, f"{A} EXCEPT {B}")]
    for old, new in (plans, plans[::-1]):
        with pytest.raises(MidstreamError, match=pattern("change of a difference")):
            check_change(old, new, ChangeRequest("", method="drain"))
    with pytest.raises(MidstreamError, match=pattern("drain of a difference")):
        check_control(ControlRequest("dstop"), plans)


@pytest.mark.parametrize(("limit", "text"), [(limit, text) for limit, texts in QUERIES.items() for text in texts])
def test_a_limit_is_of_the_queries_it_is_said_to_be_of(limit: str, text: str) -> None:
    assert LIMITS[limit].hops in (None, text.endswith("HOP BY 1 SECOND"))


@pytest.mark.parametrize("text", [t for limit, texts in QUERIES.items() if LIMITS[limit].at_hops for t in texts])
def test_what_a_query_that_hops_can_do_is_said_and_true(text: str) -> None:
    with pytest.raises(MidstreamError, match="a query that hops can do it: write HOP BY"):
        parse_query(text, CATALOG)
    assert parse_query(f"{text} HOP BY 1 SECOND", CATALOG).hop_us == 1_000_000


def test_a_query_that_counts_rows_is_asked_nothing_that_is_of_times() -> None:
    counted, hops = (make_plan(parse_query(text, CATALOG)) for text in (COUNTED, HOPPING))
    for old, new in ((counted, hops), (hops, counted)):
        with pytest.raises(MidstreamError, match=pattern("change of hops of rows")):
            check_change(old, new, ChangeRequest(""))
    with pytest.raises(MidstreamError, match=pattern("change of hops of rows")):
        check_control(ControlRequest("istop"), [counted])
    with pytest.raises(MidstreamError, match=pattern("other hop by rows")):
        adaptation_of("hop=1s..9s", counted)
    with pytest.raises(MidstreamError, match=pattern("tuples between hops of rows")):
        migrated(counted, MigrationRequest("same working=tuple"))


def test_what_is_advised_instead_of_a_subquery_in_a_condition_can_be_written() -> None:
    joined = "SELECT s.k FROM stock [ROWS 1] s JOIN (SELECT DISTINCT k FROM prices [ROWS 1]) x ON s.k = x.k"
    absent = f"SELECT s.k FROM stock [ROWS 1] s WHERE NOT EXISTS ({B} WHERE prices.k = s.k)"
    for text in (joined, absent):
        assert parse_query(f"{text} HOP BY 1 SECOND", CATALOG).hop_us == 1_000_000


def test_every_limit_has_an_example() -> None:
    assert {*QUERIES, *PLANS, *ASKED, *CHANGES} == set(LIMITS)

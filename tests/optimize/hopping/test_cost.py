"""What operators cost in their modes: the shapes that the thesis found."""

import math

import pytest
from optimize.hopping.random_plans import INT, SECOND, equal
from optimize.hopping.test_rules import col, project, scan

from midstream.model.statistics import Statistics
from midstream.optimize.hopping.assign_modes import assign_modes
from midstream.optimize.hopping.cost import Constants, Cost, cost, operator_name
from midstream.optimize.hopping.estimate import Sizes
from midstream.plan.aggregates import Aggregate
from midstream.plan.algebra import Anti, Distinct, Except, Group, Join, Rel, Select, Union
from midstream.plan.expr import Call, Column, Literal
from midstream.plan.modes import MODES, TUPLE, WINDOW
from midstream.plan.query import COMPLETE, DELTA

KNOWN = Statistics(rows_per_s={"a": 1000.0, "b": 1000.0}, distinct={(a, n): 10_000.0 for a in "ab" for n in "kx"})
JOIN = Join(scan("a", 1), scan("b", 2), (equal(col("a"), col("b")),))
LESS = Except(scan("a", 1, "k"), scan("b", 2, "k"), True)
ALL: list[Rel] = [
    JOIN,
    LESS,
    Except(scan("a", 1), scan("b", 2), False),
    Anti(scan("a", 1), scan("b", 2), (equal(col("a"), col("b")),)),
    Anti(scan("a", 1), scan("b", 2), (Call("<", (col("a"), col("b")), equal(col("a"), col("b")).type),)),
    Distinct(scan("a", 1)),
    Select(scan("a", 1), (equal(col("a"), Literal(1, INT)),)),
    project(scan("a", 1), "p", col("a")),
    Union(scan("a", 1), scan("b", 2), tuple(Column("u", n, INT) for n in "kx")),
    Group(scan("a", 1), "g", (col("a"),), (Aggregate("count", None, INT),)),
]


def total(rel: Rel, mode: str, hop_s: float, way: str = WINDOW) -> float:
    return cost(rel, mode, way, Sizes(KNOWN, int(hop_s * SECOND)), Constants(fixed=0.0)).total


@pytest.mark.parametrize("rel", [JOIN, LESS])
def test_deltas_are_cheaper_for_short_hops_and_complete_relations_for_long_ones(rel: Rel) -> None:
    assert total(rel, "DIDO", 1) < total(rel, "CICO", 1)
    assert total(rel, "CICO", 10) < total(rel, "DIDO", 10)
    # Reading complete relations costs the same for every hop; reading deltas costs more with longer ones, until so
    # little stays of a window that hardly anything is moved.
    assert total(rel, "CICO", 1) == pytest.approx(total(rel, "CICO", 10))
    costs = [total(rel, "DIDO", hop) for hop in range(1, 7)]
    assert costs == sorted(costs)


@pytest.mark.parametrize("rel", ALL)
@pytest.mark.parametrize("hop_s", [0.1, 3, 10, 30])
def test_converting_costs_more_than_not_converting(rel: Rel, hop_s: float) -> None:
    assert total(rel, "DICO", hop_s) >= total(rel, "DIDO", hop_s)
    assert total(rel, "CIDO", hop_s) >= total(rel, "CICO", hop_s)
    assert total(rel, "DIDO", hop_s, TUPLE) > total(rel, "DIDO", hop_s)
    assert total(rel, "CICO", hop_s, TUPLE) == total(rel, "CICO", hop_s)


def test_parts_are_named_and_add_up() -> None:
    sizes = Sizes(KNOWN, SECOND)
    for mode in MODES:
        told = cost(JOIN, mode, WINDOW, sizes, Constants())
        assert told.total == pytest.approx(sum(told.parts.values()))
        assert {"fixed", "insert", "probe", "concatenate"} <= set(told.parts)
        assert ("read" in told.parts) == (mode[0] == "D"), "a whole window is handed over as it is"
        assert ("conversion" in told.parts) == (mode[0] != mode[2])
        assert ("purge" in told.parts) == (mode[0] == "D")


def test_a_join_costs_by_the_formulas() -> None:
    c = Constants()
    told = cost(JOIN, "DIDO", WINDOW, Sizes(KNOWN, SECOND), c)
    out = 10_000 * 10_000 / 10_000
    assert told.insert == pytest.approx(c.insert * 2000)
    fetched = 10_000 * -math.expm1(-out * (1 - 0.9 * 0.9) / 2 / 10_000)
    assert told.probe == pytest.approx(c.lookup * 2000 + c.fetch * 2 * fetched)
    assert told.concatenate == pytest.approx(c.concatenate * out * (1 - 0.9 * 0.9))
    assert told.purge == pytest.approx(c.purge * 2000 * 0.9 + c.scan * 20_000)
    told = cost(JOIN, "CIDO", WINDOW, Sizes(KNOWN, SECOND), c)
    assert told.insert == pytest.approx(c.build * 10_000)
    assert told.probe == pytest.approx(c.lookup * 10_000 + c.fetch * 10_000 * -math.expm1(-out / 10_000))
    assert told.conversion == pytest.approx(2 * c.match * out + c.pick * out * (1 - 0.9 * 0.9))


@pytest.mark.parametrize("hop_s", [1.0, 2.0, 3.3, 5.0])
def test_more_pairs_than_can_be_kept_are_not_kept(hop_s: float) -> None:
    """Groups over a join are computed from pairs as they are found; an answer that is cached is all of them."""
    for per_s in (100_000.0, 300_000.0):
        known = Statistics(rows_per_s=dict.fromkeys("ab", per_s), distinct={(a, "k"): 33_000.0 for a in "ab"})
        best = Call("<=", (col("a", "x"), col("b", "x")), equal(col("a"), col("b")).type)
        pairs = Join(scan("a", 1), scan("b", 2), (equal(col("a"), col("b")), best))
        groups = Group(pairs, "g", (col("a"), col("a", "x")), (Aggregate("count", None, INT),))
        sizes = Sizes(known, int(hop_s * SECOND))
        assert sizes.of(pairs).complete > 1e7
        for emit in (COMPLETE, DELTA):
            join, _ = assign_modes(groups, emit, sizes, Constants()).modes
            assert join in ("DIDO", "CICO")


def test_an_operator_may_have_constants_of_its_own() -> None:
    own = Constants(own={"join": Constants(build=7.0)})
    assert cost(JOIN, "CICO", WINDOW, Sizes(KNOWN, SECOND), own).insert == pytest.approx(7.0 * 10_000)
    assert own.of(operator_name(Except(scan("a", 1), scan("b", 2)))) is own


def test_deltas_pay_for_their_way_out() -> None:
    sizes, c = Sizes(KNOWN, SECOND), Constants()
    told = {mode: cost(JOIN, mode, WINDOW, sizes, c, emitted=True).emission for mode in MODES}
    new, held = 10_000 * (1 - 0.9 * 0.9), 10_000
    assert told == {
        "DIDO": pytest.approx(c.match * 2 * new + c.cache * new + c.hold * held),
        "DICO": 0,
        "CICO": 0,
        "CIDO": 0,
    }
    assert cost(LESS, "DIDO", WINDOW, sizes, c, True).emission < c.match * 3 * sizes.of(LESS).positive, (
        "nothing is held"
    )


def test_without_a_key_all_pairs_are_looked_at() -> None:
    less = Call("<", (col("a"), col("b")), equal(col("a"), col("b")).type)
    told = cost(Join(scan("a", 1), scan("b", 2), (less,)), "CICO", WINDOW, Sizes(KNOWN, SECOND), Constants())
    assert told.concatenate == pytest.approx(1e8 * (Constants().concatenate + Constants().select))


def test_costs_add() -> None:
    assert (Cost(insert=1.0) + Cost(insert=2.0, probe=3.0)).parts == {"insert": 3.0, "probe": 3.0}

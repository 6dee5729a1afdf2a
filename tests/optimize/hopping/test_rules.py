"""Every move of a difference or an anti-join gives the same bag: on random trees, against brute force."""

import random

import pytest
from optimize.hopping.brute_force import answer
from optimize.hopping.exhaustive import TooMany, _Trees, moved_once
from optimize.hopping.random_plans import INT, SECOND, STREAMS, RandomPlans, equal

from midstream.optimize.hopping.fresh import Fresh, aliases_in
from midstream.optimize.hopping.graph import Difference, Graph, graph_of
from midstream.optimize.hopping.pull_difference import Move, project_below, pull_difference
from midstream.optimize.hopping.push_difference import push_difference, push_differences
from midstream.plan.algebra import Anti, Distinct, Except, Join, Project, Rel, Scan, Select
from midstream.plan.expr import Call, Column, Expr, Literal
from midstream.plan.source import Source
from midstream.plan.window import RangeWindow


def scan(alias: str, stream: int, names: str = "kx", seconds: int = 10) -> Scan:
    source = Source(alias, STREAMS[stream], stream, RangeWindow(seconds * SECOND))
    return Scan(source, tuple(Column(alias, n, INT) for n in names))


def col(alias: str, name: str = "k") -> Column:
    return Column(alias, name, INT)


def project(rel: Rel, alias: str, *exprs: Expr) -> Rel:
    return Project(rel, tuple((Column(alias, f"c{i}", INT), e) for i, e in enumerate(exprs)))


def same_rows(a: Rel, b: Rel, tries: int = 60) -> bool:
    plans = RandomPlans(random.Random(7))
    return all(answer(a, t) == answer(b, t) for t in (plans.tables() for _ in range(tries)))


def tree(graph: Graph) -> Rel:
    """Return some tree of a graph as it is."""
    return _Trees(1_000_000).graph(graph, ordered=True)[0]


def soldiers(all_: bool = True, columns: tuple[str, ...] = ("x", "k")) -> Rel:
    """The query of the thesis: positions of healthy soldiers, less positions of those low on supply."""
    left = Join(scan("gps", 0), scan("healthy", 1, "k"), (equal(col("gps"), col("healthy")),))
    right = Join(scan("gps2", 0), scan("low", 2, "k"), (equal(col("gps2"), col("low")),))
    chosen = [project(r, p, *(col(a, n) for n in columns)) for r, p, a in ((left, "p", "gps"), (right, "q", "gps2"))]
    return Except(chosen[0], chosen[1], all_)


def test_what_both_sides_join_is_joined_once() -> None:
    graph = push_differences(graph_of(soldiers()))
    leaf, difference = graph.parts
    assert isinstance(leaf, Scan)
    assert leaf.source.alias == "gps"
    assert isinstance(difference, Difference)
    assert [c.alias for c in (*difference.columns, *difference.right.columns)] == ["healthy", "low"]
    assert [str(c) for c in graph.columns] == ["p.c0", "p.c1"]
    assert same_rows(soldiers(), tree(graph))


def test_sets_are_made_sets_again_above_the_join() -> None:
    graph = push_differences(graph_of(soldiers(all_=False)))
    assert isinstance(graph.parts[0], Graph)
    assert graph.parts[0].distinct
    assert same_rows(soldiers(all_=False), tree(graph))


def test_nothing_is_taken_out_when_the_key_is_not_selected() -> None:
    # Two soldiers at one place: without the key it does not show whose row is taken away.
    graph = graph_of(soldiers(columns=("x",)))
    assert isinstance(graph.parts[0], Difference)
    assert push_difference(graph.parts[0]) is None


@pytest.mark.parametrize("odd", ["window", "filter", "condition", "position"])
def test_nothing_is_taken_out_when_the_sides_differ(odd: str) -> None:
    rights: Rel = scan("gps2", 0, seconds=20 if odd == "window" else 10)
    if odd == "filter":
        rights = Select(rights, (equal(col("gps2", "x"), Literal(1, INT)),))
    on = col("gps2", "x" if odd == "condition" else "k")
    right = Join(rights, scan("low", 2, "k"), (equal(on, col("low")),))
    left = Join(scan("gps", 0), scan("healthy", 1, "k"), (equal(col("gps"), col("healthy")),))
    names = ("k", "x") if odd == "position" else ("x", "k")
    sides = project(left, "p", col("gps", "x"), col("gps")), project(right, "q", *(col("gps2", n) for n in names))
    difference = graph_of(Except(*sides, True)).parts[0]
    assert isinstance(difference, Difference)
    assert push_difference(difference) is None


def test_a_condition_other_than_equality_is_taken_out_when_both_columns_are_selected() -> None:
    def side(s: str, a: str, number: int, p: str) -> Rel:
        less = Call("<", (col(s), col(a)), equal(col(s), col(a)).type)
        return project(Join(scan(s, 0), scan(a, number, "k"), (less,)), p, col(s, "x"), col(a))

    rel = Except(side("s", "a", 1, "p"), side("t", "b", 2, "q"), True)
    graph = push_differences(graph_of(rel))
    assert len(graph.parts) == 2
    assert same_rows(rel, tree(graph))


def test_a_copy_has_a_fresh_alias() -> None:
    difference = Except(scan("a", 1), scan("b", 2), True)
    rel = Join(difference, scan("s", 0), (equal(col("a"), col("s")),))
    graph = graph_of(rel)
    fresh = Fresh(aliases_in(rel) | {"s_2"})
    pulled = pull_difference(graph, Move(0, frozenset([1])), fresh)
    assert pulled is not None
    part = pulled.parts[0]
    assert isinstance(part, Difference)
    assert [str(c) for c in part.right.columns] == ["b.k", "b.x", "s_3.k", "s_3.x"]
    assert [str(c) for c in pulled.columns] == ["a.k", "a.x", "s.k", "s.x"]
    assert same_rows(rel, tree(pulled))


def test_a_difference_of_sets_is_pulled_up_only_where_doubles_do_not_matter() -> None:
    difference = Except(scan("a", 1), scan("b", 2), False)
    rel = Join(difference, scan("s", 0), (equal(col("a"), col("s")),))
    move = Move(0, frozenset([1]))
    assert pull_difference(graph_of(rel), move, Fresh()) is None
    once = Distinct(rel)
    pulled = pull_difference(graph_of(once), move, Fresh(aliases_in(rel)))
    assert pulled is not None
    assert same_rows(once, tree(pulled))


def test_a_projection_goes_below_a_difference_only_with_what_decides() -> None:
    difference = Except(scan("a", 1), scan("b", 2), True)
    assert project_below(graph_of(project(difference, "p", col("a")))) is None
    both = project_below(graph_of(project(difference, "p", col("a", "x"), col("a"))))
    assert both is not None
    assert same_rows(project(difference, "p", col("a", "x"), col("a")), tree(both))


def test_anti_joins_stand_anywhere_above_their_columns() -> None:
    joined = Join(scan("a", 1), scan("s", 0), (equal(col("a"), col("s")),))
    late = project(Anti(joined, scan("r", 2), (equal(col("a", "x"), col("r")),)), "p", col("a"), col("s", "x"))
    places = _Trees(100).graph(graph_of(late), ordered=True)
    assert any(isinstance(p.child, Join) for p in places if isinstance(p, Project))
    assert any(isinstance(p.child, Anti) for p in places if isinstance(p, Project))
    assert all(same_rows(late, p) for p in places)


@pytest.mark.slow
def test_random_moves_keep_the_rows() -> None:
    """Every single move from random queries, and all moves from those that pushing down leads to."""
    moved = rows = 0
    for seed in range(100):
        plans = RandomPlans(random.Random(seed))
        root = plans.small_query(10)
        graph = graph_of(root)
        fresh = Fresh(aliases_in(root))
        starts = [graph, push_differences(graph)]
        others = [g for start in starts for g in moved_once(start, False, fresh)]
        tables = [plans.tables() for _ in range(5)]
        wanted = [answer(root, t) for t in tables]
        for other in [*starts, *others][:25]:
            rel = tree(other)
            assert [answer(rel, t) for t in tables] == wanted, f"seed {seed}"
            moved += 1
        rows += sum(sum(w.values()) for w in wanted)
    assert moved > 500
    assert rows > 1000, "queries that give nothing show nothing"


def test_all_join_orders_and_anti_joins_keep_the_rows() -> None:
    for seed in range(40):
        plans = RandomPlans(random.Random(seed))
        root = plans.small_query(7)
        tables = [plans.tables() for _ in range(3)]
        wanted = [answer(root, t) for t in tables]
        try:
            trees = _Trees(200).graph(graph_of(root), ordered=True)
        except TooMany:
            continue
        for rel in trees[:40]:
            assert [answer(rel, t) for t in tables] == wanted, f"seed {seed}"

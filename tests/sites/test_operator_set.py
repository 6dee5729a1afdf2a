"""Operator sets: the examples of the paper as they are printed, and every plan of four streams by its definition."""

import itertools
import random

import pytest

from midstream.model.errors import PlanError
from midstream.sites.operator_set import Flow, Join, Operator, Ship, Update, operator_sets, read_operator_set
from midstream.sites.plan import ProbeSequence, SitesPlan, read_sites_plan

EXAMPLE = SitesPlan(
    (
        ProbeSequence("1", ("2", "3"), (1, 1)),
        ProbeSequence("2", ("1", "3"), (0, 1)),
        ProbeSequence("3", ("1", "2"), (0, 0)),
    )
)


def test_example_1_is_the_plan() -> None:
    assert str(EXAMPLE) == ("SEP_1 = ([S_2, S_3], [1, 1])\nSEP_2 = ([S_1, S_3], [0, 1])\nSEP_3 = ([S_1, S_2], [0, 0])")


def test_example_2_gives_the_printed_operator_sets() -> None:
    sets = operator_sets(EXAMPLE)
    assert [sets["1"].text_of(head) for head in "123"] == [
        "NOS^1_1 = {ship(S_1, N_2)}",
        "NOS^2_1 = {ship(S_1, N_2)}",
        "NOS^3_1 = {ship(S_1, N_3)}",
    ]
    assert str(sets["1"]) == "NOS_1 = {ship(S_1, N_2), ship(S_1, N_3)}"
    # Printed with update(S_1) before join(S_2, S_1).
    assert str(sets["2"]) == (
        "NOS_2 = {join(S_1, S_2), update(S_2), ship(S^1_2, N_3), join(S_2, S_1), update(S_1), ship(S^2_1, N_3), "
        "ship(S_2, N_3)}"
    )
    assert str(sets["3"]) == (
        "NOS_3 = {join(S^1_2, S_3), update(S_3), ship(S^1_3, N_0), join(S^2_1, S_3), ship(S^2_3, N_0), join(S_3, S_1), "
        "join(S^3_1, S_2), update(S_1), update(S_2), ship(S^3_2, N_0)}"
    )


def test_example_3_gives_the_printed_operator_sets() -> None:
    before = operator_sets(EXAMPLE)
    assert [before[node].text_of("1") for node in "123"] == [
        "NOS^1_1 = {ship(S_1, N_2)}",
        "NOS^1_2 = {join(S_1, S_2), update(S_2), ship(S^1_2, N_3)}",
        "NOS^1_3 = {join(S^1_2, S_3), update(S_3), ship(S^1_3, N_0)}",
    ]
    after = operator_sets(SitesPlan((ProbeSequence("1", ("3", "2"), (0, 1)), *EXAMPLE.sequences[1:])))
    assert [after[node].text_of("1") for node in "123"] == [
        "NOS^1_1 = {join(S_1, S_3), update(S_3), ship(S^1_3, N_2)}",
        "NOS^1_2 = {join(S^1_3, S_2), update(S_2), ship(S^1_2, N_0)}",
        "NOS^1_3 = {ship(S_3, N_1)}",
    ]


def by_definition(plan: SitesPlan) -> dict[str, dict[str, set[Operator]]]:
    """Follow each sequence step by step, and note who has to do what so that it can happen."""
    done: dict[str, dict[str, set[Operator]]] = {a: {h: set() for h in plan.aliases} for a in plan.aliases}
    for sequence in plan.sequences:
        head, here, flow = sequence.head, sequence.head, Flow(sequence.head, sequence.head)
        for stream, placement in zip(sequence.order, sequence.placements, strict=True):
            if placement:
                done[here][head].add(Ship(flow, stream))
                here = stream
            else:
                done[stream][head].add(Ship(Flow(stream, stream), here))
            done[here][head] |= {Join(flow, stream), Update(stream)}
            flow = Flow(head, stream)
        done[here][head].add(Ship(flow, "0"))
    return done


def drawn_plan(rng: random.Random, count: int) -> SitesPlan:
    names = [chr(97 + k) for k in range(count)]
    sequences = []
    for head in names:
        order = [n for n in names if n != head]
        rng.shuffle(order)
        sequences.append(ProbeSequence(head, tuple(order), tuple(rng.randrange(2) for _ in order)))
    return SitesPlan(tuple(sequences))


def check(plan: SitesPlan) -> None:
    expected, sets = by_definition(plan), operator_sets(plan)
    for node in plan.aliases:
        found = {h: set(sets[node].by_head.get(h, ())) for h in plan.aliases}
        assert found == expected[node], (plan, node)
        assert len(sets[node].operators) == len(set().union(*expected[node].values()))
        assert read_operator_set(sets[node].to_json()) == sets[node]
    assert read_sites_plan(plan.to_json()) == plan


def test_all_placements_of_four_streams() -> None:
    rest = tuple(ProbeSequence(h, tuple(x for x in "abcd" if x != h), (1, 1, 1)) for h in "bcd")
    for order in itertools.permutations("bcd"):
        for placements in itertools.product((0, 1), repeat=3):
            check(SitesPlan((ProbeSequence("a", order, placements), *rest)))


@pytest.mark.parametrize("seed", range(20))
def test_drawn_plans(seed: int) -> None:
    rng = random.Random(seed)
    check(drawn_plan(rng, rng.randint(2, 9)))


@pytest.mark.parametrize(
    ("sequences", "sentence"),
    [
        ([("a", "b", (1, 1)), ("b", "a", (1,))], "the probe sequence of 'a' has 1 joins and 2 placements"),
        ([("a", "bb", (1, 1)), ("b", "a", (1,))], "the probe sequence of 'a' names a stream twice: b, b"),
        ([("a", "b", (2,)), ("b", "a", (1,))], "neither 0 (source) nor 1 (destination)"),
        ([("a", "b", (1,)), ("b", "c", (1,))], "does not name each of a, b once"),
        ([("a", "b", (1,)), ("a", "b", (1,))], "one probe sequence for each stream"),
        ([("a", "", ())], "joins two streams or more"),
        ([("0", "b", (1,)), ("b", "0", (1,))], "'0' is the name of the query site"),
    ],
)
def test_what_is_no_plan_is_refused(sequences: list[tuple[str, str, tuple[int, ...]]], sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        SitesPlan(tuple(ProbeSequence(h, tuple(o), p) for h, o, p in sequences))
    assert sentence in str(refused.value)

"""The automata of the paper: one version (figure 5), two versions (figure 8), and the ways through them (table 1)."""

import itertools

import pytest

from midstream.change.lifecycle import (
    DRAINED,
    DRAINING,
    DSTOP,
    FSTART,
    ISTOP,
    RUNNING,
    STOPPED,
    TRANSITIONS,
    Element,
    Life,
    product,
)
from midstream.change.under_way import METHOD_OF

ELEMENTS = (FSTART, ISTOP, DSTOP)


def test_every_element_means_something_in_every_state() -> None:
    assert {(s, e) for s, e in TRANSITIONS if e != DRAINED} == set(
        itertools.product((STOPPED, RUNNING, DRAINING), ELEMENTS)
    )
    assert [s for s, e in TRANSITIONS if e == DRAINED] == [DRAINING], "only a drain ends by itself"


def test_two_versions_are_the_product_of_two_automata() -> None:
    reached, todo = set(), [(RUNNING, STOPPED)]
    while todo:
        states = todo.pop()
        if states in reached:
            continue
        reached.add(states)
        for version, element in itertools.product((0, 1), (*ELEMENTS, DRAINED)):
            if (states[version], element) in TRANSITIONS:
                after = product(states, version, element)
                assert after[1 - version] == states[1 - version], "one version's element is none of the other's"
                todo.append((after[0], after[1]))
    assert len(reached) == 9


@pytest.mark.parametrize(
    ("method", "way"),
    [
        ("immediate", ["SS", "SR"]),
        ("delayed-drain", ["DS", "SS", "SR"]),
        ("drain", ["DS", "DR", "SR"]),
        ("graceful-immediate", ["RR", "SR"]),
        ("graceful-drain", ["RR", "DR", "SR"]),
    ],
)
def test_the_ways_from_the_old_version_to_the_new_one(method: str, way: list[str]) -> None:
    old, new = Life(1), Life(2)
    old.apply(FSTART, 0)
    seen = []

    def apply(elements: list[Element]) -> None:
        for element in elements:
            (old if element.version == 1 else new).apply(element.kind, element.at_us)
            seen.append(old.state[0].upper() + new.state[0].upper())

    chosen = METHOD_OF[method]
    apply(chosen.begin([old], new, 10))
    apply(chosen.on_first_result([old], new, 20) if new.alive else [])
    if old.state == DRAINING:
        old.apply(DRAINED, 30)
        seen.append(old.state[0].upper() + new.state[0].upper())
        apply(chosen.on_drained([], new, 30))
    assert seen == way
    assert (old.state, new.state) == (STOPPED, RUNNING)

"""Join orders of hopping queries: joins are those of the order, and no answer notices, be it migrated to in any way."""

import random
from pathlib import Path

import pytest

from midstream.model.errors import PlanError
from midstream.optimize.hopping.choose import choose
from midstream.plan.algebra import Anti, Join, Rel, scans, walk
from midstream.plan.tree import Pair, Tree, leaves, tree_text
from oracle.hop_generate import draw_case
from oracle.hop_queries import HopCase
from oracle.hop_recompute import recompute
from oracle.test_hopping import check, draw_batch, parsed
from seeds import seeds

STRATEGIES = (None, "moving-state", "general-moving-state", "general-parallel-track", "general-hybrid")


def draw_order(rnd: random.Random, aliases: list[str]) -> Tree:
    """Draw any tree."""
    if len(aliases) == 1:
        return aliases[0]
    mixed = rnd.sample(aliases, len(aliases))
    cut = rnd.randrange(1, len(mixed))
    return Pair(draw_order(rnd, mixed[:cut]), draw_order(rnd, mixed[cut:]))


def follows(tree: Tree, left: set[str], right: set[str]) -> bool:
    """Tell whether a join of two sets of streams is one of an order, other streams left aside."""
    if not isinstance(tree, Pair):
        return False
    one, other = set(leaves(tree.left)), set(leaves(tree.right))
    split = (left <= one and right <= other) or (left <= other and right <= one)
    return split or follows(tree.left, left, right) or follows(tree.right, left, right)


def streams(side: Rel) -> set[str]:
    """Return the streams of a side of a join, less those of anti-joins, which may stand anywhere."""
    antis = {s.source.alias for _, rel in walk(side) if isinstance(rel, Anti) for s in scans(rel.right)}
    return {s.source.alias for s in scans(side)} - antis


def draw_ordered(rnd: random.Random) -> tuple[HopCase, list[str]]:
    """Draw a case of several streams and orders that it may have."""
    while True:
        case = draw_case(rnd)
        query = parsed(case)
        if not case.hops or len(query.aliases) < 3:
            continue
        orders = []
        for _ in range(12):
            tree = draw_order(rnd, list(query.aliases))
            try:
                plan = choose(query, shape=tree_text(tree))
            except PlanError:  # it takes apart what the query has together
                continue
            joins = [node for _, node in walk(plan.root) if isinstance(node, Join)]
            sides = [[streams(side) for side in (j.left, j.right)] for j in joins]
            assert all(follows(tree, *pair) for pair in sides), f"{tree} {plan}{case}"
            orders.append(tree_text(tree))
        if len(orders) > 1:
            return case, orders


@pytest.mark.parametrize("seed", seeds(0, 160, quick=3))
def test_any_order_gives_the_same_answers(seed: int, tmp_path: Path) -> None:
    rnd = random.Random(4_700_000 + seed)
    case, orders = draw_ordered(rnd)
    case = draw_batch(rnd, case)
    first, last = case.hops[0] - case.hop_us, case.hops[-1] + case.hop_us
    more = []
    for at_us in sorted(rnd.randint(first, last) for _ in range(rnd.randint(0, 3))):
        strategy = rnd.choice(STRATEGIES)
        more += ["[[at]]", f"time = {at_us}", f"migrate = '{rnd.choice(orders)}'"]
        more += [f'strategy = "{strategy}"'] if strategy else [f'modes = "{rnd.choice(["auto", "delta", "complete"])}"']
    check(case, recompute(case), tmp_path, rnd.choice(["auto", "delta", "complete"]), None, orders[0], more)

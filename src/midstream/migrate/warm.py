"""Warm up: load the kernels migrations need before one is asked for, so that the first one does not wait for them."""

import numpy as np

from midstream.migrate.characteristics import CharacteristicsTable, Region
from midstream.model.time import FOREVER_US
from midstream.operators.build import build
from midstream.operators.sliding.join import LEFT
from midstream.operators.sliding.key_set import KeySet
from midstream.operators.sliding.tree import JoinTree
from midstream.plan.plan import Plan

_loaded = False


def load_kernels(plan: Plan) -> None:
    """Call every kernel once on nothing; once per process."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    pipeline = build(plan)
    tree = pipeline.execution
    if not isinstance(tree, JoinTree) or not tree.steps:
        return
    keys = KeySet()
    keys.add(np.zeros(1, np.int64))
    keys.has(np.zeros(1, np.int64))
    position = pipeline.sources.position(0, 0)
    region = Region(dict.fromkeys(plan.query.aliases, position))
    table = CharacteristicsTable({frozenset(plan.query.aliases): [region]})
    join = tree.steps[0].join
    nothing = join.left.held.copy()
    join.left.live(FOREVER_US, 0, -1, pipeline.sources.evictions)
    join.entries_with(LEFT, np.empty(0, np.int64), FOREVER_US, 0, -1)
    join.fill(LEFT, nothing, 0, -1)
    join.reindex()
    pairs = join.pair(nothing, LEFT, FOREVER_US, False, 0, -1)
    table.needed(pairs, join.spec.components)

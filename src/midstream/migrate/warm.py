"""Warm up: load the kernels migrations need before one is asked for, so that the first one does not wait for them."""

import numpy as np

from midstream.migrate.characteristics import CharacteristicsTable, Region
from midstream.operators.build import build
from midstream.operators.sliding.entry import ROWS
from midstream.operators.sliding.key_set import KeySet
from midstream.plan.plan import Plan

_loaded = False


def load_kernels(plan: Plan) -> None:
    """Call every kernel that a migration of the plan may need on nothing; once per process."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    pipeline = build(plan)
    pipeline.execution.warm_up()
    keys = KeySet()
    keys.add(np.zeros(1, np.int64))
    keys.has(np.zeros(1, np.int64))
    aliases = tuple(plan.query.aliases)
    region = Region(dict.fromkeys(aliases, pipeline.sources.position(0, 0)))
    CharacteristicsTable({frozenset(aliases): [region]}).needed(np.empty((0, ROWS + len(aliases)), np.int64), aliases)

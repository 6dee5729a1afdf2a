"""Optimizing: whether a running query looks for a better plan by itself, and how often, and when it takes one."""

from dataclasses import dataclass
from functools import lru_cache

from midstream.engine.planning.adapt import MODES as MODES_OF_OPERATORS
from midstream.engine.planning.adapt import PLAN, Adaptation, adaptation_of
from midstream.model.errors import PlanError
from midstream.model.time import FOREVER
from midstream.optimize.order_joins import FEWEST_ROWS, can_choose
from midstream.plan.plan import Plan
from midstream.plan.query import CLOSE, HOP, ROW, Query, When
from midstream.plan.window import RangeWindow

AUTO, ADVISE, OFF = "auto", "advise", "off"
MODES = {
    AUTO: "go on with a better plan when it pays",
    ADVISE: "write down what would pay, and change nothing",
    OFF: "keep the plan",
}
_ORDERED: dict[When, bool] = {ROW: True, CLOSE: True, HOP: False}
"""Whether plans of what answers then are join orders; those of hops are looked at by hops."""
LOOKS_PER_WINDOW = 4
LEAST_LOOK_US, OTHER_LOOK_US = 250_000, 5_000_000
"""The least event time between two looks, and that of windows that are not a matter of time."""


@dataclass(frozen=True)
class Optimizing:
    """When another plan is taken."""

    mode: str = OFF
    gain: float = 0.9
    """Another plan must be expected to cost no more than this part of the one that runs."""
    at_once: float = 0.5
    """The part of that which one must be expected to cost that was found at this look for the first time."""
    patience: float = 0.5
    """Looks' worth of the running plan's work that another plan must have been expected to save by now."""
    share: float = 0.02
    """The part of all work that may go into looking."""
    fewest: int = FEWEST_ROWS
    """Rows of every stream that must be in its window."""
    fixed: float = 50_000.0
    """What any migration takes, in predicate evaluations: plans are built, kernels called on nothing."""
    quiet: float = 0.5
    """Parts of the widest window after a decision in which none is made, nor while a migration lasts; 0: always."""
    horizon: float = 4.0
    """For how many times the widest window what was seen is expected to last: a migration must pay in that."""

    @property
    def looks(self) -> bool:
        """Return whether anybody wants to know."""
        return self.mode != OFF


def optimizing_of(
    mode: "str | Optimizing | None", adapt: str | None, plan: Plan
) -> tuple[Optimizing, Adaptation | None]:
    """Return whether a query is optimized while it runs, and what a hopping one may adapt then; refuse nonsense.

    `adapt` says what; where it is given and nobody says whether, it is done.
    """
    adaptation = adaptation_of(adapt, plan)
    if isinstance(mode, str) and mode not in MODES:
        raise PlanError(f"optimize is {mode!r}; it can be {', '.join(MODES)}")
    chosen = mode if isinstance(mode, Optimizing) else Optimizing(mode or (OFF if adaptation is None else AUTO))
    if not chosen.looks and adaptation is not None:
        raise PlanError(f'adapt = "{adapt}" says what may be adapted, and optimize = "{OFF}" that nothing may')
    if chosen.looks and adaptation is None:
        adaptation = Adaptation(frozenset({MODES_OF_OPERATORS, PLAN}))
    return chosen, adaptation


@lru_cache(maxsize=256)
def look_every_us(query: Query) -> int:
    """Return the event time between two looks at the windows of a sliding query; FOREVER: nothing to choose."""
    if not _ORDERED[query.when] or not can_choose(query):
        return FOREVER
    width_us = widest_us(query)
    return OTHER_LOOK_US if width_us is None else max(width_us // LOOKS_PER_WINDOW, LEAST_LOOK_US)


def widest_us(query: Query) -> int | None:
    """Return the width of the widest window of time, if there is one."""
    return max((s.window.width_us for s in query.sources if isinstance(s.window, RangeWindow)), default=None)

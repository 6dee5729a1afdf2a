"""What is asked of a migration: the plan to go to, the strategy, its options. A value, checked when made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from midstream.model.errors import PlanError
from midstream.plan.capabilities import refuse
from midstream.plan.nodes import Join, MethodChoice, joins
from midstream.plan.plan import Plan, ordered_plan
from midstream.plan.query import Query
from midstream.plan.tree import parse_tree
from midstream.plan.window import RangeWindow, RowsWindow

MOVING_STATE, PARALLEL_TRACK, HYBRID, JUST_IN_TIME = "moving-state", "parallel-track", "hybrid", "just-in-time"
GENERAL_MOVING_STATE, GENERAL_PARALLEL_TRACK, GENERAL_HYBRID = (
    "general-moving-state", "general-parallel-track", "general-hybrid",
)  # fmt: skip
OF_JOINS = {
    MOVING_STATE: "compute the missing states at once, then go on; output pauses meanwhile",
    PARALLEL_TRACK: "run both plans until the old rows have expired; the new plan's output is held back until then",
    HYBRID: "run both plans, the old one only for what the new one cannot answer yet; output does not notice",
    JUST_IN_TIME: "go on with the new plan at once, completing its states key by key on demand",
}
"""Strategies that know the joins of both plans, and what each does."""
GENERAL = {
    GENERAL_MOVING_STATE: "run the old rows through the new pipeline, then go on with it; output pauses meanwhile",
    GENERAL_PARALLEL_TRACK: "run both pipelines; the old one answers until it holds nothing old; output goes on",
    GENERAL_HYBRID: "run old and new rows through the new one as there is time; output goes on",
}
"""Strategies for which a plan is a black box, with all that stands above its joins."""
STRATEGIES = OF_JOINS | GENERAL
AUTO = "auto"
ORDERINGS = ("parallel", "serialized")
OUTPUTS = ("buffered", "merged")
BUDGET = 100_000
"""Predicate evaluations per micro-batch that background computation may spend, unless said otherwise."""
REGIONS = ("auto", "pairs", "rows")
ROWS = 20_000
"""Rows per micro-batch that a new pipeline takes off its queues beyond those that came in it, unless said otherwise."""
OPTIONS = {
    "sharing": (HYBRID,),
    "background": (HYBRID,),
    "budget": (HYBRID,),
    "capacity": (HYBRID,),
    "region": (HYBRID,),
    "ordering": (HYBRID,),
    "output": (PARALLEL_TRACK,),
    "rows": (GENERAL_HYBRID,),
    "join": tuple(STRATEGIES),
}
"""Which strategies an option is for."""


@dataclass(frozen=True)
class MigrationRequest:
    """A migration to ask for. `at_us` is the event time it takes effect at; None: as soon as it is read."""

    plan: str
    strategy: str = AUTO
    at_us: int | None = None
    identity: str = ""
    join: str | None = None
    sharing: bool = True
    background: bool = False
    budget: int = BUDGET
    capacity: int | None = None
    """Evaluations per second of event time that a bucket may spend in all; the background has what rows leave of it."""
    region: str = "auto"
    """What the new plan lacks at the bottom: pairs of old rows, as HybMig has it, or all old rows of one input, which
    leaves more to the old plan. Pairs with background, else rows, unless said otherwise."""
    ordering: str = "parallel"
    output: str = "buffered"
    rows: int = ROWS

    def __post_init__(self) -> None:
        if not isinstance(self.plan, str):
            raise PlanError(f"a plan is text such as '((a b) c)', not {type(self.plan).__name__}")
        _one_of("strategy", self.strategy, (AUTO, *STRATEGIES))
        _one_of("ordering", self.ordering, ORDERINGS)
        _one_of("output", self.output, OUTPUTS)
        _one_of("region", self.region, REGIONS)
        for name in ("sharing", "background"):
            if type(getattr(self, name)) is not bool:
                raise PlanError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if type(self.budget) is not int or self.budget < 1:
            raise PlanError(f"budget must be a whole number of evaluations from 1 on, not {self.budget!r}")
        if self.capacity is not None and (type(self.capacity) is not int or self.capacity < 1):
            raise PlanError(f"capacity must be a whole number of evaluations from 1 on, not {self.capacity!r}")
        if self.capacity is not None and not self.background:
            raise PlanError("capacity is for background computation: ask for background as well")
        if self.region == "rows" and self.background:
            raise PlanError('background computation fills pairs of old rows: ask for region = "pairs", or none')
        if type(self.rows) is not int or self.rows < 1:
            raise PlanError(f"rows must be a whole number from 1 on, not {self.rows!r}")

    @property
    def pairs(self) -> bool:
        """Tell whether a hybrid's new plan lacks no more than pairs of old rows."""
        return self.background if self.region == "auto" else self.region == "pairs"

    @staticmethod
    def of(plan: str, strategy: str | None = None, options: Mapping[str, Any] | None = None, **more: Any
           ) -> "MigrationRequest":  # fmt: skip
        """Make a request, refusing options the strategy does not have."""
        options = dict(options or {})
        chosen = strategy or AUTO
        for name in options:
            if name not in OPTIONS:
                raise PlanError(f"a migration has no option '{name}'; it has {', '.join(OPTIONS)}")
            if chosen in STRATEGIES and chosen not in OPTIONS[name]:
                raise PlanError(f"option '{name}' is for {' and '.join(OPTIONS[name])}, not for {chosen}")
        return MigrationRequest(plan, chosen, **options, **more)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options that mean something for the strategy."""
        return {n: getattr(self, n) for n, who in OPTIONS.items() if self.strategy in who and n != "join"}

    def to_dict(self) -> dict[str, Any]:
        """Return the request as plain values."""
        return asdict(self)

    @property
    def general(self) -> bool:
        """Tell whether the plans are black boxes for its strategy."""
        return self.strategy in GENERAL

    def target(self, running: Plan) -> Plan:
        """Return the plan asked for: of the same query, so that it means the same."""
        tree = parse_tree(self.plan, running.query.aliases)
        method: MethodChoice = running.method
        if self.join is not None:
            _one_of("join", self.join, ("auto", "hash", "nested-loop"))
            method = self.join  # type: ignore[assignment]
        return ordered_plan(running.query, tree, method)

    def _chosen(self, running: Plan, target: Plan, complete: bool) -> str:
        """Return the strategy that has the options given, or else suits the plans."""
        given = [n for n in OPTIONS if n != "join" and getattr(self, n) != getattr(MigrationRequest, n)]
        able = [s for s in STRATEGIES if all(s in OPTIONS[n] for n in given)]
        if not able:
            other = next(n for n in given if OPTIONS[n] != OPTIONS[given[0]])
            raise PlanError(f"no strategy has both '{given[0]}' and '{other}'")
        return able[0] if given else choose_strategy(running, target, complete)

    def checked(self, running: Plan, complete: bool = True) -> "MigrationRequest":
        """Return the request with its strategy chosen, refusing what the query does not allow.

        `complete`: no state of the running plan lacks anything, left by an earlier migration.
        """
        target = self.target(running)
        strategy = self.strategy if self.strategy != AUTO else self._chosen(running, target, complete)
        if strategy not in strategies_of(running.query):
            raise refuse("strategy of a difference", strategy=strategy)
        windows = [s.window for s in running.query.sources]
        partitioned = [w for w in windows if isinstance(w, RowsWindow) and w.partition_by]
        if strategy == PARALLEL_TRACK and self.output == "buffered" and partitioned:
            raise refuse("parallel track over keyed rows", window=partitioned[0])
        if strategy == PARALLEL_TRACK and self.output == "buffered" and running.query.parts.stages:
            raise refuse("parallel track below windows")
        return MigrationRequest(**{**asdict(self), "strategy": strategy})


def strategies_of(query: Query) -> tuple[str, ...]:
    """Return the strategies that a query offers: what takes rows back must never answer from half-filled states."""
    return (JUST_IN_TIME, *GENERAL) if query.takes_back else tuple(STRATEGIES)


def choose_strategy(running: Plan, target: Plan, complete: bool = True) -> str:
    """Return the strategy for a migration nobody has chosen one for.

    The only one that knows the states of the query, if it is one. Nothing missing: moving-state, which then only moves.
    Every missing state is probed by key, or states the running plan has may still be incomplete: just-in-time. Else
    hybrid.
    """
    able = [strategy for strategy in strategies_of(running.query) if strategy in OF_JOINS]
    if len(able) == 1:
        return able[0]
    missing = missing_joins(running, target)
    if not missing and complete:
        return MOVING_STATE
    return JUST_IN_TIME if all(node.keys for node in missing) else HYBRID


def missing_joins(running: Plan, target: Plan) -> list[Join]:
    """Return the joins of the new plan that probe a state the running plan does not have."""
    have = {frozenset(j.aliases) for j in joins(running.layout)}
    return [
        node
        for node in joins(target.layout)
        if any(isinstance(c, Join) and frozenset(c.aliases) not in have for c in (node.left, node.right))
    ]


def overlap(first: str, second: str) -> bool:
    """Tell whether a migration by the second strategy goes on from states that one by the first has left incomplete."""
    return first == JUST_IN_TIME and second in (JUST_IN_TIME, MOVING_STATE)


def last_old_us(plan: Plan, position_us: int) -> int | None:
    """Return the time from which no row before a position is in its window, when windows are a matter of time alone."""
    widths = [s.window.width_us for s in plan.query.sources if isinstance(s.window, RangeWindow)]
    return position_us + max(widths) if len(widths) == len(plan.query.sources) else None


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise PlanError(f"{name} is {value!r}; it can be {', '.join(choices)}")

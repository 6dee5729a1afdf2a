"""Explain plans and migrations; of hopping queries every operator with its mode, and what it would cost in each."""

from collections.abc import Callable, Sequence

from midstream.engine.planning.constants import load_constants
from midstream.engine.planning.plans import migrated
from midstream.engine.run.family import family_of
from midstream.local.expected_cost import explain_cost
from midstream.local.sources import RecordedStream
from midstream.local.statistics import gather
from midstream.migrate.request import MigrationRequest
from midstream.model.statistics import Statistics
from midstream.model.time import format_duration
from midstream.optimize.hopping.choose import costs, left_out
from midstream.optimize.hopping.cost import Constants, cost
from midstream.optimize.hopping.estimate import Sizes
from midstream.optimize.migration_cost import MigrationForecast, forecast, forecast_black_boxes
from midstream.plan.algebra import (
    Anti,
    Distinct,
    Except,
    Group,
    Join,
    Project,
    Rel,
    Scan,
    Select,
    Union,
    Windowed,
    inputs,
    name_of,
    operators,
)
from midstream.plan.expr import Expr
from midstream.plan.modes import MODES
from midstream.plan.plan import Plan
from midstream.plan.query import CLOSE, DELTA, HOP, ROW, When

__all__ = ["MigrationForecast", "explain_migration", "explain_plan"]


def explain_plan(
    plan: Plan, streams: Sequence[RecordedStream] = (), statistics: Statistics | None = None, buckets: int = 1
) -> str:
    """Return a plan as people read it, for so many buckets.

    Costs are from the statistics of a running query, or else from the first rows of recorded streams.
    """
    text, expected = _EXPLAINED[plan.query.when](plan, streams, statistics)
    lines = [text]
    if buckets > 1:
        one = plan.partitioning.one_bucket
        lines.append(f"  1 of the {buckets} buckets asked for" if one else f"  {buckets} buckets")
    return "\n".join([*lines, *expected])


def explain_migration(
    plan: Plan,
    request: MigrationRequest,
    streams: Sequence[RecordedStream] = (),
    statistics: Statistics | None = None,
    batch_us: int | None = None,
) -> tuple[str, Plan, MigrationForecast | None]:
    """Say what a migration would find and cost, before anything happens; `batch_us` is how wide micro-batches are.

    Return that as people read it, the plan it would go to, and a forecast of its strategies where there are several.
    """
    if family_of(plan).chosen_by_cost:
        known = _known(plan, streams, statistics)
        target = migrated(plan, request, known)
        lines = _explain_hop_migration(plan, target, known, load_constants(), request)
        return "\n".join(lines), target, None
    target = request.target(plan)
    known = gather(plan.query, streams) or Statistics()
    batch_s = None if batch_us is None else batch_us / 1e6
    found = forecast(plan, target, known, request.checked(plan).strategy, request.rows, batch_s)
    return str(found), target, found


def _known(plan: Plan, streams: Sequence[RecordedStream], statistics: Statistics | None) -> Statistics:
    return statistics or gather(plan.query, streams) or Statistics()


Explained = tuple[str, list[str]]
"""A plan, and what it would cost where that stands below it."""


def _explain_sliding(plan: Plan, streams: Sequence[RecordedStream], statistics: Statistics | None) -> Explained:
    return plan.explain(), explain_cost(plan, streams)


def _explain_hopping(plan: Plan, streams: Sequence[RecordedStream], statistics: Statistics | None) -> Explained:
    """Return a hopping plan as people read it: output, tree with costs, windows, partitioning."""
    query, known, constants = plan.query, _known(plan, streams, statistics), load_constants()
    lines = ["Output", *(f"  {c.name}: {c.type}" for c in query.root.columns)]
    of = "how many rows there were before the answer" if query.counts else "the time the answer is of"
    lines.append(f"  _hop: {of}, a multiple of the hop")
    if query.emit == DELTA:
        lines.append("  _sign: +1 when a row comes into the answer, -1 when it goes")
    lines.append(f"Hop by {query.hop_text}, emit {query.emit}")
    lines.append(f"Plan {plan}")
    lines += [f"  {line}" for line in _draw(plan, known, constants)]
    total = sum(c.total for _, _, c, _ in costs(plan, known, constants))
    lines.append(f"  expected cost {total / 1e6:,.2f} ms per hop")
    looked_at, others = left_out(query, known, constants)
    if others:
        lines.append(
            f"  an optimal plan is the best of {looked_at:,} places of differences; {others:,} more, and those"
        )
        lines.append("  that follow from them, are not looked at: the query is too large for all")
    lines.append("Windows")
    for source in query.sources:
        width_us = 0 if query.counts else getattr(source.window, "width_us", 0)
        ratio = f", the hop is {query.every_us / width_us:.0%} of it" if width_us else ""
        lines.append(f"  {source.alias}: {source.stream.name} {source.window}{ratio}")
    return "\n".join([*lines, "Partitioning", f"  {plan.partitioning}"]), []


_EXPLAINED: dict[When, Callable[[Plan, Sequence[RecordedStream], Statistics | None], Explained]] = {
    ROW: _explain_sliding,
    CLOSE: _explain_sliding,
    HOP: _explain_hopping,
}


def _draw(plan: Plan, statistics: Statistics, constants: Constants) -> list[str]:
    """Draw the tree, an operator a line, with its mode and what it costs per hop in every mode."""
    tree = _tree(plan.root)
    sizes = Sizes.of_query(plan.query, statistics)
    modes = dict(plan.of_paths())
    width = max(len(text) for text, _, _ in tree)
    head = f"{'':{width}}  mode  {'rows':>8}" + "".join(f"{mode:>9}" for mode in MODES)
    lines = [f"{head}   ms per hop"]
    for text, node, path in tree:
        if isinstance(node, Scan):
            lines.append(text)
            continue
        emitted = not path and plan.query.emit == DELTA
        each = [cost(node, mode, plan.working[0], sizes, constants, emitted).total / 1e6 for mode in MODES]
        rows = f"{sizes.of(node).complete:,.0f}"
        lines.append(f"{text:{width}}  {modes[path]}  {rows:>8}" + "".join(f" {ms:8.3f}" for ms in each))
    return lines


def _tree(
    rel: Rel, path: tuple[int, ...] = (), first: str = "", rest: str = ""
) -> list[tuple[str, Rel, tuple[int, ...]]]:
    lines = [(f"{first}{_said(rel)}", rel, path)]
    below = inputs(rel)
    for k, child in enumerate(below):
        last = k + 1 == len(below)
        branch, stem = ("└─ ", "   ") if last else ("├─ ", "│  ")
        lines += _tree(child, (*path, k), rest + branch, rest + stem)
    return lines


def _said(rel: Rel) -> str:
    match rel:
        case Scan(source=source):
            return f"scan {source}"
        case Select(conjuncts=conjuncts):
            return f"select {_all(conjuncts)}"
        case Project(outputs=outputs):
            return f"project {', '.join(c.name for c, _ in outputs)}"
        case Join(conjuncts=conjuncts) | Anti(conjuncts=conjuncts):
            return f"{name_of(rel)} on {_all(conjuncts)}" if conjuncts else name_of(rel)
        case Group(keys=keys, aggregates=aggregates):
            by = f" by {', '.join(map(str, keys))}" if keys else ""
            return f"group{by}: {', '.join(map(str, aggregates)) or 'nothing'}"
        case Except() | Union() | Distinct() | Windowed():
            return name_of(rel)


def _all(conjuncts: Sequence[Expr]) -> str:
    return " AND ".join(map(str, conjuncts))


def _explain_hop_migration(
    running: Plan, target: Plan, statistics: Statistics, constants: Constants, request: MigrationRequest
) -> list[str]:
    """Say what going on with another plan at a hop would find and cost."""
    held = {rel for rel, mode in _operators(running) if mode[0] == "D"}
    lines = [f"From {running}", f"To   {target}"]
    if running == target:
        return [*lines, "The same plan: nothing happens."]
    if request.general:
        lines += [
            f"  {s.strategy}: output is {s.output}; over {s.ends}" if s.output.startswith("steady")
            else f"  {s.strategy}: output {s.output}"
            for s in forecast_black_boxes(running, target, statistics, request.rows)
        ]  # fmt: skip
        return [*lines, "No answer is lost or given twice."]
    for rel, mode in _operators(target):
        if mode[0] == "C":
            state = "holds the last answer, computed from the windows" if mode == "CIDO" else "holds nothing"
        elif rel in held:
            state = "is taken over with what it holds"
        else:
            state = "is given its state, computed from the windows"
        lines.append(f"  {name_of(rel)}:{mode} {state}")
    # Nanoseconds a microsecond are milliseconds a second.
    before, after = (
        sum(c.total for _, _, c, _ in costs(plan, statistics, constants))
        / Sizes.of_query(plan.query, statistics).hop_us
        for plan in (running, target)
    )
    lines.append(f"Expected cost per second of event time: {before:,.3f} ms before, {after:,.3f} ms after.")
    if running.query.hop_us != target.query.hop_us:
        hops = [format_duration(p.query.every_us) for p in (running, target)]
        lines.append(f"Answers come every {hops[1]} instead of every {hops[0]}.")
    return [*lines, "It takes effect at a hop, after its answer; no answer is delayed, lost or given twice."]


def _operators(plan: Plan) -> list[tuple[Rel, str]]:
    return list(zip(operators(plan.root), plan.modes, strict=True))

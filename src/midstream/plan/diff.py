"""The difference of two plans: whether they mean the same, and which intermediate results they share."""

from dataclasses import dataclass

from midstream.plan.expr import quoted
from midstream.plan.nodes import Difference, Join, steps
from midstream.plan.parts import Block, Stage
from midstream.plan.plan import Plan


@dataclass(frozen=True)
class PlanDiff:
    """What changes from one plan to another.

    `shared` are the sets of aliases whose join, or difference, both plans compute; `dropped` and `added` are those only
    one does.
    """

    meaning: tuple[str, ...]
    """Each difference in what is asked, as a sentence; empty when the plans are equivalent."""
    shared: tuple[frozenset[str], ...]
    dropped: tuple[frozenset[str], ...]
    added: tuple[frozenset[str], ...]
    methods: tuple[str, ...]
    """Shared joins that are done another way, as sentences."""
    order_changed: bool

    @property
    def equivalent(self) -> bool:
        """Tell whether both plans give the same output for every input."""
        return not self.meaning

    @property
    def same(self) -> bool:
        """Tell whether nothing changes at all."""
        return not (self.meaning or self.order_changed or self.methods)

    def __str__(self) -> str:
        if self.same:
            return "the plans are the same"
        lines = list(self.meaning) or ["the plans mean the same"]
        for title, sets in (("shared", self.shared), ("dropped", self.dropped), ("added", self.added)):
            if sets:
                lines.append(f"{title}: " + ", ".join("(" + " ".join(sorted(s)) + ")" for s in sets))
        return "\n".join([*lines, *self.methods])


def diff(old: Plan, new: Plan) -> PlanDiff:
    """Compare two plans."""
    before, after = _by_aliases(old), _by_aliases(new)
    shared = [s for s in before if s in after]
    methods = [
        f"({' '.join(sorted(s))}) changes from {_method(before[s])} to {_method(after[s])}"
        for s in shared
        if _method(before[s]) != _method(after[s])
    ]
    return PlanDiff(
        tuple(_meaning(old, new)),
        tuple(shared),
        tuple(s for s in before if s not in after),
        tuple(s for s in after if s not in before),
        tuple(methods),
        old.tree != new.tree,
    )


def _by_aliases(plan: Plan) -> dict[frozenset[str], Join | Difference]:
    return {frozenset(j.aliases): j for j in steps(plan.layout)}


def _method(step: Join | Difference) -> str:
    return step.method if isinstance(step, Join) else "difference"


def _meaning(old: Plan, new: Plan) -> list[str]:
    a, b = old.query, new.query
    found = []
    if a.aliases != b.aliases:
        found.append(f"sources change from {', '.join(a.aliases)} to {', '.join(b.aliases)}")
    for source in a.sources:
        other = next((s for s in b.sources if s.alias == source.alias), None)
        if other is None:
            continue
        if other.stream != source.stream or other.position != source.position:
            found.append(f"{source.alias} reads {other.stream.name} instead of {source.stream.name}")
        if other.window != source.window:
            found.append(f"window of {source.alias} changes from {source.window} to {other.window}")
    old_parts, new_parts = a.parts, b.parts
    first, then = old_parts.first, new_parts.first
    gone = [c for c in first.conjuncts if c not in then.conjuncts]
    come = [c for c in then.conjuncts if c not in first.conjuncts]
    found += [f"condition {c} goes" for c in gone] + [f"condition {c} comes" for c in come]
    taken, takes = ({block.sources[0].alias: _taken(block) for block in p.taken} for p in (old_parts, new_parts))
    for alias in dict.fromkeys((*taken, *takes)):
        before, after = (takers.get(alias, "nothing") for takers in (taken, takes))
        if before != after:
            found.append(f"what {alias} takes away changes from {before} to {after}")
    if first.outputs != then.outputs:
        before, after = (", ".join(map(str, block.outputs)) for block in (first, then))
        found.append(f"output changes from {before} to {after}")
    for old_stage, new_stage in zip(old_parts.stages, new_parts.stages, strict=False):
        if str(old_stage) != str(new_stage):
            found.append(f"stage {old_stage} changes to {new_stage}")
        elif old_stage != new_stage:
            found.append(f"output changes from {_selected(old_stage)} to {_selected(new_stage)}")
    both = min(len(old_parts.stages), len(new_parts.stages))
    found += [f"stage {stage} goes" for stage in old_parts.stages[both:]]
    found += [f"stage {stage} comes" for stage in new_parts.stages[both:]]
    return found


def _taken(block: Block) -> str:
    where = f" where {' AND '.join(map(str, block.conjuncts))}" if block.conjuncts else ""
    return f"({', '.join(map(str, block.values))}){where}"


def _selected(stage: Stage) -> str:
    return ", ".join(f"{stage.over_rows(o.expr)} AS {quoted(o.name)}" for o in stage.outputs)

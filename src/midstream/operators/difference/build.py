"""Build a chain of differences: from a plan to the chain over its sources, with empty states."""

from midstream.operators.difference.chain import DifferenceChain
from midstream.operators.difference.execution import DifferenceExecution
from midstream.operators.difference.pipeline import DifferencePipeline
from midstream.operators.source.sources import Sources
from midstream.plan.plan import Plan
from midstream.plan.tree import leaves


def build_difference(plan: Plan, sources: Sources, ordered: bool) -> DifferencePipeline:
    """Make the chain of a plan; `ordered` when changes say their place among others."""
    query = plan.query
    chain = DifferenceChain({s.alias: s.window for s in query.sources}, tuple(leaves(plan.tree)))
    selects = [block.values for block in query.parts.blocks]
    execution = DifferenceExecution(chain, sources, dict(zip(query.aliases, selects, strict=True)))
    return DifferencePipeline(sources, execution, [(o.name, o.expr) for o in query.parts.first.outputs], ordered)

"""The SQL of a query that answers row by row: what is read back as the same query."""

from collections.abc import Sequence

from midstream.plan.expr import Column, Expr, Literal, quoted
from midstream.plan.parts import Block, Output, Parts, Stage
from midstream.plan.source import Source


def sql_text(parts: Parts) -> str:
    """Write a query: the block, or the difference, and every stage around it."""
    others = [_select(b.values, b.sources, b.conjuncts) for b in parts.taken]
    text = "\nEXCEPT\n".join([block_sql(parts.first), *others])
    for number, stage in enumerate(parts.stages):
        text = _stage_sql(stage, _item(parts.first, stage) if number == 0 else f"({text})")
    return text


def block_sql(block: Block) -> str:
    """Write one SELECT over streams."""
    return _select(block.outputs, block.sources, block.conjuncts)


def _item(block: Block, stage: Stage) -> str:
    """Write what the first window is over: a stream, a join in parentheses, or a query."""
    if [s.alias for s in block.sources] == [stage.alias]:
        return quoted(block.sources[0].stream.name)
    if stage.alias:
        return f"({block_sql(block)})"
    *first, last = map(str, block.sources)
    on = f"JOIN {last} ON {' AND '.join(map(str, block.conjuncts))}" if block.conjuncts else f"CROSS JOIN {last}"
    return f"({' CROSS JOIN '.join(first)} {on})"


def _stage_sql(stage: Stage, item: str) -> str:
    """Write a stage over an item of FROM: a stream, or a query in parentheses; its alias goes after the window."""
    outputs = []
    for output in stage.outputs:
        key = stage.key_of(output.expr)
        same = isinstance(key, Column) and key.name == output.name
        outputs.append(str(key) if same else f"{stage.over_rows(output.expr)} AS {quoted(output.name)}")
    text = f"SELECT {', '.join(outputs)}\nFROM {item} {stage.window}"
    if stage.alias and item != quoted(stage.alias):
        text += f" {quoted(stage.alias)}"
    if stage.conjuncts:
        text += f"\nWHERE {' AND '.join(map(str, stage.conjuncts))}"
    if stage.keys:
        # A bare number would be the place of a column in the select list.
        text += "\nGROUP BY " + ", ".join(f"({k})" if isinstance(k, Literal) else str(k) for k in stage.keys)
    if stage.having:
        text += f"\nHAVING {' AND '.join(str(stage.over_rows(h)) for h in stage.having)}"
    return text


def _select(outputs: Sequence[Output | Expr], sources: Sequence[Source], conjuncts: Sequence[Expr]) -> str:
    text = f"SELECT {', '.join(map(str, outputs))}\nFROM {', '.join(map(str, sources))}"
    return text + (f"\nWHERE {' AND '.join(map(str, conjuncts))}" if conjuncts else "")

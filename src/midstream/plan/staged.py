"""The stages of a query: checked against what is below them, and written as SQL.

columns of the level below -> stage -> columns of the level above
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream.model.errors import PlanError
from midstream.plan.expr import Column, Expr, Literal, columns, quoted, replace_columns
from midstream.plan.stage import GROUPS, Stage
from midstream.plan.window import RangeInstances, RowsInstances


def check_stages(below: pa.Schema, stages: Sequence[Stage]) -> None:
    """Refuse stages that do not fit on a level with the given columns."""
    for stage in stages:
        if stage.alias == GROUPS:
            raise PlanError(f"alias '{GROUPS}' is reserved; give what the window is over another alias")
        if not stage.keys and not stage.aggregates:
            raise PlanError(f"a window that slides needs an aggregate or GROUP BY: {stage.window}")
        for column in stage.reads():
            if column.alias != stage.alias or column.name not in below.names:
                raise PlanError(f"there is no column {column}")
            held = below.field(column.name).type
            if held != column.type:
                raise PlanError(f"column {column} is {held}, not {column.type}")
        groups = {column.name: column.type for column in _groups(stage)}
        for expr in (*stage.having, *(o.expr for o in stage.outputs)):
            for column in columns(expr):
                if column.alias != GROUPS or groups.get(column.name) != column.type:
                    raise PlanError(f"column {column} is neither a key of the groups nor an aggregate")
        for clause, conditions in (("WHERE", stage.conjuncts), ("HAVING", stage.having)):
            for condition in conditions:
                if not (pa.types.is_boolean(condition.type) or pa.types.is_null(condition.type)):
                    raise PlanError(f"{clause} needs a condition, but {condition} is {condition.type}")
        below = stage.schema


def _groups(stage: Stage) -> list[Column]:
    """Return what HAVING and the outputs of a stage may read."""
    keys = [Column(GROUPS, f"key{i}", key.type) for i, key in enumerate(stage.keys)]
    return keys + [Column(GROUPS, f"agg{i}", a.type) for i, a in enumerate(stage.aggregates)]


@dataclass(frozen=True)
class Shown(Column):
    """A key or an aggregate that prints as it is computed from rows."""

    text: str

    def __str__(self) -> str:
        return self.text


def over_rows(stage: Stage, expr: Expr) -> Expr:
    """Return an expression over groups that prints as SQL: keys and aggregates as they are computed from rows."""
    texts = dict(zip(_groups(stage), map(str, (*stage.keys, *stage.aggregates)), strict=True))
    return replace_columns(expr, lambda c: Shown(c.alias, c.name, c.type, texts[c]))


def carried(stage: Stage, expr: Expr) -> Expr | None:
    """Return the key that an expression over groups is, or None."""
    return dict(zip(_groups(stage), stage.keys, strict=False)).get(expr) if isinstance(expr, Column) else None


def stage_sql(stage: Stage, item: str) -> str:
    """Write a stage over an item of FROM: a stream, or a query in parentheses; its alias goes behind the window."""
    outputs = []
    for output in stage.outputs:
        key = carried(stage, output.expr)
        same = isinstance(key, Column) and key.name == output.name
        outputs.append(str(key) if same else f"{over_rows(stage, output.expr)} AS {quoted(output.name)}")
    text = f"SELECT {', '.join(outputs)}\nFROM {item} {stage.window}"
    if item != quoted(stage.alias):
        text += f" {quoted(stage.alias)}"
    if stage.conjuncts:
        text += f"\nWHERE {' AND '.join(map(str, stage.conjuncts))}"
    if stage.keys:
        # A bare number would be the place of a column in the select list.
        text += "\nGROUP BY " + ", ".join(f"({k})" if isinstance(k, Literal) else str(k) for k in stage.keys)
    if stage.having:
        text += f"\nHAVING {' AND '.join(str(over_rows(stage, h)) for h in stage.having)}"
    return text


def stage_text(stage: Stage) -> str:
    """Return what a stage does before it selects, on one line."""
    parts = [f"{quoted(stage.alias)} {stage.window}"]
    if stage.conjuncts:
        parts.append("where " + " AND ".join(map(str, stage.conjuncts)))
    if stage.keys:
        parts.append("group by " + ", ".join(map(str, stage.keys)))
    if stage.aggregates:
        parts.append("aggregate " + ", ".join(map(str, stage.aggregates)))
    if stage.having:
        parts.append("having " + " AND ".join(str(over_rows(stage, h)) for h in stage.having))
    return " ".join(parts)


def splitting_columns(stages: Sequence[Stage]) -> list[str] | str:
    """Return the columns below the stages by any of which all of their work can be split, or why there is none."""
    names = [c.name for c in _kept_apart(stages[0]) if _goes_through(c.name, stages)]
    if names:
        return names
    alone = next((s for s in stages if not _kept_apart(s)), None)
    if alone is None:
        return "no column goes through all windows as a key that each of them keeps apart"
    if isinstance(alone.window, RowsInstances):
        return f"the window {alone.window} of {alone.alias} counts all rows together"
    if isinstance(alone.window, RangeInstances):
        return f"the aggregates of the window {alone.window} of {alone.alias} are not grouped by a column"
    return f"the window {alone.window} of {alone.alias} opens and closes on any row"


def _goes_through(name: str, stages: Sequence[Stage]) -> bool:
    """Tell whether every stage keeps the values of a column apart and hands them to the next one as a key."""
    carriers = {name}
    for stage in stages:
        if not carriers & {c.name for c in _kept_apart(stage)}:
            return False
        keys = [(o.name, carried(stage, o.expr)) for o in stage.outputs]
        carriers = {output for output, key in keys if isinstance(key, Column) and key.name in carriers}
    return True


def _kept_apart(stage: Stage) -> list[Column]:
    """Return the columns whose different values never meet in a result of a stage."""
    match stage.window:
        case RowsInstances(partition_by=partition_by):
            return list(dict.fromkeys(partition_by))
        case RangeInstances():
            return [key for key in stage.keys if isinstance(key, Column)]
        case _:
            return []

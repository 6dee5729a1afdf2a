"""Windows: a clause as written to the window it means on a stream or a subquery."""

from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.bind.scope import Relation, Scope
from midstream.lang.syntax.place import error_at, errors_at
from midstream.lang.syntax.window_clause import WindowClause
from midstream.model.errors import PlanError
from midstream.model.time import format_duration
from midstream.plan.capabilities import cannot
from midstream.plan.window import Instances, PredicateWindow, RangeInstances, RangeWindow, RowsInstances, RowsWindow
from midstream.plan.window import Window as PlainWindow


def plain_window(clause: WindowClause, source: Relation, text: str) -> PlainWindow:
    """Return the window of a stream that a clause means."""
    if clause.has_instances:
        raise error_at(cannot("window that slides in a join", window=clause.called), text, clause.offset)
    with errors_at(text, clause.offset):
        if clause.width_us is not None:
            return RangeWindow(clause.width_us)
        assert clause.rows is not None
        return RowsWindow(clause.rows, tuple(source.column(name) for _, name in clause.partition_by))


def instances(clause: WindowClause, scope: Scope, rows: ExpressionBinder, word: str) -> Instances:
    """Return the sequence of instances that a clause means; `word` is what asks for it."""
    with errors_at(rows.text, clause.offset):
        if clause.start is not None and clause.end is not None:
            return PredicateWindow(rows.condition(clause.start, "START WHEN"), rows.condition(clause.end, "END WHEN"))
        if clause.slide_us is not None and clause.width_us is not None:
            return RangeInstances(clause.width_us, clause.slide_us)
        if clause.slide is not None and clause.rows is not None:
            alone = scope.sources[0] if len(scope.sources) == 1 else None
            partition_by = tuple(
                alone.column(name) if alone else scope.column(name, alias) for alias, name in clause.partition_by
            )
            return RowsInstances(clause.rows, clause.slide, partition_by)
        raise PlanError(
            f"{word} needs a window that slides: say how far the window moves, for example {_example(clause)}, "
            "or how often there is a result, with HOP BY ... at the end"
        )


def _example(clause: WindowClause) -> str:
    if clause.width_us is not None and clause.width_us > 0:
        width = format_duration(clause.width_us)
        return f"[RANGE {width} SLIDE {width}]"
    return f"[ROWS {max(clause.rows or 50, 1)} SLIDE 1]"

"""FROM: its streams, subqueries and joins brought into scope, their conditions into the conjuncts."""

from sqlglot import exp

from midstream.lang.bind.clauses import refuse_clauses
from midstream.lang.bind.expression import ExpressionBinder
from midstream.lang.bind.scope import Scope
from midstream.lang.bind.statement import Statement
from midstream.lang.syntax.dialect import WINDOW
from midstream.lang.syntax.place import error_at
from midstream.model.errors import SqlError
from midstream.plan.expr import Expr
from midstream.plan.logic import conjuncts


class FromBinder:
    """One SELECT whose FROM is being read; `item` says what an item of FROM is."""

    bound: tuple[str, ...] = ("kind", "expressions", "from_", "joins", "where")
    """The parts of a SELECT that this binder knows."""

    def __init__(self, statement: Statement, scope: Scope, expressions: ExpressionBinder) -> None:
        self.text = statement.text
        self.statement = statement
        self.scope = scope
        self.expressions = expressions
        self.conjuncts: list[Expr] = []

    def item(self, node: exp.Expr) -> None:
        """Bring a stream or a subquery into scope."""
        raise NotImplementedError

    def refuse_clauses(self, select: exp.Select) -> None:
        """Refuse what a SELECT cannot have."""
        refuse_clauses(select, self.bound, self.text)

    def sources(self, select: exp.Select) -> None:
        """Bring what a SELECT reads into scope."""
        self.refuse_clauses(select)
        origin = select.args.get("from_")
        if origin is None:
            raise SqlError("the query reads no stream; FROM is missing")
        self.table(origin.this)
        for join in select.args.get("joins") or ():
            self.join(join)

    def table(self, node: exp.Expr) -> None:
        """Bring an item of FROM into scope, with what is joined to it inside parentheses."""
        if is_around_joins(node):
            if WINDOW in node.meta:
                told = "a window belongs behind a stream or a subquery in FROM"
                raise error_at(told, self.text, node.meta[WINDOW].offset)
            self.table(node.this)
        else:
            self.item(node)
        for join in node.args.get("joins") or ():
            self.join(join)

    def join(self, node: exp.Expr) -> None:
        """Bring a joined item into scope, and its condition into the conjuncts."""
        words = [str(node.args.get(k) or "").upper() for k in ("method", "side", "kind")]
        kind = " ".join(w for w in words if w)
        if kind not in ("", "INNER", "CROSS"):
            outer = " (outer joins are not supported yet)" if words[1] else ""
            self.expressions.refuse(f"{kind} JOIN is not supported{outer}; use JOIN ... ON", node.this)
        before = len(self.scope.sources)
        self.table(node.this)
        condition = node.args.get("on")
        if condition:
            self.conjuncts += self.expressions.conjuncts(condition, "ON")
        for name in node.args.get("using") or ():
            with self.expressions.at(name):
                both = self.scope.merge(name.name, before)
                self.conjuncts += conjuncts(self.expressions.equal(*both))


def is_around_joins(node: exp.Expr) -> bool:
    """Tell whether an item of FROM is parentheses around a join, or around one stream."""
    if not isinstance(node, exp.Subquery) or node.args.get("alias"):
        return False
    inner = node.this
    joined = isinstance(inner, exp.Subquery) and (inner.args.get("alias") or inner.args.get("joins"))
    return isinstance(inner, exp.Table) or bool(joined)

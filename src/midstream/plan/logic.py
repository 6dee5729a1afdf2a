"""Boolean logic on expressions: negation pushed to the leaves, conditions split into conjuncts."""

from midstream.plan.expr import NEGATED, Call, Expr, Literal, cast_to

_DUAL = {"and": "or", "or": "and"}


def negate(condition: Expr) -> Expr:
    """Return the condition that holds when the given one is false, and is NULL when it is NULL.

    >>> import pyarrow as pa
    >>> from midstream.plan.expr import Column
    >>> a, b = Column("a", "x", pa.int64()), Column("b", "x", pa.int64())
    >>> print(negate(Call("<", (a, b), pa.bool_())))
    (a.x >= b.x)
    """
    match condition:
        case Call(function="not", args=(inner,)):
            return inner
        case Call(function="and" | "or" as connective, args=args):
            return Call(_DUAL[connective], tuple(negate(a) for a in args), condition.type)
        case Call(function=function, args=args) if function in NEGATED:
            return Call(NEGATED[function], args, condition.type)
        case Literal(value=bool(value)):
            return Literal(not value, condition.type)
        case Literal(value=None):
            return condition
        case _:
            return Call("not", (condition,), condition.type)


def conjuncts(condition: Expr) -> tuple[Expr, ...]:
    """Split a condition into parts that must all hold, in reading order, without repeats and constant truths."""
    match condition:
        case Call(function="and", args=args):
            parts = [part for arg in args for part in conjuncts(arg)]
            return tuple(dict.fromkeys(parts))
        case Call(function="between", args=(value, low, high), type=t):
            ends = ((">=", low), ("<=", high))
            return tuple(Call(op, (cast_to(value, end.type), end), t) for op, end in ends)
        case Literal(value=True):
            return ()
        case _:
            return (condition,)

"""The answer of a tree over small tables, computed in the plainest way: bags as Counters of Python tuples."""

from collections import Counter
from collections.abc import Callable
from typing import Any

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
)
from midstream.plan.expr import Call, Cast, Column, Expr, Literal

Row = tuple[Any, ...]
Bag = Counter[Row]
Tables = dict[str, list[dict[str, Any]]]
"""Rows by stream."""


def answer(rel: Rel, tables: Tables) -> Bag:
    match rel:
        case Scan(source, columns):
            return Counter(tuple(row[c.name] for c in columns) for row in tables[source.stream.name])
        case Select(child, conjuncts):
            test = _test(conjuncts, child.columns)
            return Counter({row: n for row, n in answer(child, tables).items() if test(row)})
        case Project(child, outputs):
            out: Bag = Counter()
            for row, n in answer(child, tables).items():
                named = dict(zip(child.columns, row, strict=True))
                out[tuple(value(e, named) for _, e in outputs)] += n
            return out
        case Join(left, right, conjuncts):
            test = _test(conjuncts, rel.columns)
            pairs: Bag = Counter()
            others = answer(right, tables)
            for a, n in answer(left, tables).items():
                for b, m in others.items():
                    if test(a + b):
                        pairs[a + b] += n * m
            return pairs
        case Anti(left, right, conjuncts):
            test = _test(conjuncts, (*left.columns, *right.columns))
            others = answer(right, tables)
            return Counter({a: n for a, n in answer(left, tables).items() if not any(test(a + b) for b in others)})
        case Except(left, right, all_):
            a, b = answer(left, tables), answer(right, tables)
            return a - b if all_ else Counter(set(a) - set(b))
        case Union(left, right):
            return answer(left, tables) + answer(right, tables)
        case Distinct(child):
            return Counter(set(answer(child, tables)))
        case Group(child, _, keys, aggregates):
            return _groups(child, keys, aggregates, answer(child, tables))


def _groups(child: Rel, keys: tuple[Expr, ...], aggregates: Any, rows: Bag) -> Bag:
    groups: dict[Row, list[dict[Column, Any]]] = {} if keys else {(): []}
    for row, n in rows.items():
        named = dict(zip(child.columns, row, strict=True))
        groups.setdefault(tuple(value(k, named) for k in keys), []).extend([named] * n)
    out: Bag = Counter()
    for key, members in groups.items():
        made: list[Any] = []
        for aggregate in aggregates:
            assert aggregate.function in ("count", "sum"), "only these here"
            if aggregate.argument is None:
                made.append(len(members))
                continue
            values = [v for v in (value(aggregate.argument, m) for m in members) if v is not None]
            made.append(len(values) if aggregate.function == "count" else sum(values) if values else None)
        out[(*key, *made)] += 1
    return out


def _test(conjuncts: tuple[Expr, ...], columns: tuple[Column, ...]) -> Callable[[Row], bool]:
    def test(row: Row) -> bool:
        named = dict(zip(columns, row, strict=True))
        return all(value(c, named) is True for c in conjuncts)

    return test


def value(expr: Expr, row: dict[Column, Any]) -> Any:
    match expr:
        case Column():
            return row[expr]
        case Literal(constant):
            return constant
        case Cast(arg):
            return value(arg, row)
        case Call("is null", (arg,)):
            return value(arg, row) is None
        case Call(function, args):
            a, b = (value(arg, row) for arg in args)
            if a is None or b is None:
                return None
            return {
                "=": a == b, "<": a < b, "<=": a <= b, ">": a > b, "<>": a != b, "+": a + b, "-": a - b,
            }[function]  # fmt: skip
    raise AssertionError(f"no such expression here: {expr}")

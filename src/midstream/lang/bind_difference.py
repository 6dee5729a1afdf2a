"""Differences: `A EXCEPT B EXCEPT C` to its sides, and the sides, each bound by itself, to one query.

(A EXCEPT B) EXCEPT C -> sides A, B, C -> one source each -> values of one type, column by column -> query
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType, exp

from midstream.lang.clauses import refuse_clauses, unwrapped
from midstream.lang.dialect import keyword_before
from midstream.lang.place import error_at, offset_of
from midstream.lang.select_list import Item
from midstream.model.errors import PlanError
from midstream.model.types import type_name
from midstream.plan.coerce import unify
from midstream.plan.expr import Expr
from midstream.plan.query import Output, Query, Source, Subtracted

OPERATORS = (TokenType.EXCEPT, TokenType.UNION, TokenType.INTERSECT)
"""The tokens that stand between the sides of set operations."""


@dataclass(frozen=True)
class Side:
    """One side of a difference: a SELECT over one windowed stream."""

    source: Source
    conjuncts: tuple[Expr, ...]
    items: Sequence[Item]
    table: exp.Table


def sides_of(tree: exp.SetOperation, text: str) -> list[exp.Expr]:
    """Return the sides of a chain of differences from left to right, refusing other set operations."""
    sides: list[exp.Expr] = []
    rest: exp.Expr = tree
    while isinstance(rest, exp.SetOperation):
        right = unwrapped(rest.expression, text)
        _check_operator(rest, right, text)
        sides.append(right)
        rest = unwrapped(rest.this, text)
    return [rest, *reversed(sides)]


def _check_operator(node: exp.SetOperation, right: exp.Expr, text: str) -> None:
    place = keyword_before(text, OPERATORS, right)
    if not isinstance(node, exp.Except):
        raise error_at(f"{node.key.upper()} is not supported yet", text, place)
    if node.args.get("distinct") is False:
        raise error_at("EXCEPT ALL is not supported; EXCEPT compares values, however often they appear", text, place)
    refuse_clauses(node, ("this", "expression", "distinct"), text)
    if isinstance(right, exp.SetOperation):
        _check_operator(right, unwrapped(right.expression, text), text)
        raise error_at(
            "the right side of EXCEPT is one SELECT; a difference is taken from left to right: (a EXCEPT b) EXCEPT c",
            text,
            place,
        )


def put_together(sides: Sequence[Side], text: str) -> Query:
    """Return the query that takes all sides but the first away from the first one."""
    first, *others = sides
    names = [first.source.alias]
    for side in others:
        alias = side.source.alias
        if alias in names:
            told = f"alias '{alias}' is used twice in a difference; give each stream its own alias"
            raise error_at(told, text, offset_of(side.table.args.get("alias") or side.table))
        names.append(alias)
        if len(side.items) != len(first.items):
            raise error_at(
                f"both sides of EXCEPT select as many columns, but '{names[0]}' selects {len(first.items)} and "
                f"'{alias}' {len(side.items)}",
                text,
                offset_of(side.items[0].node) if side.items else offset_of(side.table),
            )
    columns = [_unified(sides, k, text) for k in range(len(first.items))]
    outputs = [Output(item.name, column[0]) for item, column in zip(first.items, columns, strict=True)]
    subtracted = [Subtracted(tuple(c[k + 1] for c in columns), side.conjuncts) for k, side in enumerate(others)]
    return Query(tuple(s.source for s in sides), first.conjuncts, tuple(outputs), tuple(subtracted))


def _unified(sides: Sequence[Side], column: int, text: str) -> tuple[Expr, ...]:
    """Give a column one type on all sides, the one in which its values are compared."""
    exprs = [side.items[column].expr for side in sides]
    for k in range(2, len(sides) + 1):
        place = offset_of(sides[k - 1].items[column].node)
        try:
            found = unify(exprs[:k])
        except PlanError as error:
            raise error_at(str(error), text, place) from None
        if found is None:
            alias, first = sides[k - 1].source.alias, sides[0].source.alias
            raise error_at(
                f"column {column + 1} of '{alias}' is {type_name(exprs[k - 1].type)}, which cannot be compared with "
                f"{type_name(exprs[0].type)} in '{first}'; cast one of them",
                text,
                place,
            )
    assert found is not None, "a difference has two sides at least"
    return found

"""Expressions grow with their text, however deep they are nested: nothing in them is written twice."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from operators.test_shared_expressions import calls

from midstream.lang.sql import parse_query
from midstream.model.stream import StreamSchema
from midstream.operators.expression.evaluate import evaluate
from midstream.plan.expr import Expr, children

__all__ = ["calls"]
STREAM = StreamSchema("a", pa.schema([("ts", pa.int64()), ("x", pa.int64())]), "ts")
LEVELS = 18
NESTED = {
    "NULLIF": "NULLIF({} + 1, 7)",
    "NULLIF of another type": "NULLIF({} + 1, 7.5)",
    "CASE of a subject": "CASE {} + 1 WHEN 7 THEN 8 WHEN 9 THEN 10 ELSE 11 END",
    "CASE": "CASE WHEN {} > 1 THEN 2 ELSE 3 END",
    "BETWEEN": "CASE WHEN {} BETWEEN 1 AND 5.5 THEN 2 ELSE 3 END",
    "COALESCE": "COALESCE({}, 1)",
}


def nodes(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from nodes(child)


def nested(pattern: str, levels: int) -> Expr:
    text = "x"
    for _ in range(levels):
        text = pattern.format(text)
    query = parse_query(f"SELECT {text} AS y FROM a [RANGE 1 SECOND]", [STREAM])
    return query.parts.first.outputs[0].expr


@pytest.mark.parametrize("pattern", NESTED.values(), ids=list(NESTED))
def test_expressions_have_as_many_nodes_as_their_text(pattern: str) -> None:
    first, second = (sum(1 for _ in nodes(nested(pattern, levels))) for levels in (1, 2))
    expr = nested(pattern, LEVELS)
    assert sum(1 for _ in nodes(expr)) == first + (LEVELS - 1) * (second - first)
    assert len(str(expr)) < 100 * LEVELS


def test_a_subject_is_computed_once(calls: dict[str, int]) -> None:
    expr = nested(NESTED["CASE of a subject"], 3)
    assert evaluate(expr, 3, lambda _: pa.array([5, 6, 8])).to_pylist() == [11, 11, 11]
    assert calls["+"] == 3
    assert evaluate(nested(NESTED["NULLIF"], 1), 3, lambda _: pa.array([5, 6, None])).to_pylist() == [6, None, None]

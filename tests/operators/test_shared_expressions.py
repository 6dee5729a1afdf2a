"""What expressions have in common is computed once: counted, and the same values as apart."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operators.test_evaluate import TABLE, grow_expressions, plain_values, same

from midstream.operators.expression.evaluate import evaluate, evaluate_all, truth, truth_of_all
from midstream.operators.expression.scalar import SCALAR
from midstream.plan.coerce import literal
from midstream.plan.expr import Column, Expr, Literal
from midstream.plan.functions import resolve

X = Column("r", "x", pa.int64())
DOUBLE = pa.float64()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each scalar function is computed."""
    counted: Counter[str] = Counter()

    def counting(name: str, function: Any) -> Any:
        def compute(*args: Any) -> Any:
            counted[name] += 1
            return function(*args)

        return compute

    for name, function in list(SCALAR.items()):
        monkeypatch.setitem(SCALAR, name, counting(name, function))
    return counted


def ones(_: Column) -> pa.Array:
    return pa.array([1, 2, 3])


def doubled(levels: int) -> Expr:
    expr: Expr = X
    for _ in range(levels):
        expr = resolve("+", [expr, expr])
    return expr


def test_an_expression_that_is_used_twice_at_every_level(calls: Counter[str]) -> None:
    assert evaluate(doubled(40), 3, ones).to_pylist() == [2**40, 2**41, 3 * 2**40]
    assert calls == {"+": 40}


def test_expressions_that_were_built_apart(calls: Counter[str]) -> None:
    first, second = doubled(10), doubled(12)
    assert [a.to_pylist()[0] for a in evaluate_all([first, second, first], 3, ones)] == [2**10, 2**12, 2**10]
    assert calls == {"+": 12}
    calls.clear()
    conditions = [resolve(">", [first, literal(2**10)]), resolve("<", [second, literal(3 * 2**12)])]
    assert truth_of_all(conditions, 3, ones).tolist() == [False, True, False]
    assert calls == {"+": 12}


def test_values_that_are_equal_but_not_the_same() -> None:
    zeros = [Literal(v, DOUBLE) for v in (0.0, -0.0)] + [Literal(0, pa.int64()), Literal(False, pa.bool_())]
    texts = [resolve("concat", [z]) for z in zeros]
    assert [a[0].as_py() for a in evaluate_all(texts, 1, ones)] == ["0.0", "-0.0", "0", "false"]


def test_a_column_is_read_once() -> None:
    read: list[Column] = []

    def column(c: Column) -> pa.Array:
        read.append(c)
        return ones(c)

    evaluate_all([doubled(3), X, resolve("negate", [X])], 3, column)
    assert read == [X]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 59))
def test_together_as_apart(rng: random.Random, start: int) -> None:
    table = TABLE.slice(start)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    exprs = grow_expressions(rng, 12)
    together = evaluate_all(exprs, len(table), lambda c: columns[c.name])
    for expr, found in zip(exprs, together, strict=True):
        alone = evaluate(expr, len(table), lambda c: columns[c.name])
        assert found.type == alone.type
        assert all(same(a, b) for a, b in zip(plain_values(found), plain_values(alone), strict=True)), expr
    conditions = [e for e in exprs if pa.types.is_boolean(e.type)]
    expected = [truth(c, len(table), lambda c: columns[c.name]) for c in conditions]
    passed = truth_of_all(conditions, len(table), lambda c: columns[c.name])
    assert passed.tolist() == [all(row) for row in zip(*expected, strict=True)] or not conditions

"""SQL text to query: one statement, errors with a line and a column."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from midstream.lang.bind.query import bind
from midstream.lang.syntax.dialect import Midstream
from midstream.lang.syntax.place import error_at
from midstream.model.errors import SqlError
from midstream.model.stream import StreamSchema
from midstream.plan.aggregates import UserAggregate
from midstream.plan.query import Query


def parse_query(
    text: str, catalog: Sequence[StreamSchema], aggregates: Mapping[str, UserAggregate] | None = None
) -> Query:
    """Read one query over the declared streams, whose order breaks ties in time; `aggregates` are the user's own.

    >>> import pyarrow as pa
    >>> orders = StreamSchema("orders", pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts")
    >>> print(parse_query("SELECT k FROM orders [RANGE 10 SECONDS] WHERE k > 5", [orders]))
    SELECT orders.k
    FROM orders [RANGE 10 SECONDS]
    WHERE (orders.k > 5)
    """
    with _not_too_deep():
        return bind(_parse(text), catalog, text, aggregates)


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise SqlError("the query is nested too deeply") from None


def _parse(text: str) -> exp.Expr:
    try:
        trees = Midstream().parse(text)
    except ParseError as error:
        raise _syntax_error(error) from None
    except TokenError as error:
        raise _unreadable(error, text) from None
    except SqlglotError as error:
        raise SqlError(f"syntax error: {_first_line(error)}") from None
    statements = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not statements:
        raise SqlError("the query is empty")
    if len(statements) > 1:
        raise SqlError(f"one query is expected, but here are {len(statements)} statements")
    return statements[0]


def _syntax_error(error: ParseError) -> SqlError:
    found = error.errors[0] if error.errors else {}
    word = found.get("highlight") or ""
    near = f" near '{word}'" if word else ""
    line, end = found.get("line"), found.get("col")
    # sqlglot counts to the last character of a token; people look at its first.
    column = end - len(word) + 1 if isinstance(end, int) and "\n" not in word else None
    description = str(found.get("description") or _first_line(error))
    if "<class" in description:  # it names a part of sqlglot's tree
        description = "something is missing"
    return SqlError(f"syntax error{near}: {description}", line, column)


def _unreadable(error: TokenError, text: str) -> SqlError:
    """Say which quote is not closed; sqlglot tells it only in the cause."""
    missing = re.fullmatch(r"Missing (.+) from \d+:(\d+)", str(error.__cause__))
    if missing:
        return error_at(f"syntax error: {missing[1]} is opened here and never closed", text, int(missing[2]))
    return SqlError(f"syntax error: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]

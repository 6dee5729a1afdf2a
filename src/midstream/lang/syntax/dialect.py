"""The SQL dialect: DuckDB's grammar with CQL windows after streams, and functions kept as they are written.

    tokens -> take HOP BY and the windows out -> sqlglot parses the rest -> put HOP BY on the root, and each window on
                                                                            the table, or the subquery in FROM, that
                                                                            it stood after

sqlglot never sees a window, so none of its private methods is overridden. Functions reach the binder by name with
their arguments in order; the function table of the plan room says what they mean.
"""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.duckdb import DuckDBParser

from midstream.lang.syntax.hop_clause import take_hop
from midstream.lang.syntax.open_joins import refuse_open_joins
from midstream.lang.syntax.place import error_at, offset_of, range_of
from midstream.lang.syntax.window_clause import WindowClause, is_window, read_window

WINDOW = "midstream_window"
"""The key of `node.meta` under which a table, or a subquery in FROM, keeps its `WindowClause`."""
HOP_CLAUSE = "midstream_hop"
"""The key of `node.meta` under which the root of a hopping query keeps its `HopClause`."""

_FUNCTIONS_WITH_GRAMMAR = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM")


class MidstreamParser(DuckDBParser):
    """Take HOP BY and windows out of the tokens, parse, and give each to what it belongs to."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: DuckDBParser.FUNCTION_PARSERS[name] for name in _FUNCTIONS_WITH_GRAMMAR
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": DuckDBParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """Parse a text that may hold windows."""
        refuse_statements(raw_tokens, sql)
        refuse_backticks(raw_tokens, sql)
        refuse_open_joins(raw_tokens, sql)
        plain, hop = take_hop(raw_tokens, sql)
        rest, windows = take_windows(plain, sql)
        trees = super().parse(rest, sql)
        parentheses = pairs(rest)
        for tree in trees:
            for table in tree.find_all(exp.Table, exp.Subquery) if tree else ():
                give_windows(table, windows, parentheses, sql)
        for clause in windows.values():
            raise error_at("a window belongs after a stream or a subquery in FROM", sql, clause.offset)
        for tree in trees if hop else ():
            if tree:
                tree.meta[HOP_CLAUSE] = hop
        return trees


class MidstreamGenerator(DuckDBGenerator):
    """Write trees as they are read, windows included."""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        """Write a stream with its window."""
        if WINDOW not in expression.meta:
            return super().table_sql(expression, sep)
        return self._windowed(self.sql(expression, "this"), expression, sep)

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        """Write a subquery with its window."""
        if WINDOW not in expression.meta:
            return super().subquery_sql(expression, sep)
        return self._windowed(self.wrap(expression), expression, sep)

    def _windowed(self, text: str, item: exp.Expr, sep: str) -> str:
        alias = self.sql(item, "alias")
        joins = self.expressions(item, key="joins", sep="", flat=True)
        return f"{text} {item.meta[WINDOW]}{sep + alias if alias else ''}{joins}"


class Midstream(DuckDB):
    """DuckDB's SQL with windows."""

    Parser = MidstreamParser
    Generator = MidstreamGenerator


def take_windows(tokens: Sequence[Token], sql: str) -> tuple[list[Token], dict[int, WindowClause]]:
    """Split tokens into those of plain SQL and the windows, by the end of the token each window stands after."""
    rest: list[Token] = []
    windows: dict[int, WindowClause] = {}
    index = 0
    while index < len(tokens):
        if not is_window(tokens, index, rest):
            rest.append(tokens[index])
            index += 1
            continue
        clause, index = read_window(tokens, index, sql, lambda part: parse_condition(part, sql))
        if rest[-1].end in windows:
            raise error_at("a stream has one window, but here is a second", sql, clause.offset)
        windows[rest[-1].end] = clause
    return rest, windows


def parse_condition(tokens: Sequence[Token], sql: str) -> exp.Expr:
    """Parse tokens that are one expression."""
    first = tokens[0]
    select = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.start)
    tree, *more = DuckDBParser.parse(Midstream().parser(), [select, *tokens], sql)
    alone = isinstance(tree, exp.Select) and not any(
        v for k, v in tree.args.items() if k not in ("kind", "expressions")
    )
    if tree is None or more or not alone or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias):
        raise error_at("a window takes one condition here, not a list and no further clauses", sql, first.start)
    condition = tree.expressions[0]
    assert isinstance(condition, exp.Expr)
    return condition.pop()


def pairs(tokens: Sequence[Token]) -> dict[int, int]:
    """Return where the parenthesis opens that each `)` closes, by the end of the latter."""
    opened: list[int] = []
    found = {}
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            opened.append(token.start)
        elif token.token_type == TokenType.R_PAREN and opened:
            found[token.end] = opened.pop()
    return found


def give_windows(item: exp.Expr, windows: dict[int, WindowClause], parentheses: dict[int, int], sql: str) -> None:
    """Move the window that stands after a table's name, a subquery or an alias onto the table or subquery."""
    ends = []
    alias = item.args.get("alias")
    for named in (item.this, alias.this if alias else None):
        if isinstance(named, exp.Identifier):
            ends.append(named.meta.get("end"))
    if isinstance(item, exp.Subquery) and isinstance(item.parent, exp.From | exp.Join):
        inside = range_of(item.this)
        ends += [end for end in windows if end in parentheses and inside and _holds(parentheses[end], end, inside)]
    for end in ends:
        if end in windows:
            clause = windows.pop(end)
            if WINDOW in item.meta:
                raise error_at("a stream has one window, but here is a second", sql, clause.offset)
            item.meta[WINDOW] = clause


def _holds(start: int, end: int, inside: tuple[int, int]) -> bool:
    return start < inside[0] and inside[1] < end


def refuse_statements(tokens: Sequence[Token], sql: str) -> None:
    """Refuse what does not start like a query, before sqlglot takes it for a command of some database."""
    first = next((t for t in tokens if t.token_type not in (TokenType.SEMICOLON, TokenType.L_PAREN)), None)
    if first is not None and first.text.upper() not in ("SELECT", "FROM", "WITH", "VALUES"):
        raise error_at(f"a query starts with SELECT, but here is '{first.text}'", sql, first.start)


def refuse_backticks(tokens: Sequence[Token], sql: str) -> None:
    """Refuse names that are quoted as Spark's SQL quotes them."""
    for token in tokens:
        if token.text == "`" and token.token_type == TokenType.UNKNOWN:
            raise error_at('a name stands in double quotes, such as "my column", not in backticks', sql, token.start)


@functools.lru_cache(maxsize=4)
def _tokens(sql: str) -> Sequence[Token]:
    """Return the tokens of a text: many places of the same one are asked for."""
    return tuple(Midstream().tokenize(sql))


def keyword_offset(sql: str, word: str) -> int | None:
    """Return where a keyword stands in a text.

    >>> keyword_offset("SELECT DISTINCT x", "DISTINCT")
    7
    """
    found = (t.start for t in _tokens(sql) if " ".join(t.text.upper().split()) == word)
    return next(found, None)


def keyword_before(sql: str, kinds: Collection[TokenType], node: exp.Expr) -> int | None:
    """Return where the last of some keywords stands in front of a node."""
    start = offset_of(node)
    if start is None or not sql:
        return None
    return max((t.start for t in _tokens(sql) if t.token_type in kinds and t.start < start), default=None)
